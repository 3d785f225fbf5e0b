"""What is kept back: a margin and the worst of the last tails, and more after a miss."""

from __future__ import annotations

import math
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.allocation.margin import MARGIN, MOST_DOUBLINGS, REMEMBERED, Tails
from axon.errors import ConfigurationError
from axon.seeds import stream

DEADLINE_S = 10.0
KEPT_S = DEADLINE_S * MARGIN


def after(*tails_s: float, known: Tails | None = None) -> Tails:
    return reduce(lambda tails, tail_s: tails.after(tail_s, DEADLINE_S), tails_s, known or Tails())


def kept(*tails_s: float) -> float:
    return after(*tails_s).reserve_s(DEADLINE_S)


def test_it_is_the_largest_of_the_last_and_the_margin_beside_it() -> None:
    assert kept() == kept(0.0) == KEPT_S
    assert kept(0.5, 2.0, 1.0) == 2.0 + KEPT_S
    assert kept(2.0, *[1.0] * (REMEMBERED - 1)) == 2.0 + KEPT_S
    assert kept(2.0, *[1.0] * REMEMBERED) == 1.0 + KEPT_S
    assert kept(-3.0) == KEPT_S


def test_an_answer_that_was_given_up_doubles_it_and_one_that_comes_halves_it() -> None:
    assert kept(1.0, math.inf) == 2 * (1.0 + KEPT_S)
    assert kept(1.0, math.inf, math.inf) == 4 * (1.0 + KEPT_S)
    assert kept(1.0, math.inf, math.inf, 0.5) == 2 * (1.0 + KEPT_S)
    assert kept(1.0, math.inf, 0.5, 0.5, 0.5) == 1.0 + KEPT_S


def test_it_is_never_more_than_half_and_comes_down_again_from_any_number_of_misses() -> None:
    assert kept(9.0) == kept(1e300) == 5.0
    missed = after(*[math.inf] * 100)
    assert missed.reserve_s(DEADLINE_S) == 5.0
    assert missed.doublings == MOST_DOUBLINGS
    recovered = after(*[0.1] * MOST_DOUBLINGS, known=missed)
    assert recovered.reserve_s(DEADLINE_S) == 0.1 + KEPT_S


def test_who_sits_out_believes_the_worst_less() -> None:
    tails = after(1.0, 4.0, 2.0, math.inf)
    assert tails.doubted() == Tails((1.0, 2.0), 0)
    assert Tails().doubted() == Tails()


def test_a_deadline_must_be_one() -> None:
    with pytest.raises(ConfigurationError, match="deadline_s must be"):
        Tails().reserve_s(0.0)


def test_of_exchangeable_tails_one_in_twenty_one_is_longer_at_most() -> None:
    random, tails, missed, cycles = stream(3, "tails"), Tails(), 0, 4000
    for _ in range(cycles):
        tail_s = 0.3 * math.exp(random.standard_normal() / 2)
        # The margin beside it catches some of these.
        missed += tail_s > tails.reserve_s(DEADLINE_S) - KEPT_S
        tails = tails.after(tail_s, DEADLINE_S)
    assert 0.03 < missed / cycles < 1 / 21 + 0.01


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.0, 1e300) | st.just(math.inf), max_size=60), st.floats(0.01, 1e4))
def test_whatever_is_heard_it_lies_between_the_margin_and_half(
    heard: list[float], deadline_s: float
) -> None:
    tails = Tails()
    for tail_s in heard:
        tails = tails.after(tail_s, deadline_s)
        assert deadline_s * MARGIN <= tails.reserve_s(deadline_s) <= deadline_s / 2
        # It is kept as JSON, which has no infinity.
        assert all(map(math.isfinite, tails.last_s))
    assert len(tails.last_s) <= REMEMBERED
