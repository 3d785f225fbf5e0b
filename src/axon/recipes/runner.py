"""A recipe, done: in its world, with its records, configuration and checkpoint in a folder."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import tomllib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from axon.data.datasets import Dataset, load
from axon.errors import ConfigurationError, QuorumNotReached, RunExists
from axon.learning.optimisers import functional
from axon.learning.parameters import layout, split
from axon.learning.tasks import build, default_spec, load_tasks
from axon.recipes.schemes import scheme_of
from axon.recipes.settings import Recipe, read_recipe, recipe_from, to_toml
from axon.recipes.versions import made_before, made_with
from axon.recipes.worlds import AnyWorld, is_own_task, world_of
from axon.report.records import RecordFile, to_json, write_whole
from axon.rounds.checkpoint import Store, damaged, open_store, reading, state_of
from axon.rounds.events import CycleEnded, Event
from axon.rounds.fleet import Fleet
from axon.rounds.leadership import check_epoch
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.remote import Hosting
from axon.rounds.settings import Run
from axon.rounds.standby import Candidacy, Standby
from axon.testbed.simulation import Simulated
from axon.values import RoundRecord, TaskSpec, Vector

RECORDS = "records.jsonl"
CONFIGURATION = "run.toml"
CHECKPOINT = "checkpoint.sqlite"
MODEL = "model.npz"
FAILED = "failed.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    records: list[RoundRecord]
    """Of all its cycles, those before a resumption too."""
    spec: TaskSpec
    parameters: Vector


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


def run_recipe(
    recipe: Recipe,
    keeping: Keeping | None = None,
    *,
    hosting: Hosting | None = None,
    listen: Callable[[Event], None] | None = None,
) -> Outcome:
    """Do a recipe from its beginning, or from where it was left."""
    keeping = keeping or Keeping()
    with _kept(recipe, keeping) as kept:
        recipe = kept.recipe
        dataset = load(recipe.dataset, seed=recipe.seed)
        run, scheme = run_of(recipe, dataset), scheme_of(recipe)
        world = world_of(recipe, hosting)
        # Not before all of it could be made: a mistake must not take the folder for ever.
        kept.begin(keeping)

        async def main(fleet: Fleet) -> Vector:
            parts, hear = (run, dataset, fleet, scheme), kept.listening(listen)
            if keeping.candidacy is None or kept.store is None:
                orchestrator = Orchestrator(*parts, store=kept.store, listen=hear)
                await orchestrator.run()
                return orchestrator.parameters
            standby = Standby(
                *parts,
                store=kept.store,
                candidacy=keeping.candidacy,
                listen=hear,
                prepare=kept.take_over,
            )
            kept.catch_up(await standby.run())
            return standby.parameters

        try:
            parameters = _in_world(world, main, kept)
        except QuorumNotReached as error:
            kept.write_failure(error)
            raise
        kept.write_model(run.spec, parameters)
        return Outcome(kept.records, run.spec, parameters)


def spec_of(recipe: Recipe, dataset: Dataset) -> TaskSpec:
    """The task, sized to the data set."""
    net = load_tasks(recipe.task) if is_own_task(recipe.task) else recipe.task
    chosen = {
        "batch_size": recipe.batch_size,
        "momentum": recipe.momentum,
        "optimiser": recipe.optimiser,
        "learning_rate": recipe.learning_rate,
    }
    changes = {key: value for key, value in chosen.items() if value is not None}
    spec = default_spec(net, dataset.shape, dataset.classes, **changes)
    functional(spec)  # An optimiser that does not exist is one mistake, not one of every learner.
    return spec


def run_of(recipe: Recipe, dataset: Dataset) -> Run:
    """The run, without its world and scheme."""
    return Run(
        spec=spec_of(recipe, dataset),
        cycles=recipe.cycles,
        deadline_s=recipe.deadline_s,
        grace_s=recipe.grace_s,
        shard_samples=recipe.samples_in_shard,
        name=recipe.name,
        seed=recipe.seed,
        quorum=recipe.quorum,
        own_data=recipe.own_data or bool(recipe.partition),
        evaluate_every=recipe.evaluate_every,
    )


def _in_world(world: AnyWorld, main: Callable[[Fleet], Awaitable[Vector]], kept: _Kept) -> Vector:
    if isinstance(world, Simulated):
        # Virtual time goes on where it stopped, so that a resumed run reckons the same floats.
        return world.run(main, start_s=kept.clock_s)
    return world.run(main)


@contextlib.contextmanager
def _kept(recipe: Recipe, keeping: Keeping) -> Iterator[_Kept]:
    """Open what a run is kept in, and take up what is there."""
    if keeping.candidacy is not None:
        _check_led(recipe, keeping)
    if keeping.out is None and keeping.store is None:
        if keeping.resume:
            raise ConfigurationError(
                "there is nothing to resume from", hint="say which run with --out or --store"
            )
        yield _Kept(recipe, None, None)
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


def _taken_up(recipe: Recipe, store: Store, keeping: Keeping) -> _Kept:
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
    kept = _Kept(recipe, store, keeping.out)
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


class _Kept:
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
