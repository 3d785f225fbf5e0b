"""The runs of a store, read once and then followed as they grow."""

from __future__ import annotations

import json
import time
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

from axon.dashboard.feed import MOST_RUNS, Feed, Track
from axon.dashboard.sources import about, growing
from axon.errors import ConfigurationError
from axon.rounds.checkpoint import Store, open_store, sqlite_path


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
        path = store_path(self._where)
        if path is not None and not path.is_file():  # Opening it would make one.
            raise ConfigurationError(
                f"there is no store {str(path)!r}",
                hint="name what `axon train --store` was given, or checkpoint.sqlite in its --out",
            )
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
            track.stand(growing(course, age_s))


def store_path(where: str) -> Path | None:
    """The file that a store is; None of one on a server."""
    scheme, separator, rest = where.partition("://")
    if not separator:
        return Path(where)
    return sqlite_path(where, rest) if scheme == "sqlite" else None


def _settings_in(store: Store, name: str) -> dict[str, Any]:
    """As `axon train` keeps them: TOML within JSON; those of others are shown as they are."""
    saved = store.settings(name)
    try:
        told = json.loads(saved or "{}")
        told = tomllib.loads(told) if isinstance(told, str) else told
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
