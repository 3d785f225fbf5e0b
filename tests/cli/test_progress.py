"""How a run shows itself: lines, table and picture, whatever devices say."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from axon.cli import progress
from axon.cli.progress import (
    MOST_ROWS,
    Paced,
    View,
    cycle_line,
    leader_line,
    result_line,
    showing,
    summary,
)
from axon.rounds.events import (
    CycleBegan,
    CycleEnded,
    Event,
    LearnerProgress,
    LearnerSettled,
    StandsBy,
    StoreLost,
    SurveyBegan,
    SurveyEnded,
    TookOver,
)
from axon.rounds.leadership import Leadership
from axon.rounds.survey import Finding
from axon.values import DeviceRecord, Plan, RoundRecord, Share, Status

EVIL = "\x1b[2J[bold]pi[/bold]\nx"
SAFE = "[2J[bold]pi[/bold] x"


def device(name: str, status: Status = "used", reason: str = "", batches: int = 5) -> DeviceRecord:
    return DeviceRecord(device=name, status=status, reason=reason, batches=batches)


def record(*devices: DeviceRecord, cycle: int = 3, accuracy: float | None = 0.6566) -> RoundRecord:
    return RoundRecord(
        run="run",
        cycle=cycle,
        started_s=10.0,
        ended_s=11.9,
        deadline_s=2.0,
        devices=devices,
        batches=171,
        accuracy=accuracy,
        loss=None if accuracy is None else 1.41,
    )


def began(*names: str) -> CycleBegan:
    return CycleBegan(
        Plan(cycle=3, deadline_s=2.0, shares=dict.fromkeys(names, Share(shards=None)))
    )


def test_a_line_says_how_good_how_long_and_who_failed() -> None:
    pi, late = device("pi-2", "failed", "cannot be reached"), device("pi-3", "late")
    assert cycle_line(record(device("pi-1"), pi, late), 10) == (
        "cycle 3/10  acc 0.657  loss 1.41  171 batches  1.90 s of 2 s  "
        "pi-2 failed: cannot be reached  pi-3 late"
    )


def test_a_line_names_a_few_of_many_and_no_score_that_is_not_there() -> None:
    line = cycle_line(record(*(device(f"d{n}", "failed") for n in range(9)), accuracy=None), 10)
    assert line.endswith("d0 failed  d1 failed  d2 failed  and 6 more")
    assert "acc" not in line


def test_who_leads_is_a_line_and_nothing_else_is() -> None:
    leads = Leadership(epoch=2, holder=EVIL)
    assert leader_line(StandsBy(leads)) == f"standing by: {SAFE} leads as epoch 2"
    assert leader_line(StandsBy(Leadership())) == "standing by: nobody leads yet"
    assert leader_line(TookOver(1, "pc", 0)) == "leading as epoch 1, pc, after cycle 0"
    assert leader_line(TookOver(2, EVIL, 7)) == f"taking over as epoch 2, {SAFE}, after cycle 7"
    assert leader_line(StoreLost(EVIL)) == f"the store is silent, and is asked on: {SAFE}"
    assert leader_line(began("a")) == ""


@pytest.mark.parametrize("as_json", [False, True])
def test_who_leads_is_told_beside_the_records(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with showing(3, as_json=as_json) as listen:
        listen(TookOver(2, "pc", 7))
    assert capsys.readouterr() == ("", "axon: taking over as epoch 2, pc, after cycle 7\n")


def test_the_summary_counts_by_device() -> None:
    records = [
        record(device("a"), device("b", "late")),
        record(device("a"), device("b", "failed", batches=0)),
        record(device("a", "not needed", batches=0), device("b", "declined", batches=0)),
    ]
    assert [line.split() for line in summary(records).splitlines()[1:]] == [
        ["a", "2", "10", "0", "0", "0", "0"],
        ["b", "0", "0", "1", "1", "0", "1"],
    ]


def test_the_result_says_when_nothing_was_tested() -> None:
    assert result_line([record()], "simulated", "not kept") == (
        "accuracy 0.657 after 3 cycles, 11.90 s in the simulated world; not kept"
    )
    last = record(cycle=1, accuracy=None)
    assert result_line([last], "simulated", "x").startswith("not tested after 1 cycle, ")


def test_what_devices_say_cannot_drive_the_terminal() -> None:
    bad = record(device(EVIL, "failed", EVIL))
    assert cycle_line(bad, 10).endswith(f"  {SAFE} failed: {SAFE}")
    assert summary([bad]).splitlines()[1].startswith(f"{SAFE}  ")
    assert f"{SAFE}  " in drawn(began(EVIL))
    assert f"failed: {SAFE}" in drawn(began(EVIL), LearnerSettled(bad.devices[0]))


def drawn(*events: Event) -> str:
    view = View(10)
    for event in events:
        view.hear(event)
    screen = io.StringIO()
    Console(file=screen, width=120).print(view.picture())
    assert "\x1b" not in screen.getvalue()
    return screen.getvalue()


def test_the_picture_follows_each_learner() -> None:
    events: list[Event] = [began("a", "b", "c")]
    assert drawn(*events).count("waiting") == 3
    events += [LearnerProgress("a", 2, 10), LearnerSettled(device("b", "declined", "no time"))]
    picture = drawn(*events)
    assert picture.startswith("cycle 3 of 10  deadline 2 s\n")
    assert "training 2/10" in picture
    assert "declined: no time" in picture
    # One that was given up may still say how far it is; one of an earlier cycle too.
    assert drawn(*events, LearnerProgress("b", 1, 2), LearnerProgress("x", 1, 2)) == picture
    # One without a share is in no plan and has its end at once.
    idle = device("d", "not needed", "the allocator gave it no share", batches=0)
    assert drawn(*events, LearnerSettled(idle)).count("not needed") == 1


def test_the_picture_shows_who_benchmarks_itself_and_what_came_of_it() -> None:
    asked = SurveyBegan(("a", EVIL))
    assert drawn(asked).count("benchmarking itself") == 2
    refused = Finding(status="declined", reason=EVIL, cycle=1)
    picture = drawn(asked, SurveyEnded({"a": Finding(status="told", cycle=1), EVIL: refused}))
    assert "told" in picture
    assert f"declined: {SAFE}" in picture


def test_the_picture_keeps_the_last_scores() -> None:
    tested, untested = CycleEnded(record()), CycleEnded(record(accuracy=None))
    assert "acc 0.657  loss 1.41" in drawn(tested, began("a"), untested)


def test_the_picture_of_many_learners_fits_a_screen() -> None:
    picture = drawn(began(*(f"d{number:03}" for number in range(500))))
    assert picture.count("\n") == MOST_ROWS + 2
    assert f"and {500 - MOST_ROWS} more" in picture


def test_a_picture_is_drawn_at_most_ten_times_a_second() -> None:
    now, drawings = 0.0, 0

    def draw() -> None:
        nonlocal drawings
        drawings += 1

    paced = Paced(draw, clock=lambda: now)
    for _ in range(1000):
        paced.tick()
        now += 0.002
    assert drawings == pytest.approx(20, abs=1)


def test_on_a_terminal_the_view_is_live(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(progress, "REDRAW_S", 3600.0)
    with showing(10, as_json=False) as listen:
        listen(began("a"))
        listen(LearnerSettled(device("a")))
        listen(CycleEnded(record(device("a"))))
    # The end is drawn, however short ago the last picture was.
    assert "cycle 3 of 10  deadline 2 s  acc 0.657" in capsys.readouterr().out
