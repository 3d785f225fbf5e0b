"""Fig. 3.3 again: how downloads are timed, and what the quick look says."""

from __future__ import annotations

import json
from random import Random

import pytest

from axon.experiments import sb_download
from axon.experiments.result import Result, to_json
from axon.experiments.sb_download import SHARD_BYTES, Downloading, Path, Traffic, predict
from axon.experiments.sb_download_claims import METHODS, Errors, Found, claims_of
from axon.experiments.settings import Settings
from axon.intervals import Interval
from axon.rpc.link import Link
from axon.testbed import virtual

QUICK = Settings(quick=True, repeats=3)
SLOW = Link(latency_s=0.01, up_bytes_per_s=1e9, down_bytes_per_s=float(SHARD_BYTES))
"""A shard a second, and a hundredth to get there."""


@pytest.fixture(scope="module")
def result() -> Result:
    return sb_download.run(QUICK)


@pytest.mark.parametrize(("opens", "flights"), [(True, 4), (False, 2)])
def test_a_download_pays_for_its_bytes_its_flights_and_its_connection(
    opens: bool, flights: int
) -> None:
    downloading = Downloading(Path(SLOW, opens=opens), Random(0))
    took_s = virtual.run(downloading.seconds(3))
    assert took_s == pytest.approx(3.0 + flights * 0.01, rel=0.002)


def test_a_quiet_path_is_predicted_exactly_by_a_line_and_not_by_a_ratio() -> None:
    errors = virtual.run(predict(Path(SLOW), 2, Random(0)))
    assert errors["affine"] == pytest.approx(0.0, abs=1e-9)
    # 2.04 s for 2 shards are taken for 61.2 s, and it takes 60.04 s.
    assert errors["ratio"] == pytest.approx(1.16 / 60.04, rel=0.05)


def test_other_traffic_takes_its_part_of_the_wire() -> None:
    random, traffic = Random(1), Traffic(load=0.2, burst_bytes=1000)
    sizes = [traffic.beside(1_000_000, 1e6, random) for _ in range(50)]
    assert all(size % 1000 == 0 for size in sizes)
    # A second of our bytes lasts 1 / (1 - 0.2) s, for a fifth of which others send.
    assert sum(sizes) / len(sizes) == pytest.approx(250_000, rel=0.1)
    assert Traffic().beside(1_000_000, 1e6, random) == 0


def test_the_same_seed_gives_the_same_errors() -> None:
    path = sb_download.PATHS["WiFi"]
    once = sb_download.errors(path, 4, 3, seed=7)
    assert sb_download.errors(path, 4, 3, seed=7) == once
    assert sb_download.errors(path, 4, 3, seed=8) != once


def test_its_json_has_every_claim(result: Result) -> None:
    found = json.loads(json.dumps(to_json(result, QUICK), allow_nan=False))
    claims = [claim["claim"] for claim in found["claims"]]
    assert len(claims) == len(set(claims)) == 2 * 6 + 3
    for part in (
        "errs by 16 % on Ethernet",
        "errs by 32 % on WiFi",
        "at most 10 % on Ethernet",
        "at most 8 % on WiFi",
        "at most 5 %",
        "falls with the size",
        "no worse than the ratio at each size",
        "generally errs less on WiFi",
        "30 % less on WiFi",
    ):
        assert any(part in claim for claim in claims), part
    assert (found["name"], found["repeats"], found["dataset"]) == ("sb-download", 3, None)


def test_a_row_for_each_size_has_the_published_number_where_there_is_one(result: Result) -> None:
    rows = {(row["network"], row["shards"]): row for row in result.rows}
    assert len(rows) == 2 * 9
    assert rows["WiFi", 2]["paper [%]"] == 32.0
    assert rows["Ethernet", 10]["paper [%]"] == 10.0
    assert rows["WiFi", 5]["paper [%]"] is None
    assert all(
        isinstance(row[f"{method} [%]"], Interval) for row in result.rows for method in METHODS
    )


def test_the_figure_shows_both_fits_beside_what_was_published(result: Result) -> None:
    assert result.figure is not None
    assert [panel.title for panel in result.figure.panels] == ["Ethernet", "WiFi"]
    for panel in result.figure.panels:
        assert [len(series.points) for series in panel.series] == [9, 9, 2]
        assert panel.series[-1].style == "scatter"


def test_the_notes_name_what_was_assumed_and_how_much_hangs_on_it(result: Result) -> None:
    assert "Assumed" in result.notes[0]
    assert len(result.notes) == 2 + len(sb_download.VARIATIONS)


def made_up(change: float = 0.0) -> Found:
    """Errors as the thesis has them, twice; with another change on WiFi at the best size."""
    sizes = range(2, 11)
    wire: dict[int, list[float]] = {size: [17.0 - size * 0.7] * 2 for size in sizes}
    radio: dict[int, list[float]] = {size: [0.6 * wire[size][0]] * 2 for size in sizes}
    wire |= {2: [16.0, 16.0]}
    radio |= {2: [32.0, 32.0], 6: [0.6 * wire[6][0] + change, 0.6 * wire[6][0] - change]}
    return {
        kind: {size: {"ratio": each, "affine": [e / 4 for e in each]} for size, each in by.items()}
        for kind, by in (("Ethernet", wire), ("WiFi", radio))
    }


def test_the_thesis_s_numbers_hold() -> None:
    claims = claims_of(made_up(), {"Ethernet": 1.0, "WiFi": 1.0})
    assert [claim.claim for claim in claims if not claim.holds] == []


def test_what_chance_could_have_done_is_not_shown() -> None:
    claims = {each.claim: each for each in claims_of(made_up(3.0), {"Ethernet": 1.0, "WiFi": 1.0})}
    best = claims["with 6 shards SB errs by 30 % less on WiFi than on Ethernet"]
    assert best.measured == pytest.approx(40.0)
    assert not best.holds
    assert best.why.startswith("not shown: the interval has 30 in it")


def test_a_fit_that_is_worse_at_one_size_is_worse() -> None:
    found = made_up()
    worse: Errors = {"ratio": [1.0, 1.0], "affine": [1.5, 1.5]}
    sizes = {**found["WiFi"], 7: worse}
    claims = {
        each.claim: each
        for each in claims_of({**found, "WiFi": sizes}, {"Ethernet": 1.0, "WiFi": 1.0})
    }
    claim = claims["the affine fit is no worse than the ratio at each size on WiFi"]
    assert (claim.measured, claim.holds) == (0.5, False)
    assert claim.unit == "points above the ratio with 7 shards"
