"""A task, an allocator and an aggregator of your own, on the thesis's fleet in virtual time.

python examples/own/main.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import axon.testbed
from axon.data.datasets import load
from axon.learning import default_spec, load_tasks
from axon.policies import Situation
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme
from axon.values import Share, Vector


@dataclass(frozen=True)
class QuickOnesFirst:
    """An allocator: twice as much for the devices whose names say that they are quick."""

    quick: str = "jetson"
    shards: int = 10

    def __call__(self, members: Sequence[str], situation: Situation) -> Mapping[str, Share]:
        most = min(2 * self.shards, situation.shards)
        return {
            name: Share(shards=most if name.startswith(self.quick) else self.shards)
            for name in members
        }


@dataclass(frozen=True)
class Middle:
    """An aggregator: the median of each coordinate, whatever anybody's weight."""

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:  # noqa: ARG002
        return np.median(np.stack(vectors), axis=0).astype(np.float32)


def main() -> None:
    """Train the net of `tasks.py` with both."""
    task = load_tasks(str(Path(__file__).with_name("tasks.py")))
    digits = load("digits")
    run = Run(
        spec=default_spec(task, digits.shape, digits.classes, learning_rate=0.3),
        cycles=12,
        deadline_s=2.0,
        shard_samples=50,
    )
    scheme = Scheme(allocate=QuickOnesFirst(), aggregate=Middle())
    world = axon.testbed.simulated("thesis")
    records = world.run(lambda fleet: Orchestrator(run, digits, fleet, scheme).run())
    for record in records:
        shares = ", ".join(f"{device.device} {device.shards}" for device in record.devices)
        print(f"cycle {record.cycle:2}  accuracy {record.accuracy:.3f}  shards: {shares}")


if __name__ == "__main__":
    main()
