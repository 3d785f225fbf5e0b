"""Results as values and as JSON."""

from __future__ import annotations

import json
import math

import pytest

from axon.errors import ConfigurationError
from axon.experiments.result import (
    ABOVE_ZERO,
    BELOW_ZERO,
    Claim,
    Side,
    bounds,
    judged,
    line,
    measured,
    published,
    to_json,
    verdict,
)
from axon.experiments.settings import Settings
from axon.intervals import Interval
from axon.report.figures import Point
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


@pytest.mark.parametrize(
    ("low", "high", "side", "verdict"),
    [
        (5.0, 7.0, Side(most=7.0), "holds"),
        (5.0, 7.1, Side(most=7.0), "not shown: the interval has 7 in it; because"),
        # The value is in favour, and that does not count.
        (-9.0, 8.0, Side(most=7.0), "not shown: the interval has 7 in it; because"),
        (7.1, 9.0, Side(most=7.0), "because"),
        (-2.0, 2.0, Side(-2.0, 2.0), "holds"),
        (-3.0, 3.0, Side(-2.0, 2.0), "not shown: the interval has -2 and 2 in it; because"),
        (2.1, 3.0, Side(-2.0, 2.0), "because"),
        (0.1, 1.0, ABOVE_ZERO, "holds"),
        (0.0, 1.0, ABOVE_ZERO, "not shown: the interval has 0 in it; because"),
        (0.0, 0.0, ABOVE_ZERO, "because"),
        (-1.0, -0.1, BELOW_ZERO, "holds"),
        (-1.0, 0.0, BELOW_ZERO, "not shown: the interval has 0 in it; because"),
        (3.0, math.inf, ABOVE_ZERO, "holds"),
        (-math.inf, math.inf, ABOVE_ZERO, "not shown: these repeats give no interval; because"),
    ],
)
def test_a_claim_holds_where_the_whole_of_its_interval_does(
    low: float, high: float, side: Side, verdict: str
) -> None:
    value = (low + high) / 2 if math.isfinite(low + high) else 5.0
    claim = judged("it", Interval(value, low, high), side, paper=1, unit="s", why="because")
    assert claim.holds == (verdict == "holds")
    assert claim.why == ("because" if claim.holds else verdict)
    assert (claim.paper, claim.measured, claim.unit) == (1, value, "s")


def test_bounds_of_a_claim_may_be_known_on_one_side() -> None:
    said = [
        measured(judged("it", Interval(2.0, low, high), Side(), unit="s"))
        for low, high in ((1.0, math.inf), (-math.inf, 3.0), (-math.inf, math.inf))
    ]
    assert said == ["2 s (at least 1)", "2 s (at most 3)", "2 s"]
    unknown = judged("it", Interval(math.nan, 1.0, math.inf), ABOVE_ZERO, unit="s")
    assert (measured(unknown), unknown.holds) == ("not known (at least 1)", True)
    (claim,) = to_json(result(claims=(unknown,)), Settings())["claims"]
    assert (claim["measured"], claim["interval"]) == ("not known", [1.0, None])


def test_a_line_goes_over_the_cycles_unless_told_otherwise() -> None:
    curve = [Interval(1.5, 1.0, 2.0), Interval(2.5, -math.inf, math.inf)]
    assert line("it", curve).points == (Point(1, 1.5, 1.0, 2.0), Point(2, 2.5, None, None))
    assert [point.x for point in line("it", curve, [7.5, 15.0]).points] == [7.5, 15.0]


def test_a_notebook_shows_claims_notes_and_rows() -> None:
    shown = result(title="A <b> result")._repr_html_()
    assert shown.startswith("<h4>A &lt;b&gt; result</h4><table>")
    assert "<td>it is &lt;small&gt;</td><td>says nothing</td><td>large</td>" in shown
    assert "<td>does not hold</td><td>it grew</td>" in shown
    assert "<p>Assumed: nothing.</p>" in shown
    assert "2.50 ± 0.25" in shown


def test_rows_are_a_frame() -> None:
    pytest.importorskip("pandas")
    frame = result().to_pandas()
    assert list(frame.columns) == ["K", "time", "time low", "time high", "note"]
    assert frame.iloc[0].to_list() == [2, 2.5, 2.25, 2.75, "none"]
    assert math.isnan(frame["time"][1])
    assert math.isnan(frame["time low"][1])
