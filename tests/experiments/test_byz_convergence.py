"""Fig. 3.4 again: what is made of six systems' accuracies, and a short look."""

from __future__ import annotations

import json
import math

import pytest

from axon.experiments import byz_convergence
from axon.experiments.byz_convergence_claims import Found, claims_of, shown_steps
from axon.experiments.byzantine_world import SYSTEMS, Course
from axon.experiments.result import Claim, Result, to_json
from axon.experiments.settings import Settings


def runs(*ends: float, soon: float = 100.0) -> tuple[Course, ...]:
    """Accurate enough after `soon` steps, and in the end as given."""
    return tuple(Course((int(soon), 1000), (85.0, end)) for end in ends)


def found_of(**changes: tuple[Course, ...]) -> Found:
    """All alike but for the changes, a low line in the place of a hyphen."""
    alike = dict.fromkeys(SYSTEMS, runs(92.0, 93.0, 94.0))
    return Found(alike | {name.replace("_", "-"): each for name, each in changes.items()})


def claims(**changes: tuple[Course, ...]) -> dict[str, Claim]:
    return {claim.claim: claim for claim in claims_of(found_of(**changes))}


def test_where_all_are_alike_nothing_is_lost_and_nobody_loses_most() -> None:
    told = claims()
    assert len(told) == 10
    assert [name for name, claim in told.items() if not claim.holds] == [
        "decentralised and asynchronous loses the most"
    ]


def test_points_are_lost_against_vanilla_from_the_same_seed() -> None:
    told = claims(MSMW=runs(91.0, 92.1, 92.9), decentralised=runs(89.0, 90.1, 90.9))
    near = told["MSMW ends at most 2 points below vanilla"]
    far = told["decentralised ends at most 2 points below vanilla"]
    assert (near.holds, far.holds) == (True, False)
    assert near.measured == pytest.approx(1.0)
    most = told["decentralised and asynchronous loses the most"]
    assert most.holds
    assert most.measured == pytest.approx(2.0)
    assert most.unit == "points more than MSMW"


def test_crash_tolerant_may_lose_next_to_nothing() -> None:
    told = claims(crash_tolerant=runs(91.0, 92.0, 93.0))
    claim = told["crash-tolerant ends no lower than vanilla, to 0.5 points"]
    assert (claim.holds, claim.measured) == (False, 1.0)


def test_steps_are_counted_beside_crash_tolerant() -> None:
    told = claims(SSMW=runs(92.0, 93.0, 94.0, soon=103.0), MSMW=runs(92.0, 93.0, 94.0, soon=90.0))
    late = told["SSMW takes at most 1 % more steps to 85 % than crash-tolerant"]
    early = told["MSMW takes at most 1 % more steps to 85 % than crash-tolerant"]
    assert (late.holds, early.holds) == (False, True)
    assert late.measured == pytest.approx(3.0)
    assert late.interval == pytest.approx((3.0, 3.0))
    assert early.measured == pytest.approx(-10.0)
    assert late.why == "steps: 103 against 100"


def test_who_never_gets_there_is_not_known_to_be_as_soon() -> None:
    bad = (*runs(92.0, 93.0), Course((10,), (60.0,)))
    told = claims(SSMW=bad)
    claim = told["SSMW takes at most 1 % more steps to 85 % than crash-tolerant"]
    assert (claim.holds, claim.measured, claim.interval) == (False, "not known", None)
    assert found_of(SSMW=bad).more_steps("MSMW") is not None
    assert found_of(SSMW=bad).more_steps("SSMW") is None


def test_steps_are_a_mean_beside_how_many_got_there() -> None:
    assert shown_steps([40.0, 40.0]) == "40"
    assert shown_steps([40.0, None]) == "40 (1/2)"
    assert shown_steps([None, None]) == "never"
    assert math.isfinite(float(shown_steps([41.0])))


@pytest.fixture(scope="module")
def result() -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byz_convergence, "QUICK_STEPS", 3)
        return byz_convergence.run(Settings(quick=True, repeats=1))


@pytest.mark.slow
def test_its_rows_and_curves_are_all_systems(result: Result) -> None:
    assert [row["system"] for row in result.rows] == list(SYSTEMS)
    assert [row["gradients"] for row in result.rows] == [
        "8 of 8", "8 of 8", "7 of 8", "7 of 8", "8 of 8", "7 of 8"
    ]  # fmt: skip
    assert result.rows[0]["points lost"] is None
    assert result.figure is not None
    (panel,) = result.figure.panels
    assert [series.label for series in panel.series] == list(SYSTEMS)
    assert [point.x for point in panel.series[0].points] == [3]


@pytest.mark.slow
def test_its_json_and_notes_are_whole(result: Result) -> None:
    found = json.loads(json.dumps(to_json(result, Settings(quick=True)), allow_nan=False))
    assert (found["name"], len(found["claims"])) == ("byz-convergence", 10)
    assert "8 workers or peers" in result.notes[1]
