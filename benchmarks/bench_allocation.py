"""How long staleness-aware allocation takes, and what exactness is worth over approximations.

    python benchmarks/bench_allocation.py [--learners N ...] [--repeats N] [--json FILE]

Learners within 50 m of an access point, no two alike, sharing a data set that grows with them. With
3,000 samples a learner the least staleness is an epoch or none; with 6 it is not, as a sample more
or less changes a learner's epochs by a large step, and more has to be searched. Milliseconds are
medians; the bar is for the exact method.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from axon.allocation.link import (
    DESKTOP_HZ,
    MICROCONTROLLER_HZ,
    MNIST,
    Radio,
    epoch_time,
    gain_at,
)
from axon.allocation.staleness import METHODS, EpochTime, Method, allocate
from axon.seeds import stream

BAR_MS = 200.0
PERIOD_S = 15.0


def make_fleet(learners: int) -> list[EpochTime]:
    """Learners spread evenly over a disk, their clocks over what lies between the paper's two."""
    random = stream(1, "bench allocation")
    distances = (50.0 * random.uniform(0.001, 1.0, learners) ** 0.5).tolist()
    clocks = random.uniform(MICROCONTROLLER_HZ, DESKTOP_HZ, learners).tolist()
    return [
        epoch_time(Radio(gain=gain_at(distance)), MNIST, clock_hz)
        for distance, clock_hz in zip(distances, clocks, strict=True)
    ]


def measure(fleet: list[EpochTime], each: int, method: Method, repeats: int) -> dict[str, float]:
    """Median milliseconds of an allocation, and how stale it is."""
    took = []
    for _ in range(repeats):
        began_s = time.perf_counter()
        plan = allocate(fleet, total=each * len(fleet), period_s=PERIOD_S, method=method)
        took.append(time.perf_counter() - began_s)
    return {
        "ms": statistics.median(took) * 1e3,
        "max_staleness": plan.max_staleness,
        "average_staleness": plan.average_staleness,
        "fewest_epochs": min(plan.epochs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--learners", type=int, nargs="+", default=[10, 100, 1000, 10_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    rows = []
    heading = ("learners", "each", "method", "ms", "bar", "max", "average", "fewest")
    print(" ".join(f"{word:>9}" for word in heading))
    for each in (3000, 6):
        for learners in given.learners:
            fleet = make_fleet(learners)
            for method in METHODS:
                found = measure(fleet, each, method, given.repeats)
                bar = BAR_MS if method == "exact" else None
                rows.append(
                    {"learners": learners, "each": each, "method": method, "bar": bar, **found}
                )
                cells = (
                    str(learners),
                    str(each),
                    method,
                    f"{found['ms']:.1f}",
                    "" if bar is None else f"{bar:.0f}",
                    f"{found['max_staleness']:.0f}",
                    f"{found['average_staleness']:.2f}",
                    f"{found['fewest_epochs']:.0f}",
                )
                print(" ".join(f"{cell:>9}" for cell in cells), flush=True)
    if given.json:
        Path(given.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
