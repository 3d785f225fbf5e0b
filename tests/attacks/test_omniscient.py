"""Attacks that know the honest vectors, against numbers reckoned by hand and from their papers."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from axon.attacks import InnerProduct, LittleIsEnough, Mimic
from axon.attacks.omniscient import largest_z
from axon.errors import ConfigurationError
from tests.attacks.scenes import scene, vector

OWN = vector(7, 7)
HONEST = [vector(1, 0), vector(2, 0), vector(6, 3)]
"""Of mean (3, 1) and standard deviation (sqrt(14/3), sqrt(2))."""


def test_the_inner_product_is_the_mean_turned_round_and_shortened() -> None:
    np.testing.assert_array_equal(InnerProduct(epsilon=0.5)(OWN, scene(HONEST)), vector(-1.5, -0.5))
    sent = InnerProduct()(OWN, scene(HONEST))
    np.testing.assert_allclose(sent, [-0.3, -0.1], rtol=1e-6)


def test_little_is_so_many_deviations_below_the_mean() -> None:
    sent = LittleIsEnough(z=1.5)(OWN, scene(HONEST))
    np.testing.assert_allclose(sent, [3 - 1.5 * sqrt(14 / 3), 1 - 1.5 * sqrt(2)], rtol=1e-6)
    np.testing.assert_array_equal(LittleIsEnough(z=0.0)(OWN, scene(HONEST)), vector(3, 1))


@pytest.mark.parametrize(
    ("nodes", "attackers", "z"),
    [
        # The paper's own example: 26 - 24 = 2 supporters of 26 honest, the quantile of 24/26.
        (50, 24, 1.426),
        (50, 12, 0.336),  # s = 14, the quantile of 24/38.
        (11, 1, 0.0),  # s = 5 of 10 honest.
        (10, 1, -0.140),  # s = 5 of 9.
        (11, 3, 0.319),  # s = 3 of 8, the quantile of 5/8.
    ],
)
def test_the_largest_z_is_the_papers(nodes: int, attackers: int, z: float) -> None:
    assert largest_z(nodes, attackers) == pytest.approx(z, abs=5e-4)


def test_without_a_z_it_is_the_largest_for_those_who_are_there() -> None:
    honest = [vector(0), vector(2)] * 4  # Of mean 1 and deviation 1.
    sent = LittleIsEnough()(OWN[:1], scene(honest, attackers=3))
    np.testing.assert_allclose(sent, [1 - largest_z(11, 3)], rtol=1e-6)


@pytest.mark.parametrize(("nodes", "attackers"), [(2, 1), (1, 1), (10, 6), (11, 6)])
def test_where_there_is_no_largest_z_one_must_be_chosen(nodes: int, attackers: int) -> None:
    with pytest.raises(ConfigurationError, match=f"{attackers} attackers among {nodes} nodes"):
        largest_z(nodes, attackers)


def test_a_mimic_sends_what_is_there_already() -> None:
    np.testing.assert_array_equal(Mimic()(OWN, scene(HONEST)), HONEST[0])
    np.testing.assert_array_equal(Mimic(which=2)(OWN, scene(HONEST)), HONEST[2])
    with pytest.raises(ConfigurationError, match="honest vector 3, there are 3 from 0 on"):
        Mimic(which=3)(OWN, scene(HONEST))


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: InnerProduct(epsilon=0.0), "epsilon must be .* above 0"),
        (lambda: LittleIsEnough(z=-1.0), "z must be .* at least 0"),
        (lambda: Mimic(which=-1), "which must be .* at least 0"),
    ],
)
def test_settings_that_cannot_be_are_named(make: type, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        make()
