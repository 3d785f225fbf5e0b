"""Where a run is kept: records, configuration, checkpoint and model, and how it is taken up."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from axon.errors import ConfigurationError, QuorumNotReached, RunExists
from axon.learning.parameters import layout, split
from axon.learning.tasks import build
from axon.recipes.settings import Recipe, read_recipe, recipe_from, to_toml
from axon.recipes.versions import made_before, made_with
from axon.report.records import RecordFile, to_json, write_whole
from axon.rounds.checkpoint import Store, damaged, open_store, reading, state_of
from axon.rounds.events import CycleEnded, Event
from axon.rounds.leadership import check_epoch
from axon.rounds.standby import Candidacy
from axon.values import RoundRecord, TaskSpec, Vector

RECORDS = "records.jsonl"
CONFIGURATION = "run.toml"
CHECKPOINT = "checkpoint.sqlite"
MODEL = "model.npz"
FAILED = "failed.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Where a run is kept, and whether it is taken up.

    A cycle without its quorum leaves `failed.json` beside the records: what became of each device
    in it. The file goes when the run goes on.
    """

    out: Path | None = None
    """The folder of records, configuration and checkpoint; None keeps nothing."""
    store: str | None = None
    """Where the checkpoint goes instead: another file, or a PostgreSQL address."""
    resume: bool = False
    candidacy: Candidacy | None = None
    """How this orchestrator comes to lead the run; None for one that nobody stands by."""

    @property
    def is_first(self) -> bool:
        """Whether the run may begin here; a standby only ever takes one up."""
        return self.candidacy is None or self.candidacy.eager


@contextlib.contextmanager
def kept_run(recipe: Recipe, keeping: Keeping) -> Iterator[Kept]:
    """Open what a run is kept in, and take up what is there."""
    if keeping.candidacy is not None:
        _check_led(recipe, keeping)
    if keeping.out is None and keeping.store is None:
        if keeping.resume:
            raise ConfigurationError(
                "there is nothing to resume from", hint="say which run with --out or --store"
            )
        yield Kept(recipe, None, None)
        return
    with contextlib.ExitStack() as stack:
        if keeping.out is not None:
            with _writing(keeping.out):
                keeping.out.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_locked(keeping.out))
        where = keeping.store or str((keeping.out or Path()) / CHECKPOINT)
        store = stack.enter_context(contextlib.closing(open_store(where)))
        yield _taken_up(recipe, store, keeping)


def _check_led(recipe: Recipe, keeping: Keeping) -> None:
    """Raise for a run that nobody else could take over."""
    if recipe.world == "simulated":
        raise ConfigurationError(
            "the simulated world lives in the process of its orchestrator and dies with it",
            hint="failover is for --world emulated and for real devices, --host",
        )
    if keeping.out is None and keeping.store is None:
        raise ConfigurationError(
            "failover needs a store that standbys reach as well", hint="say where with --store"
        )


def _taken_up(recipe: Recipe, store: Store, keeping: Keeping) -> Kept:
    """What is there of the run; a resumed one goes on as it began, for as many cycles."""
    latest, records = state_of(store, recipe.name)
    led = store.leadership(recipe.name)
    is_led = led is not None and led.epoch > 0
    if latest is None:
        _check_no_records(keeping.out)
    if (latest is not None or is_led) and not keeping.resume:
        raise RunExists(
            f"run {recipe.name} is there already",
            hint="go on with --resume, or choose another folder or name",
        )
    if led is not None and keeping.candidacy is None:
        # Before anything is changed: the settings are those of whoever leads it.
        check_epoch(recipe.name, led, None)
    kept = Kept(recipe, store, keeping.out)
    begun = begun_as(store, recipe.name, keeping.out) if keeping.resume else None
    if begun is not None:
        kept.made_with = made_with(made_before(store.settings(recipe.name)))
        # What is done is done, however few cycles are asked for now.
        kept.recipe = replace(begun, cycles=max(recipe.cycles, len(records)))
    if latest is not None:
        kept.records, kept.clock_s = records, latest.clock_s
    return kept


def _check_no_records(out: Path | None) -> None:
    """Records without a checkpoint are all that is left of a run; nothing may be put over them."""
    if out is None:
        return
    file = out / RECORDS
    with _writing(file):
        cycles = file.read_bytes().count(b"\n") if file.is_file() else 0
    if cycles:
        raise RunExists(
            f"{out} has the records of {cycles} cycles and no checkpoint of them",
            hint=f"choose another folder, or move {RECORDS} away to begin anew",
        )


def begun_as(store: Store | None, name: str, out: Path | None = None) -> Recipe | None:
    """The recipe that a kept run began with, or was last given more cycles by.

    None where none of that name is kept. What the store has not, the folder's configuration may
    still tell.
    """
    saved = None if store is None else store.settings(name)
    if store is None or saved is None:
        file = None if out is None else out / CONFIGURATION
        told = read_recipe(file) if file is not None and file.is_file() else None
        return told if told is not None and told.name == name else None
    what = f"the settings of run {name!r} are no recipe"
    with reading(store.name, what):
        begun = recipe_from(tomllib.loads(msgspec.json.decode(saved, type=str)))
    if begun.name != name:
        raise damaged(store.name, what, f"they are of run {begun.name!r}")
    return begun


def settings_of(recipe: Recipe, versions: Mapping[str, str] | None = None) -> str:
    """The recipe as stores keep it, which `begun_as` reads back, and what it was made with."""
    # As TOML within JSON, which by itself knows no infinity: a link's bandwidth is one.
    return msgspec.json.encode(to_toml(recipe, versions)).decode()


def kept_name(store: Store) -> str | None:
    """The name of the run that a store keeps; None where it keeps none, or several."""
    names = store.runs()
    return names[0] if len(names) == 1 else None


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two orchestrators must not write to one folder."""
    lock = folder / ".lock"
    with _writing(lock):
        file = os.open(lock, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        with _writing(lock):
            _take(file, folder)
        yield
    finally:
        os.close(file)


def _take(lock: int, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigurationError(
            f"another run is writing to {folder}", hint="wait for it, or choose another folder"
        ) from error


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """What the operating system refuses is a mistake in where to write."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {path}: {error.strerror or error}",
            hint="choose a folder that may be written to and has room, or make it one",
        ) from error


class Kept:
    """What of a run is kept, and where."""

    def __init__(self, recipe: Recipe, store: Store | None, out: Path | None) -> None:
        self.recipe = recipe
        self.store = store
        self.records: list[RoundRecord] = []
        self.clock_s = 0.0
        self.made_with = made_with()
        self._out = out
        self._file: RecordFile | None = None

    def begin(self, keeping: Keeping) -> None:
        """Keep the settings of a new run, or take up what is there of an old one."""
        if self.store is not None and keeping.is_first:
            keep = self.store.amend if self.records else self.store.begin
            keep(self.recipe.name, settings_of(self.recipe, self.made_with))
        if self._out is not None:
            # The store is what counts: a line that was cut off, or never written, comes from there.
            self._file = RecordFile(self._out / RECORDS)
            with _writing(self._file.path):
                self._file.rewrite(self.records)
            _replace(self._out / CONFIGURATION, to_toml(self.recipe, self.made_with).encode())
            with _writing(self._out / FAILED):
                (self._out / FAILED).unlink(missing_ok=True)

    def listening(self, listen: Callable[[Event], None] | None) -> Callable[[Event], None]:
        """Keeps each record, then tells whoever else listens."""

        def hear(event: Event) -> None:
            if isinstance(event, CycleEnded):
                self.records.append(event.record)
                if self._file is not None:
                    with _writing(self._file.path):
                        self._file.append(event.record)
            if listen is not None:
                listen(event)

        return hear

    def take_over(self) -> None:
        """Make sure that the run is the same one still, and keep what others led of it."""
        self.check_settings()
        if self.store is not None:
            self.catch_up(self.store.records(self.recipe.name))

    def check_settings(self) -> None:
        """Raise if somebody has begun the run as something else before anybody led it."""
        begun = begun_as(self.store, self.recipe.name)
        if begun is None:
            return
        if settings_of(replace(begun, cycles=self.recipe.cycles)) != settings_of(self.recipe):
            raise ConfigurationError(
                f"run {self.recipe.name} was begun with other settings by somebody else meanwhile",
                hint="go on as that one with --resume, or begin a run of another name",
            )

    def catch_up(self, records: list[RoundRecord]) -> None:
        """Keep the records of cycles that others led as well."""
        self.records = records
        if self._file is not None:
            with _writing(self._file.path):
                self._file.rewrite(self.records)

    def write_model(self, spec: TaskSpec, parameters: Vector) -> None:
        """The model as arrays by name, for `torch` or anything else to load."""
        if self._out is None:
            return
        named = split(torch.from_numpy(parameters.copy()), layout(build(spec)))
        arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in named.items()}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        _replace(self._out / MODEL, buffer.getvalue())

    def write_failure(self, error: QuorumNotReached) -> None:
        """What became of everybody in the cycle that failed, which no record tells."""
        if self._out is None:
            return
        cycle = len(self.records) + 1
        told = {"cycle": cycle, "wanted": error.wanted, "got": error.got, "devices": error.answers}
        try:
            _replace(self._out / FAILED, f"{to_json(told)}\n".encode())
        except ConfigurationError as problem:
            # That the run failed is the greater news.
            error.add_note(str(problem))


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with _writing(path):
        write_whole(path, content)
