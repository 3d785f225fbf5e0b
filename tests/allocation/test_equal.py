"""Allocations without capabilities: the same for all, given, or left open."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.allocation import Equal, Fixed, Open, equal_split
from axon.policies import Situation
from axon.values import Share, TaskCost


def situation(shards: int) -> Situation:
    return Situation(
        cycle=0, deadline_s=10.0, cost=TaskCost(model_bytes=1, shard_bytes=1), shards=shards
    )


def test_what_is_left_over_goes_to_the_first() -> None:
    assert equal_split(11, ["a", "b", "c", "d"]) == {"a": 3, "b": 3, "c": 3, "d": 2}
    assert equal_split(2, ["a", "b", "c"]) == {"a": 1, "b": 1, "c": 0}
    assert equal_split(5, []) == {}


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 500), st.integers(1, 20))
def test_a_split_adds_up_and_differs_by_one_at_most(total: int, members: int) -> None:
    counts = list(equal_split(total, [str(number) for number in range(members)]).values())
    assert sum(counts) == total
    assert max(counts) - min(counts) <= 1
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize(
    ("shards", "existing", "wanted"),
    [
        (None, 7, [3, 2, 2]),
        (10, 50, [4, 3, 3]),
        (2, 50, [1, 1, 1]),  # At least one each.
        (30, 5, [5, 5, 5]),  # One learner never holds a shard twice.
        (None, 0, [0, 0, 0]),
    ],
)
def test_equal_shares(shards: int | None, existing: int, wanted: list[int]) -> None:
    shares = Equal(shards, passes=2)(["a", "b", "c"], situation(existing))
    assert shares == {
        name: Share(shards=count, passes=2) for name, count in zip("abc", wanted, strict=True)
    }


def test_open_shares_leave_the_number_to_the_learner() -> None:
    share = Share(shards=None, passes=3)
    assert Open(passes=3)(["a", "b"], situation(4)) == {"a": share, "b": share}


def test_fixed_shares_go_to_the_members_that_have_a_number() -> None:
    numbers = {"a": 2, "b": 0, "gone": 5}
    allocate = Fixed(numbers, passes=2)
    numbers["a"] = 99
    assert allocate(["a", "b", "new"], situation(4)) == {"a": Share(shards=2, passes=2)}


def test_fixed_shares_must_exist() -> None:
    with pytest.raises(ValueError, match="'a' is to train 5 shards, but only 4 exist"):
        Fixed({"a": 5})(["a"], situation(4))
    assert Fixed({"a": 5})(["b"], situation(4)) == {}


def test_numbers_that_cannot_be_meant() -> None:
    with pytest.raises(ValueError, match=r"shards must be .* at least 1, got 0"):
        Equal(shards=0)
    with pytest.raises(ValueError, match=r"passes must be .* got 0"):
        Equal(passes=0)
    with pytest.raises(ValueError, match=r"passes must be .* got 0"):
        Open(passes=0)
    with pytest.raises(ValueError, match=r"shards of 'b' must be .* got -1"):
        Fixed({"a": 1, "b": -1})
    with pytest.raises(ValueError, match=r"total must be .* got -1"):
        equal_split(-1, ["a"])
