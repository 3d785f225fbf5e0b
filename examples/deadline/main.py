"""Four unequal devices train one model, twice: with equal shares, and by a deadline.

    python examples/deadline/main.py [--cycles N]

The devices are emulated: four processes on this machine, each made as slow as the Raspberry Pi or
Jetson Nano it stands for, behind a link as slow as theirs. With equal shares everybody waits for
the slowest. With a deadline every device does as much as it can in the same time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Awaitable, Callable

from rich.console import Console
from rich.table import Table

import axon.testbed
from axon.allocation.equal import Equal, Open
from axon.data.datasets import load
from axon.learning import default_spec
from axon.policies import Allocator
from axon.rounds.events import CycleEnded, Event
from axon.rounds.fleet import Fleet
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme
from axon.values import RoundRecord

GOAL = 0.85
console = Console()


async def train(
    fleet: Fleet, name: str, allocate: Allocator, deadline_s: float, cycles: int
) -> list[RoundRecord]:
    """Train digits on the fleet with one way of sharing the work."""
    dataset = load("digits")
    run = Run(
        name=name,
        spec=default_spec("twonn", dataset.shape, dataset.classes, learning_rate=0.2),
        cycles=cycles,
        deadline_s=deadline_s,
        shard_samples=25,
        seed=1,
    )

    def show(event: Event) -> None:
        if isinstance(event, CycleEnded):
            record = event.record
            console.print(
                f"  cycle {record.cycle:2}  accuracy {record.accuracy:.3f}  "
                f"{record.batches:3} batches in {record.duration_s:.2f} s",
                highlight=False,
            )

    console.print(f"[bold]{name}[/bold]")
    return await Orchestrator(run, dataset, fleet, Scheme(allocate=allocate), listen=show).run()


def both(cycles: int) -> Callable[[Fleet], Awaitable[dict[str, list[RoundRecord]]]]:
    """Both ways on one fleet, the deadline set to what equal shares took."""

    async def main(fleet: Fleet) -> dict[str, list[RoundRecord]]:
        equal = await train(fleet, "equal shares", Equal(), 60.0, cycles)
        slowest_s = sorted(record.duration_s for record in equal)[len(equal) // 2]
        by_deadline = await train(fleet, "by deadline", Open(), round(slowest_s, 2), cycles)
        return {"equal shares": equal, "by deadline": by_deadline}

    return main


def seconds_to(records: list[RoundRecord], goal: float) -> str:
    """How long training took to reach an accuracy, as text."""
    for record in records:
        if record.accuracy is not None and record.accuracy >= goal:
            return f"{record.ended_s:.1f}"
    return "not reached"


def busy(records: list[RoundRecord]) -> float:
    """The part of the cycles' time that devices were at work, on average."""
    parts = [
        (device.answered_s or 0.0) / record.duration_s
        for record in records
        for device in record.devices
    ]
    return sum(parts) / len(parts)


def main() -> None:
    """Run both and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=20)
    given = parser.parse_args()
    began_s = time.monotonic()
    console.print("Starting four emulated devices: pi-1, pi-2, pi-3 and jetson-nano ...")
    results = axon.testbed.emulated("thesis").run(both(given.cycles))

    table = Table(title=f"digits on four devices, {given.cycles} cycles each")
    table.add_column("scheme", no_wrap=True)
    for heading in ("s a cycle", "batches", "busy", f"s to {GOAL:.0%}", "accuracy"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, records in results.items():
        table.add_row(
            name,
            f"{sum(record.duration_s for record in records) / len(records):.2f}",
            f"{sum(record.batches for record in records) / len(records):.0f}",
            f"{busy(records):.0%}",
            seconds_to(records, GOAL),
            f"{records[-1].accuracy:.3f}",
        )
    console.print(table)
    console.print(f"Done in {time.monotonic() - began_s:.0f} s.", highlight=False)


if __name__ == "__main__":
    main()
