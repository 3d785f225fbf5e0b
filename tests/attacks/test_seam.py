"""What every attack keeps to, whichever it is, and what a scene refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axon.attacks import ATTACKS, Attack, attack_of
from axon.errors import ConfigurationError
from tests.attacks.scenes import scene, vector

HONEST = [vector(1, 2, 3), vector(2, 2, 2), vector(4, 0, 1), vector(3, 1, 0), vector(0, 0, 5)]
every_attack = pytest.mark.parametrize(
    "attack", [attack_of(name) for name in ATTACKS], ids=list(ATTACKS)
)


@every_attack
def test_an_attack_gives_a_flat_vector_or_nothing_and_leaves_its_own(attack: Attack) -> None:
    own = vector(1, -2, 3)
    own.setflags(write=False)
    sent = attack(own, scene(HONEST, attackers=2, past=[vector(5, 5, 5)]))
    if sent is not None:
        assert sent.dtype == np.float32
        assert sent.shape == own.shape
        assert np.isfinite(sent).all()
    np.testing.assert_array_equal(own, vector(1, -2, 3))


@every_attack
def test_the_same_scene_gives_the_same_lie(attack: Attack) -> None:
    first, again = (attack(vector(1, -2, 3), scene(HONEST, attackers=2)) for _ in range(2))
    assert (first is None) == (again is None)
    if first is not None and again is not None:
        assert first.tobytes() == again.tobytes()


@every_attack
def test_only_the_omniscient_need_to_know_the_honest(attack: Attack) -> None:
    if not attack.omniscient:
        attack(vector(1, 2, 3), scene())
        return
    with pytest.raises(ConfigurationError, match=r"omniscient.* 0 of their vectors .* in step 3"):
        attack(vector(1, 2, 3), scene())


@every_attack
def test_what_no_single_precision_holds_becomes_infinite_without_a_warning(attack: Attack) -> None:
    largest = np.full(3, np.finfo(np.float32).max)
    attack(largest, scene([largest, -largest, largest], attackers=1))


@pytest.mark.parametrize("change", [{"step": -1}, {"step": 1.5}, {"attackers": 0}])
def test_a_scene_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"{next(iter(change))} must be a whole number"):
        scene(**change)
