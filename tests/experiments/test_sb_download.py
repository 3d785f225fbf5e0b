"""Fig. 3.3 again: how downloads are timed, and what the quick look says."""

from __future__ import annotations

import json
from random import Random

import pytest

from axon.experiments import sb_download
from axon.experiments.result import Result, to_json
from axon.experiments.sb_download import METHODS, SHARD_BYTES, Downloading, Path, Traffic, trial
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
    errors = virtual.run(trial(Path(SLOW), 2, Random(0)))
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
    assert len(claims) == len(set(claims)) == 8
    for part in ("Ethernet", "WiFi", "at most 10 %", "at most 5 %", "falls with the size"):
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
