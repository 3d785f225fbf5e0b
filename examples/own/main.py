"""A task, an allocator and an aggregator of your own, on the thesis's fleet in virtual time.

python examples/own/main.py
"""

from __future__ import annotations

from pathlib import Path

from aggregator import Middle
from allocator import QuickOnesFirst

import axon.testbed
from axon.data.datasets import load
from axon.learning import default_spec, load_tasks
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme


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
