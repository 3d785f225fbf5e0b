"""A report in one file: whole, small, and deaf to what stands in names."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from axon.dashboard.comparison import compared, left_out
from axon.dashboard.course import About
from axon.dashboard.feed import Feed
from axon.dashboard.page import MODULES, bundled, embedded, page
from axon.dashboard.sheets import _flat, write_csv, write_png
from axon.dashboard.texts import visible
from axon.dashboard.web import asset
from axon.intervals import student_t
from axon.report.figures import Figure
from tests.dashboard.scenes import HOSTILE, crowd, device, record, small_feed


class Tags(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script":
            self.scripts.append(data)


def test_a_report_is_one_file_and_names_stay_texts() -> None:
    feed = small_feed(names=HOSTILE)
    tags = Tags()
    tags.feed(page(feed).decode())
    for _tag, attributes in tags.seen:
        assert not attributes.keys() & {"src", "onerror", "onclick"}
        assert not (attributes.get("href") or "#").startswith(("http", "assets", "/"))
    assert [tag for tag, _ in tags.seen].count("script") == 2
    data = next(text for text in tags.scripts if text.strip())
    facts = json.loads(data)
    names = [row["name"] for row in facts["run"]["0"]["devices"]]
    assert names == [visible(name) for name in HOSTILE]
    assert len(facts["timeline"]["0"]["cycles"]) == 3


def test_nothing_in_a_text_ends_its_element() -> None:
    text = embedded({"name": "</script><!-- \u2028\u2029 & ]]>"})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"name": "</script><!-- \u2028\u2029 & ]]>"}


def test_all_modules_are_in_the_script_after_those_they_need() -> None:
    folder = {
        path.name for path in Path(__file__).parents[2].glob("src/axon/dashboard/assets/*.js")
    }
    assert set(MODULES) == folder
    for at, name in enumerate(MODULES):
        needed = re.findall(r'from "\./([^"]+)"', asset(name).decode())
        assert set(needed) <= set(MODULES[:at]), name
    script = bundled()
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    told = re.findall(r"^(?:async )?(?:function|const|class|let) (\w+)", script, re.MULTILINE)
    assert len(set(told)) == len(told), "a name is told twice"


def test_a_large_run_is_a_small_file() -> None:
    assert len(page(crowd(1_000, 300))) < 3_000_000


def runs(*accuracies: float, allocator: str, feed: Feed) -> None:
    for seed, accuracy in enumerate(accuracies):
        settings = {"allocator": allocator, "seed": seed, "name": "run"}
        about = About(name="run", label=f"{allocator}-{seed}", seed=seed, settings=settings)
        track = feed.open(about)
        track.add(record(1, [device("a")], accuracy=accuracy))
        track.stand("finished")


def run_of(feed: Feed, label: str, done: int, name: str = "run", **settings: Any) -> None:
    about = About(name=name, label=label, cycles=settings.get("cycles"),
                  seed=settings.get("seed"), settings=settings)  # fmt: skip
    feed.open(about).add(*(record(cycle, [device("a")]) for cycle in range(1, done + 1)))


def test_what_has_not_finished_is_left_out_and_a_seed_counts_once() -> None:
    feed = Feed()
    run_of(feed, "leader", 2, cycles=10, seed=7)
    run_of(feed, "standby", 10, cycles=10, seed=7)
    run_of(feed, "copy", 10, cycles=10, seed=7)
    run_of(feed, "other", 10, cycles=10, seed=8)
    (row,) = compared(feed.courses)
    assert (row["runs"], row["seeds"]) == ([1, 3], [7, 8])
    assert left_out(feed.courses) == {0: "2 of 10 cycles", 2: "seed 7 counts once, with standby"}
    assert compared(feed.courses[:2]) == [], "one run alone is compared with nothing"


def test_groups_are_named_by_what_they_differ_in() -> None:
    feed = Feed()
    run_of(feed, "short", 1, cycles=1, seed=1, aggregator="", hosts=[], dynamic=False)
    run_of(feed, "long", 2, cycles=2, seed=1, aggregator="", hosts=[], dynamic=False)
    run_of(feed, "robust", 2, cycles=2, seed=1, aggregator="krum:2", hosts=[], dynamic=False)
    run_of(feed, "bare", 2)
    assert [row["group"] for row in compared(feed.courses)] == [
        "run (cycles 1)",
        "run (cycles 2)",
        "run (aggregator krum:2, cycles 2)",
        "run (settings unknown)",
    ]


def test_names_that_number_the_seeds_make_no_groups() -> None:
    feed = Feed()
    for scheme in ("dab", "equal"):
        for seed in (1, 2):
            name = f"{scheme}-{seed}"
            run_of(feed, name, 2, name=name, cycles=2, seed=seed, allocator=scheme)
    run_of(feed, "other", 2, name="other", cycles=2, seed=3, allocator="equal")
    rows = {row["group"]: row["runs"] for row in compared(feed.courses)}
    assert rows == {"dab": [0, 1], "equal-1": [2, 3, 4]}


def test_runs_that_differ_in_their_seeds_are_one_group() -> None:
    feed = Feed()
    runs(0.8, 0.9, allocator="dab", feed=feed)
    runs(0.5, allocator="equal", feed=feed)
    first, second = compared(feed.courses)
    assert (first["group"], second["group"]) == ("run (allocator dab)", "run (allocator equal)")
    assert (first["runs"], first["seeds"]) == ([0, 1], [0, 1])
    accuracy = first["measures"]["accuracy"]
    assert accuracy["mean"] == pytest.approx(0.85)
    # Half the width: t(0.975, 1) x 0.0707 / sqrt(2).
    assert accuracy["half"] == pytest.approx(student_t(1) * 0.05)
    assert second["measures"]["accuracy"] == {"mean": 0.5, "half": None, "count": 1}
    assert compared(feed.courses[:1]) == []


def test_numbers_as_csv_obey_no_name(tmp_path: Path) -> None:
    feed = small_feed(names=HOSTILE)
    runs(0.8, allocator="dab", feed=feed)
    written = write_csv(feed, tmp_path / "new")
    assert [path.name for path in written] == ["cycles.csv", "devices.csv", "comparison.csv"]
    with open(written[0]) as file:
        cycles = list(csv.DictReader(file))
    assert [row["accuracy"] for row in cycles] == ["0.05", "0.1", "0.15", "0.8"]
    assert [row["missing"] for row in cycles] == ["0", "1", "0", "0"]
    with open(written[1]) as file:
        devices = list(csv.DictReader(file))
    assert list(devices[0])[:2] == ["device", "run"]
    assert (devices[0]["took_s"], devices[0]["seen_s"]) == ("0.8", "2.8")
    names = [row["device"] for row in devices]
    assert "'=HYPERLINK(1)" in names
    assert HOSTILE[0] in names


def test_a_comparison_has_as_many_digits_as_the_page() -> None:
    feed = Feed()
    runs(0.81234567, 0.91234567, 0.88234567, allocator="dab", feed=feed)
    runs(0.51234567, allocator="equal", feed=feed)
    first, second = map(_flat, compared(feed.courses))
    assert (first["accuracy"], first["accuracy ±"]) == (0.87, 0.13)
    assert (second["accuracy"], second["accuracy ±"]) == (0.5123, None)
    long = {"group": "", "runs": [0], "measures": {"s": {"mean": 123456.78, "half": 0.0}}}
    assert _flat(long)["s"] == 123457


def pictured(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The figures that are drawn from now on, by title."""
    drawn: dict[str, Figure] = {}

    def draw(figure: Figure) -> bytes:
        drawn[figure.title] = figure
        return b""

    monkeypatch.setattr("axon.dashboard.sheets.picture", draw)
    monkeypatch.setattr("axon.dashboard.sheets.timeline_picture", lambda _: b"")
    return drawn


def test_who_was_late_or_missing_is_in_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = pictured(monkeypatch)
    feed = small_feed()
    feed.open(About(name="x", label="other")).add(record(1, [device("a", "late"), device("b")]))
    written = [path.name for path in write_png(feed, tmp_path)]
    assert written[-3:] == ["truancy.png", "timeline-1.png", "timeline-2.png"]
    late, missing = drawn["Late or missing"].panels
    assert [[point.y for point in one.points] for one in late.series] == [[0, 0, 0], [0.5]]
    assert [[point.y for point in one.points] for one in missing.series] == [[0, 0.5, 0], [0]]


@pytest.mark.parametrize(
    ("other_s", "labels"),
    [(1.0, ["deadline"]), (2.0, ["deadline of first", "deadline of other"])],
)
def test_the_deadline_is_in_the_picture(
    other_s: float, labels: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, drawn = small_feed(), pictured(monkeypatch)
    feed.open(About(name="x", label="other")).add(record(1, [device("a")], deadline_s=other_s))
    write_png(feed, tmp_path)
    for panel in drawn["Seconds per cycle"].panels:
        dashed = [series for series in panel.series if series.style == "dashed"]
        assert [series.label for series in dashed] == labels
        assert [point.y for point in dashed[0].points] == [1.0] * 3


@pytest.mark.slow
def test_curves_as_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = write_png(small_feed(names=["$a$", "b"]), tmp_path)
    names = ["accuracy.png", "loss.png", "duration.png", "truancy.png", "timeline.png"]
    assert [path.name for path in written] == names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
