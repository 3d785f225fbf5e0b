"""The kernels against sorting and subtracting in double precision.

On a GPU they run there. Elsewhere the same text runs in Triton's interpreter, if TRITON_INTERPRET
is set, or else in a stand-in for Triton's language: that shows what it computes, not how fast.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from torch import Tensor

from axon import aggregation
from axon.aggregation import coordinatewise, engines, extraction, kernels
from axon.aggregation.kernels import combining, distances, ranked, written
from axon.aggregation.wholeness import Watch
from tests.aggregation import standin

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
SHAPES = [(1, 5), (2, 130), (3, 129), (7, 1000), (12, 90), (17, 64)]
CASES = [
    *((*shape, torch.float32) for shape in SHAPES),
    *(
        (*shape, kind)
        for shape in ((7, 300), (12, 129))
        for kind in (torch.bfloat16, torch.float16)
    ),
]
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
needs_gpu = pytest.mark.skipif(not ON_GPU, reason="there is no CUDA device")


def forget_kernels() -> None:
    """Kernels made for one Triton are not left for the next."""
    for made in (written._compiled, ranked._ranked, ranked._around):
        made.cache_clear()
    combining._combined.cache_clear()
    distances._tiled.cache_clear()


@pytest.fixture(autouse=True, scope="module")
def triton_somewhere() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if not ON_GPU and not os.environ.get("TRITON_INTERPRET"):
            for name, module in standin.modules().items():
                patch.setitem(sys.modules, name, module)
        forget_kernels()
        yield
        forget_kernels()


def drawn(rows: int, size: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, size, generator=generator).to(dtype).to(DEVICE)


def in_order(stack: Tensor) -> Tensor:
    values = stack.double().cpu()
    return torch.where(values.isnan(), torch.inf, values).sort(0).values


def ranked_oracle(stack: Tensor, first: int, last: int) -> Tensor:
    return in_order(stack)[first:last].mean(0)


def around_oracle(stack: Tensor, rows: Sequence[int], keep: int) -> Tensor:
    values = in_order(stack[list(rows)])
    median = (values[(len(rows) - 1) // 2] + values[len(rows) // 2]) / 2
    # Sorted, so that a stable order of the distances puts the smaller of two values first.
    nearest = (values - median).abs().argsort(dim=0, stable=True)[:keep]
    return values.gather(0, nearest).mean(0)


def distance_oracle(stack: Tensor) -> Tensor:
    values = stack.double().cpu()
    return (values[:, None] - values[None]).square().sum(-1)


def assert_near(got: Tensor, wanted: Tensor) -> None:
    slack = TOLERANCE[got.dtype]
    torch.testing.assert_close(got.double().cpu(), wanted, rtol=slack, atol=slack)


@pytest.mark.parametrize(("rows", "size", "dtype"), CASES)
def test_means_of_ranks(rows: int, size: int, dtype: torch.dtype) -> None:
    stack = drawn(rows, size, dtype)
    third = rows // 3
    for first, last in {(rows // 2, rows // 2 + 1), (0, rows), (third, rows - third), (0, 1)}:
        got = kernels.ranked_mean(stack, first, last)
        assert (got.dtype, got.device, got.shape) == (dtype, stack.device, (size,))
        assert_near(got, ranked_oracle(stack, first, last))


@pytest.mark.parametrize(("rows", "size", "dtype"), CASES)
def test_means_around_the_median(rows: int, size: int, dtype: torch.dtype) -> None:
    stack = drawn(rows, size, dtype)
    chosen = [*reversed(range(rows))][: max(1, rows - 2)]
    for keep in {1, len(chosen) // 2 + 1, max(1, len(chosen) - 3), len(chosen)}:
        assert_near(kernels.around_median(stack, chosen, keep), around_oracle(stack, chosen, keep))


@pytest.mark.parametrize("bad", [1e30, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [0, 699])
def test_what_is_no_number_is_told(bad: float, place: int) -> None:
    stack = drawn(5, 700)
    stack[3, place] = bad
    ranked_by, around = Watch(), Watch()
    kernels.ranked_mean(stack, 2, 3, ranked_by)
    kernels.around_median(stack, range(5), 3, around)
    whole = [0, 1, 2, 3, 4] if bad == 1e30 else [0, 1, 2, 4]
    for watch in (ranked_by, around):
        assert bool(watch.odd) == (bad != 1e30)
        assert watch.whole_rows(stack).tolist() == whole


@pytest.mark.parametrize(("rows", "size", "dtype"), CASES)
def test_distances(rows: int, size: int, dtype: torch.dtype) -> None:
    stack = drawn(rows, size, dtype)
    got = kernels.squared_distances(stack)
    assert (got.dtype, got.device.type) == (torch.float64, "cpu")
    torch.testing.assert_close(got, distance_oracle(stack), rtol=1e-6, atol=0)
    assert torch.equal(got, got.T)


@pytest.mark.parametrize(("rows", "size", "dtype"), CASES)
def test_sums_of_the_rows_that_count(rows: int, size: int, dtype: torch.dtype) -> None:
    stack = drawn(rows, size, dtype)
    factors = [0.25 * (row - 2) for row in range(rows)]
    wanted = (torch.tensor(factors).double()[:, None] * stack.double().cpu()).sum(0)
    if rows > 2:
        stack[2] = torch.nan
    got = kernels.combine(stack, factors).double().cpu()
    slack = TOLERANCE[dtype] * sum(map(abs, factors))
    torch.testing.assert_close(got, wanted, rtol=TOLERANCE[dtype], atol=slack)
    assert torch.equal(kernels.combine(stack, [0.0] * rows), stack.new_zeros(size))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [*range(4, 52, 6), 51, 64])
def test_many_numbers_of_rows(rows: int) -> None:
    stack = drawn(rows, 100, seed=rows)
    f = max(0, (rows - 3) // 4)
    assert_near(kernels.ranked_mean(stack, f, rows - f), ranked_oracle(stack, f, rows - f))
    chosen = [*range(0, rows, 2), *range(1, rows, 2)][: rows - 2 * f]
    keep = rows - 4 * f
    assert_near(kernels.around_median(stack, chosen, keep), around_oracle(stack, chosen, keep))
    torch.testing.assert_close(
        kernels.squared_distances(stack), distance_oracle(stack), rtol=1e-6, atol=0
    )
    mean = kernels.combine(stack, [1 / rows] * rows)
    assert_near(mean, stack.double().mean(0).cpu())


def test_what_is_not_a_number_ranks_last() -> None:
    stack = drawn(9, 150)
    stack[2, 5], stack[4], stack[7, 3:9] = torch.nan, torch.inf, -torch.inf
    assert_near(kernels.ranked_mean(stack, 3, 6), ranked_oracle(stack, 3, 6))
    assert_near(kernels.ranked_mean(stack, 4, 5), ranked_oracle(stack, 4, 5))
    assert_near(kernels.around_median(stack, range(9), 5), around_oracle(stack, range(9), 5))


def test_the_mean_of_the_largest_values_is_finite() -> None:
    stack = torch.full((8, 20), 3e38, device=DEVICE)
    assert_near(kernels.ranked_mean(stack, 1, 7), stack[0].double().cpu())
    assert_near(kernels.around_median(stack, range(8), 5), stack[0].double().cpu())


def test_a_row_that_is_not_whole_is_far_from_all() -> None:
    stack = drawn(13, 150)
    stack[2, 149], stack[12, 0], stack[5] = torch.nan, -torch.inf, torch.inf
    got = kernels.squared_distances(stack)
    whole = [row for row in range(13) if row not in (2, 5, 12)]
    torch.testing.assert_close(
        got[whole][:, whole], distance_oracle(stack[whole]), rtol=1e-6, atol=0
    )
    for row in (2, 5, 12):
        assert got[row].isinf().sum() == 12
        assert got[row, row] == 0


def test_ties_go_to_the_smaller_value() -> None:
    columns = [[0, 1, 2, 3, 4], [2, 2, 2, 2, 2], [0, 0, 4, 4, 2], [-4, -2, 0, 2, 4]]
    stack = torch.tensor(columns, dtype=torch.float32, device=DEVICE).T.contiguous()
    assert kernels.around_median(stack, range(5), 2).tolist() == [1.5, 2, 1, -1]
    assert kernels.around_median(stack, [3, 0, 4, 1], 1).tolist() == [1, 2, 0, -2]


@pytest.mark.parametrize("factor", [1.0, 100.0, 1e6])
def test_rows_that_nearly_coincide_are_told_apart(factor: float) -> None:
    stack = drawn(1, 400) + 1e-4 * drawn(13, 400, seed=1)
    stack[3] *= -factor
    wanted = distance_oracle(stack)
    torch.testing.assert_close(kernels.squared_distances(stack), wanted, rtol=1e-5, atol=0)


def test_where_a_row_stands_changes_no_bit() -> None:
    stack = drawn(13, 130)
    order = torch.randperm(13, generator=torch.Generator().manual_seed(3))
    moved = stack[order.to(DEVICE)]
    before, after = kernels.squared_distances(stack), kernels.squared_distances(moved)
    assert torch.equal(after, before[order][:, order])
    assert torch.equal(kernels.ranked_mean(moved, 3, 10), kernels.ranked_mean(stack, 3, 10))


@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_a_stack_cut_out_of_a_wider_one(dtype: torch.dtype) -> None:
    stack = drawn(7, 99, dtype)[:, 3:67]
    assert_near(kernels.ranked_mean(stack, 3, 4), ranked_oracle(stack, 3, 4))
    torch.testing.assert_close(
        kernels.squared_distances(stack), distance_oracle(stack), rtol=1e-6, atol=0
    )


def test_long_sums_keep_their_accuracy() -> None:
    size = written.THREADS * distances.FEWEST_STEPS * 2 + 1
    stack = drawn(2, size) + 1000 * torch.arange(2, device=DEVICE)[:, None]
    torch.testing.assert_close(
        kernels.squared_distances(stack), distance_oracle(stack), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("name", ["median", "trimmed_mean", "multi_krum", "mda", "bulyan"])
def test_rules_come_to_the_same_on_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = drawn(11, 150)
    stack[1], stack[4, 7] = -100 * stack[1], torch.nan
    rule = getattr(aggregation, name)
    wanted = rule(stack.cpu(), f=2)
    if not ON_GPU:
        for module in (engines, coordinatewise, extraction):
            monkeypatch.setattr(module, "engine_for", lambda stack: kernels)
    assert_near(rule(stack, f=2), wanted.double())


def test_only_stacks_on_a_gpu_are_taken() -> None:
    assert not kernels.is_usable(torch.zeros(3, 4))


def test_importing_it_needs_neither_torch_nor_triton() -> None:
    code = (
        "import sys; import axon.aggregation.kernels; "
        "sys.exit(any(name.split('.')[0] in ('torch', 'triton') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@needs_gpu
def test_what_is_taken_on_a_gpu() -> None:
    stack = drawn(64, 8)
    assert kernels.is_usable(stack)
    assert kernels.is_usable(stack.bfloat16())
    assert not kernels.is_usable(stack.double())
    assert not kernels.is_usable(stack.T)
    assert not kernels.is_usable(drawn(65, 8))


@needs_gpu
def test_rows_that_begin_past_what_32_bits_count() -> None:
    stack = torch.zeros(5, 2**29 + 16, dtype=torch.bfloat16, device=DEVICE)
    stack += torch.arange(5, dtype=torch.bfloat16, device=DEVICE)[:, None]
    assert bool((kernels.ranked_mean(stack, 4, 5) == 4).all())
    assert bool((kernels.around_median(stack, [4, 3, 4], 2) == 4).all())
    assert bool((kernels.combine(stack, [0, 0, 0, 0, 2]) == 8).all())
    wanted = torch.arange(5).double()
    got = kernels.squared_distances(stack) / stack.shape[1]
    torch.testing.assert_close(got, (wanted[:, None] - wanted) ** 2, rtol=1e-6, atol=0)


@needs_gpu
def test_no_second_stack_is_made() -> None:
    stack = drawn(23, 1_000_000)
    vector = stack[0].nbytes
    calls: list[Callable[[], Tensor]] = [
        lambda: kernels.ranked_mean(stack, 5, 18),
        lambda: kernels.around_median(stack, range(13), 3),
        lambda: kernels.combine(stack, [1 / 23] * 23),
        lambda: kernels.squared_distances(stack),
    ]
    for call in calls:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        assert torch.cuda.max_memory_allocated() - before <= 3 * vector + 64 * 2**20
