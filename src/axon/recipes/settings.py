"""A recipe: everything that decides how a run goes, in names and numbers."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import msgspec

from axon.errors import ConfigurationError
from axon.values import check_positive, check_whole

World = Literal["simulated", "emulated", "deployed"]

SHARD_SAMPLES = {"digits": 50, "mnist": 500, "fashion-mnist": 500, "synthetic": 50}
"""Samples in a shard, by data set: 500 as in the thesis; fewer where there are few in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What `axon train` is told; every field has a default."""

    task: str = "twonn"
    """A net of the catalogue, or `file.py:name` of your own."""
    dataset: str = "digits"
    world: World = "simulated"
    devices: str = "thesis"
    """A fleet by name, or devices: `jetson-nano*2,pi-1`."""
    device: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Devices of your own, by name: `{"like": "pi-1", "flops_per_s": 1e9}`."""
    hosts: tuple[str, ...] = ()
    """Devices that run `axon worker`, for the deployed world."""
    discover: bool = False
    """Also take devices that announce themselves."""
    allocator: str = "open"
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
    cpu: Literal["duty", "quota"] = "duty"
    links: Literal["shaped", "namespaces", "none"] = "shaped"
    deadline_s: float = 2.0
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
        check_positive("deadline_s", self.deadline_s)
        for name, least in (("cycles", 1), ("passes", 1), ("batch_size", 1), ("evaluate_every", 0)):
            check_whole(name, getattr(self, name), least=least)
        if self.shard_samples is not None:
            check_whole("shard_samples", self.shard_samples, least=1)
        if self.world not in ("simulated", "emulated", "deployed"):
            raise ConfigurationError(
                f"no world is called {self.world!r}", hint="simulated, emulated or deployed"
            )

    @property
    def samples_in_shard(self) -> int:
        """As chosen, or as fits the data set."""
        return self.shard_samples or SHARD_SAMPLES.get(self.dataset.partition(":")[0], 50)


def recipe_from(table: Mapping[str, Any]) -> Recipe:
    """From a table of TOML or JSON; an unknown or ill-typed entry is named."""
    known = {item.name for item in fields(Recipe)}
    unknown = sorted(set(table) - known)
    if unknown:
        raise ConfigurationError(
            f"unknown setting {', '.join(unknown)}", hint=f"known are {', '.join(sorted(known))}"
        )
    try:
        return msgspec.convert(table, Recipe)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"a setting is of the wrong kind: {error}") from error


def read_recipe(path: Path) -> Recipe:
    """From a TOML file."""
    return recipe_from(read_table(path))


def read_table(path: Path) -> dict[str, Any]:
    """What a TOML file says, and no more: settings that it leaves out are not in the table."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from error


def to_toml(recipe: Recipe) -> str:
    """As a TOML file that `read_recipe` reads back; what was left open is left out."""
    tables: list[str] = []
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
