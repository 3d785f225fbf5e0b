"""Four unequal devices and one deadline: who decides how much each of them trains?

    python examples/dab/main.py [--cycles N] [--deadline S]

With DAB each device benchmarks itself on a few shards, keeps the result to itself and takes as many
shards as it can train by the deadline. With CSA the orchestrator decides, so it has to be told, and
a device that does not tell is left out. The world is simulated: seconds pass in virtual time.
"""

from __future__ import annotations

import argparse
from statistics import mean

from rich.console import Console
from rich.table import Table

import axon.testbed
from axon.allocation.csa import StalenessAware
from axon.allocation.equal import Open
from axon.data.datasets import load
from axon.learning import default_spec
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme, Survey
from axon.seeds import stream
from axon.testbed.activity import heated
from axon.values import RoundRecord

DEVICES = ("jetson-nano", "pi-1", "pi-2", "pi-3")
DIGITS = load("digits")
DAB = Scheme(allocate=Open(passes=3), survey=Survey(shards=8))
CSA = Scheme(allocate=StalenessAware(), survey=Survey(shards=8, disclosed=True))


def train(
    run: Run, scheme: Scheme, *, busy: bool = False, dynamic: bool = False, private: str = ""
) -> list[RoundRecord]:
    """Train digits on the thesis's four devices, whose owners may use them meanwhile."""
    world = axon.testbed.simulated(
        "thesis",
        seed=run.seed,
        # In every cycle an owner does nothing, computes or downloads; each has habits of its own.
        activity={name: heated(stream(run.seed, "habits", name)) for name in DEVICES if busy},
        dynamic=dynamic,
        private=[private] if private else [],
    )
    return world.run(lambda fleet: Orchestrator(run, DIGITS, fleet, scheme).run())


def add_row(table: Table, name: str, records: list[RoundRecord]) -> None:
    """What came of a run, as a mean over its cycles."""
    lengths_s = [record.duration_s for record in records]
    outcomes = [device for record in records for device in record.devices]
    shards = [
        mean(device.shards for device in outcomes if device.device == name) for name in DEVICES
    ]
    table.add_row(
        name,
        f"{mean(lengths_s):.2f} ({max(lengths_s):.2f})",
        f"{sum(device.status == 'used' for device in outcomes)}/{len(outcomes)}",
        *(f"{count:.0f}" for count in shards),
        f"{records[-1].accuracy:.3f}",
    )


def main() -> None:
    """Run all four and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=10)
    parser.add_argument("--deadline", type=float, default=4.0)
    given = parser.parse_args()
    run = Run(
        spec=default_spec("twonn", DIGITS.shape, DIGITS.classes),
        cycles=given.cycles,
        deadline_s=given.deadline,
        shard_samples=25,
        seed=7,
    )
    table = Table(
        title=f"digits, {run.cycles} cycles with a deadline of {run.deadline_s:g} s",
        caption="seconds of a cycle and of the longest; updates used; shards of each device",
    )
    table.add_column("scheme", no_wrap=True)
    for heading in ("s a cycle", "used", "nano", "pi-1", "pi-2", "pi-3", "accuracy"):
        table.add_column(heading, justify="right", no_wrap=True)
    add_row(table, "DAB", train(run, DAB))
    add_row(table, "DAB, busy", train(run, DAB, busy=True))
    add_row(table, "dynamic, busy", train(run, DAB, busy=True, dynamic=True))
    add_row(table, "CSA, one silent", train(run, CSA, private="pi-2"))
    Console().print(table)


if __name__ == "__main__":
    main()
