"""Where runs come from: record files, read once and then followed as they grow."""

from __future__ import annotations

import json
import math
import threading
import time
import tomllib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from platform import python_version
from typing import Any, Protocol

import msgspec

from axon.dashboard.course import About, Course
from axon.dashboard.facts import Line, line_of
from axon.dashboard.feed import MOST_RUNS, Feed
from axon.dashboard.texts import visible
from axon.errors import AxonError, ConfigurationError
from axon.recipes.settings import MADE_WITH
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
                    f"the folder {str(place)!r} has no {RECORDS} in it",
                    hint="name what `axon train --out` was given",
                )
        elif place.is_file():
            found.append(place)
        else:
            raise ConfigurationError(
                f"there is no file or folder {str(place)!r}",
                hint="name a record file, or a folder that `axon train --out` was given",
            )
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
        """Read the lines that are whole by now; what cannot be read is how the run stands."""
        try:
            self.read()
        except ConfigurationError as error:
            self._track.stand("unreadable", str(error))

    def read(self) -> None:
        """The same; `ConfigurationError` where something else stands there."""
        try:
            if self._path.is_file():
                status = self._path.stat()
                file = (status.st_dev, status.st_ino)
                if file != self._file or status.st_size < self._end:
                    check_records(self._path)
                    self._begin(file)
                while self._read():
                    pass
            self._stand()
        except FileNotFoundError:
            return  # It is being replaced this very moment; the next look finds it.
        except OSError as error:
            raise unreadable(self._path, error) from error

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
            raise ConfigurationError(
                f"{self._path}, line {number}: {error.message}",
                hint="rewrite the file from the run's store, or take the line out",
            ) from error
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
            self._track.stand(growing(course, time.time() - self._path.stat().st_mtime))


def check_records(path: Path) -> None:
    """Refuse a file that holds no records: `ConfigurationError` for another program's."""
    try:
        with open(path, "rb") as file:
            text = file.readline()
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        if text:
            line_of(text)
    except ConfigurationError as error:
        # The line that a writer is at, or was killed at, is a record that breaks off.
        torn = text[:1] == b"{" and not isinstance(error.__cause__, msgspec.ValidationError)
        if not torn or text.endswith(b"\n"):
            raise ConfigurationError(
                f"{path}, line 1: {error.message}",
                hint=f"name a {RECORDS} that `axon train --out` has written",
            ) from error


def unreadable(path: Path, error: OSError) -> ConfigurationError:
    """What an operating system says of a file."""
    return ConfigurationError(f"{path} cannot be read: {error.strerror or error}")


def growing(course: Course, age_s: float) -> str:
    """How a run stands that has not come to its end, so long after its last cycle."""
    if age_s <= patience_s(course):
        return "running"
    return "length unknown" if course.about.cycles is None else "stopped"


def patience_s(course: Course) -> float:
    """How long nothing need come of a run that goes on."""
    deadline_s = course.curves.last("deadline")
    return QUIET_S if math.isnan(deadline_s) else max(QUIET_S, 3 * deadline_s)


class Polled:
    """A question that is asked again and again."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self.poll = ask


@contextmanager
def following(
    feed: Feed,
    sources: Sequence[Source],
    poll_s: float = POLL_S,
    tell: Callable[[str], object] = lambda _: None,
) -> Iterator[None]:
    """Look at all sources on a thread of their own while the block lasts.

    What is the matter with one is told once, and again when it is something else.
    """
    stopped = threading.Event()
    arguments = (feed, sources, poll_s, tell, stopped)
    thread = threading.Thread(target=_follow, args=arguments, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _follow(
    feed: Feed,
    sources: Sequence[Source],
    poll_s: float,
    tell: Callable[[str], object],
    stopped: threading.Event,
) -> None:
    while not stopped.is_set():
        began_s = time.monotonic()
        for number, source in enumerate(sources):
            problem = visible(_looked(source))
            if feed.suffer(number, problem) and problem:
                feed.note("trouble", problem)
                tell(problem)
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
    # What made a run is no setting: two runs are not different things for it.
    settings = dict(settings)
    made = _made(settings.pop(MADE_WITH, None))
    cycles, seed = settings.get("cycles"), settings.get("seed")
    return About(
        name=visible(name or str(settings.get("name") or label)),
        label=visible(label),
        place=visible(place),
        cycles=cycles if isinstance(cycles, int) else None,
        seed=seed if isinstance(seed, int) else None,
        settings=settings,
        versions={**made, "shown with": f"Axon {__version__}, Python {python_version()}"},
    )


def _made(told: Any) -> dict[str, str]:
    """What a run says that it was made with; runs of old say nothing."""
    if not isinstance(told, dict) or not told:
        return {}
    named = [f"{name} {text}" for name, text in told.items() if isinstance(text, str)]
    return {"made with": visible("; ".join(named))}


def read_settings(path: Path) -> dict[str, Any]:
    """A run's settings as they stand in its folder; nothing where they cannot be read."""
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError):
        return {}


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
