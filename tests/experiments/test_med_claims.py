"""The sentences about Fig. 4.1 to 4.10, held against numbers made up by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from axon.experiments import med_emulated, med_learners, med_tasks
from axon.experiments.med_claims import claims_of, lowered, raised
from axon.experiments.med_sweep import Found, Sweep, figure_of, rows_of
from axon.experiments.med_trial import WAYS, Outcome, Way
from axon.experiments.result import Claim

LEARNERS = Sweep(across="learners", places=(4, 10), budget=300.0)
TASKS = Sweep(across="tasks", places=(1, 4), budget=200.0, longer_s=5.0)


def made(
    time_s: float, satisfaction: float, fulfilment: float, occupancy: float, relaxed: float = 0.0
) -> Outcome:
    return Outcome(
        time_s=time_s,
        satisfaction=satisfaction,
        fulfilment=fulfilment,
        dropped=100.0 - fulfilment,
        occupancy=occupancy,
        relaxed=relaxed,
    )


BETTER = {
    "MMTT-Ideal": (made(30, 100, 100, 95), made(15, 100, 100, 90)),
    "MED": (made(34, 92, 97, 88), made(19, 98, 99.5, 80)),
    "MMTT-Uncertain": (made(40, 80, 92, 82), made(24, 90, 96, 75)),
    "MED, learnt": (made(35, 91, 96.5, 88), made(19.5, 97, 99, 80)),
}


def found(sweep: Sweep, outcomes: dict[str, tuple[Outcome, Outcome]], *, repeats: int = 6) -> Found:
    """As many repeats, a little apart."""

    def shifted(one: Outcome, by: float) -> Outcome:
        return replace(one, time_s=one.time_s * (1 + by / 100))

    return Found(
        sweep,
        tuple(
            {
                (place, way): shifted(outcomes[way][at], by)
                for way in WAYS
                for at, place in enumerate(sweep.places)
            }
            for by in range(repeats)
        ),
    )


def verdicts(claims: tuple[Claim, ...]) -> dict[str, bool]:
    return {claim.claim: claim.holds for claim in claims}


def test_what_the_thesis_found_holds() -> None:
    claims = claims_of(found(LEARNERS, BETTER), med_learners.PUBLISHED)
    assert len(claims) == 21
    assert [claim.claim for claim in claims if not claim.holds] == []


def test_with_tasks_everything_goes_the_other_way() -> None:
    turned = {way: ends[::-1] for way, ends in BETTER.items()}
    holds = verdicts(claims_of(found(TASKS, turned), med_tasks.PUBLISHED))
    directions = [
        "the training time rises with",
        "the satisfaction ratio falls with",
        "the task fulfilment falls with",
        "the data drop rate rises with",
        "the occupancy rises with",
    ]
    for start in directions:
        assert [value for claim, value in holds.items() if claim.startswith(start)] == [True]
    assert holds["MED's occupancy is above MMTT-Uncertain's"]
    wrong = verdicts(claims_of(found(TASKS, BETTER), med_tasks.PUBLISHED))
    for start in directions:
        assert [value for claim, value in wrong.items() if claim.startswith(start)] == [False]


def test_where_the_schemes_change_places_nothing_holds_of_them() -> None:
    swapped = BETTER | {"MED": BETTER["MMTT-Uncertain"], "MMTT-Uncertain": BETTER["MED"]}
    claims = claims_of(found(LEARNERS, swapped), med_learners.PUBLISHED)
    compared = [claim for claim in claims if "MMTT-Uncertain's" in claim.claim]
    assert len(compared) == 10
    assert not any(claim.holds for claim in compared)
    holds = verdicts(claims)
    assert not holds["MED's training time is at most 32 % above MMTT-Ideal's"]
    assert not holds["MED's satisfaction ratio is at most 10 points behind MMTT-Ideal's"]


def test_the_scheme_that_goes_least_decides_on_a_direction() -> None:
    steady: tuple[Outcome, Outcome] = (made(34, 92, 97, 88), made(34.5, 92, 97, 88))
    claims = claims_of(found(LEARNERS, BETTER | {"MED": steady}), med_learners.PUBLISHED)
    falls = next(claim for claim in claims if claim.claim.startswith("the training time falls"))
    assert not falls.holds
    assert falls.measured == pytest.approx(0.5 * 1.025)


def test_an_ideal_near_perfect_throughout_decides_on_no_direction() -> None:
    nearly = BETTER | {"MMTT-Ideal": (made(30, 99, 99.9, 95), made(15, 98, 99.8, 90))}
    holds = verdicts(claims_of(found(LEARNERS, nearly), med_learners.PUBLISHED))
    assert holds["the satisfaction ratio rises with the number of learners in all schemes"]
    far = BETTER | {"MMTT-Ideal": (made(30, 94, 99.9, 95), made(15, 93, 99.8, 90))}
    holds = verdicts(claims_of(found(LEARNERS, far), med_learners.PUBLISHED))
    assert not holds["the satisfaction ratio rises with the number of learners in all schemes"]
    assert holds["the task fulfilment rises with the number of learners in all schemes"]


def test_one_repeat_shows_nothing() -> None:
    claims = claims_of(found(LEARNERS, BETTER, repeats=1), med_learners.PUBLISHED)
    assert not any(claim.holds for claim in claims if "MMTT-Uncertain" in claim.claim)


def test_nothing_is_lowered_where_there_is_nothing() -> None:
    assert lowered([0.0, 0.0], [0.0, 0.0]).value == 0.0
    assert lowered([1.0, 3.0], [4.0, 4.0]).value == pytest.approx(50.0)
    assert raised([6.0, 6.0], [4.0, 4.0]).value == pytest.approx(50.0)


def test_rows_and_figure_have_every_way_at_every_place() -> None:
    measured = found(LEARNERS, BETTER)
    rows = rows_of(measured)
    assert [(row["learners"], row["scheme"]) for row in rows] == [
        (place, way) for place in (4, 10) for way in WAYS
    ]
    figure = figure_of(measured, "title")
    assert figure.panels[0].y_label == "training time [s]"
    assert [series.label for series in figure.panels[4].series] == list(WAYS)


def test_over_all_is_the_mean_of_the_places() -> None:
    way: Way = "MED"
    measured = found(LEARNERS, BETTER, repeats=2)
    assert measured.over_all(way, "satisfaction") == [95.0, 95.0]
    relaxed = BETTER | {"MED": (made(34, 92, 97, 88, 50.0), BETTER["MED"][1])}
    assert found(LEARNERS, relaxed).relaxed(4, "MED") == 50.0


def test_a_sweep_over_tasks_adds_them_in_order_with_longer_deadlines() -> None:
    trial = TASKS.trial(0, 4)
    assert [(one.name, one.deadline_s) for one in trial.requests] == [
        ("MNIST_FFN", 60.0),
        ("MNIST_CNN", 45.0),
        ("Fashion", 45.0),
        ("Fashion_2", 45.0),
    ]
    assert (trial.learners, trial.budget) == (10, 200.0)
    assert len(LEARNERS.trial(0, 4).requests) == 3
    assert LEARNERS.trial(0, 4).learners == 4


def test_the_spot_check_holds_within_a_tenth() -> None:
    simulated = made(10, 100, 100, 90)
    near = med_emulated.compared(simulated, made(10.9, 100, 100, 90))
    far = med_emulated.compared(simulated, made(11.1, 100, 100, 90))
    assert near.claim.holds
    assert not far.claim.holds
    assert near.claim.measured == pytest.approx(9.0)
    assert [row["training time [s]"] for row in near.rows] == [10, 10.9]
