"""The loop trainer: steps by hand, batches counted, runs that repeat."""

from __future__ import annotations

import gc
import math
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from axon.errors import ConfigurationError
from axon.learning import loop
from axon.learning.loop import (
    LoopTrainer,
    as_tensors,
    batches,
    best_accelerator,
    train,
    warm_net,
)
from axon.learning.nets import initial
from axon.learning.parameters import entries, layout
from axon.learning.tasks import blueprint, build, default_spec, define
from axon.seeds import stream
from axon.values import Job, Samples, TaskSpec


def squares(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs[:, 0] - labels).square()


@define("line", loss=squares)
def line(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(inputs[0], classes)


@define("line-in-all", loss=lambda outputs, labels: squares(outputs, labels).mean())
def line_in_all(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(inputs[0], classes)


@define("dropping")
def dropping(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Dropout(0.5), nn.Linear(inputs[0], classes))


@define("averaging")
def averaging(inputs: tuple[int, ...], classes: int) -> nn.Module:
    # Without a momentum the running statistics depend on the counter, which does not travel.
    return nn.Sequential(nn.BatchNorm1d(inputs[0], momentum=None), nn.Linear(inputs[0], classes))


@define("partly")
class Partly(nn.Module):
    """One layer is frozen, and one is never used."""

    def __init__(self, inputs: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.frozen = nn.Linear(inputs[0], inputs[0]).requires_grad_(False)
        self.unused = nn.Linear(2, 2)
        self.last = nn.Linear(inputs[0], classes)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.last(self.frozen(inputs))
        return outputs


def some(count: int, width: int = 4) -> Samples:
    random = np.random.default_rng(count)
    return Samples(random.random((count, width), np.float32), random.integers(0, 3, count))


def job(net: str = "twonn", samples: Samples | None = None, **changes: Any) -> Job:
    samples = some(10) if samples is None else samples
    spec = default_spec(net, samples.inputs.shape[1:], 3, batch_size=4)
    return replace(Job(spec=spec, start=initial(spec, 0), samples=samples), **changes)


@pytest.mark.parametrize("net", ["line", "line-in-all"])
def test_one_step_by_hand(net: str) -> None:
    spec = TaskSpec(net=net, inputs=(1,), classes=1, learning_rate=0.1)
    samples = Samples(np.array([[2], [4]], np.uint8), np.array([1, 3]), scale=0.5)
    start = np.array([1.0, 0.5], np.float32)
    [trained] = LoopTrainer()([Job(spec=spec, start=start, samples=samples)])
    # x = 1, 2; y = 1.5, 2.5; errors 0.5, -0.5; loss 0.25;
    # dw = mean(2·error·x) = (1 - 2) / 2 = -0.5; db = mean(2·error) = 0.
    assert trained.parameters.tolist() == pytest.approx([1.05, 0.5])
    assert (trained.batches, trained.samples) == (1, 2)
    assert trained.loss == pytest.approx(0.25)
    assert start.tolist() == [1.0, 0.5]


def test_batches_may_be_small_at_the_end_of_a_pass() -> None:
    seen = [len(rows) for rows in batches(job(passes=2))]
    assert seen == [4, 4, 2, 4, 4, 2]
    trained = train(job(passes=2))
    assert (trained.batches, trained.samples) == (6, 20)


def test_every_pass_is_shuffled_anew_from_one_stream() -> None:
    rows = torch.cat(list(batches(job(passes=2, stream=(7, "x"))))).tolist()
    random = stream(7, "x")
    assert rows == [*random.permutation(10), *random.permutation(10)]
    assert rows[:10] != rows[10:]
    assert sorted(rows[10:]) == list(range(10))


def test_the_same_as_a_loop_written_by_hand() -> None:
    task = job(passes=2)
    trained = train(task)
    module = build(task.spec)
    inputs, labels = (torch.tensor(task.samples.inputs), torch.tensor(task.samples.labels))
    torch.nn.utils.vector_to_parameters(torch.tensor(task.start), module.parameters())
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    random, losses = stream(*task.stream), []
    for _ in range(2):
        order = torch.tensor(random.permutation(10))
        for rows in (order[:4], order[4:8], order[8:]):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(module(inputs[rows]), labels[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            losses.append(loss.item())
    expected = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    np.testing.assert_allclose(trained.parameters, expected, atol=1e-7)
    assert trained.loss == pytest.approx(sum(losses) / 6)


def test_a_run_repeats_to_the_bit_and_another_stream_differs() -> None:
    first = train(job("convnet", Samples(np.ones((6, 1, 8, 8)), np.arange(6) % 3)))
    again = train(job("convnet", Samples(np.ones((6, 1, 8, 8)), np.arange(6) % 3)))
    assert first.parameters.tobytes() == again.parameters.tobytes()
    one, other = train(job(stream=(1, "a"))), train(job(stream=(2, "a")))
    assert one.parameters.tobytes() != other.parameters.tobytes()


@pytest.mark.parametrize(("limit", "batches"), [(0, 0), (1, 1), (3, 3), (9, 3), (None, 3)])
def test_a_limit_halts(limit: int | None, batches: int) -> None:
    trained = train(job(limit=limit))
    assert trained.batches == batches == job(limit=limit).batches
    assert trained.samples == min(4 * batches, 10)


def test_go_on_is_asked_before_every_batch() -> None:
    asked: list[int] = []

    def go_on(done: int) -> bool:
        asked.append(done)
        return done < 2

    trained = train(job(passes=3, go_on=go_on))
    assert asked == [0, 1, 2]
    assert (trained.batches, trained.samples) == (2, 8)
    assert trained.parameters.tobytes() == train(job(passes=3, limit=2)).parameters.tobytes()


def test_no_samples_change_nothing() -> None:
    task = job(samples=some(0), go_on=lambda done: pytest.fail("asked for no batch"))
    trained = train(task)
    assert (trained.batches, trained.samples) == (0, 0)
    assert math.isnan(trained.loss)
    assert trained.parameters.tobytes() == task.start.tobytes()


def test_jobs_are_answered_in_their_order_as_if_alone() -> None:
    jobs = [job(stream=(seed, "a")) for seed in range(3)]
    together = LoopTrainer()(jobs)
    alone = [train(task) for task in reversed(jobs)][::-1]
    assert [t.parameters.tobytes() for t in together] == [t.parameters.tobytes() for t in alone]


def test_adam_begins_anew_with_each_job() -> None:
    first, again = train(job("threenn")), train(job("threenn"))
    assert first.parameters.tobytes() == again.parameters.tobytes()


def test_running_statistics_travel_and_counters_begin_anew() -> None:
    samples = some(4)
    spec = TaskSpec(net="averaging", inputs=(4,), classes=3, batch_size=4)
    task = Job(spec=spec, start=initial(spec, 0), samples=samples)
    for _ in range(2):
        # weight, bias and mean of four each: the mean follows two of them.
        mean = train(task).parameters[8:12]
        np.testing.assert_allclose(mean, samples.inputs.mean(axis=0), rtol=1e-5)


def test_dropout_repeats_and_leaves_torchs_own_stream_alone() -> None:
    before = torch.random.get_rng_state()
    first = train(job("dropping"))
    torch.rand(3)
    assert train(job("dropping")).parameters.tobytes() == first.parameters.tobytes()
    other = train(job("dropping", stream=(9, "batches")))
    assert other.parameters.tobytes() != first.parameters.tobytes()
    torch.random.set_rng_state(before)
    train(job("dropping"))
    train(job("twonn"))
    assert torch.equal(before, torch.random.get_rng_state())


def test_frozen_and_unused_layers_stay_as_they_were() -> None:
    task = job("partly")
    changed = train(task).parameters != task.start
    # frozen 4·4 + 4, unused 2·2 + 2, last 4·3 + 3.
    assert not changed[:26].any()
    assert changed[26:].all()


def test_grad_mode_is_left_alone() -> None:
    with torch.no_grad():
        trained = train(job())
        assert not torch.is_grad_enabled()
    assert trained.parameters.tobytes() == train(job()).parameters.tobytes()


def test_a_start_of_another_size_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"got a vector of shape \(3,\)"):
        train(job(start=np.zeros(3, np.float32)))


def test_two_threads_train_at_once() -> None:
    meet = threading.Barrier(2, timeout=20)
    alone = [train(job(stream=(seed, "a"))).parameters.tobytes() for seed in range(2)]
    found: dict[int, bytes] = {}

    def run(seed: int) -> None:
        # Both are between two batches of one task: with one net they would mix.
        task = job(stream=(seed, "a"), go_on=lambda done: meet.wait() >= 0)
        found[seed] = train(task).parameters.tobytes()

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[0], found[1]] == alone


def test_a_net_is_kept_warm_and_one_that_failed_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_idle", [])
    spec = job().spec
    with warm_net(spec) as first:
        assert entries(first.module, layout(first.module))[0].shape == (50, 4)
    with warm_net(spec) as second:
        assert second is first
    with pytest.raises(RuntimeError, match="broken"), warm_net(spec):
        raise RuntimeError("broken")
    with warm_net(spec) as third:
        assert third is not first


def test_idle_nets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_idle", [])
    for width in range(1, loop.WARM_NETS + 4):
        with warm_net(TaskSpec(net="line", inputs=(width,), classes=1)):
            pass
    assert len(loop._idle) == loop.WARM_NETS


def test_samples_become_floats_and_whole_numbers_once() -> None:
    samples = Samples(np.array([[0, 255]], np.uint8), np.array([3], np.uint8), scale=1 / 255)
    samples.inputs.flags.writeable = False
    inputs, labels = as_tensors(samples)
    assert (inputs.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert inputs.tolist() == [[0.0, pytest.approx(1.0)]]
    assert labels.tolist() == [3]
    assert as_tensors(samples)[0] is inputs
    assert as_tensors(samples.take(slice(None)))[0] is not inputs


def test_converted_samples_go_with_their_arrays() -> None:
    gc.collect()
    before = len(loop._converted)
    samples = some(5)
    as_tensors(samples)
    assert len(loop._converted) == before + 1
    del samples
    gc.collect()
    assert len(loop._converted) == before


def test_loss_of_a_blueprint_is_the_one_used() -> None:
    assert blueprint("line").loss is squares


def test_an_accelerator_gives_what_the_processor_gives() -> None:
    accelerator = best_accelerator()
    if accelerator == "cpu":
        pytest.skip("no GPU here")
    spec = TaskSpec(net="twonn", inputs=(12,), classes=3, learning_rate=0.1, batch_size=8)
    random = stream(3, "accelerated")
    samples = Samples(
        random.standard_normal((50, 12), dtype=np.float32), random.integers(3, size=50)
    )
    job = Job(spec=spec, start=initial(spec, 1), samples=samples, passes=3)
    (here,), (there,) = LoopTrainer()([job]), LoopTrainer(accelerator)([job])
    assert (there.batches, there.samples) == (here.batches, here.samples)
    assert there.loss == pytest.approx(here.loss, abs=1e-5)
    np.testing.assert_allclose(there.parameters, here.parameters, atol=1e-5)
