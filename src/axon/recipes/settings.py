"""A recipe: everything that decides how a run goes, in names and numbers."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from axon.errors import ConfigurationError
from axon.values import check_amount, check_positive, check_whole

World = Literal["simulated", "emulated", "deployed"]
Cpu = Literal["duty", "quota"]
Links = Literal["shaped", "namespaces", "none"]
CHOICES = {"world": get_args(World), "cpu": get_args(Cpu), "links": get_args(Links)}

COUNTS = ("cycles", "passes", "batch_size", "shard_samples", "total_shards", "quorum")
"""Settings that are whole numbers of at least 1."""
MOST = 10**9
"""Of anything that is counted, and of seconds: beyond it lies a slip of the keyboard."""
MOST_LEARNING_RATE = 1e6
MOST_IN_NAME = 200

DEFAULT_DEVICES = "thesis"
MADE_WITH = "made_with"
"""The table of versions beside the settings of a kept run; files of old have none."""

SHARD_SAMPLES = {"digits": 50, "mnist": 500, "fashion-mnist": 500, "synthetic": 50}
"""Samples in a shard, by data set: 500 as in the thesis; fewer where there are few in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What `axon train` is told; every field has a default."""

    task: str = "twonn"
    """A net of the catalogue, or `file.py:name` of your own."""
    dataset: str = "digits"
    world: World = "simulated"
    devices: str = DEFAULT_DEVICES
    """A fleet by name, or devices: `jetson-nano*2,pi-1`."""
    device: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Devices of your own, by name: `{"like": "pi-1", "flops_per_s": 1e9}`."""
    hosts: tuple[str, ...] = ()
    """Devices that run `axon worker`, for the deployed world."""
    discover: bool = False
    """Also take devices that announce themselves."""
    allocator: str = "open"
    total_shards: int | None = None
    """What the orchestrator deals out in a cycle where it knows who can do what; None for all."""
    benchmark_shards: int | None = None
    """What a device benchmarks itself on before its first cycle; None for as many as the allocator
    needs, which may be none."""
    dynamic: bool = False
    """Whether devices keep a margin that they learn from their own misses."""
    private: tuple[str, ...] = ()
    """Devices that do not tell their capability."""
    selector: str = "everyone"
    aggregator: str = "weighted-mean"
    step: str = "replace"
    codec: str = "plain"
    own_data: bool = False
    """Whether devices may train on data of their own, whose amount they alone know."""
    partition: str = ""
    """How the data are dealt out to learners that keep their own: `iid`, `dirichlet:0.3`, …"""
    activity: str = "idle"
    """What owners do with their devices: nothing, or `heated:0.5`."""
    attack: str = ""
    """What devices that lie send: `reversed`, `random:0.1`, …; nobody lies if it is empty."""
    liars: int = 0
    """How many devices wear the attack: the last ones in the order of names."""
    cpu: Cpu = "duty"
    links: Links = "shaped"
    deadline_s: float = 1.0
    grace_s: float = 0.0
    """How long after the deadline answers are still taken."""
    cycles: int = 10
    passes: int = 1
    shard_samples: int | None = None
    batch_size: int = 32
    optimiser: str | None = None
    learning_rate: float | None = None
    momentum: float = 0.0
    quorum: int | None = None
    evaluate_every: int = 1
    seed: int = 0
    name: str = "run"

    def __post_init__(self) -> None:
        for name in CHOICES:
            _check_choice(name, getattr(self, name))
        for name in COUNTS:
            _check_count(name, getattr(self, name), least=1)
        for name in ("evaluate_every", "benchmark_shards", "liars"):
            _check_count(name, getattr(self, name), least=0)
        _check_amount("deadline_s", self.deadline_s, most=MOST)
        check_amount("grace_s", self.grace_s)
        _check_most("grace_s", self.grace_s, MOST)
        _check_amount("learning_rate", self.learning_rate, most=MOST_LEARNING_RATE)
        if not isinstance(self.momentum, (int, float)) or not 0 <= self.momentum < 1:
            raise ConfigurationError(
                f"momentum must be a number of at least 0 and below 1, got {self.momentum!r}"
            )
        check_whole("seed", self.seed, least=-(2**63))
        if self.seed >= 2**63:
            raise ConfigurationError(f"seed must be below 2**63, got {self.seed}")
        check_name("name", self.name)
        for name in self.device:
            check_name("a device's name", name)

    @property
    def samples_in_shard(self) -> int:
        """As chosen, or as fits the data set."""
        return self.shard_samples or SHARD_SAMPLES.get(self.dataset.partition(":")[0], 50)


def _check_choice(name: str, value: Any) -> None:
    if value not in CHOICES[name]:
        *others, last = CHOICES[name]
        raise ConfigurationError(
            f"no {name} is called {value!r}", hint=f"{', '.join(others)} or {last}"
        )


def _check_count(name: str, value: int | None, *, least: int) -> None:
    if value is None:
        return
    check_whole(name, value, least=least)
    if value > MOST:
        raise ConfigurationError(f"{name} must be at most {MOST}, got {value}")


def _check_amount(name: str, value: float | None, *, most: float) -> None:
    if value is None:
        return
    check_positive(name, value)
    _check_most(name, value, most)


def _check_most(name: str, value: float, most: float) -> None:
    if value > most:
        raise ConfigurationError(f"{name} must be at most {most:g}, got {value!r}")


def check_name(what: str, name: str) -> None:
    """Names stand in messages, file names and addresses."""
    fits = 1 <= len(name) <= MOST_IN_NAME
    if not fits or not name.isprintable() or "/" in name or "\\" in name:
        raise ConfigurationError(
            f"{what} must be 1 to {MOST_IN_NAME} printable characters, none of them / or \\, "
            f"got {name[:MOST_IN_NAME]!r} of {len(name)} characters"
        )


def recipe_from(table: Mapping[str, Any]) -> Recipe:
    """From a table of TOML or JSON; an unknown or ill-typed entry is named.

    What a kept run was made with may stand in it, and is no part of the recipe.
    """
    table = {name: value for name, value in table.items() if name != MADE_WITH}
    known = {item.name for item in fields(Recipe)}
    unknown = sorted(set(table) - known)
    if unknown:
        raise ConfigurationError(
            f"unknown setting {', '.join(unknown)}", hint=f"known are {', '.join(sorted(known))}"
        )
    for name in CHOICES.keys() & table.keys():
        _check_choice(name, table[name])  # Which, unlike msgspec, tells what there is.
    try:
        return msgspec.convert(table, Recipe)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, ConfigurationError):
            raise error.__cause__ from None
        raise ConfigurationError(f"a setting is of the wrong kind: {error}") from error


def read_recipe(path: Path) -> Recipe:
    """From a TOML file."""
    return recipe_from(read_table(path))


def read_table(path: Path) -> dict[str, Any]:
    """The settings that a TOML file says, and no more: those that it leaves out are not there."""
    try:
        # A pipe may never end, or never begin.
        regular = stat.S_ISREG(path.stat().st_mode)
        content = path.read_bytes() if regular else b""
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    if not regular:
        raise ConfigurationError(
            f"cannot read {path}: it is not a regular file", hint="name a TOML file"
        )
    try:
        table = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        # Not only TOML's own errors: a number of thousands of digits is Python's.
        raise ConfigurationError(f"{path} is not TOML: {error}") from error
    return {name: value for name, value in table.items() if name != MADE_WITH}


def to_toml(recipe: Recipe, made_with: Mapping[str, str] | None = None) -> str:
    """As a TOML file that `read_recipe` reads back; what was left open is left out.

    What the run was made with follows as a table of its own.
    """
    tables = [_table(MADE_WITH, made_with)] if made_with else []
    lines: list[str] = []
    for key, value in msgspec.to_builtins(recipe).items():
        if isinstance(value, dict):
            tables += [_table(f"{key}.{_key(name)}", entries) for name, entries in value.items()]
        elif value is not None:
            lines.append(f"{key} = {_toml(value)}")
    return "\n".join(lines) + "\n" + "".join(tables)


def _table(name: str, entries: Mapping[str, Any]) -> str:
    plain = [f"{_key(key)} = {_toml(value)}" for key, value in entries.items() if value is not None]
    return f"\n[{name}]\n" + "\n".join(plain) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {_toml(entry)}" for key, entry in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return repr(value)  # JSON knows no infinity, which a link's bandwidth may be.
    # JSON's strings, whole numbers and truth values are TOML's too, but for one letter.
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    plain = name.replace("-", "").replace("_", "")
    return name if plain.isascii() and plain.isalnum() else _toml(name)
