"""Fig. 3.6 to 3.8 again: a short run of it, its claims, and the runs behind them."""

from __future__ import annotations

import json

import pytest

from axon.data.datasets import load
from axon.experiments import dab_deadline
from axon.experiments.dab_deadline_claims import PUBLISHED, RELATIVE, USED, Found, claims_of
from axon.experiments.dab_deadline_runs import (
    CYCLES,
    WAYS,
    Bench,
    relative,
    shards,
    total_s,
    trained,
    truancy,
    worst,
)
from axon.experiments.result import Result, to_json
from axon.experiments.runs import Repeats, untrained
from axon.experiments.settings import Settings
from axon.experiments.thesis import LOSSES
from tests.experiments import cycles

SHORT = Settings(quick=True)
BENCH = Bench(load("digits"))
ENDS = {21.0: 21.0, 30.0: 30.0}


@pytest.fixture(scope="module")
def result() -> Result:
    """The quick look, without its training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dab_deadline, "TIMED", 1)
        patch.setattr(dab_deadline, "accelerated", lambda: (untrained, "cpu"))
        return dab_deadline.run(SHORT)


@pytest.mark.slow
def test_its_rows_are_every_way_at_both_ends_in_every_world(result: Result) -> None:
    places = [(row["deadlines"], row["scheme"]) for row in result.rows]
    assert places == [
        (world, name) for world in (PUBLISHED, RELATIVE, USED) for _ in ENDS for name in WAYS
    ]
    with_accuracy = [row for row in result.rows if "accuracy [%], softmax twice" in row]
    assert {row["deadlines"] for row in with_accuracy} == {PUBLISHED}
    assert len(with_accuracy) == 4


@pytest.mark.slow
def test_dab_keeps_the_deadline_and_csa_does_not(result: Result) -> None:
    verdicts = {claim.claim: claim.holds for claim in result.claims}
    assert verdicts["at the tightest deadline DAB is at most 7 % late"]
    assert verdicts["at the tightest deadline CSA is 63 % late, or more"]
    assert verdicts["DAB as shipped keeps every deadline while owners use their devices"]


@pytest.mark.slow
def test_its_json_figure_and_notes_are_whole(result: Result) -> None:
    found = json.loads(json.dumps(to_json(result, SHORT), allow_nan=False))
    assert (found["name"], found["dataset"], len(found["claims"])) == ("dab-deadline", "digits", 9)
    assert result.figure is not None
    assert len(result.figure.panels) == 4
    assert any("estimated from CSA's 172 s" in note for note in result.notes)
    assert any("1,500 samples of digits" in note for note in result.notes)


def measured(
    ours_s: float, theirs_s: float, accuracies: tuple[float, float], losses: tuple[float, float]
) -> Found:
    """Cycles of so many seconds at both deadlines, and what training came to at the tighter."""
    taken = {"DAB": min(ours_s, 21.0), "DAB, not halted": ours_s, "CSA": theirs_s}
    times = {
        (each_s, name): cycles.timed(each_s, [took_s] * CYCLES)
        for each_s in ENDS
        for name, took_s in taken.items()
    }
    ends: dict[tuple[str, float, str], Repeats] = {}
    for reading in LOSSES:
        for name, right, wrong in zip(("DAB", "CSA"), accuracies, losses, strict=True):
            ends[reading, 21.0, name] = cycles.trained([(right, wrong)], [(right, wrong)])
            ends[reading, 30.0, name] = cycles.trained([(0.95, 1.5)], [(0.95, 1.5)])
    worlds = (PUBLISHED, RELATIVE, USED)
    return Found(dict.fromkeys(worlds, ENDS), dict.fromkeys(worlds, times), ends)


def test_the_thesis_s_numbers_hold() -> None:
    claims = claims_of(measured(22.47, 34.3, (0.91, 0.95), (1.53, 1.50)))
    assert len(claims) == 9
    assert [claim.claim for claim in claims if not claim.holds] == []
    found = [claim.measured for claim in claims[:3]]
    assert found == pytest.approx([7.0, 63.3333, 52.6480], abs=1e-3)


def test_other_numbers_do_not() -> None:
    claims = claims_of(measured(23.0, 36.0, (0.90, 0.85), (1.60, 1.50)))
    assert [claim.holds for claim in claims] == [
        *(False, True, False),
        True,
        *(False, False),
        *(False, True, False),
    ]


def test_deadlines_are_relative_to_what_everything_takes() -> None:
    takes_s = BENCH.share_s()
    assert relative(BENCH, [17.2, 34.4]) == pytest.approx({17.2: takes_s / 2, 34.4: takes_s})


def test_without_halting_the_allocation_alone_decides() -> None:
    deadline_s = BENCH.share_s() * 0.6
    kept, free, dealt = (BENCH.timed(way, deadline_s, seed=1) for way in WAYS.values())
    assert worst(kept) <= 0.0
    assert shards(dealt) == 125
    assert 20 < shards(kept) < 100
    assert shards(kept) == shards(free)
    assert total_s(dealt) == pytest.approx(CYCLES * BENCH.share_s(), rel=0.01)
    assert truancy(dealt) == pytest.approx(100 / 0.6 - 100, abs=2.0)


def test_what_would_be_the_same_is_trained_once() -> None:
    told: list[str] = []
    goals = relative(BENCH, ENDS)
    settings = Settings(progress=told.append)
    found = trained(BENCH, goals, 1, settings, untrained)
    assert set(found) == {
        (way, each, name) for way in LOSSES for each in ENDS for name in ("DAB", "CSA")
    }
    for reading in LOSSES:
        tight, long = (found[reading, each, "CSA"].runs[0] for each in ENDS)
        assert tight is long
        assert found[reading, 21.0, "DAB"].runs[0] is not found[reading, 30.0, "DAB"].runs[0]
        assert tight[-1].accuracy is not None
    assert len(told) == 8
