"""Recipes as values and as TOML: what goes out comes back, and what cannot be meant is named."""

from __future__ import annotations

import math
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import ConfigurationError
from axon.recipes.settings import COUNTS, Recipe, read_recipe, recipe_from, to_toml

text = st.text(st.characters(codec="utf-8"), max_size=20)
name = st.text(st.characters(codec="utf-8", exclude_characters="/\\"), min_size=1, max_size=20)
name = name.filter(str.isprintable)
whole = st.integers(1, 10**9)
entry = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | text
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "task": text,
    "dataset": text,
    "world": st.sampled_from(["simulated", "emulated", "deployed"]),
    "devices": text,
    "device": st.dictionaries(
        name,
        st.dictionaries(text, entry | st.dictionaries(text, entry, max_size=3), max_size=3),
        max_size=3,
    ),
    "hosts": st.lists(text, max_size=3).map(tuple),
    "discover": st.booleans(),
    "allocator": text,
    "total_shards": st.none() | whole,
    "benchmark_shards": st.none() | st.integers(0, 10**9),
    "dynamic": st.booleans(),
    "private": st.lists(text, max_size=3).map(tuple),
    "selector": text,
    "aggregator": text,
    "step": text,
    "codec": text,
    "own_data": st.booleans(),
    "partition": text,
    "activity": text,
    "attack": text,
    "liars": st.integers(0, 10**9),
    "cpu": st.sampled_from(["duty", "quota"]),
    "links": st.sampled_from(["shaped", "namespaces", "none"]),
    "deadline_s": st.floats(1e-9, 1e9),
    "grace_s": st.floats(0, 1e9),
    "cycles": whole,
    "passes": whole,
    "shard_samples": st.none() | whole,
    "batch_size": whole,
    "optimiser": st.none() | text,
    "learning_rate": st.none() | st.floats(0, 1e6, exclude_min=True),
    "momentum": st.floats(0, 1, exclude_max=True),
    "quorum": st.none() | whole,
    "evaluate_every": st.integers(0, 100),
    "seed": st.integers(-(2**63), 2**63 - 1),
    "name": name,
}


def test_every_field_is_tried() -> None:
    assert set(FIELDS) == {field.name for field in fields(Recipe)}


@settings(max_examples=100, deadline=None)
@given(st.fixed_dictionaries(FIELDS))
def test_a_recipe_comes_back_from_toml(tmp_path_factory: Any, given_fields: dict[str, Any]) -> None:
    recipe = Recipe(**given_fields)
    path = tmp_path_factory.getbasetemp() / "recipe.toml"
    path.write_bytes(to_toml(recipe).encode())
    assert read_recipe(path) == recipe


def test_toml_as_a_person_would_write_it() -> None:
    recipe = Recipe(
        hosts=("pi.local", "nano.local:8000"),
        device={"my pi": {"like": "pi-1", "link": {"loss": 0.5, "up_bytes_per_s": math.inf}}},
        seed=7,
    )
    lines = to_toml(recipe).splitlines()
    assert 'hosts = ["pi.local", "nano.local:8000"]' in lines
    assert "seed = 7" in lines
    assert "discover = false" in lines
    assert not any(line.startswith(("quorum", "optimiser")) for line in lines)
    assert lines[-3:] == [
        '[device."my pi"]',
        'like = "pi-1"',
        "link = { loss = 0.5, up_bytes_per_s = inf }",
    ]


def test_what_a_file_leaves_out_has_its_default(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("cycles = 3\ndeadline_s = 2\n")
    assert read_recipe(path) == Recipe(cycles=3, deadline_s=2.0)
    assert recipe_from({}) == Recipe()


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"cycels": 3, "seeds": 1}, r"unknown setting cycels, seeds .*cycles"),
        ({"cycles": "3"}, r"`int`, got `str`.*cycles"),
        ({"cycles": 2.5}, "cycles"),
        ({"deadline_s": "soon"}, "deadline_s"),
        ({"hosts": "pi.local"}, "hosts"),
        ({"hosts": ["pi.local", 3]}, r"hosts\[1\]"),
        ({"device": {"pi": 3}}, "device"),
        ({"world": "mars"}, r"no world is called 'mars' \(simulated, emulated or deployed\)"),
        ({"world": ["mars"]}, r"no world is called \['mars'\]"),
        ({"cpu": "turbo"}, r"no cpu is called 'turbo' \(duty or quota\)"),
        ({"links": "string"}, "shaped, namespaces or none"),
        ({"discover": 1}, "discover"),
        ({"cycles": 0}, "cycles must be .* at least 1, got 0"),
        ({"passes": 0}, "passes must be .* at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be .* at least 1, got 0"),
        ({"shard_samples": 0}, "shard_samples must be .* at least 1, got 0"),
        ({"evaluate_every": -1}, "evaluate_every must be .* at least 0, got -1"),
        ({"benchmark_shards": -1}, "benchmark_shards must be .* at least 0, got -1"),
        ({"total_shards": 0}, "total_shards must be .* at least 1, got 0"),
        ({"private": "pi-1"}, "private"),
        ({"grace_s": -1}, "grace_s must be .* at least 0, got -1"),
        ({"grace_s": math.nan}, "grace_s must be .* got nan"),
        ({"grace_s": 1.1e9}, r"^grace_s must be at most 1e\+09, got 1100000000.0$"),
        ({"deadline_s": 0}, "deadline_s must be .* above 0, got 0"),
        ({"deadline_s": math.inf}, "deadline_s must be .* got inf"),
        ({"deadline_s": 1.1e9}, r"^deadline_s must be at most 1e\+09, got 1100000000.0$"),
        *(
            ({name: 10**9 + 1}, f"^{name} must be at most 1000000000, got 1000000001$")
            for name in COUNTS
        ),
        ({"quorum": 0}, "quorum must be .* at least 1, got 0"),
        ({"cycles": 1 << 20_000}, "Exceeds the limit"),
        *(({"learning_rate": wrong}, "learning_rate must") for wrong in (0, -1, math.nan, 1.1e6)),
        *(({"momentum": wrong}, "momentum must") for wrong in (-0.1, 1, math.nan, math.inf)),
        ({"seed": 2**63}, "seed must be below"),
        ({"seed": -(2**63) - 1}, "seed must be a whole number of at least"),
        *(
            (table, "must be 1 to 200 printable characters")
            for wrong in ("", "a" * 201, "a\n", "a/b", "a\\b", "\x7f")
            for table in ({"name": wrong}, {"device": {wrong: {"like": "pi-1"}}})
        ),
    ],
)
def test_an_entry_that_cannot_be_is_named(table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        recipe_from(table)


def test_a_world_that_is_none_is_refused_in_python_too() -> None:
    with pytest.raises(ConfigurationError, match=r"'imagined' .*simulated, emulated or deployed"):
        Recipe(world="imagined")  # type: ignore[arg-type]


@pytest.mark.parametrize("edge", [10**9, 1])
def test_the_bounds_themselves_are_allowed(edge: int) -> None:
    counts = dict.fromkeys(COUNTS, edge)
    recipe_from({**counts, "deadline_s": edge, "learning_rate": 1e6, "name": "ü" * 200})
    recipe_from({"seed": 2**63 - 1, "momentum": 0.999, "learning_rate": None})
    recipe_from({"grace_s": 10**9, "benchmark_shards": 0})


@pytest.mark.parametrize(
    "content",
    [
        b"cycles = ",
        b"\xff\xfe",
        b"cycles = 1\ncycles = 2",
        b"a=" + b"[" * 9999,
        b"a=" + b"1" * 9999,
    ],
)
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"broken\.toml is not TOML"):
        read_recipe(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*none\.toml: No such file"):
        read_recipe(tmp_path / "none.toml")


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    for path in (tmp_path, tmp_path / "pipe.toml"):
        with pytest.raises(ConfigurationError, match=r"cannot read .*: it is not a regular file"):
            read_recipe(path)


@pytest.mark.parametrize(
    ("dataset", "chosen", "wanted"),
    [
        ("digits", None, 50),
        ("mnist", None, 500),
        ("synthetic:0.3", None, 50),
        ("somebody-elses", None, 50),
        ("mnist", 20, 20),
    ],
)
def test_shards_are_as_chosen_or_as_fits_the_data(
    dataset: str, chosen: int | None, wanted: int
) -> None:
    assert Recipe(dataset=dataset, shard_samples=chosen).samples_in_shard == wanted
