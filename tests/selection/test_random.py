"""Selectors that know nothing of the members: who comes, how many, in which order."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.policies import Selector
from axon.seeds import stream
from axon.selection import Everyone, Some

MEMBERS = [f"pi-{number}" for number in range(10)]


def test_everyone_is_everyone_and_draws_nothing() -> None:
    random = stream(1, "selection")
    assert Everyone()(MEMBERS, random) == MEMBERS
    assert random.integers(1 << 60) == stream(1, "selection").integers(1 << 60)


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (Some(3), 3),
        (Some(count=99), 10),
        (Some(fraction=0.29), 3),
        (Some(fraction=0.01), 1),
        (Some(fraction=1.0), 10),
    ],
)
def test_how_many_are_drawn(selector: Some, wanted: int) -> None:
    assert len(selector(MEMBERS, stream(1))) == wanted


def test_a_fraction_that_floats_put_just_below_a_whole_number_is_not_rounded_down() -> None:
    assert 0.29 * 100 < 29
    assert len(Some(fraction=0.29)([str(number) for number in range(100)], stream(1))) == 29


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 30), st.integers(1, 40), st.integers(0, 1000))
def test_they_are_different_members_in_the_members_order(size: int, count: int, seed: int) -> None:
    members = [f"{number:02}" for number in range(size)]
    chosen = Some(count=count)(members, stream(seed))
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(members)
    assert len(chosen) == min(size, count)
    assert chosen == Some(count=count)(members, stream(seed))


def test_each_member_is_as_likely_as_any_other() -> None:
    random, select = stream(5), Some(count=3)
    seen = Counter(name for _ in range(2000) for name in select(MEMBERS, random))
    # Of a binomial of 2000 at 0.3, five standard deviations are 102.
    assert all(abs(seen[name] - 600) < 102 for name in MEMBERS)


@pytest.mark.parametrize("selector", [Everyone(), Some(count=2), Some(fraction=0.5)])
def test_of_nobody_nobody_is_chosen(selector: Selector) -> None:
    assert selector([], stream(1)) == []


@pytest.mark.parametrize(("count", "fraction"), [(None, None), (2, 0.5)])
def test_count_and_fraction_are_alternatives(count: int | None, fraction: float | None) -> None:
    with pytest.raises(ValueError, match=f"either count or fraction .*{count}.*{fraction}"):
        Some(count=count, fraction=fraction)


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.01, math.nan, math.inf])
def test_a_fraction_must_be_one(fraction: float) -> None:
    with pytest.raises(ValueError, match=f"fraction must be .* got {fraction}"):
        Some(fraction=fraction)


def test_a_count_must_be_at_least_one() -> None:
    with pytest.raises(ValueError, match=r"count must be .* got 0"):
        Some(count=0)
