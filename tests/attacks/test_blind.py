"""Attacks that know only their own vector, against numbers reckoned by hand."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from axon.attacks import Drop, Random, Reversed, SignFlip, Stale
from axon.errors import ConfigurationError
from axon.seeds import stream
from tests.attacks.scenes import scene, vector

OWN = vector(1, -2, 0.5)


def test_reversed_is_turned_round_and_amplified() -> None:
    np.testing.assert_array_equal(Reversed()(OWN, scene()), vector(-100, 200, -50))
    np.testing.assert_array_equal(Reversed(factor=-0.5)(OWN, scene()), vector(-0.5, 1, -0.25))


def test_a_flipped_sign_is_that_of_every_coordinate() -> None:
    np.testing.assert_array_equal(SignFlip()(OWN, scene()), vector(-1, 2, -0.5))


def test_a_dropped_vector_is_none() -> None:
    assert Drop().__call__(OWN, scene()) is None  # type: ignore[func-returns-value]


def test_random_is_normal_with_the_scale_that_was_given() -> None:
    own = np.zeros(40_000, np.float32)
    sent = Random(scale=3.0)(own, scene())
    # The mean of so many has a standard deviation of 0.015, their deviation one of 0.0106.
    assert abs(sent.mean()) < 0.06
    assert abs(sent.std() - 3.0) < 0.045
    # Of a normal distribution 68.27 % lie within one standard deviation.
    assert abs((abs(sent) < 3.0).mean() - 0.6827) < 0.01


def test_random_knows_nothing_of_what_was_honest_and_all_of_its_stream() -> None:
    draw = partial(Random(), own=OWN)
    first = draw(scene=scene(random=stream(1, "a")))
    np.testing.assert_array_equal(first, Random()(OWN + 9, scene(random=stream(1, "a"))))
    assert (first != draw(scene=scene(random=stream(1, "b")))).all()


@pytest.mark.parametrize(
    ("past", "sent"),
    [([], 9), ([1], 1), ([1, 2], 1), ([1, 2, 3], 1), ([1, 2, 3, 4], 2), ([1, 2, 3, 4, 5], 3)],
)
def test_stale_is_so_many_steps_old_or_the_oldest_there_is(past: list[float], sent: float) -> None:
    attack = Stale(steps=3)
    assert attack.remembers == 3
    lie = attack(vector(9), scene(past=[vector(each) for each in past]))
    np.testing.assert_array_equal(lie, vector(sent))


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Random(scale=0.0), "scale must be .* above 0, got 0"),
        (lambda: Random(scale=float("nan")), "scale must be .* got nan"),
        (lambda: Reversed(factor=2.0), "factor must be a finite number below 0, got 2"),
        (lambda: Reversed(factor=float("-inf")), "factor must be .* got -inf"),
        (lambda: Stale(steps=0), "steps must be .* at least 1, got 0"),
        (lambda: Stale(steps=10**6), "steps must be at most 1000, got 1000000"),
    ],
)
def test_settings_that_cannot_be_are_named(make: type, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        make()
