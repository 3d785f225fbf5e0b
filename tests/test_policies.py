"""Contracts: what every policy of a seam keeps to, whichever it is.

A new policy comes under its contract with its entry in a table; a codec says here what it loses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.allocation.dab import shard_bound
from axon.allocation.equal import Fixed
from axon.compression.codecs import CODECS, Half, Plain
from axon.data.shards import draw_uniform
from axon.learning.batched import BatchedTrainer
from axon.learning.loop import LoopTrainer
from axon.learning.nets import initial
from axon.policies import (
    Aggregator,
    Allocator,
    Codec,
    GlobalStep,
    Sampler,
    Selector,
    SelfAllocator,
    Situation,
    Trainer,
)
from axon.recipes.tables import AGGREGATORS, SELECTORS, STEPS, allocators
from axon.seeds import stream
from axon.values import Capability, Job, Samples, TaskCost, TaskSpec, Vector

MEMBERS = tuple(f"pi-{number:02}" for number in range(12))
seeds = st.integers(0, 10_000)
sizes = st.integers(0, len(MEMBERS))
some = settings(max_examples=25, deadline=None)

selectors = pytest.mark.parametrize(
    "select", [make("") for make in SELECTORS.values()], ids=list(SELECTORS)
)
every_allocator = pytest.mark.parametrize(
    "allocate",
    [make("") for make in allocators(3).values()]
    + [allocators(3)["equal"]("7"), Fixed({"pi-00": 1, "pi-03": 2, "stranger": 1}, passes=3)],
    ids=[*allocators(3), "equal:7", "fixed"],
)
aggregators = pytest.mark.parametrize(
    "aggregate", [make("") for make in AGGREGATORS.values()], ids=list(AGGREGATORS)
)
steps = pytest.mark.parametrize("step", [make("") for make in STEPS.values()], ids=list(STEPS))


@selectors
@some
@given(size=sizes, seed=seeds)
def test_selectors(select: Selector, size: int, seed: int) -> None:
    """Members only, each once, in their order; the same for the same stream."""
    members = MEMBERS[:size]
    chosen = list(select(members, stream(seed, "select")))
    assert chosen == [name for name in members if name in chosen]
    assert chosen == list(select(members, stream(seed, "select")))
    assert bool(chosen) == bool(members)


@every_allocator
@some
@given(size=sizes, shards=st.integers(2, 300), cycle=st.integers(1, 50))
def test_allocators(allocate: Allocator, size: int, shards: int, cycle: int) -> None:
    """Shares for members only: a whole number that exists, or an open one; the passes asked for."""
    members = MEMBERS[:size]
    cost = TaskCost(model_bytes=1000, shard_bytes=100)
    situation = Situation(cycle=cycle, deadline_s=2.0, cost=cost, shards=shards)
    shares = allocate(members, situation)
    assert set(shares) <= set(members)
    for share in shares.values():
        assert share.passes == 3
        if share.shards is not None:
            assert type(share.shards) is int
            assert 0 <= share.shards <= shards
    assert allocate(members, situation) == shares


@pytest.mark.parametrize("allocate", [shard_bound])
@some
@given(
    shards_per_s=st.floats(1e-3, 1e6),
    bytes_per_s=st.floats(1.0, 1e9),
    deadline_s=st.floats(1e-3, 1e3),
)
def test_self_allocators(
    allocate: SelfAllocator, shards_per_s: float, bytes_per_s: float, deadline_s: float
) -> None:
    """A whole number, never negative, and never more for less time or slower parts."""
    cost = TaskCost(model_bytes=1000, shard_bytes=100)
    able = Capability(shards_per_s=shards_per_s, bytes_per_s=bytes_per_s)
    shards = allocate(able, cost, deadline_s)
    assert type(shards) is int
    assert shards >= 0
    assert allocate(able, cost, deadline_s / 2) <= shards
    assert allocate(replace(able, shards_per_s=shards_per_s / 2), cost, deadline_s) <= shards
    assert allocate(replace(able, bytes_per_s=bytes_per_s / 2), cost, deadline_s) <= shards


@pytest.mark.parametrize("sample", [draw_uniform])
@some
@given(shards=st.integers(1, 200), part=st.floats(0, 1), seed=seeds)
def test_samplers(sample: Sampler, shards: int, part: float, seed: int) -> None:
    """As many different numbers as asked for, each of a shard that exists; by the stream alone."""
    count = round(part * shards)
    drawn = sample(shards, count, stream(seed, "shards"))
    assert drawn.dtype == np.intp
    assert len(set(drawn.tolist())) == len(drawn) == count
    assert all(0 <= number < shards for number in drawn)
    assert drawn.tolist() == sample(shards, count, stream(seed, "shards")).tolist()


def vectors_of(count: int, size: int, seed: int, scale: float = 1.0) -> list[Vector]:
    random = stream(seed, "vectors")
    return [(random.standard_normal(size) * scale).astype(np.float32) for _ in range(count)]


def check_vector(vector: Vector, size: int) -> None:
    assert vector.dtype == np.float32
    assert vector.shape == (size,)


@aggregators
@some
@given(
    count=st.integers(1, 20),
    size=st.integers(1, 50),
    seed=seeds,
    weights=st.lists(st.integers(1, 10_000), min_size=20, max_size=20),
)
def test_aggregators(
    aggregate: Aggregator, count: int, size: int, seed: int, weights: list[int]
) -> None:
    """Between the vectors in every coordinate, float32, and whoever comes first changes nothing."""
    count = max(count, getattr(aggregate, "least", 1))
    vectors, heed = vectors_of(count, size, seed), [float(weight) for weight in weights[:count]]
    before = [vector.copy() for vector in vectors]
    made = aggregate(vectors, heed)
    check_vector(made, size)
    stack = np.stack(vectors)
    hair = 1e-6 * np.abs(stack).max()
    assert (made >= stack.min(axis=0) - hair).all()
    assert (made <= stack.max(axis=0) + hair).all()
    order = stream(seed, "order").permutation(count)
    shuffled = aggregate([vectors[at] for at in order], [heed[at] for at in order])
    np.testing.assert_allclose(shuffled, made, rtol=0, atol=hair)
    for vector, kept in zip(vectors, before, strict=True):
        np.testing.assert_array_equal(vector, kept)
    assert not any(np.shares_memory(made, vector) for vector in vectors)


@aggregators
def test_aggregators_refuse_what_cannot_be_averaged(aggregate: Aggregator) -> None:
    with pytest.raises(ValueError, match=r"at least 1 (vector|update)"):
        aggregate([], [])
    with pytest.raises(ValueError, match="one size"):
        aggregate([np.zeros(3, np.float32), np.zeros(4, np.float32)], [1.0, 1.0])


@steps
@some
@given(size=st.integers(1, 30), seed=seeds)
def test_steps(step: GlobalStep, size: int, seed: int) -> None:
    """A model of the same shape in float32, a state that can be saved, and no argument changed."""
    current, *aggregates = vectors_of(4, size, seed)
    state: dict[str, Vector] = {}
    for aggregate in aggregates:
        given_state = {name: vector.copy() for name, vector in state.items()}
        arguments = current.copy(), aggregate.copy()
        model, after = step(current, aggregate, state)
        again, _ = step(current, aggregate, state)
        np.testing.assert_array_equal(model, again)
        np.testing.assert_array_equal(current, arguments[0])
        np.testing.assert_array_equal(aggregate, arguments[1])
        assert list(state) == list(given_state)
        for name, vector in given_state.items():
            np.testing.assert_array_equal(state[name], vector)
        for vector in (model, *after.values()):
            check_vector(vector, size)
        current, state = model, after
    assert np.isfinite(current).all()


def error_of(codec: Codec, change: float) -> float:
    """What a codec says of itself: nothing is lost, or a half-precision rounding of the change."""
    known = {Plain: 0.0, Half: 2.0**-11 * change + 2.0**-22}
    return known[type(codec)]


@pytest.mark.parametrize("name", CODECS)
@some
@given(size=st.integers(1, 6000), seed=seeds, scale=st.floats(1e-4, 1.0))
def test_codecs(name: str, size: int, seed: int, scale: float) -> None:
    """What comes out is what went in, within the codec's own error; neither argument changes."""
    codec = CODECS[name]
    reference = vectors_of(1, size, seed)[0]
    parameters = reference + vectors_of(1, size, seed + 1, scale)[0]
    kept = parameters.copy(), reference.copy()
    payload = codec.encode(parameters, reference)
    assert all(isinstance(part, np.ndarray) for part in payload.values())
    decoded = codec.decode(payload, reference)
    check_vector(decoded, size)
    change = float(np.abs(parameters - reference).max())
    wide = decoded.astype(np.float64) - parameters
    magnitude = float(np.abs(parameters).max()) + 1.0
    assert np.abs(wide).max() <= error_of(codec, change) * magnitude
    np.testing.assert_array_equal(parameters, kept[0])
    np.testing.assert_array_equal(reference, kept[1])


@pytest.mark.parametrize("name", CODECS)
def test_codecs_refuse_what_is_not_their_own(name: str) -> None:
    codec, (reference, parameters) = CODECS[name], vectors_of(2, 10, 0)
    strange = [other.encode(parameters, reference) for key, other in CODECS.items() if key != name]
    own = codec.encode(parameters, reference)
    strange += [{}, {**own, "more": parameters}]
    strange += [{**own, part: values[:-1]} for part, values in own.items()]
    strange += [{**own, part: values.astype(np.float64)} for part, values in own.items()]
    for payload in strange:
        with pytest.raises(ValueError, match=r"payload needs|must be"):
            codec.decode(payload, reference)


def ragged_jobs() -> list[Job]:
    """Unequal in samples, passes, limit, start and the moment they are told to halt."""
    spec = TaskSpec(net="twonn", inputs=(6,), classes=3, batch_size=4)
    starts = [initial(spec, seed) for seed in (0, 1)]
    shapes: list[tuple[int, int, int | None, Callable[[int], bool]]] = [
        (9, 1, None, lambda _: True),
        (4, 3, None, lambda _: True),
        (13, 2, 5, lambda _: True),
        (0, 1, None, lambda _: True),
        (16, 2, None, lambda done: done < 3),
        (7, 2, 0, lambda _: True),
    ]
    random = stream(0, "jobs")
    return [
        Job(
            spec=spec,
            start=starts[at % 2],
            samples=Samples(
                random.standard_normal((count, 6)).astype(np.float32),
                random.integers(3, size=count),
            ),
            passes=passes,
            stream=(1, "batches", at),
            limit=limit,
            go_on=go_on,
        )
        for at, (count, passes, limit, go_on) in enumerate(shapes)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("train", [LoopTrainer(), BatchedTrainer(), BatchedTrainer(2)])
def test_trainers(train: Trainer) -> None:
    """Each job as if it had been alone, in their order, and with nothing changed."""
    jobs = ragged_jobs()
    starts = [job.start.copy() for job in jobs]
    alone = [LoopTrainer()([job])[0] for job in jobs]
    for made, wanted in zip(train(jobs), alone, strict=True):
        assert (made.batches, made.samples) == (wanted.batches, wanted.samples)
        assert made.parameters.dtype == np.float32
        np.testing.assert_allclose(made.parameters, wanted.parameters, rtol=0, atol=2e-6)
        np.testing.assert_allclose(made.loss, wanted.loss, rtol=1e-5)
    for job, start in zip(jobs, starts, strict=True):
        np.testing.assert_array_equal(job.start, start)
    assert list(train([])) == []
