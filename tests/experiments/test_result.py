"""Results as values and as JSON."""

from __future__ import annotations

import json
import math

import pytest

from axon.errors import ConfigurationError
from axon.experiments.result import Claim, bounds, measured, published, to_json, verdict
from axon.experiments.settings import Settings
from axon.intervals import Interval
from axon.version import __version__
from tests.experiments.scenes import FAILED, HELD, result


def test_json_has_what_was_found_and_what_it_was_run_with() -> None:
    found = to_json(result(dataset="digits"), Settings(seed=4, quick=True))
    assert json.loads(json.dumps(found, allow_nan=False)) == {
        "name": "tiny",
        "title": "A tiny result",
        "version": __version__,
        "seed": 4,
        "repeats": 3,
        "quick": True,
        "dataset": "digits",
        "claims": [
            {
                "claim": "it is 2 & more",
                "paper": 2,
                "measured": 2.5,
                "unit": "s",
                "holds": True,
                "interval": [2.25, 2.75],
                "why": "",
            },
            {
                "claim": "it is <small>",
                "paper": None,
                "measured": "large",
                "unit": "",
                "holds": False,
                "interval": None,
                "why": "it grew",
            },
        ],
        "rows": [
            {"K": 2, "time": {"value": 2.5, "low": 2.25, "high": 2.75}, "note": "none"},
            {"K": 4, "time": None, "note": "infeasible"},
        ],
        "notes": ["Assumed: nothing."],
    }


def test_numbers_without_an_end_are_null() -> None:
    rows = ({"one": Interval(2.0, -math.inf, math.inf), "none": math.nan},)
    (row,) = to_json(result(rows=rows), Settings())["rows"]
    assert row == {"one": {"value": 2.0, "low": None, "high": None}, "none": None}


def test_what_does_not_hold_has_to_say_why() -> None:
    with pytest.raises(ConfigurationError, match="does not hold and does not say why"):
        Claim(claim="it is 2", paper=2, measured=3.0, holds=False)


def test_bounds_of_one_measurement_are_not_known() -> None:
    assert bounds(Interval(2.0, 1.0, 3.0)) == (1.0, 3.0)
    assert bounds(Interval(2.0, -math.inf, math.inf)) is None


def test_a_claim_in_words() -> None:
    assert [verdict(HELD), verdict(FAILED)] == ["holds", "does not hold"]
    assert [measured(HELD), measured(FAILED)] == ["2.5 s (2.25 to 2.75)", "large"]
    assert [published(HELD), published(FAILED)] == ["2", "says nothing"]
