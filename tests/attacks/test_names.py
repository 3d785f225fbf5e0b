"""Names become attacks, and a wrong one lists the right ones."""

from __future__ import annotations

import pytest

from axon.attacks import (
    ATTACKS,
    Attack,
    Drop,
    InnerProduct,
    LabelFlip,
    LittleIsEnough,
    Mimic,
    Random,
    Reversed,
    SignFlip,
    Stale,
    attack_of,
)
from axon.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("random", Random()),
        ("random:0.5", Random(scale=0.5)),
        ("reversed", Reversed(factor=-100.0)),
        ("reversed:-3", Reversed(factor=-3.0)),
        ("drop", Drop()),
        ("stale", Stale()),
        ("stale:2", Stale(steps=2)),
        ("sign-flip", SignFlip()),
        ("inner-product", InnerProduct()),
        ("inner-product:2", InnerProduct(epsilon=2.0)),
        ("little-is-enough", LittleIsEnough(z=None)),
        ("little-is-enough:1.5", LittleIsEnough(z=1.5)),
        ("mimic", Mimic()),
        ("mimic:3", Mimic(which=3)),
        ("label-flip", LabelFlip(classes=None)),
        ("label-flip:10", LabelFlip(classes=10)),
    ],
)
def test_a_number_follows_a_colon(text: str, wanted: Attack) -> None:
    assert attack_of(text) == wanted


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nobody", f"no attack is called 'nobody' .*{', '.join(sorted(ATTACKS))}"),
        ("", "no attack is called ''"),
        ("random:much", "random takes a number, got 'much'"),
        ("stale:1.5", "stale takes a whole number, got '1.5'"),
        ("label-flip:ten", "label-flip takes a whole number, got 'ten'"),
        ("drop:1", "drop takes no setting, got '1'"),
        ("reversed:3", "factor must be a finite number below 0, got 3"),
        ("reversed:nan", "factor must be .* got nan"),
    ],
)
def test_what_cannot_be_meant_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        attack_of(text)
