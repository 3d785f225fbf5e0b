"""What robust rules cost on a GPU, beside copying the stack once.

    python benchmarks/bench_kernels.py [--quick] [--rows N ...] [--sizes D ...] [--json FILE]

Rows are normal, and the first f = (n-3)//4 of them ten times as large and reversed. A ratio is the
median time of a rule, what it does on the host included, over that of copying the stack's bytes to
memory that lies ready, in the same run. `plain` is the ratio of the same rule in plain PyTorch, for
`--plain-size` coordinates. Memory is what the rule takes at most beyond the stack; its bar is three
vectors and 64 MB.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor

from axon.aggregation import bulyan, kernels, mda, median, multi_krum, trimmed_mean

RULES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "median": lambda stack, f: median(stack, f=f),
    "trimmed mean": lambda stack, f: trimmed_mean(stack, f=f),
    "Multi-Krum": lambda stack, f: multi_krum(stack, f=f),
    "MDA": lambda stack, f: mda(stack, f=f),
    "Bulyan": lambda stack, f: bulyan(stack, f=f),
}
BARS = {"Multi-Krum": 4.0, "MDA": 5.0, "Bulyan": 7.0}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
MB = 1e6


@dataclass(frozen=True, slots=True)
class Line:
    """One rule on one stack."""

    rule: str
    rows: int
    size: int
    dtype: str
    copy_ms: float
    ratio: float
    bar: float
    plain: float | None
    peak_mb: float
    peak_bar_mb: float

    @property
    def holds(self) -> bool:
        """Whether both bars are kept."""
        return self.ratio <= self.bar and self.peak_mb <= self.peak_bar_mb

    def __str__(self) -> str:
        cells = [
            self.rule,
            str(self.rows),
            f"{self.size:.0e}",
            self.dtype,
            f"{self.copy_ms:.3f}",
            f"{self.ratio:.2f}",
            f"{self.bar:.1f}",
            "-" if self.plain is None else f"{self.plain:.1f}",
            f"{self.peak_mb:.1f}",
            "" if self.holds else "missed",
        ]
        return " ".join(f"{cell:>12}" for cell in cells)


def bar_of(rule: str, rows: int) -> float:
    """The most a rule may cost, in copies."""
    return BARS.get(rule, 1.5 if rows <= 23 else 2.0)


def make_stack(rows: int, size: int, dtype: torch.dtype) -> Tensor:
    """Honest rows, and a tolerable number of attackers."""
    generator = torch.Generator("cuda").manual_seed(rows)
    stack = torch.randn(rows, size, dtype=dtype, device="cuda", generator=generator)
    stack[: (rows - 3) // 4] *= -10
    return stack


def milliseconds(call: Callable[[], object], repeats: int, warm_up: int = 3) -> float:
    """The median time of a call, as the device saw it."""
    for _ in range(warm_up):
        call()
    took: list[float] = []
    for _ in range(repeats):
        begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        begin.record()
        call()
        end.record()
        end.synchronize()
        took.append(begin.elapsed_time(end))
    return statistics.median(took)


def peak_mb(call: Callable[[], object]) -> float:
    """What a call takes at most beyond what was taken before."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    return (torch.cuda.max_memory_allocated() - before) / MB


def copy_ms(stack: Tensor, repeats: int) -> float:
    """The time to copy the stack once."""
    room = torch.empty_like(stack)
    return milliseconds(lambda: room.copy_(stack), repeats)


def measure(stack: Tensor, repeats: int, *, with_plain: bool) -> Iterator[Line]:
    """Every rule on one stack."""
    rows, size = stack.shape
    f = (rows - 3) // 4
    copied_ms = copy_ms(stack, repeats)
    for name, rule in RULES.items():

        def call(rule: Callable[[Tensor, int], Tensor] = rule) -> Tensor:
            return rule(stack, f)

        ours_ms = milliseconds(call, repeats)
        plain = None
        if with_plain:
            with patch.object(kernels, "is_usable", return_value=False):
                plain = milliseconds(call, repeats=3, warm_up=1) / copied_ms
        yield Line(
            rule=name,
            rows=rows,
            size=size,
            dtype=str(stack.dtype).removeprefix("torch."),
            copy_ms=copied_ms,
            ratio=ours_ms / copied_ms,
            bar=bar_of(name, rows),
            plain=plain,
            peak_mb=peak_mb(call),
            peak_bar_mb=(3 * stack[0].nbytes + 64 * 2**20) / MB,
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a million coordinates, few repeats")
    parser.add_argument("--rows", type=int, nargs="+", default=[7, 17, 23, 51])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**6, 10**7, 10**8])
    parser.add_argument("--plain-size", type=int, default=10**7)
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("nothing was measured: PyTorch finds no CUDA device here")
    sizes, repeats = ([10**6], 5) if given.quick else (given.sizes, 21)
    titles = ["rule", "n", "d", "dtype", "copy ms", "ratio", "bar", "plain", "peak MB", ""]
    print(torch.cuda.get_device_name())
    print(" ".join(f"{title:>12}" for title in titles))
    lines = []
    for rows in given.rows:
        for size in sizes:
            for dtype in DTYPES.values():
                stack = make_stack(rows, size, dtype)
                for line in measure(stack, repeats, with_plain=size == given.plain_size):
                    lines.append(line)
                    print(line, flush=True)
                del stack
                torch.cuda.empty_cache()
    print(f"{sum(line.holds for line in lines)} of {len(lines)} lines keep their bars")
    if given.json:
        Path(given.json).write_text(json.dumps([asdict(line) for line in lines], indent=1))


if __name__ == "__main__":
    main()
