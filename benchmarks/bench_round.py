"""What a real cycle costs over the training in it: four learner processes on loopback.

    python benchmarks/bench_round.py [--cycles N] [--json FILE]

Overhead is the time from one cycle's beginning to the next one's, less the slowest learner's own
training: orders, downloads, updates, aggregation, record, and, where it says so, the checkpoint in
SQLite. For a model of 100 MB it is set beside the time of copying as much over a loopback socket
once for each learner, in the same run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import numpy as np
import torch

from axon.allocation.equal import Equal
from axon.data.datasets import Dataset
from axon.learning.tasks import default_spec, load_tasks
from axon.rounds.checkpoint import Store, open_store
from axon.rounds.events import CycleEnded, Event
from axon.rounds.fleet import Fleet
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme
from axon.seeds import stream
from axon.testbed.deployment import deployed
from axon.values import RoundRecord, Samples, TaskSpec

LEARNERS = 4
TASKS = Path(__file__).with_name("round_tasks.py")
OVERHEAD_BAR_MS = 50.0
COPIES_BAR = 3.0


@contextmanager
def workers() -> Iterator[dict[str, str]]:
    """Learner processes as a person would start them, by name and address."""
    with ExitStack() as stack:
        started = {}
        for number in range(LEARNERS):
            name = f"learner-{number}"
            command = [sys.executable, "-m", "axon.cli", "worker", "--name", name, "--port", "0",
                       "--threads", "1", "--task", str(TASKS)]  # fmt: skip
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            stack.callback(process.wait, 20)
            stack.callback(process.terminate)
            started[name] = process
        addresses = {}
        for name, process in started.items():
            assert process.stdout is not None
            line = process.stdout.readline()
            addresses[name] = next(word for word in line.split() if "://" in word or ":" in word)
        yield addresses


def make_dataset(samples: int) -> Dataset:
    """Images of the size of MNIST's."""
    random = stream(1, "bench round")
    inputs = random.integers(256, size=(samples, 784), dtype=np.uint8)
    whole = Samples(inputs, random.integers(10, size=samples), 1 / 255)
    return Dataset(name="bench", train=whole, test=whole.take(slice(100)), classes=10)


def overhead_s(addresses: dict[str, str], spec: TaskSpec, cycles: int, *, kept: bool) -> float:
    """Median seconds of a cycle beside its training, after two that warm up."""
    with ExitStack() as stack:
        store = None
        if kept:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            store = stack.enter_context(closing(open_store(Path(folder) / "checkpoint.sqlite")))
        return statistics.median(overheads_s(addresses, spec, cycles, store))


def overheads_s(
    addresses: dict[str, str], spec: TaskSpec, cycles: int, store: Store | None
) -> list[float]:
    """Seconds of each cycle beside its training, after two that warm up."""
    dataset = make_dataset(LEARNERS * 500)
    run = Run(
        name=spec.net,
        spec=spec,
        cycles=cycles + 2,
        deadline_s=120.0,
        shard_samples=500,
        evaluate_every=0,
    )
    ended: list[tuple[float, RoundRecord]] = []

    def listen(event: Event) -> None:
        if isinstance(event, CycleEnded):
            ended.append((time.perf_counter(), event.record))

    async def main(fleet: Fleet) -> None:
        scheme = Scheme(allocate=Equal())
        await Orchestrator(run, dataset, fleet, scheme, store=store, listen=listen).run()

    deployed(addresses).run(main)
    found = []
    for (before_s, _), (after_s, record) in itertools.pairwise(ended):
        used = record.with_status("used")
        assert len(used) == LEARNERS, record
        slowest_s = max(each.timings.train_s for each in used if each.timings is not None)
        found.append(after_s - before_s - slowest_s)
    return found


def random_bytes(size: int) -> bytes:
    """Bytes that are really there."""
    return stream(2, "bench round").bytes(size)


def copy_s(size: int) -> float:
    """Seconds to copy so many bytes over a loopback socket, into memory that is there already."""
    # Random, because pages of zeros that were never written to are all the same one.
    data, room = random_bytes(size), bytearray(size)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def receive() -> None:
            peer, _ = server.accept()
            with peer:
                view = memoryview(room)
                while view:
                    view = view[peer.recv_into(view) :]

        thread = threading.Thread(target=receive)
        thread.start()
        began_s = time.perf_counter()
        with socket.create_connection(server.getsockname()) as sender:
            sender.sendall(data)
        thread.join()
        return time.perf_counter() - began_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=15)
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    torch.set_num_threads(1)
    load_tasks(str(TASKS))
    small = default_spec("twonn", (784,), 10)
    bulky = default_spec("bulky", (784,), 10)
    few = max(3, given.cycles // 3)
    found: dict[str, float] = {}
    with workers() as addresses:
        for name, kept in (("", False), ("kept_", True)):
            found[f"{name}overhead_ms"] = 1e3 * overhead_s(
                addresses, small, given.cycles, kept=kept
            )
            found[f"{name}bulky_s"] = overhead_s(addresses, bulky, few, kept=kept)
    copies_s = statistics.median(copy_s(100_000_000) for _ in range(7)) * LEARNERS
    found["copies_s"] = copies_s
    for name, words in (("", ""), ("kept_", ", checkpoint included")):
        bulky_s = found[f"{name}bulky_s"]
        print(f"TwoNN, {LEARNERS} learners{words}: {found[f'{name}overhead_ms']:.1f} ms a cycle "
              f"beside training (bar {OVERHEAD_BAR_MS:.0f} ms)")  # fmt: skip
        print(f"100 MB, {LEARNERS} learners{words}: {bulky_s:.2f} s a cycle beside training, "
              f"{bulky_s / copies_s:.2f} times {LEARNERS} copies of {copies_s / LEARNERS:.3f} s "
              f"(bar {COPIES_BAR:.0f})")  # fmt: skip
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
