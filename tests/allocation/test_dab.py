"""A learner's own bound (Eq. 3.5): hand-computed, against the cycle's time, and at equality."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.allocation.dab import shard_bound
from axon.policies import SelfAllocator
from axon.values import Capability, TaskCost

DEFAULT: SelfAllocator = shard_bound


def bound(
    deadline_s: float, *, shards_per_s: float = 2.0, bytes_per_s: float = 1000.0, passes: int = 3
) -> int:
    """For a model of 4000 bytes and shards of 500."""
    capability = Capability(shards_per_s=shards_per_s, bytes_per_s=bytes_per_s)
    return DEFAULT(
        capability, TaskCost(model_bytes=4000, shard_bytes=500, passes=passes), deadline_s
    )


def seconds(capability: Capability, cost: TaskCost, shards: int) -> Fraction:
    """η of Eq. 3.4: how long a cycle with so many shards takes, exactly."""
    compute, link = Fraction(capability.shards_per_s), Fraction(capability.bytes_per_s)
    download = (cost.model_bytes + cost.shard_bytes * shards) / link
    return download + cost.passes * shards / compute + cost.model_bytes / link


@pytest.mark.parametrize(
    ("deadline_s", "wanted"),
    [
        # Two models take 8 s; a shard takes 3 / 2 s of training and 0.5 s on the link.
        (17.9, 4),
        (18.0, 4),  # Exactly five shards would end at the deadline, not before it.
        (math.nextafter(18.0, 19.0), 5),
        (10.0, 0),
        (8.0, 0),
        (0.001, 0),
    ],
)
def test_by_hand(deadline_s: float, wanted: int) -> None:
    assert bound(deadline_s) == wanted


def test_more_passes_and_slower_parts_mean_fewer_shards() -> None:
    assert bound(40.0) == 15
    assert bound(40.0, passes=15) == 3
    assert bound(40.0, shards_per_s=1.0) == 9
    assert bound(40.0, bytes_per_s=500.0) == 9


positive = st.floats(1e-6, 1e12)
sizes = st.integers(0, 10**10)


@settings(max_examples=50, deadline=None)
@given(positive, positive, sizes, sizes, st.integers(1, 20), st.floats(1e-6, 1e7))
def test_it_is_the_largest_number_that_ends_before_the_deadline(
    shards_per_s: float, bytes_per_s: float, model: int, shard: int, passes: int, deadline_s: float
) -> None:
    capability = Capability(shards_per_s=shards_per_s, bytes_per_s=bytes_per_s)
    cost = TaskCost(model_bytes=model, shard_bytes=shard, passes=passes)
    shards = shard_bound(capability, cost, deadline_s)
    assert shards >= 0
    assert seconds(capability, cost, shards + 1) >= Fraction(deadline_s)
    if shards:
        assert seconds(capability, cost, shards) < Fraction(deadline_s)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(-8, 8), st.integers(-8, 30))
def test_a_whole_bound_is_left_out(shards: int, passes: int, compute: int, link: int) -> None:
    # Powers of two and small numbers: the deadline is a float exactly, and so is every quotient.
    capability = Capability(shards_per_s=2.0**compute, bytes_per_s=2.0**link)
    cost = TaskCost(model_bytes=64, shard_bytes=32, passes=passes)
    exact = seconds(capability, cost, shards)
    assert Fraction(float(exact)) == exact
    assert shard_bound(capability, cost, float(exact)) == max(0, shards - 1)
    later = math.nextafter(float(exact), math.inf)
    assert shard_bound(capability, cost, later) == shards


@pytest.mark.parametrize("deadline_s", [math.nan, math.inf, -math.inf, -1.0, 0.0])
def test_a_deadline_must_be_one(deadline_s: float) -> None:
    with pytest.raises(ValueError, match=f"deadline_s must be .* got {deadline_s}"):
        bound(deadline_s)
