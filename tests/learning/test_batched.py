"""Jobs trained together come out as they do one after the other."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from axon.errors import ConfigurationError
from axon.learning import perceptron
from axon.learning.batched import BatchedTrainer, Way, way_of
from axon.learning.loop import LoopTrainer
from axon.learning.nets import initial
from axon.learning.perceptron import cross_entropy_slope
from axon.learning.stacks import result_rows
from axon.learning.tasks import blueprint, cross_entropy, define
from axon.seeds import stream
from axon.values import Job, Samples, TaskSpec
from tests.learning.stacked import (
    CLASSES,
    FALL_BACK,
    OPTIMISERS,
    check_same,
    ragged,
    samples_of,
    spec_of,
    until,
)

pytestmark = pytest.mark.slow  # All together they take seconds.


@pytest.mark.slow
@pytest.mark.parametrize("together", [3, 100])
@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=["sgd", "momentum", "adam"])
def test_ragged_jobs_agree_with_the_loop(optimiser: dict[str, object], together: int) -> None:
    jobs = ragged(spec_of("batched-dense", **optimiser))
    # Adam divides by the root of a gradient, which magnifies rounding where that is small.
    tolerance = 1e-5 if "optimiser" in optimiser else 2e-6
    check_same(BatchedTrainer(together)(jobs), LoopTrainer()(jobs), tolerance)


@pytest.mark.parametrize("net", ["batched-wrapped", "batched-frozen", "batched-squared"])
def test_nets_of_any_kind_agree_with_the_loop(net: str) -> None:
    jobs = ragged(spec_of(net))
    assert way_of(jobs[0].spec, blueprint(net)).kind == "mapped"
    check_same(BatchedTrainer(4)(jobs), LoopTrainer()(jobs))


@pytest.mark.slow
def test_convolutions_agree_with_the_loop() -> None:
    jobs = ragged(spec_of("convnet", inputs=(1, 8, 8)))
    assert way_of(jobs[0].spec, blueprint("convnet")).kind == "mapped"
    check_same(BatchedTrainer(5)(jobs), LoopTrainer()(jobs))


def test_the_perceptrons_own_way_agrees_with_vmap() -> None:
    own = ragged(spec_of("batched-dense"))
    other = [replace(job, spec=spec_of("batched-wrapped")) for job in own]
    assert way_of(own[0].spec, blueprint("batched-dense")).kind == "dense"
    check_same(BatchedTrainer(4)(own), BatchedTrainer(4)(other))


@pytest.mark.slow
@given(
    shapes=st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 3), st.integers(0, 6)), min_size=1, max_size=6
    ),
    batch_size=st.integers(1, 5),
    together=st.integers(1, 4),
)
@settings(max_examples=25, deadline=None)
def test_any_shapes_agree_with_the_loop(
    shapes: list[tuple[int, int, int]], batch_size: int, together: int
) -> None:
    spec = spec_of("batched-dense", batch_size=batch_size)
    start = initial(spec, 0)
    jobs = [
        Job(
            spec=spec,
            start=start,
            samples=samples_of(count, at),
            passes=passes,
            stream=(0, at),
            go_on=until(halt),
        )
        for at, (count, passes, halt) in enumerate(shapes)
    ]
    check_same(BatchedTrainer(together)(jobs), LoopTrainer()(jobs))


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=["sgd", "momentum", "adam"])
def test_a_halted_job_keeps_its_parameters_to_the_bit(optimiser: dict[str, object]) -> None:
    spec = spec_of("batched-wrapped", **optimiser)
    job = Job(spec=spec, start=initial(spec, 0), samples=samples_of(16), passes=4)
    others = [replace(job, stream=(0, at)) for at in range(3)]
    told, limited = replace(job, go_on=until(2)), replace(job, limit=2)
    # In the midst of rows that go on, and as the last row, which is dropped.
    within = BatchedTrainer(4)([others[0], told, *others[1:]])[1]
    last = BatchedTrainer(4)([*others, limited])[3]
    assert within.batches == last.batches == 2
    assert within.parameters.tobytes() == last.parameters.tobytes()


def test_go_on_is_asked_once_before_every_batch() -> None:
    spec, asked = spec_of("batched-dense"), list[int]()

    def go_on(done: int) -> bool:
        asked.append(done)
        return True

    job = Job(spec=spec, start=initial(spec, 0), samples=samples_of(10), go_on=go_on)
    BatchedTrainer()([job])
    assert asked == [0, 1, 2]


@pytest.mark.parametrize("net", FALL_BACK)
def test_what_cannot_be_stacked_is_left_to_the_loop(net: str) -> None:
    spec = spec_of(net)
    assert way_of(spec, blueprint(net)) == Way("loop")
    jobs = [
        Job(spec=spec, start=initial(spec, 0), samples=samples_of(8, at), stream=(1, at))
        for at in range(3)
    ]
    check_same(BatchedTrainer(3)(jobs), LoopTrainer()(jobs), tolerance=0)


def test_the_decision_does_not_depend_on_what_a_net_was_used_for() -> None:
    spec = spec_of("batched-wrapped", learning_rate=0.25)
    nothing = np.full(78, np.nan, np.float32)
    LoopTrainer()([Job(spec=spec, start=nothing, samples=samples_of(4))])
    assert way_of(spec, blueprint("batched-wrapped")).kind == "mapped"


def test_no_jobs_and_no_samples() -> None:
    assert BatchedTrainer()([]) == []
    spec = spec_of("batched-dense")
    job = Job(spec=spec, start=initial(spec, 0), samples=samples_of(0))
    (trained,) = BatchedTrainer()([job])
    assert (trained.batches, trained.samples) == (0, 0)
    assert math.isnan(trained.loss)
    assert trained.parameters.tobytes() == job.start.tobytes()


@pytest.mark.slow
def test_mixed_tasks_come_back_in_their_order() -> None:
    specs = [
        spec_of("batched-dense"),
        spec_of("batched-dropout"),
        spec_of("batched-dense", momentum=0.5),
    ]
    each = [ragged(spec) for spec in specs]
    jobs = [job for trio in zip(*each, strict=True) for job in trio]
    check_same(BatchedTrainer(4)(jobs), LoopTrainer()(jobs))


def test_samples_of_any_type_become_the_same_floats() -> None:
    spec = spec_of("batched-dense", inputs=(2, 2))
    pixels = np.random.default_rng(0).integers(0, 256, (10, 2, 2))
    labels = np.arange(10) % CLASSES
    frozen_bytes = pixels.astype(np.uint8)
    frozen_bytes.flags.writeable = False
    kinds = [
        Samples(frozen_bytes, labels.astype(np.uint8), 1 / 255),
        Samples(pixels.astype(">f8"), labels.astype(np.int16), 1 / 255),
        Samples(np.asfortranarray(pixels.astype(np.float32)), labels, 1 / 255),
    ]
    start = initial(spec, 0)
    jobs = [Job(spec=spec, start=start, samples=samples) for samples in kinds]
    trained = BatchedTrainer()(jobs)
    check_same(trained, LoopTrainer()(jobs))
    assert len({each.parameters.tobytes() for each in trained}) == 1


def test_the_same_jobs_give_the_same_bytes_in_any_thread() -> None:
    jobs = ragged(spec_of("batched-dense")) * 3
    with ThreadPoolExecutor(2) as threads:
        runs = list(threads.map(BatchedTrainer(4), [jobs, jobs, jobs]))
    for run in runs[1:]:
        for one, other in zip(run, runs[0], strict=True):
            assert one.parameters.tobytes() == other.parameters.tobytes()


def test_results_of_one_call_outlive_the_next() -> None:
    jobs = ragged(spec_of("batched-dense"))
    first = BatchedTrainer(4)(jobs)
    before = [each.parameters.tobytes() for each in first]
    BatchedTrainer(4)([replace(job, stream=(99,)) for job in jobs])
    assert [each.parameters.tobytes() for each in first] == before


def test_a_start_of_another_size_is_refused_with_both_numbers() -> None:
    spec = spec_of("batched-dense")
    job = Job(spec=spec, start=np.zeros(7, np.float32), samples=samples_of(4))
    with pytest.raises(ConfigurationError, match=r"78 numbers.*\(7,\)"):
        BatchedTrainer()([job])


def test_none_together_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least 1, got 0"):
        BatchedTrainer(0)


def test_the_decision_weighs_size_and_number() -> None:
    assert Way("dense", 3).pays(1)
    assert Way("mapped", 128).pays(8)
    assert not Way("mapped", 128).pays(7)
    assert not Way("mapped", 15).pays(1000)
    spec = spec_of("twonn", inputs=(784,), classes=10, batch_size=32)
    # 8 MiB over 4 bytes of 40,480 parameters and 32 inputs of 784 numbers.
    way = way_of(spec, blueprint("twonn"))
    assert (way.kind, way.together, len(way.layers)) == ("dense", 31, 3)


def test_result_rows_are_aligned_and_contiguous() -> None:
    rows = result_rows(3, 17)
    assert rows.shape == (3, 17)
    for row in rows:
        assert row.ctypes.data % 64 == 0
        assert row.flags.c_contiguous


def test_memory_of_results_is_lent_again_only_when_nobody_looks_at_it() -> None:
    rows = result_rows(4, 1000)
    row, address = rows[2], rows.ctypes.data
    del rows
    assert result_rows(4, 1000).ctypes.data != address
    row[:] = 7
    del row
    assert result_rows(4, 1000).ctypes.data == address


def test_the_slope_of_cross_entropy_is_autograds() -> None:
    outputs = torch.randn(2, CLASSES, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[0, 1, 2, 0, 1], [2, 2, 1, 0, 0]])
    weights = torch.tensor([[0.2] * 5, [0.5, 0.5, 0.0, 0.0, 0.0]])
    losses, slope = cross_entropy_slope(outputs, labels, weights)
    rows = outputs.mT.flatten(0, 1).requires_grad_()
    wanted = (cross_entropy(rows, labels.flatten()).view(2, 5) * weights).sum(1)
    torch.testing.assert_close(losses, wanted.detach())
    (derivative,) = torch.autograd.grad(wanted.sum(), rows)
    torch.testing.assert_close(slope, derivative.view(2, 5, CLASSES).mT)


@define("shared-relu")
def shared_relu(inputs: tuple[int, ...], classes: int) -> nn.Module:
    relu = nn.ReLU()
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs[0], 9), relu, nn.Linear(9, 7), relu, nn.Linear(7, classes)
    )


def test_a_layer_that_stands_in_two_places_is_not_lost() -> None:
    spec = TaskSpec(net="shared-relu", inputs=(5,), classes=3, batch_size=4)
    assert [layer.rectified for layer in way_of(spec, blueprint(spec.net)).layers] == [
        True,
        True,
        False,
    ]
    random = stream(1, "shared")
    samples = Samples(random.standard_normal((20, 5), np.float32), random.integers(3, size=20))
    jobs = [Job(spec=spec, start=initial(spec, 1), samples=samples, stream=(at,)) for at in (1, 2)]
    for ours, theirs in zip(BatchedTrainer()(jobs), LoopTrainer()(jobs), strict=True):
        np.testing.assert_allclose(ours.parameters, theirs.parameters, atol=1e-6)


def test_a_way_that_does_not_agree_with_the_loop_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = TaskSpec(net="twonn", inputs=(6,), classes=3, batch_size=4, learning_rate=0.123)
    real = perceptron.DescendDense._descend

    def wrong(self: Any, activations: Any, slope: Any) -> None:
        real(self, activations, slope * 2)

    monkeypatch.setattr(perceptron.DescendDense, "_descend", wrong)
    assert way_of(spec, blueprint(spec.net)).kind == "loop"
