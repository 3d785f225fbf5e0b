"""What bearing Byzantine nodes costs, in throughput and in parts of a step (GARFIELD, 3.6.6).

In virtual time for the paper's models and counts, and again in a few real processes over HTTP.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from axon.experiments.byz_cost_claims import Found, claims_of, claims_of_processes
from axon.experiments.byz_cost_processes import Measured, in_processes
from axon.experiments.byz_cost_rules import MOST_MEASURED, QUICK_MEASURED, Costs
from axon.experiments.byz_cost_world import (
    CORES,
    EARLY,
    ETHERNET,
    HOME,
    MODELS,
    STEPS,
    SYSTEMS,
    VANILLA,
    Deployment,
    Taken,
    simulate,
)
from axon.experiments.result import Result, Row
from axon.experiments.settings import Settings
from axon.report.figures import Figure, Panel, Point, Series
from axon.report.tables import Cell
from axon.rpc.link import Link

NAME = "byz-cost"
QUICK_MODELS, QUICK_STEPS = ("MNIST_CNN", "ResNet50"), 2
PROCESSES = "real processes"
IN_PROCESSES = tuple(system for system in SYSTEMS if system != EARLY)


@dataclass(frozen=True, slots=True)
class Scene:
    """What the nodes are, and what is between them."""

    link: Link
    cores: int


def scenes(quick: bool = False) -> dict[str, Scene]:
    """The paper's cluster, the same with nodes like this machine, and a home of those."""
    own = os.cpu_count() or 1
    first = {f"10 Gbit/s, {CORES} cores": Scene(ETHERNET, CORES)}
    between = {f"10 Gbit/s, {own} cores": Scene(ETHERNET, own)}
    return first | ({} if quick else between) | {f"1 Gbit/s, {own} cores": Scene(HOME, own)}


def run(settings: Settings) -> Result:
    """Simulate every system for every model and scene; then a few real processes."""
    models = QUICK_MODELS if settings.quick else tuple(MODELS)
    costs = Costs(QUICK_MEASURED if settings.quick else MOST_MEASURED)
    found: dict[str, dict[str, dict[str, Taken]]] = {}
    for scene, place in scenes(settings.quick).items():
        settings.progress(f"{scene}: {len(models)} models, {len(SYSTEMS)} systems")
        found[scene] = {model: _taken(model, place, costs, settings) for model in models}
    measured = {} if settings.quick else in_processes(IN_PROCESSES, settings)
    return Result(
        name=NAME,
        title="What a step costs where nodes may be faulty",
        claims=(*claims_of(found), *claims_of_processes(measured)),
        rows=(*_rows(found), *_process_rows(measured)),
        figure=_figure(found),
        notes=_notes(settings, costs),
    )


def _taken(model: str, scene: Scene, costs: Costs, settings: Settings) -> dict[str, Taken]:
    steps = QUICK_STEPS if settings.quick else STEPS
    return {
        system: simulate(
            Deployment(
                name=system, size=MODELS[model], link=scene.link, costs=costs, cores=scene.cores
            ),
            steps=steps,
            seed=settings.seed,
        )
        for system in SYSTEMS
    }


def _rows(found: Found) -> list[Row]:
    return [
        {"where": scene, "model": model, "system": system, **_cells(taken, systems[VANILLA])}
        for scene, models in found.items()
        for model, systems in models.items()
        for system, taken in systems.items()
    ]


def _process_rows(measured: Mapping[str, Measured]) -> list[Row]:
    return [
        {
            "where": PROCESSES,
            "model": "ThreeNN",
            "system": system,
            **_cells(each.taken, measured[VANILLA].taken),
            "CPU [s/step]": each.cpu_s,
            "of the cores [%]": each.busy,
        }
        for system, each in measured.items()
    ]


def _cells(taken: Taken, vanilla: Taken) -> dict[str, Cell]:
    return {
        "steps/s": taken.throughput,
        "slowdown": taken.step_s / vanilla.step_s,
        "computation [s]": taken.computation_s,
        "communication [s]": taken.communication_s,
        "aggregation [s]": taken.aggregation_s,
        "communication [%]": taken.communication,
        "aggregation [%]": taken.aggregation,
    }


def _figure(found: Found) -> Figure:
    return Figure(
        "Time of a step, in steps of the vanilla system",
        tuple(
            Panel(scene, "", "slowdown", tuple(_slowdowns(models, each) for each in SYSTEMS[1:]))
            for scene, models in found.items()
        ),
    )


def _slowdowns(models: Mapping[str, Mapping[str, Taken]], system: str) -> Series:
    points = [
        Point(model, systems[system].step_s / systems[VANILLA].step_s)
        for model, systems in models.items()
    ]
    return Series(system, tuple(points), "bar")


def _notes(settings: Settings, costs: Costs) -> tuple[str, ...]:
    notes = [
        "18 workers of which 3 may be faulty, 6 servers of which 1 may; SSMW, MSMW and peers use "
        "Bulyan. SSMW waits for all 18 as in listing 3.1, MSMW and peers for 15 of them; servers "
        "and MSMW's workers take the median of 5 models of 6, peers that of 15. Nobody is faulty.",
        "In virtual time. Computing a gradient is charged by the size of the model, 1.6 s for "
        "ResNet50 as the paper says; updating the model is charged with nothing.",
        f"A rule is charged with what it really takes on this machine, measured with up to "
        f"{costs.most:,} numbers a vector and shared evenly among the cores of a node: "
        f"{CORES} as in the paper, or as many as here.",
        "Links are full-duplex at a switch that holds nobody up, and a question does not wait for "
        "the vectors before it. Vectors of 40,480 numbers stand for the models, on links slower "
        "by as much.",
        "A node sends one vector after the other, in the order in which they were asked for, so "
        "that the primary of a crash-tolerant system has its gradients first; if all six servers "
        "shared a worker's link evenly, it would wait for five vectors more.",
    ]
    if settings.quick:
        return (*notes, "A quick look starts no real processes.")
    return (
        *notes,
        f"The real processes are 5 workers and 4 servers (5 peers), one may be faulty, that use "
        f"Multi-Krum and wait for all; they share {os.cpu_count()} cores, so that what nodes of "
        "their own would do at the same time is done one after the other.",
    )
