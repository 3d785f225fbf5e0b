"""The experiments there are, and how each is found."""

from __future__ import annotations

import subprocess
import sys

import pytest

from axon.errors import ConfigurationError
from axon.experiments import registry
from axon.experiments.settings import Settings
from tests.experiments import scenes


def test_all_are_listed_in_order_with_a_line_each() -> None:
    assert list(registry.EXPERIMENTS) == [
        "sb-runtime", "sb-download", "dab-cycles", "dab-deadline", "med-learners", "med-tasks",
        "staleness", "async-accuracy", "gar-microbench", "byz-convergence", "byz-attacks",
        "byz-cost", "byz-scaling",
    ]  # fmt: skip
    for name, experiment in registry.EXPERIMENTS.items():
        assert experiment.name == name
        assert 20 < len(experiment.summary) <= 85
        assert "Fig." in experiment.source


def test_a_name_finds_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    scenes.install(monkeypatch, lambda settings: scenes.result(repeats=settings.seed), "tiny")
    assert registry.find("tiny").run(Settings(seed=5)).repeats == 5


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"no experiment 'stale' \(known are sb-runtime, "):
        registry.find("stale")


def test_listing_imports_nothing_heavy() -> None:
    code = (
        "import sys, axon.experiments.registry, axon.experiments.settings\n"
        "sys.exit(', '.join({'numpy', 'torch', 'matplotlib'} & set(sys.modules)) or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
