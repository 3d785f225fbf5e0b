"""The dashboard in a real browser: what a person sees is what was recorded, and nothing else."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from axon.dashboard.board import Board, Task
from axon.dashboard.course import About
from axon.dashboard.feed import Feed, Track
from axon.dashboard.page import page as report_page
from axon.dashboard.serving import Place, serving
from axon.dashboard.texts import visible
from axon.rounds.events import CycleBegan, Event
from axon.rounds.orchestrator import Orchestrator
from axon.testbed.emulation import EmulatedFleet, emulated
from axon.values import RoundRecord
from tests.dashboard.scenes import HOSTILE, crowd, device, record, small_feed
from tests.system.processes import DIGITS, QUICK, quick_run

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None
)
SCREENSHOTS = Path(__file__).parent / "screenshots"

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here"),
]


@dataclass
class Seen:
    """A page, and what it did that it should not."""

    page: Any
    origin: str
    wrong: list[str] = field(default_factory=list)

    def open(self, url: str) -> None:
        """Go there, and note errors and requests to elsewhere from now on."""
        page = self.page
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", lambda shown: self.wrong.append(f"a dialog: {shown.message}"))
        page.on("request", lambda request: self._judge(request.url))
        page.set_default_timeout(10_000)
        page.goto(url)
        page.wait_for_selector("#tiles dd")
        page.wait_for_selector("#fleet tbody td >> nth=1")

    def _hear(self, said: Any) -> None:
        if said.type in ("error", "warning"):
            self.wrong.append(said.text)

    def _judge(self, url: str) -> None:
        if not url.startswith(self.origin):
            self.wrong.append(f"a request to {url}")

    def shoot(self, name: str) -> None:
        """Keep a picture for people to look at."""
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")

    def tile(self, title: str) -> str:
        """The text of a tile."""
        text: str = self.page.locator("#tiles > div", has_text=title).locator("dd").inner_text()
        return text


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        # Root, as in a container, may not have a sandbox.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def wide(browser: Any) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    yield page
    page.close()


class Play:
    """A run of real processes on a thread of its own, one of which is killed in cycle 2."""

    def __init__(self, track: Track) -> None:
        self.records: list[RoundRecord] = []
        self.killed_s = 0.0
        self._track = track
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        devices = {"a": QUICK, "b": QUICK, "c": QUICK}
        self.records = emulated(devices).run(self._train)
        self._track.stand("finished")

    async def _train(self, fleet: EmulatedFleet) -> list[RoundRecord]:
        loop = asyncio.get_running_loop()

        def crash() -> None:
            self.killed_s = time.monotonic()
            fleet.crash("b")

        def hear(event: Event) -> None:
            self._track.hear(event)
            if isinstance(event, CycleBegan) and event.plan.cycle == 2:
                loop.call_later(0.12, crash)

        return await Orchestrator(quick_run(5), DIGITS, fleet, listen=hear).run()


@pytest.mark.alone
def test_a_killed_learner_turns_red_and_the_numbers_are_those_of_the_record(wide: Any) -> None:
    feed = Feed()
    track = feed.open(About(name="run", label="live", cycles=5))
    play = Play(track)
    with serving(feed, Place(port=0)) as address:
        play.thread.start()
        try:
            seen = Seen(wide, address)
            seen.open(address)
            row = wide.locator("#fleet tbody tr.wrong", has_text="b")
            row.wait_for(timeout=30_000)
            assert time.monotonic() - play.killed_s < 3.0
            assert "failed" in row.inner_text()
            wide.evaluate("document.getElementById('timeline').scrollIntoView()")
            seen.shoot("killed")
        finally:
            play.thread.join()
        wide.locator("#tiles .state", has_text="finished").wait_for()
        assert seen.wrong == []
    last = play.records[-1]
    assert seen.tile("Accuracy").startswith(f"{last.accuracy:.3f}")
    assert seen.tile("Cycles").split()[0] == "5"
    for name in ("a", "b", "c"):
        ends = [one.status for record in play.records for one in record.devices
                if one.device == name]  # fmt: skip
        cells = wide.locator("#fleet tbody tr", has=wide.locator(f"td:text-is('{name}')"))
        assert f"{ends.count('used')}/5" in cells.inner_text().split()
    assert "b failed" in wide.locator("#announcer").inner_text()


@pytest.fixture(scope="module")
def large() -> Iterator[str]:
    with serving(crowd(1_000, 10_000), Place(port=0)) as address:
        yield address


@pytest.mark.alone
def test_a_thousand_devices_and_ten_thousand_cycles(large: str, wide: Any) -> None:
    seen = Seen(wide, large)
    seen.open(large)
    painted_ms = wide.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    )
    assert painted_ms < 1000
    wide.locator("#fleet .scroll").evaluate("node => node.scrollTop = 20000")
    wide.locator("#fleet tbody", has_text="device-540").wait_for()
    assert wide.locator("#fleet tbody tr").count() < 60
    for _ in range(20):
        wide.get_by_role("button", name="Earlier").click()
    wide.get_by_label("Find in Devices").fill("device-77")
    wide.get_by_text("11 of 1000 devices").wait_for()
    wide.locator("#timeline").scroll_into_view_if_needed()
    seen.shoot("crowd")
    session = wide.context.new_cdp_session(wide)
    session.send("HeapProfiler.collectGarbage")
    metrics = session.send("Performance.enable") or session.send("Performance.getMetrics")
    used = {one["name"]: one["value"] for one in metrics["metrics"]}["JSHeapUsedSize"]
    assert used < 30e6
    assert seen.wrong == []


def test_a_phone_needs_no_sideways_scrolling(large: str, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    seen = Seen(page, large)
    seen.open(large)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    seen.shoot("phone")
    page.close()
    assert seen.wrong == []


@pytest.mark.parametrize("as_file", [False, True], ids=["served", "report"])
def test_hostile_names_stay_text(as_file: bool, wide: Any, tmp_path: Path) -> None:
    feed = small_feed(names=HOSTILE)
    feed.courses[0].rolls.reasons.texts[1] = HOSTILE[0]
    feed.note("trouble", HOSTILE[1], 0)
    with serving(feed, Place(port=0)) as address:
        if as_file:
            (tmp_path / "report.html").write_bytes(report_page(feed))
            address = f"file://{tmp_path}/"
        seen = Seen(wide, address)
        seen.open(f"{address}report.html" if as_file else address)
        for name in HOSTILE:
            assert visible(name) in wide.locator("#fleet").inner_text()
        assert "\u202e" not in wide.locator("body").inner_text()
        assert HOSTILE[0] in wide.locator("#failed").inner_text()
        assert HOSTILE[1] in wide.locator("#lines").inner_text()
        assert wide.locator("img").count() == 0
        seen.shoot("report" if as_file else "hostile")
        assert seen.wrong == []


def test_a_walk_with_the_keyboard(wide: Any) -> None:
    with serving(small_feed(6), Place(port=0)) as address:
        seen = Seen(wide, address)
        seen.open(address)
        wide.keyboard.press("Tab")
        assert wide.evaluate("document.activeElement.textContent") == "Skip to content"
        wide.keyboard.press("Enter")
        assert wide.evaluate("document.activeElement.id") == "main"
        stops = []
        for _ in range(40):
            wide.keyboard.press("Tab")
            stops.append(wide.evaluate("document.activeElement.closest('section')?.id"))
        reached = list(dict.fromkeys(stop for stop in stops if stop))
        assert reached == ["learning", "deadline", "timeline", "devices", "failures", "log"]
        wide.locator("#accuracy canvas").focus()
        wide.keyboard.press("ArrowRight")
        assert wide.locator("#accuracy output").inner_text() == "Cycle 1: first 0.050"
        wide.locator("#accuracy summary").focus()
        wide.keyboard.press("Enter")
        wide.locator("#accuracy tbody tr >> nth=5").wait_for()
        outline = wide.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        assert seen.wrong == []


def test_runs_side_by_side_and_a_task_that_is_cancelled(wide: Any) -> None:
    feed, cancelled = small_feed(), []
    other = feed.open(About(name="other", label="other", cycles=2))
    other.add(record(1, [device("pi-9")]))
    task = Task(name="a", state="running", cycle=1, cycles=9, learners={"pi-1": 3})
    board = Board(place="here", tasks=(task,), spent="1.50", budget="9", may_cancel=True)
    feed.show(board)

    def cancel(name: str) -> str:
        cancelled.append(name)
        return "cancelled"

    with serving(feed, Place(port=0), cancel) as address:
        seen = Seen(wide, address)
        seen.open(address)
        legend = wide.locator("#accuracy .legend li")
        assert legend.all_inner_texts() == ["first", "other"]
        box = wide.get_by_role("checkbox", name="first")
        box.focus()
        box.press("Space")
        wide.locator("#accuracy .legend li", has_text="first").wait_for(state="detached")
        button = wide.get_by_role("button", name="Cancel a")
        button.click()
        feed.show(replace(board, spent="3.00"))
        other.add(record(2, [device("pi-9")]))
        wide.get_by_text("Spent 3.00 in all").wait_for()
        # What was begun before the facts changed goes on.
        assert wide.evaluate("document.activeElement.textContent") == "Really?"
        wide.keyboard.press("Enter")
        wide.locator("#announcer", has_text="a is cancelled").wait_for(state="attached")
        assert cancelled == ["a"]
        wide.get_by_label("Run", exact=True).select_option("other")
        wide.locator("#fleet tbody", has_text="pi-9").wait_for()
        assert wide.locator("#devices h2").inner_text() == "Devices of other"
        seen.shoot("tasks")
        wide.get_by_role("link", name="Devices").click()
        wide.wait_for_url(f"{address}/#devices&run=other&off=first")
        wide.reload()
        wide.locator("#fleet tbody", has_text="pi-9").wait_for()
        assert wide.locator("#accuracy .legend li").all_inner_texts() == ["other"]
        assert not wide.get_by_role("checkbox", name="first").is_checked()
        assert seen.wrong == []


def test_tasks_alone_and_an_orchestrator_that_is_gone(wide: Any) -> None:
    feed = Feed()
    task = Task(name="a", state="running", cycle=1, cycles=9, learners={"pi-1": 3})
    feed.show(Board(place="here", tasks=(task,), spent="0", budget=None))
    with serving(feed, Place(port=0)) as address:
        wide.goto(address)
        wide.locator("#tasks tbody", has_text="pi-1").wait_for()
        assert wide.locator("main > section:visible").count() == 1
        assert "price" not in wide.locator("#tasks thead").inner_text()
        assert wide.locator("#problems").is_hidden()
        feed.suffer(0, "here:8100 wants a key")
        wide.locator("#problems", has_text="here:8100 wants a key; asking again.").wait_for()
        feed.suffer(0, "")
        wide.locator("#problems").wait_for(state="hidden")


def test_a_page_left_open_shows_the_next_server_at_its_port(wide: Any) -> None:
    with serving(small_feed(), Place(port=0)) as address:
        seen = Seen(wide, address)
        seen.open(address)
    again, port = small_feed(names=("new-1", "new-2")), int(address.rpartition(":")[2])
    with serving(again, Place(port=port)):
        wide.locator("#fleet tbody", has_text="new-1").wait_for()
        assert wide.locator("#fleet tbody", has_text="pi-1").count() == 0


def test_light_and_dark(browser: Any) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with serving(small_feed(), Place(port=0)) as address:
        page = browser.new_page(color_scheme="dark")
        seen = Seen(page, address)
        seen.open(address)
        assert page.evaluate(ground) == "rgb(16, 21, 27)"
        switch = page.get_by_role("button", name="Theme: auto")
        switch.click()
        page.get_by_role("button", name="Theme: light").wait_for()
        assert page.evaluate(ground) == "rgb(246, 247, 249)"
        page.reload()
        page.get_by_role("button", name="Theme: light").wait_for()
        assert page.evaluate(ground) == "rgb(246, 247, 249)"
        page.close()
    assert seen.wrong == []
