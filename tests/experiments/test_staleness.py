"""Fig. 2 again: the quick look, its claims, and the learners it is about."""

from __future__ import annotations

import json

import pytest

from axon.allocation.staleness import StalenessPlan
from axon.experiments import staleness
from axon.experiments.placements import SCHEMES, Found, Setup, placed, plan
from axon.experiments.result import Result, to_json
from axon.experiments.settings import Settings
from axon.experiments.staleness_claims import claims_of
from axon.intervals import Interval

QUICK = Settings(quick=True)


@pytest.fixture(scope="module")
def result() -> Result:
    return staleness.run(QUICK)


def test_its_json_has_every_claim(result: Result) -> None:
    found = json.loads(json.dumps(to_json(result, QUICK), allow_nan=False))
    claims = [claim["claim"] for claim in found["claims"]]
    assert len(claims) == len(set(claims)) == 13
    for part in ("at K = 20, T = 7.5 s", "K = 18, T = 7.5 s", "K = 14, T = 15 s", "SAI"):
        assert any(part in claim for claim in claims), part
    assert all(claim["why"] for claim in found["claims"] if not claim["holds"])
    assert (found["name"], found["repeats"], found["dataset"]) == ("staleness", 3, None)


def test_the_exact_search_is_never_worse(result: Result) -> None:
    (claim,) = [claim for claim in result.claims if "never worse" in claim.claim]
    assert (claim.holds, claim.measured) == (True, 0.0)


def plans(*epochs: tuple[int, ...]) -> dict[str, StalenessPlan]:
    """A plan for each scheme whose learners do so many epochs."""
    return {
        scheme: StalenessPlan(
            samples=(1,) * len(each),
            epochs=each,
            max_staleness=max(each) - min(each),
            average_staleness=0.5,
        )
        for scheme, each in zip(SCHEMES, epochs, strict=True)
    }


def made_up(*placements: dict[str, StalenessPlan]) -> Found:
    """The same plans for both periods and for every cited number of learners."""
    return Found(
        {
            (period_s, count, scheme): tuple(each[scheme] for each in placements)
            for period_s in staleness.PERIODS_S
            for count in (14, 18, 20)
            for scheme in SCHEMES
        }
    )


def test_a_placement_is_one_number() -> None:
    level, apart = plans((2, 2), (2, 2), (2, 2), (1, 5)), plans((2, 3), (2, 3), (1, 5), (1, 5))
    wide, tight = made_up(level, level), made_up(level, apart)
    claims = {claim.claim: claim for claim in claims_of(wide, tight)}
    similar = claims["SAI is about as stale as the numerical solution, with tight bounds"]
    # 0 and 3 epochs apart in each of six problems: two numbers, not twelve.
    assert similar.measured == pytest.approx(1.5)
    assert similar.interval == pytest.approx((1.5 - 12.706205 * 1.5, 1.5 + 12.706205 * 1.5))
    assert similar.why.startswith("not shown: the interval has 0.5 in it")
    assert claims["there is none at K = 14, T = 15 s"].measured == 100.0
    some = claims["for certain numbers of learners there is no staleness at all"]
    assert (some.measured, some.holds) == (100.0, True)
    flat = claims["the staleness of ETA rises with the number of learners at T = 7.5 s"]
    assert (flat.measured, flat.holds) == (0.0, False)


def test_a_row_says_who_could_not_do_it(result: Result) -> None:
    rows = {(row["T [s]"], row["K"]): row for row in result.rows}
    assert len(rows) == len(staleness.PERIODS_S) * len(staleness.QUICK_LEARNERS)
    # 10,000 samples take a small board 16 s: an equal share fits into neither period.
    crowded = rows[7.5, 6]
    assert "ETA" in str(crowded["infeasible"])
    assert crowded["ETA max"] is crowded["ETA avg"] is None
    roomy = rows[7.5, 20]
    assert roomy["infeasible"] == "none"
    assert isinstance(roomy["ETA max"], Interval)


def test_the_notes_name_what_was_assumed_and_how_much_hangs_on_it(result: Result) -> None:
    assert "Assumed" in result.notes[0]
    assert len(result.notes) == 1 + len(staleness.VARIATIONS)
    assert sum("bounds" in note for note in result.notes) == 3


def test_the_figure_has_every_scheme_in_every_panel(result: Result) -> None:
    assert result.figure is not None
    assert [panel.title for panel in result.figure.panels] == ["T = 7.5 s", "T = 15 s"] * 2
    for panel in result.figure.panels:
        assert [series.label for series in panel.series] == [
            *SCHEMES,
            "exact, 0.5 to 1.5 equal shares",
        ]


def test_the_same_seed_places_the_same_learners_and_more_change_none() -> None:
    few, many = placed(Setup(), 4, 7, 1), placed(Setup(), 8, 7, 1)
    assert many[:4] == few
    assert placed(Setup(), 4, 8, 1) != few != placed(Setup(), 4, 7, 2)
    # Operations over clocks: 2.4 GHz and 700 MHz in turn.
    assert [time.per_sample_epoch_s for time in few] == pytest.approx(
        [1_123_736 / 2.4e9, 1_123_736 / 7e8] * 2
    )


def test_bounds_are_shares_of_an_equal_part() -> None:
    assert Setup().bounds(20) == (300, 6000)
    assert Setup().bounds(1) == (6000, 60_000)
    assert Setup(least_share=0.0, most_share=float("inf")).bounds(20) == (1, 60_000)


def test_a_plan_keeps_to_the_problem_or_is_none() -> None:
    times = placed(Setup(), 20, 0, 0)
    for scheme in SCHEMES:
        found = plan(scheme, times, Setup(), 7.5)
        assert found is not None
        assert sum(found.samples) == 60_000
        assert found.max_staleness == max(found.epochs) - min(found.epochs)
        assert plan(scheme, times, Setup(), 1.0) is None
