"""What a run was made with stands beside its settings, and is none of them."""

from __future__ import annotations

import platform
import tomllib
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from axon.dashboard.comparison import compared
from axon.dashboard.feed import Feed
from axon.dashboard.sources import RecordsFile
from axon.dashboard.views import run_view
from axon.recipes import versions
from axon.recipes.keeping import CHECKPOINT, CONFIGURATION, RECORDS, Keeping
from axon.recipes.runner import run_recipe
from axon.recipes.settings import Recipe, read_recipe, recipe_from, to_toml
from axon.recipes.versions import made_before, made_with
from axon.rounds.checkpoint import open_store
from axon.version import __version__

SMALL = Recipe(dataset="synthetic", devices="pi-1", cycles=1, deadline_s=1.0, seed=5)


def test_a_run_keeps_what_it_was_made_with_in_its_folder_and_its_store(tmp_path: Path) -> None:
    run_recipe(SMALL, Keeping(out=tmp_path))
    made = tomllib.loads((tmp_path / CONFIGURATION).read_text())["made_with"]
    assert made == {
        "axon": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "platform": platform.platform(),
    }
    with closing(open_store(tmp_path / CHECKPOINT)) as store:
        assert made_before(store.settings("run")) == made
    assert read_recipe(tmp_path / CONFIGURATION) == SMALL


def test_who_goes_on_with_something_else_is_named_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_recipe(SMALL, Keeping(out=tmp_path))
    monkeypatch.setattr(versions, "__version__", "99")
    for _ in range(2):
        run_recipe(replace(SMALL, cycles=2), Keeping(out=tmp_path, resume=True))
    made = tomllib.loads((tmp_path / CONFIGURATION).read_text())["made_with"]
    assert made["axon"] == f"{__version__}, then 99"
    assert made["numpy"] == np.__version__


@pytest.mark.parametrize("saved", [None, msgspec.json.encode(to_toml(SMALL)).decode()])
def test_runs_of_old_say_nothing(saved: str | None) -> None:
    assert made_before(saved) == {}
    assert made_with(made_before(saved))["axon"] == __version__
    assert recipe_from({"cycles": 3, "made_with": 7}) == Recipe(cycles=3)


def test_the_page_shows_it_and_compares_runs_without_it(tmp_path: Path) -> None:
    feed = Feed()
    for seed in (1, 2):
        out = tmp_path / str(seed)
        run_recipe(replace(SMALL, seed=seed), Keeping(out=out))
        text = (out / CONFIGURATION).read_text()
        text = text.replace(f'axon = "{__version__}"', f'axon = "{seed}.0 \\u202e"')
        (out / CONFIGURATION).write_text(text)
        RecordsFile(feed, out / RECORDS, str(seed)).read()
    told = run_view(feed, 0)
    assert told is not None
    assert told["versions"]["made with"].startswith("axon 1.0 ⟨U+202E⟩; python ")
    assert "made_with" not in told["settings"]
    (group,) = compared(feed.courses)
    assert group["seeds"] == [1, 2]
