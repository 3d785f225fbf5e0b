"""The page of published results names the experiments that there are."""

from __future__ import annotations

from axon.experiments.registry import EXPERIMENTS
from tests.pages import text_of


def test_the_page_has_every_experiment_as_the_registry_tells_it() -> None:
    rows = [line for line in text_of("docs/reproduce.md").splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{each.name}` | {each.summary} | {each.source} |" for each in EXPERIMENTS.values()
    ]
    assert text_of("docs/reproduce.md").count("Thirteen") == 1
    assert len(EXPERIMENTS) == 13
