"""Where runs come from: record files and stores, read once and then followed as they grow."""

from __future__ import annotations

import json
import math
import threading
import time
import tomllib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from platform import python_version
from typing import Any, Protocol

from axon.dashboard.course import About, Course
from axon.dashboard.facts import Line, line_of
from axon.dashboard.feed import MOST_RUNS, Feed, Track
from axon.errors import AxonError, ConfigurationError
from axon.rounds.checkpoint import Store, open_store
from axon.version import __version__

RECORDS, CONFIGURATION, FAILED = "records.jsonl", "run.toml", "failed.json"
"""As `axon train --out` leaves them."""

POLL_S = 0.5
MOST_OF_TIME = 0.1
"""No larger part of the time is spent on looking: what takes long is looked at less often."""
PIECE_BYTES = 8 << 20
QUIET_S = 15.0
"""A file that has not grown for so long, and for three deadlines, belongs to a run that stopped."""


class Source(Protocol):
    """Something that may have news."""

    def poll(self) -> None:
        """Put what is new into the feed."""


def record_files(places: Sequence[Path]) -> list[Path]:
    """The record files that are named, or lie in the folders that are."""
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            own = place / RECORDS
            inside = [own] if own.is_file() else sorted(place.glob(f"**/{RECORDS}"))
            # A run that has only just begun has no record yet.
            found += inside or ([own] if (place / CONFIGURATION).is_file() else [])
            if not found:
                raise ConfigurationError(
                    f"{place} has no {RECORDS} in it", hint="name what `axon train --out` was given"
                )
        elif place.is_file():
            found.append(place)
        else:
            raise ConfigurationError(f"there is no {place}")
    unique = list(dict.fromkeys(found))
    if len(unique) > MOST_RUNS:
        raise ConfigurationError(f"at most {MOST_RUNS} runs are shown at once, got {len(unique)}")
    return unique


class RecordsFile:
    """A record file; one that is written anew is read anew."""

    def __init__(self, feed: Feed, path: Path, label: str) -> None:
        self._path = path
        self._label = label
        self._track = feed.open(self._about(None))
        self._track.course.refetch = self.record_at
        self._file: tuple[int, int] | None = None
        self._offsets = array("q")
        self._end = 0

    def poll(self) -> None:
        """Read the lines that are whole by now."""
        if self._path.is_file():
            status = self._path.stat()
            file = (status.st_dev, status.st_ino)
            if file != self._file or status.st_size < self._end:
                self._begin(file)
            while self._read():
                pass
        self._stand()

    def record_at(self, at: int) -> Line | None:
        """A record that was read before."""
        if at >= len(self._offsets):
            return None
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offsets[at])
                return line_of(file.readline())
        except (OSError, ConfigurationError):
            return None  # It is being replaced this very moment; the next look finds it.

    def _begin(self, file: tuple[int, int]) -> None:
        first = self._file is None
        self._file, self._end = file, 0
        self._offsets = array("q")
        if not first:
            self._track.begin_anew(self._about(None))

    def _read(self) -> bool:
        """Take in some lines; False when there are no more."""
        with open(self._path, "rb") as file:
            file.seek(self._end)
            data = file.read(PIECE_BYTES)
            if b"\n" not in data:
                data += file.readline()  # A single line of more than a piece.
        whole = data.rfind(b"\n") + 1
        for text in data[:whole].split(b"\n")[:-1]:
            self._take(text)
        return whole > 0

    def _take(self, text: bytes) -> None:
        try:
            line = line_of(text)
        except ConfigurationError as error:
            number = len(self._offsets) + 1
            raise ConfigurationError(f"{self._path}, line {number}: {error.message}") from error
        if not self._offsets:
            self._track.become(self._about(line.run))
        self._offsets.append(self._end)
        self._end += len(text) + 1
        self._track.add(line)

    def _about(self, name: str | None) -> About:
        settings = read_settings(self._path.parent / CONFIGURATION)
        return about(settings, name=name, label=self._label, place=str(self._path))

    def _stand(self) -> None:
        course = self._track.course
        wanted, done = course.about.cycles, len(course.curves)
        failed = self._path.parent / FAILED
        if self._path.name == RECORDS and failed.is_file():
            self._track.stand("failed", _why(failed))
        elif wanted is not None and done >= wanted:
            self._track.stand("finished")
        elif not self._path.is_file():
            self._track.stand("waiting")
        else:
            age_s = time.time() - self._path.stat().st_mtime
            self._track.stand("stopped" if age_s > patience_s(course) else "running")


class RunsInStore:
    """The runs that a store keeps, or one of them."""

    def __init__(self, feed: Feed, where: str, run: str | None = None) -> None:
        self._feed = feed
        self._where = where
        self._run = run
        self._tracks: dict[str, Track] = {}
        self._grew_s: dict[str, float] = {}

    def poll(self) -> None:
        """Read the records that are new."""
        with closing(open_store(self._where)) as store:
            names = store.runs() if self._run is None else [self._run]
            if self._run is not None and store.settings(self._run) is None:
                raise ConfigurationError(
                    f"{store.name} keeps no run {self._run!r}",
                    hint=f"it keeps {', '.join(store.runs()[:20]) or 'none'}",
                )
            for name in names[:MOST_RUNS]:
                self._follow(store, name)

    def _follow(self, store: Store, name: str) -> None:
        settings = _settings_in(store, name)
        track = self._tracks.get(name)
        if track is None:
            track = self._feed.open(about(settings, name=name, label=name, place=store.name))
            self._tracks[name] = track
        course, records = track.course, store.records(name)
        if len(records) < len(course.curves):
            track.begin_anew(course.about)
        new = records[len(course.curves) :]
        if new:
            track.add(*new)
            self._grew_s[name] = time.monotonic()
        wanted = course.about.cycles
        if wanted is not None and len(course.curves) >= wanted:
            track.stand("finished")
        else:
            age_s = time.monotonic() - self._grew_s.setdefault(name, time.monotonic())
            track.stand("stopped" if age_s > patience_s(course) else "running")


def patience_s(course: Course) -> float:
    """How long nothing need come of a run that goes on."""
    deadline_s = course.curves.last("deadline")
    return QUIET_S if math.isnan(deadline_s) else max(QUIET_S, 3 * deadline_s)


class Polled:
    """A question that is asked again and again."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self.poll = ask


@contextmanager
def following(feed: Feed, sources: Sequence[Source], poll_s: float = POLL_S) -> Iterator[None]:
    """Look at all sources on a thread of their own while the block lasts."""
    stopped = threading.Event()
    thread = threading.Thread(target=_follow, args=(feed, sources, poll_s, stopped), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _follow(feed: Feed, sources: Sequence[Source], poll_s: float, stopped: threading.Event) -> None:
    said: dict[int, str] = {}
    while not stopped.is_set():
        began_s = time.monotonic()
        for number, source in enumerate(sources):
            problem = _looked(source)
            if problem and said.get(number) != problem:
                feed.note("trouble", problem)
            said[number] = problem
        took_s = time.monotonic() - began_s
        stopped.wait(max(poll_s, took_s / MOST_OF_TIME))


def _looked(source: Source) -> str:
    """What went wrong, if something did; the next look may go well."""
    try:
        source.poll()
    except (AxonError, OSError) as error:
        return str(error) or type(error).__name__
    return ""


def about(settings: dict[str, Any], *, name: str | None, label: str, place: str) -> About:
    """What is known of a run from its settings, of which there may be none."""
    cycles, seed = settings.get("cycles"), settings.get("seed")
    return About(
        name=name or str(settings.get("name") or label),
        label=label,
        place=place,
        cycles=cycles if isinstance(cycles, int) else None,
        seed=seed if isinstance(seed, int) else None,
        settings=settings,
        versions={"shown with": f"Axon {__version__}, Python {python_version()}"},
    )


def read_settings(path: Path) -> dict[str, Any]:
    """A run's settings as they stand in its folder; nothing where they cannot be read."""
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def _settings_in(store: Store, name: str) -> dict[str, Any]:
    """As `axon train` keeps them: TOML within JSON; those of others are shown as they are."""
    saved = store.settings(name)
    try:
        told = json.loads(saved or "{}")
        told = tomllib.loads(told) if isinstance(told, str) else told
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _why(failed: Path) -> str:
    try:
        told = json.loads(failed.read_text())
        return f"cycle {told['cycle']} wanted {told['wanted']} answers and got {told['got']}"
    except (OSError, ValueError, LookupError, TypeError):
        return "too few answers"


def labels(paths: Sequence[Path]) -> list[str]:
    """A short name for each file: its folder's, with as much of the way as tells them apart."""
    parts = [path.absolute().parent.parts if path.name == RECORDS else path.absolute().parts
             for path in paths]  # fmt: skip
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]
