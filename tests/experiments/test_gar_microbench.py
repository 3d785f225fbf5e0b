"""Fig. 3.3 again: the rules are timed, and what their growth says."""

from __future__ import annotations

import json

import pytest
import torch

from axon.experiments import gar_microbench
from axon.experiments.gar_microbench import RULES, borne, timings
from axon.experiments.gar_microbench_claims import AVERAGE, Found, Timing, claims_of, exponent
from axon.experiments.result import Claim, to_json
from axon.experiments.settings import Settings

PLACES = [(n, 1000) for n in (7, 15, 23)]
SIZES = [(17, d) for d in (100, 500, 1000)]


def made_up(
    power: float, *, median: float = 1.5, by_size: float = 1.0, spread: float = 0.0
) -> Found:
    """Three repeats of times that grow with that power of n; the average's grow linearly."""

    def timing(n: int, d: int) -> Timing:
        size_s = 1e-6 * d**by_size
        seconds = dict.fromkeys(RULES, size_s * n**power)
        seconds |= {AVERAGE: size_s * n, "median": median * size_s * n}
        grown = n**spread
        return {rule: [each / grown, each, each * grown] for rule, each in seconds.items()}

    return Found(
        over_counts={place: timing(*place) for place in PLACES},
        over_sizes={place: timing(*place) for place in SIZES},
    )


def claims(found: Found) -> dict[str, Claim]:
    return {claim.claim: claim for claim in claims_of("cpu", found)}


def test_a_power_law_has_its_exponent() -> None:
    assert exponent([1, 2, 5], [3, 12, 75]) == pytest.approx(2.0)
    assert exponent([1, 10], [5, 5]) == pytest.approx(0.0)


def test_the_strictest_rule_bears_as_many_as_the_paper_says() -> None:
    assert [borne(n) for n in (7, 11, 17, 23)] == [1, 2, 3, 5]


def test_what_the_paper_says_holds_of_times_like_its_own() -> None:
    assert [claim for claim, each in claims(made_up(1.9)).items() if not each.holds] == []


@pytest.mark.parametrize(
    ("found", "fails"),
    [
        (made_up(2.3), "the time of Bulyan grows at most quadratically with n on cpu"),
        (
            made_up(1.5, median=3.0),
            "the median takes at most 2 times as long as the average on cpu",
        ),
        (made_up(1.5, by_size=1.4), "the time of MDA grows linearly with d on cpu"),
        (
            made_up(1.9, spread=0.2),
            "the time of Multi-Krum grows at most quadratically with n on cpu",
        ),
    ],
)
def test_what_does_not_hold_or_may_be_chance_says_so(found: Found, fails: str) -> None:
    claim = claims(found)[fails]
    assert not claim.holds
    assert claim.why


def test_every_rule_is_timed_at_every_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gar_microbench, "AT_LEAST_S", 0.0)
    found = timings(torch.randn(11, 200), [(7, 200), (11, 100)], 2)
    assert list(found) == [(7, 200), (11, 100)]
    for timing in found.values():
        assert list(timing) == list(RULES)
        assert all(len(taken) == 2 and min(taken) > 0.0 for taken in timing.values())


@pytest.mark.slow
def test_a_quick_look_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gar_microbench, "AT_LEAST_S", 0.0)
    settings = Settings(quick=True, repeats=2)
    result = gar_microbench.run(settings)
    found = json.loads(json.dumps(to_json(result, settings), allow_nan=False))
    devices = 1 + torch.cuda.is_available()
    assert len(found["claims"]) == devices * (3 + 1 + 1 + len(RULES))
    assert len(found["rows"]) == devices * (3 + 4)
    assert result.figure is not None
    assert [len(panel.series) for panel in result.figure.panels] == [len(RULES)] * 2 * devices
