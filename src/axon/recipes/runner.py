"""A recipe, done: in its world, with its records, configuration and checkpoint in a folder."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import tomllib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from axon.compression.codecs import codec
from axon.data.datasets import load
from axon.errors import ConfigurationError, RunExists
from axon.learning.optimisers import functional
from axon.learning.parameters import layout, split
from axon.learning.tasks import build, default_spec, load_tasks
from axon.recipes.settings import Recipe, recipe_from, to_toml
from axon.recipes.tables import AGGREGATORS, SELECTORS, STEPS, allocators, choose
from axon.recipes.worlds import AnyWorld, is_own_task, world_of
from axon.report.records import RecordFile
from axon.rounds.checkpoint import Store, open_store
from axon.rounds.events import CycleEnded, Event
from axon.rounds.fleet import Fleet
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.remote import Hosting
from axon.rounds.settings import Run, Scheme
from axon.testbed.simulation import Simulated
from axon.values import RoundRecord, TaskSpec, Vector

RECORDS = "records.jsonl"
CONFIGURATION = "run.toml"
CHECKPOINT = "checkpoint.sqlite"
MODEL = "model.npz"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    records: list[RoundRecord]
    """Of all its cycles, those before a resumption too."""
    spec: TaskSpec
    parameters: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Where a run is kept, and whether it is taken up."""

    out: Path | None = None
    """The folder of records, configuration and checkpoint; None keeps nothing."""
    store: str | None = None
    """Where the checkpoint goes instead: another file, or a PostgreSQL address."""
    resume: bool = False


def run_recipe(
    recipe: Recipe,
    keeping: Keeping | None = None,
    *,
    hosting: Hosting | None = None,
    listen: Callable[[Event], None] | None = None,
) -> Outcome:
    """Do a recipe from its beginning, or from where it was left."""
    with _kept(recipe, keeping or Keeping()) as kept:
        recipe = kept.recipe
        run, scheme = run_of(recipe), scheme_of(recipe)
        world = world_of(recipe, hosting)
        # Not before all of it could be made: a mistake must not take the folder for ever.
        kept.begin()

        async def main(fleet: Fleet) -> Vector:
            dataset = load(recipe.dataset, seed=recipe.seed)
            orchestrator = Orchestrator(
                run, dataset, fleet, scheme, store=kept.store, listen=kept.listening(listen)
            )
            await orchestrator.run()
            return orchestrator.parameters

        parameters = _in_world(world, main, kept)
        kept.write_model(run.spec, parameters)
        return Outcome(kept.records, run.spec, parameters)


def spec_of(recipe: Recipe) -> TaskSpec:
    """The task, sized to the data set."""
    dataset = load(recipe.dataset, seed=recipe.seed)
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


def run_of(recipe: Recipe) -> Run:
    """The run, without its world and scheme."""
    return Run(
        spec=spec_of(recipe),
        cycles=recipe.cycles,
        deadline_s=recipe.deadline_s,
        shard_samples=recipe.samples_in_shard,
        name=recipe.name,
        seed=recipe.seed,
        quorum=recipe.quorum,
        own_data=recipe.own_data or bool(recipe.partition),
        evaluate_every=recipe.evaluate_every,
    )


def scheme_of(recipe: Recipe) -> Scheme:
    """The policies that the recipe names."""
    codec(recipe.codec)  # An order carries its name; what it names has to exist.
    return Scheme(
        select=choose("selector", SELECTORS, recipe.selector),
        allocate=choose("allocator", allocators(recipe.passes), recipe.allocator),
        aggregate=choose("aggregator", AGGREGATORS, recipe.aggregator),
        step=choose("step", STEPS, recipe.step),
        codec=recipe.codec,
    )


def _in_world(world: AnyWorld, main: Callable[[Fleet], Awaitable[Vector]], kept: _Kept) -> Vector:
    if isinstance(world, Simulated):
        # Virtual time goes on where it stopped, so that a resumed run reckons the same floats.
        return world.run(main, start_s=kept.clock_s)
    return world.run(main)


@contextlib.contextmanager
def _kept(recipe: Recipe, keeping: Keeping) -> Iterator[_Kept]:
    """Open what a run is kept in, and take up what is there."""
    if keeping.out is None and keeping.store is None:
        if keeping.resume:
            raise ConfigurationError(
                "there is nothing to resume from", hint="say which run with --out or --store"
            )
        yield _Kept(recipe, None, None)
        return
    with contextlib.ExitStack() as stack:
        if keeping.out is not None:
            keeping.out.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_locked(keeping.out))
        where = keeping.store or str((keeping.out or Path()) / CHECKPOINT)
        store = stack.enter_context(contextlib.closing(open_store(where)))
        yield _Kept(_taken_up(recipe, store, keeping), store, keeping.out)


def _taken_up(recipe: Recipe, store: Store, keeping: Keeping) -> Recipe:
    """The recipe that the run goes by: a resumed one goes on as it began, for as many cycles."""
    begun = begun_as(store, recipe.name)
    if begun is None or store.latest(recipe.name) is None:
        return recipe
    if not keeping.resume:
        raise RunExists(
            f"run {recipe.name} is there already",
            hint="go on with --resume, or choose another folder or name",
        )
    return replace(begun, cycles=recipe.cycles)


def begun_as(store: Store, name: str) -> Recipe | None:
    """The recipe that a kept run began with; None where there is none of that name."""
    saved = store.settings(name)
    return (
        None if saved is None else recipe_from(tomllib.loads(msgspec.json.decode(saved, type=str)))
    )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two orchestrators must not write to one folder."""
    file = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigurationError(
                f"another run is writing to {folder}", hint="wait for it, or choose another folder"
            ) from error
        yield
    finally:
        os.close(file)


class _Kept:
    """What of a run is kept, and where."""

    def __init__(self, recipe: Recipe, store: Store | None, out: Path | None) -> None:
        self.recipe = recipe
        self.store = store
        self.records: list[RoundRecord] = []
        self.clock_s = 0.0
        self._out = out
        self._file: RecordFile | None = None

    def begin(self) -> None:
        """Keep the settings of a new run, or take up what is there of an old one."""
        if self.store is not None:
            name = self.recipe.name
            latest = self.store.latest(name)
            if latest is None:
                # As TOML within JSON, which by itself knows no infinity: a link's bandwidth is one.
                self.store.begin(name, msgspec.json.encode(to_toml(self.recipe)).decode())
            else:
                self.clock_s = latest.clock_s
            self.records = self.store.records(name)
        if self._out is not None:
            # The store is what counts: a line that was cut off, or never written, comes from there.
            self._file = RecordFile(self._out / RECORDS)
            self._file.rewrite(self.records)
            _replace(self._out / CONFIGURATION, to_toml(self.recipe).encode())

    def listening(self, listen: Callable[[Event], None] | None) -> Callable[[Event], None]:
        """Keeps each record, then tells whoever else listens."""

        def hear(event: Event) -> None:
            if isinstance(event, CycleEnded):
                self.records.append(event.record)
                if self._file is not None:
                    self._file.append(event.record)
            if listen is not None:
                listen(event)

        return hear

    def write_model(self, spec: TaskSpec, parameters: Vector) -> None:
        """The model as arrays by name, for `torch` or anything else to load."""
        if self._out is None:
            return
        named = split(torch.from_numpy(parameters.copy()), layout(build(spec)))
        arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in named.items()}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        _replace(self._out / MODEL, buffer.getvalue())


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_bytes(content)
    partial.replace(path)
