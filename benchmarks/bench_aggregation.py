"""How long the robust rules take beside a plain mean of the same stack, on the CPU.

    python benchmarks/bench_aggregation.py [--sizes N ...] [--repeats N] [--quick] [--json FILE]

Ratios are to `torch.mean(stack, dim=0)` with as many threads, medians of repeats taken in turn, so
that a busy machine slows both. The bars are for one thread and a million coordinates or more.
Beside each rule stands what it costs written down plainly in PyTorch, measured once for the
smallest size.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from axon.aggregation import (
    bulyan,
    centered_clipping,
    geometric_median,
    krum,
    mda,
    mean,
    mean_around_median,
    median,
    multi_krum,
    trimmed_mean,
)
from axon.aggregation.diameters import closest
from axon.aggregation.extraction import extracted
from axon.aggregation.neighbours import Neighbourhood

N, F = 17, 3

Rule = Callable[[Tensor], Any]
RULES: dict[str, tuple[Rule, float | None]] = {
    "mean": (mean, None),
    "median": (median, 16.0),
    "trimmed mean": (lambda stack: trimmed_mean(stack, f=F), 16.0),
    "median, by weight": (lambda stack: median(stack, weights=range(1, N + 1)), 30.0),
    "mean around median": (lambda stack: mean_around_median(stack, f=F), None),
    "krum": (lambda stack: krum(stack, f=F), 8.0),
    "multi-krum": (lambda stack: multi_krum(stack, f=F), 8.0),
    "mda": (lambda stack: mda(stack, f=F), 8.0),
    "bulyan, selection": (
        lambda stack: extracted(Neighbourhood(stack, F, name="bulyan"), N - 2 * F),
        8.0,
    ),
    "bulyan": (lambda stack: bulyan(stack, f=F), None),
    "centred clipping": (lambda stack: centered_clipping(stack, f=F), None),
    "geometric median": (lambda stack: geometric_median(stack, f=F), None),
}
"""Each with the most it may take, in means."""


def plain_median(stack: Tensor) -> Tensor:
    return stack.sort(dim=0).values[N // 2]


def plain_trimmed_mean(stack: Tensor) -> Tensor:
    return stack.sort(dim=0).values[F : N - F].mean(dim=0)


def plain_around(stack: Tensor, keep: int) -> Tensor:
    nearest = (stack - stack.median(dim=0).values).abs().argsort(dim=0)[:keep]
    return stack.gather(0, nearest).mean(dim=0)


def plain_selected(stack: Tensor, left: list[int], count: int) -> list[int]:
    distances = torch.cdist(stack[left], stack[left]).square().sort(dim=1).values
    scores = distances[:, 1 : len(left) - F - 1].sum(dim=1)
    return [left[place] for place in scores.argsort()[:count].tolist()]


def plain_bulyan(stack: Tensor) -> Tensor:
    left, selected = list(range(N)), []
    for _ in range(N - 2 * F):
        selected += plain_selected(stack, left, 1)
        left.remove(selected[-1])
    return plain_around(stack[selected], N - 4 * F)


def plain_mda(stack: Tensor) -> Tensor:
    distances = torch.cdist(stack, stack).square().double().numpy()
    return stack[closest(distances, N - F)].mean(dim=0)


PLAIN: dict[str, Rule] = {
    "median": plain_median,
    "trimmed mean": plain_trimmed_mean,
    "mean around median": lambda stack: plain_around(stack, N - F),
    "krum": lambda stack: stack[plain_selected(stack, list(range(N)), 1)[0]],
    "multi-krum": lambda stack: stack[plain_selected(stack, list(range(N)), N - F - 2)].mean(dim=0),
    "mda": plain_mda,
    "bulyan": plain_bulyan,
}


def measure(rule: Rule, stack: Tensor, repeats: int) -> tuple[float, float]:
    """Median milliseconds of the rule, and the median of its ratios to the mean just before it."""
    rule(stack)
    took, ratios = [], []
    for _ in range(repeats):
        began_s = time.perf_counter()
        torch.mean(stack, dim=0)
        between_s = time.perf_counter()
        rule(stack)
        ended_s = time.perf_counter()
        took.append(1e3 * (ended_s - between_s))
        ratios.append((ended_s - between_s) / (between_s - began_s))
    return statistics.median(took), statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**6, 10**7])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="one small size, three repeats")
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    sizes = [10**5] if given.quick else given.sizes
    repeats = 3 if given.quick else given.repeats
    rows = []
    print(f"n = {N}, f = {F}, float32; times the mean of the stack")
    heading = ("rule", "d", "threads", "ms", "ratio", "bar", "plain")
    print(f"{heading[0]:20}" + " ".join(f"{word:>10}" for word in heading[1:]))
    for size in sizes:
        stack = torch.randn(N, size, generator=torch.Generator().manual_seed(1))
        for threads in sorted({1, os.cpu_count() or 1}):
            torch.set_num_threads(threads)
            for name, (rule, bar) in RULES.items():
                ms, ratio = measure(rule, stack, repeats)
                plain = None
                if name in PLAIN and size == min(sizes):
                    plain = measure(PLAIN[name], stack, 1)[1]
                limit = bar if threads == 1 and size >= 10**6 else None
                row = {"rule": name, "d": size, "threads": threads, "ms": ms, "ratio": ratio}
                rows.append({**row, "bar": limit, "plain": plain})
                cells = (
                    f"{size:.0e}",
                    str(threads),
                    f"{ms:.1f}",
                    f"{ratio:.1f}",
                    "" if limit is None else f"{limit:.0f}",
                    "" if plain is None else f"{plain:.1f}",
                )
                print(f"{name:20}" + " ".join(f"{cell:>10}" for cell in cells), flush=True)
    if given.json:
        Path(given.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
