"""What a simulated cycle costs over the bare mathematics.

    python benchmarks/bench_simulation.py [--clients 10 100 1000] [--json FILE]

All clients take part in every cycle: TwoNN [784, 50, 20, 10], 64 samples each, one pass, batches of
32. The bare loop does the same mathematics with nothing around it: it loads the global model into a
net, shuffles, takes two steps of SGD, and adds the result to the average. CPU seconds of both are
measured in one process, medians over cycles. PyTorch by itself uses every core for a loop that
gains nothing by it, and pays for that in CPU seconds; so the bare loop is measured twice, as it
comes and with one thread, and so are both ratios. The simulated world always uses one thread.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from torch import nn

from axon.data.datasets import Dataset
from axon.learning.loop import LoopTrainer
from axon.learning.tasks import build, default_spec, define
from axon.policies import Trainer
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run
from axon.seeds import stream
from axon.testbed.catalogue import device
from axon.testbed.simulation import simulated
from axon.values import RoundRecord, Samples

SAMPLES, BATCH, FEATURES, CLASSES = 64, 32, 784, 10
BARS = {"batched": 0.25, "stateful": 1.5}
MEMORY_BAR_MB = 700.0
DEFAULT_THREADS = torch.get_num_threads()


@define("stateful-twonn")
def stateful(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """TwoNN with a layer that keeps running statistics, which cannot be trained in a stack."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs[0], 50),
        nn.BatchNorm1d(50),
        nn.ReLU(),
        nn.Linear(50, 20),
        nn.ReLU(),
        nn.Linear(20, classes),
    )


def make_samples(clients: int) -> list[Samples]:
    """Samples of their own for every client, as floats, so that nobody converts anything."""
    random = stream(1, "bench", clients)
    inputs = random.random((clients, SAMPLES, FEATURES), dtype=np.float32)
    labels = random.integers(CLASSES, size=(clients, SAMPLES))
    return [Samples(inputs[i], labels[i]) for i in range(clients)]


def bare_cycle(net: nn.Module, owned: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """One cycle with nothing around it."""
    start = {name: entry.clone() for name, entry in net.state_dict().items()}
    total = {
        name: torch.zeros_like(entry) for name, entry in start.items() if entry.is_floating_point()
    }
    for inputs, labels in owned:
        net.load_state_dict(start)
        optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
        order = torch.randperm(SAMPLES)
        for chosen in order.split(BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(inputs[chosen]), labels[chosen]).backward()
            optimiser.step()
        state = net.state_dict()
        for name in total:
            total[name] += state[name]
    net.load_state_dict(start | {name: entry / len(owned) for name, entry in total.items()})


class Cycles:
    """Cycles of a simulated run, one at a time."""

    def __init__(self, name: str, samples: list[Samples], trainer: Trainer | None) -> None:
        self.spec = default_spec(name, (FEATURES,), CLASSES, batch_size=BATCH)
        names = [f"phone-{number:04}" for number in range(len(samples))]
        self._world = simulated(
            dict.fromkeys(names, device("phone")),
            data=dict(zip(names, samples, strict=True)),
            trainer=trainer,
        )
        few = samples[0]
        self._dataset = Dataset(name="bench", train=few, test=few, classes=CLASSES)

    def cpu_s(self, cycles: int) -> tuple[list[float], list[RoundRecord]]:
        """CPU seconds of each cycle, after one that warms up."""
        run = Run(
            spec=self.spec,
            cycles=cycles + 1,
            deadline_s=60.0,
            shard_samples=SAMPLES,
            own_data=True,
            evaluate_every=0,
        )
        marks: list[float] = []

        async def main(fleet: object) -> list[RoundRecord]:
            marks.append(time.process_time())
            records = []
            orchestrator = Orchestrator(run, self._dataset, fleet)  # type: ignore[arg-type]
            async for record in orchestrator.cycles():
                marks.append(time.process_time())
                records.append(record)
            return records

        records = self._world.run(main)
        took = [end - start for start, end in itertools.pairwise(marks)]
        return took[1:], records


def measure(name: str, clients: int, trainer: Trainer | None, cycles: int) -> dict[str, float]:
    """A simulated cycle beside a bare one."""
    torch.set_num_threads(1)
    samples = make_samples(clients)
    baseline_mb = peak_mb()
    ours, records = Cycles(name, samples, trainer).cpu_s(cycles)
    ours_mb = peak_mb() - baseline_mb
    assert all(len(record.with_status("used")) == clients for record in records)
    net = build(default_spec(name, (FEATURES,), CLASSES)).train()
    owned = [(torch.from_numpy(each.inputs), torch.from_numpy(each.labels)) for each in samples]
    ours_s = statistics.median(ours)
    bare_s = bare_cpu_s(net, owned, cycles, threads=DEFAULT_THREADS)
    one_s = bare_cpu_s(net, owned, cycles, threads=1)
    return {
        "bare_s": bare_s,
        "bare_one_thread_s": one_s,
        "ours_s": ours_s,
        "ratio": ours_s / bare_s,
        "ratio_one_thread": ours_s / one_s,
        "memory_mb": ours_mb,
    }


def bare_cpu_s(
    net: nn.Module, owned: list[tuple[torch.Tensor, torch.Tensor]], cycles: int, *, threads: int
) -> float:
    """The bare loop's median CPU seconds a cycle."""
    torch.set_num_threads(threads)
    took = [timed(lambda: bare_cycle(net, owned)) for _ in range(cycles + 1)]
    torch.set_num_threads(1)
    return statistics.median(took[1:])


def timed(work: Callable[[], None]) -> float:
    """CPU seconds of one call."""
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def peak_mb() -> float:
    """The most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--cycles", type=int, default=7)
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    heading = ("", "clients", "bare ms", "1 thread", "ours ms", "ratio", "bar", "1 thread", "MB")
    print(" ".join(f"{word:>9}" for word in heading))
    for clients in given.clients:
        for kind, name, trainer in (
            ("batched", "twonn", None),
            ("stateful", "stateful-twonn", None),
            ("loop", "twonn", LoopTrainer()),
        ):
            # In a process of its own: the most memory a process has held never falls.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                found = process.submit(measure, name, clients, trainer, given.cycles).result()
            bar = BARS.get(kind, 1.5) if clients >= 100 or kind != "batched" else None
            rows.append({"kind": kind, "clients": clients, "bar": bar, **found})
            cells = (
                kind,
                str(clients),
                f"{found['bare_s'] * 1e3:.1f}",
                f"{found['bare_one_thread_s'] * 1e3:.1f}",
                f"{found['ours_s'] * 1e3:.1f}",
                f"{found['ratio']:.3f}",
                "" if bar is None else f"{bar:.2f}",
                f"{found['ratio_one_thread']:.3f}",
                f"{found['memory_mb']:.0f}",
            )
            print(" ".join(f"{cell:>9}" for cell in cells), flush=True)
    if given.json:
        Path(given.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
