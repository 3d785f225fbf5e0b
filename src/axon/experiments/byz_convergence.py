"""Accuracy of six systems, step by step, with nobody lying (GARFIELD, Fig. 3.4).

What it costs in accuracy to be ready for liars: systems that trust nobody beside one that trusts
everybody and one that trusts everybody who lives.
"""

from __future__ import annotations

from collections.abc import Sequence

from axon.data.datasets import Dataset
from axon.experiments.byz_convergence_claims import LEVEL, VANILLA, Found, claims_of, shown_steps
from axon.experiments.byzantine_world import (
    BATCH,
    LEARNING_RATE,
    MOMENTUM,
    NET,
    SYSTEMS,
    USUAL,
    Counts,
    Trial,
    curve,
    data,
    last,
    measure,
    repeats_of,
)
from axon.experiments.result import Result, Row, line
from axon.experiments.runs import seeds
from axon.experiments.settings import Settings
from axon.intervals import mean_interval
from axon.report.figures import Figure, Panel
from axon.report.tables import Cell, shown

NAME = "byz-convergence"
STEPS, REPEATS, EVERY = 150, 4, 3
QUICK = Counts(workers=8, faulty_workers=1, servers=4, faulty_servers=1)
"""The fewest workers of which Bulyan can do without one: 4f + 3 answer."""
QUICK_STEPS, QUICK_REPEATS = 25, 2
SMALL_BATCH = 32
"""Of the paper's experiments with TensorFlow."""


def run(settings: Settings) -> Result:
    """Train every system from the same seeds, and hold the paper's sentences to it."""
    dataset, note = data(settings)
    repeats = settings.repeated(REPEATS, QUICK_REPEATS)
    chosen = seeds(settings, repeats)
    found = _measured(dataset, settings, list(SYSTEMS), chosen, BATCH)
    notes = [note, _trained(settings)]
    if not settings.quick:
        notes.append(_dependence(dataset, settings))
    return Result(
        name=NAME,
        title="Accuracy of six systems, step by step, with nobody lying",
        claims=claims_of(found),
        rows=tuple(_row(found, system, settings) for system in SYSTEMS),
        figure=_figure(found),
        repeats=repeats,
        dataset=dataset.name,
        notes=tuple(filter(None, notes)),
    )


def _measured(
    dataset: Dataset,
    settings: Settings,
    systems: Sequence[str],
    chosen: Sequence[int],
    batch: int,
) -> Found:
    trials = {
        (name,): repeats_of(
            Trial(
                system=SYSTEMS[name](_counts(settings)),
                dataset=dataset,
                steps=QUICK_STEPS if settings.quick else STEPS,
                every=EVERY,
                batch=batch,
            ),
            chosen,
        )
        for name in systems
    }
    return Found({name: courses for (name,), courses in measure(trials, settings).items()})


def _counts(settings: Settings) -> Counts:
    return QUICK if settings.quick else USUAL


def _row(found: Found, name: str, settings: Settings) -> Row:
    system, courses = SYSTEMS[name](_counts(settings)), found.courses[name]
    topology = system.topology
    cells: dict[str, Cell] = {
        "system": name,
        "rule": system.told,
        "gradients": f"{topology.gradients} of {len(topology.workers)}",
        "models": f"{topology.models} of {len(topology.servers)}" if topology.models else None,
        "accuracy [%]": mean_interval(last(courses)),
        "points lost": None if name == VANILLA else mean_interval(found.lost(name)),
        f"steps to {LEVEL:g} %": shown_steps(found.steps(name)),
    }
    return cells


def _figure(found: Found) -> Figure:
    series = tuple(
        line(name, curve(courses), courses[0].steps) for name, courses in found.courses.items()
    )
    panel = Panel("", "steps", "accuracy [%]", series)
    return Figure("Accuracy, step by step, with nobody lying", (panel,))


def _trained(settings: Settings) -> str:
    counts = _counts(settings)
    return (
        f"{counts.workers} workers or peers, of which {counts.faulty_workers} might lie, and "
        f"{counts.servers} servers, of which {counts.faulty_servers} might. {NET} in place of "
        f"CifarNet and ResNet50, with SGD at {LEARNING_RATE:g}, a momentum of {MOMENTUM:g} and "
        f"batches of {BATCH}. Gradients are aggregated by the rule named, models by their median, "
        "those of peers too. Accuracies are those of the server or peer that is worst off. Links "
        "have jitter, so that servers which do not wait for all hear different workers."
    )


def _dependence(dataset: Dataset, settings: Settings) -> str:
    """How much hangs on the size of a batch: rules that discard gradients see more noise."""
    systems = (VANILLA, "SSMW")
    found = _measured(dataset, settings, systems, seeds(settings, REPEATS), SMALL_BATCH)
    ends = ", ".join(
        f"{name} {shown(mean_interval(last(found.courses[name])))} %" for name in systems
    )
    return f"With batches of {SMALL_BATCH} they end at: {ends}."
