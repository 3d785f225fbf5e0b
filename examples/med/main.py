"""Three tasks, six unequal devices with busy owners, one budget: who trains what?

    python examples/med/main.py [--cycles N] [--budget X]

MED deals out the shards of all tasks at once, so that the delays expected of them add up to the
least. It plans anew when a task comes or goes and after every fifth cycle, with what the devices
have seen of themselves meanwhile. The world is simulated: seconds pass in virtual time.
"""

from __future__ import annotations

import argparse
import asyncio
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import axon.testbed
from axon.jobs.ledger import money, summed
from axon.jobs.manager import Manager
from axon.jobs.standing import Rules, TaskView
from axon.jobs.submission import submission_from
from axon.report.tables import text_table
from axon.rounds.events import CycleBegan, Event
from axon.seeds import stream
from axon.testbed.activity import heated
from axon.testbed.catalogue import fleet as devices_of
from axon.testbed.simulation import SimulatedFleet

SEED = 7
DEVICES = devices_of("ideapad,jetson-nano*2,pi-1,pi-2,pi-3")
PRICES = {"ideapad": 1.5, "jetson-nano-1": 1.2, "pi-1": 0.2, "pi-2": 0.4, "pi-3": 0.3}
WIDE = {"name": "wide", "task": "threenn", "shards": 45, "deadline_s": 6.0}
CONV = {"name": "conv", "task": "convnet", "shards": 40, "deadline_s": 5.0, "learning_rate": 0.003}
LATE = {"name": "late", "task": "twonn", "shards": 30, "deadline_s": 4.0, "passes": 3}


def say(text: str) -> None:
    print(f"{asyncio.get_running_loop().time():6.2f} s  {text}")


def watch(task: str, event: Event) -> None:
    """Tell who trains what, in every fourth cycle."""
    if isinstance(event, CycleBegan) and event.plan.cycle % 4 == 1:
        named = sorted(event.plan.shares.items())
        shares = ", ".join(f"{name} {share.shards}" for name, share in named)
        say(f"{task} {event.plan.cycle:>2}: {shares}")


def amount(text: str) -> Decimal:
    return money(float(text))


async def train(fleet: SimulatedFleet, path: Path, rules: Rules, shared: dict[str, Any]) -> None:
    """Two tasks at once, a third one while they run; then what came of them."""
    async with Manager.opened(fleet, path, rules, listen=watch) as manager:
        for table in (WIDE, CONV):
            await manager.submit(submission_from(shared | table))
        await asyncio.sleep(12.0)
        say(f"late is {(await manager.submit(submission_from(shared | LATE))).verdict}")
        await manager.settled()

        def row(task: TaskView) -> dict[str, str]:
            entries = [one for one in manager.ledger.entries() if one.task == task.name]
            accuracy = "-" if task.accuracy is None else f"{task.accuracy:.3f}"
            return {"task": task.name, "state": task.state, "accuracy": accuracy} | {
                kind: str(summed(one.amount for one in entries if one.kind == kind))
                for kind in ("reserved", "paid", "released")
            }

        print(f"\n{text_table([row(task) for task in manager.tasks()])}")
        print(f"spent {manager.ledger.spent()}; a cycle of all tasks may cost {rules.budget}")


def main() -> None:
    """Set the world up and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=12)
    parser.add_argument("--budget", type=amount, default=money(70))
    given = parser.parse_args()
    prices = {name: money(price) for name, price in PRICES.items()}
    rules = Rules(budget=given.budget, prices=prices, replan_every=5)
    shared = {"dataset": "digits", "shard_samples": 32, "cycles": given.cycles, "seed": SEED}
    habits = {name: heated(stream(SEED, "habits", name)) for name in DEVICES}
    world = axon.testbed.simulated(DEVICES, seed=SEED, activity=habits)
    with TemporaryDirectory() as folder:
        world.run(lambda fleet: train(fleet, Path(folder, "jobs.sqlite"), rules, shared))


if __name__ == "__main__":
    main()
