"""The learning state after a cycle, and the stores that keep it with the records.

A store keeps, for each run, its settings, the record of every cycle and the newest checkpoint. One
call saves a record and its checkpoint together or not at all, and only as the next cycle: whenever
the orchestrator is killed, the run goes on from a state that agrees with its records, and no cycle
is lost or counted twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np

from axon.errors import AxonError, CheckpointConflict, ConfigurationError, RunExists
from axon.report.records import digest, digest_of, from_line
from axon.rounds.leadership import HEARTBEAT_S, Leadership
from axon.rounds.survey import Finding
from axon.values import RoundRecord, Vector, check_whole


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoint:
    """The learning state after `cycle` cycles: all that the next one starts from.

    Random streams are named by the seed and the cycle, so the seed is all the state they have.
    """

    run: str
    cycle: int
    parameters: Vector
    step_state: dict[str, Vector] = field(default_factory=dict)
    """What the global step carries from cycle to cycle."""
    clock_s: float
    """Since the run began, on the world's own clock."""
    members: tuple[str, ...]
    seed: int
    previous_s: dict[str, float] = field(default_factory=dict)
    """How long each learner's previous answer took to arrive."""
    findings: dict[str, Finding] = field(default_factory=dict)
    """What came of asking learners before their first cycle."""
    owner: str = ""
    """By which learners know a run that is taken up again from another of the same name."""
    fleet: str = ""
    """What a world that dies with the process needs to go on as if nothing had happened."""

    def __post_init__(self) -> None:
        check_whole("cycle", self.cycle, least=0)
        if not math.isfinite(self.clock_s):
            raise ConfigurationError(f"clock_s must be a finite number, got {self.clock_s!r}")
        for name, vector in [("parameters", self.parameters), *self.step_state.items()]:
            # Anything else would come back as other numbers than were saved.
            if vector.dtype != np.float32 or vector.ndim != 1:
                raise ConfigurationError(
                    f"{name} must be a flat array of float32, "
                    f"got {vector.dtype} of shape {vector.shape}"
                )


class Store(Protocol):
    """Keeps runs. Every method may be called from any thread.

    Whatever is read and is not what was saved is an `AxonError` that names the store.
    """

    @property
    def name(self) -> str:
        """What to call it in messages."""

    def begin(self, run: str, settings: str) -> None:
        """Keep a run and its settings, a JSON text; those of an earlier beginning are replaced.

        Raises `RunExists` once a cycle of it is saved: only then is there something to lose.
        """

    def amend(self, run: str, settings: str) -> None:
        """Replace the settings of a run that has begun, whatever it has saved.

        Raises `ConfigurationError` for an unknown run.
        """

    def settings(self, run: str) -> str | None:
        """What the run began with, or was last amended to; None for an unknown run."""

    def save(self, checkpoint: Checkpoint, record: RoundRecord, epoch: int | None = None) -> None:
        """Add the cycle's record and replace the run's checkpoint, both or neither.

        The record's digest, where it has one, is kept as that of the parameters. Raises
        `CheckpointConflict` unless the cycle is the one after the last one saved, and `Superseded`
        unless the epoch is the one that leads the run, whose beats it adds to; None is for a run
        that nobody has ever led.
        """

    def lead(
        self,
        run: str,
        holder: str,
        *,
        heartbeat_s: float = HEARTBEAT_S,
        after: Leadership | None = None,
    ) -> Leadership:
        """Lead the run as its next epoch, if `after`, where it is given, still is how it stands.

        Gives how it stands then: whoever asked leads if the holder is its own name. Raises
        `ConfigurationError` for an unknown run.
        """

    def beat(self, run: str, epoch: int) -> None:
        """Show that the holder of that epoch lives; raises `Superseded` if it no longer leads."""

    def leadership(self, run: str) -> Leadership | None:
        """Who leads the run, of epoch 0 if nobody ever has; None for an unknown run."""

    def latest(self, run: str) -> Checkpoint | None:
        """Where the run is to be taken up; None before its first cycle is saved."""

    def records(self, run: str) -> list[RoundRecord]:
        """Of all its cycles, in their order."""

    def runs(self) -> list[str]:
        """The names of all runs, sorted."""

    def close(self) -> None:
        """Let go of the file or the connection."""


def open_store(where: str | Path) -> Store:
    """The store at a path or `sqlite:///path` (made where there is none) or `postgresql://...`."""
    scheme, separator, rest = str(where).partition("://")
    # Late, because the stores import this module.
    if not separator or isinstance(where, Path):
        from axon.rounds.sqlite import SqliteStore

        return SqliteStore(Path(where))
    if scheme == "sqlite":
        from axon.rounds.sqlite import SqliteStore

        return SqliteStore(sqlite_path(str(where), rest))
    if scheme in {"postgresql", "postgres"}:
        from axon.rounds.postgres import PostgresStore

        return PostgresStore(str(where))
    raise ConfigurationError(
        f"no store has the scheme {scheme!r}",
        hint="known are a plain path, sqlite:///path and postgresql://user@host/database",
    )


def sqlite_path(address: str, rest: str) -> Path:
    """The path in `sqlite:///path`, relative with three slashes and absolute with four."""
    if not rest.startswith("/") or rest == "/":
        raise ConfigurationError(
            f"{address!r} names no file",
            hint="sqlite:///runs.db is in this folder, sqlite:////var/axon/runs.db anywhere",
        )
    return Path(rest[1:])


@dataclass(frozen=True, slots=True)
class StoredVector:
    """One array as the stores keep it: raw little-endian float32 bytes and their digest.

    Place 0 is the parameters, the others are the step's state in its order.
    """

    place: int
    name: str
    digest: str
    data: memoryview | bytes


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    """The checkpoint's plain fields, of which every store keeps a JSON text."""

    clock_s: float
    members: tuple[str, ...]
    seed: int
    previous_s: dict[str, float]
    findings: dict[str, Finding] = {}
    owner: str = ""
    fleet: str = ""


def pack(checkpoint: Checkpoint, parameters_digest: str = "") -> tuple[str, list[StoredVector]]:
    """The checkpoint's plain fields as JSON, and its arrays.

    Whoever knows the digest of the parameters hands it over: hashing them takes its time.
    """
    head = {
        "clock_s": checkpoint.clock_s,
        "members": checkpoint.members,
        "seed": checkpoint.seed,
        "previous_s": checkpoint.previous_s,
        "findings": msgspec.to_builtins(checkpoint.findings),
        "owner": checkpoint.owner,
        "fleet": checkpoint.fleet,
    }
    named = [("parameters", checkpoint.parameters), *checkpoint.step_state.items()]
    known = {0: parameters_digest} if parameters_digest else {}
    vectors = [
        StoredVector(place, name, known.get(place) or digest(vector), _bytes_of(vector))
        for place, (name, vector) in enumerate(named)
    ]
    return json.dumps(head), vectors


def unpack(run: str, cycle: int, head: str, stored: Sequence[StoredVector]) -> Checkpoint:
    """The checkpoint that was packed, whose arrays come in the order of their places.

    Raises `ValueError` for bytes that do not have their digest, and whatever else comes of fields
    that are not what was packed; `reading` makes one error of all of it.
    """
    places = [vector.place for vector in stored]
    if not places or places[0] != 0:
        raise ValueError("the parameters are missing")
    if places != list(range(len(places))):
        raise ValueError(f"the arrays should have the places 0 to {len(places) - 1}, got {places}")
    fields = msgspec.structs.asdict(msgspec.convert(json.loads(head), _Head))
    for vector in stored:
        found = digest_of(vector.data)
        if found != vector.digest:
            raise ValueError(
                f"the digest of {vector.name!r} is {found} and should be {vector.digest}"
            )
    step_state = {vector.name: _array_of(vector.data) for vector in stored[1:]}
    parameters = _array_of(stored[0].data)
    return Checkpoint(run=run, cycle=cycle, parameters=parameters, step_state=step_state, **fields)


def _bytes_of(vector: Vector) -> memoryview:
    return np.ascontiguousarray(vector, dtype="<f4").data.cast("B")


def _array_of(data: memoryview | bytes) -> Vector:
    # A copy in the machine's own byte order that, unlike the buffer, may be written to.
    return np.frombuffer(data, dtype="<f4").astype(np.float32)


@contextmanager
def reading(where: str, what: str) -> Iterator[None]:
    """Whatever goes wrong in making sense of what a store holds, the store is damaged."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise damaged(where, what, str(error) or type(error).__name__) from error
    except RecursionError as error:
        raise damaged(where, what, "it is nested too deeply") from error


def damaged(where: str, what: str, wrong: str) -> AxonError:
    """The error for a store that holds what was never saved."""
    return AxonError(
        f"{where}: {what}: {wrong}", hint="the store is damaged: restore it from a backup"
    )


def records_of(where: str, run: str, rows: Sequence[tuple[int, str]]) -> list[RoundRecord]:
    """The records of the cycles and lines that a store holds of a run."""
    found = []
    for cycle, line in rows:
        with reading(where, f"the record of cycle {cycle} of run {run!r} cannot be read"):
            record = from_line(line)
            if (record.run, record.cycle) != (run, cycle):
                raise ValueError(f"it is of cycle {record.cycle} of run {record.run!r}")
        found.append(record)
    return found


def state_of(store: Store, run: str) -> tuple[Checkpoint | None, list[RoundRecord]]:
    """The newest checkpoint and the records of a run, which raises unless they agree."""
    latest, records = store.latest(run), store.records(run)
    after = 0 if latest is None else latest.cycle
    if len(records) > after:
        newest = store.latest(run)
        # Whoever leads the run may save between two questions; then there is a newer one by now.
        records = records[:after] if newest is not None and newest.cycle > after else records
    cycles = [record.cycle for record in records]
    what = f"run {run!r} cannot be taken up"
    if cycles != list(range(1, after + 1)):
        raise damaged(
            store.name,
            what,
            f"its checkpoint is of cycle {after}, and it has {len(cycles)} records, "
            f"of {_in_words(cycles)}",
        )
    if latest is not None and records[-1].digest not in ("", digest(latest.parameters)):
        wrong = f"the parameters are not those of the record of cycle {after}"
        raise damaged(store.name, what, wrong)
    return latest, records


def _in_words(cycles: Sequence[int]) -> str:
    """Which cycles there are, without naming thousands."""
    missing = sorted(set(range(1, max(cycles, default=0) + 1)) - set(cycles))
    if not missing:
        return f"the cycles 1 to {cycles[-1]}" if cycles else "no cycle"
    more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
    return f"which cycle {', '.join(map(str, missing[:8]))}{more} has none"


def check_beginning(run: str, settings: str) -> None:
    """Raise unless they can be a run's name and settings in every store."""
    if not run or not run.isprintable():
        raise ConfigurationError(f"a run's name must be printable and not empty, got {run!r}")
    try:
        json.loads(settings)
    except ValueError as error:
        raise ConfigurationError(f"settings must be a JSON text: {error}") from error


def check_unsaved(run: str, cycles: int) -> None:
    """Raise `RunExists` for a run with cycles, whose settings are those of its records."""
    if cycles:
        raise RunExists(f"there is already a run {run!r}, with {cycles} cycles")


def check_amended(run: str, amended: int) -> None:
    """Raise unless there was a run whose settings could be amended."""
    if not amended:
        raise ConfigurationError(
            f"there is no run {run!r} to amend", hint="begin(run, settings) first"
        )


def check_pair(checkpoint: Checkpoint, record: RoundRecord) -> None:
    """Raise unless both are of the same cycle of the same run."""
    of_checkpoint, of_record = (checkpoint.run, checkpoint.cycle), (record.run, record.cycle)
    if of_checkpoint != of_record:
        raise ConfigurationError(
            "a checkpoint and its record must be of one cycle, got cycle "
            f"{of_checkpoint[1]} of {of_checkpoint[0]!r} and {of_record[1]} of {of_record[0]!r}"
        )


def check_next(run: str, saved: int | None, cycle: int) -> None:
    """Raise unless the run has begun and the cycle is the one after those saved."""
    if saved is None:
        raise ConfigurationError(
            f"there is no run {run!r} to save a cycle of", hint="begin(run, settings) first"
        )
    if cycle != saved + 1:
        raise CheckpointConflict(
            f"run {run!r} has {saved} cycles, so the next is {saved + 1}, got {cycle}"
        )
