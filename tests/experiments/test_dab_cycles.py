"""Fig. 3.4 and 3.5 again: a short run of it, its claims, and what its two schemes share."""

from __future__ import annotations

import json
import math

import pytest
import torch

from axon.allocation.csa import StalenessAware
from axon.experiments import dab_cycles
from axon.experiments.dab_cycles import FLEETS, THESIS, Setting
from axon.experiments.dab_cycles_claims import claims_of
from axon.experiments.mnist import shard_samples
from axon.experiments.result import Claim, Result, to_json
from axon.experiments.runs import accuracy, loss
from axon.experiments.settings import Settings, load_dataset
from axon.experiments.thesis import LOSSES, Pair, csa, twice
from tests.experiments.cycles import trained

pytestmark = pytest.mark.slow  # All together they take seconds.

SHORT = Settings(quick=True, repeats=1)


@pytest.fixture(scope="module")
def result() -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dab_cycles, "QUICK_CYCLES", 2)
        return dab_cycles.run(SHORT)


@pytest.mark.slow
def test_its_rows_are_every_cycle_of_both_fleets_and_losses(result: Result) -> None:
    places = [(row["fleet"], row["loss of"], row["cycle"]) for row in result.rows]
    assert places == [
        (fleet, reading, cycle) for reading in LOSSES for fleet in FLEETS for cycle in (1, 2)
    ]
    for row in result.rows:
        assert all(
            row[f"{name} {label}"] for name in ("DAB", "CSA") for label in ("loss", "samples")
        )


@pytest.mark.slow
def test_its_json_figure_and_notes_are_whole(result: Result) -> None:
    found = json.loads(json.dumps(to_json(result, SHORT), allow_nan=False))
    assert (found["name"], found["dataset"], len(found["claims"])) == ("dab-cycles", "digits", 11)
    assert result.figure is not None
    assert [panel.y_label for panel in result.figure.panels] == ["loss"] * 2 + ["accuracy [%]"] * 2
    assert any("grace" in note for note in result.notes)
    assert any("not the thesis's regime" in note for note in result.notes)
    assert any("a slack of 5 %" in note for note in result.notes)
    assert any("believes it ever after" in note for note in result.notes)


def test_csa_is_that_of_its_paper_which_has_no_slack() -> None:
    assert csa().allocate == StalenessAware(slack=0.0) != StalenessAware()


def found(ours: list[tuple[float, float]], theirs: list[tuple[float, float]]) -> dict[str, Claim]:
    """The claims where both fleets did the same, twice."""
    pair = Pair(trained(ours, ours, samples=30), trained(theirs, theirs, samples=10))
    return {claim.claim: claim for claim in claims_of(dict.fromkeys(FLEETS, pair))}


def test_the_thesis_s_curves_hold() -> None:
    claims = found(
        [(0.80, 1.00), (0.85, 0.95), (0.92, 0.62), (0.94, 0.52)],
        [(0.80, 1.01), (0.84, 0.96), (0.93, 0.60), (0.955, 0.50)],
    )
    assert len(claims) == 11
    assert [claim for claim in claims.values() if not claim.holds] == []
    lead = claims["early, DAB's loss is below CSA's with the three Pis and the Nano"]
    assert lead.measured == pytest.approx(-100 * (0.01 / 1.01 + 0.01 / 0.96) / 2)
    late = claims["late, DAB's accuracy is at most 2 points below CSA's with Pi1 and the Nano"]
    assert late.measured == pytest.approx(-1.25)


def test_other_curves_do_not_and_say_how_much_was_trained() -> None:
    claims = found([(0.5, 2.0), (0.5, 2.0)], [(0.8, 1.0), (0.94, 0.5)])
    failed = [claim for claim in claims.values() if not claim.holds]
    assert len(failed) == 10
    close = claims["early, DAB's loss is close to CSA's with Pi1 and the Nano"]
    assert close.measured == pytest.approx(100.0)
    assert "DAB trains on 30 samples and CSA on 10" in close.why


def test_what_the_repeats_do_not_agree_on_is_not_shown() -> None:
    even = [(0.8, 1.0), (0.9, 0.5)]
    pair = Pair(trained([(0.9, 0.8), (0.9, 0.5)], even), trained(even, even))
    claims = {claim.claim: claim for claim in claims_of(dict.fromkeys(FLEETS, pair))}
    lead = claims["early, DAB's loss is below CSA's with the three Pis and the Nano"]
    assert lead.measured == pytest.approx(-10.0)
    assert not lead.holds
    assert lead.why.startswith("not shown: the interval has 0 in it")


def test_gaps_are_taken_seed_by_seed() -> None:
    # The seeds differ much, the schemes by the same in both.
    pair = Pair(trained([(0.5, 2.2)], [(0.9, 1.1)]), trained([(0.4, 2.0)], [(0.8, 1.0)]))
    for gaps in (pair.gaps(accuracy), pair.gaps(loss, relative=True)):
        assert [each[0] for each in gaps] == pytest.approx([10.0, 10.0])


def test_a_small_data_set_is_cut_into_as_many_shards_with_a_shorter_deadline() -> None:
    dataset, _ = load_dataset(SHORT)
    run = Setting(dataset, 3).run("twonn", seed=1)
    assert (run.shard_samples, run.deadline_s, run.grace_s) == (12, 1.5, 6.0)
    assert (shard_samples(60_000), shard_samples(15_000), shard_samples(7)) == (500, 125, 1)


def test_a_softmax_taken_twice_has_the_floor_of_the_thesis_s_losses() -> None:
    sure = torch.tensor([[50.0] + [0.0] * 9])
    assert float(twice(sure, torch.tensor([0]))) == pytest.approx(math.log(1 + 9 / math.e))
    assert next(iter(LOSSES)) == THESIS
