"""How the systems scale with workers, vectors and faulty nodes (GARFIELD, 3.6.7), in virtual time.

The nodes and links are those of the paper's cluster, as in `byz_cost`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from axon.aggregation import Median
from axon.experiments.byz_cost_rules import MOST_MEASURED, QUICK_MEASURED, Costs
from axon.experiments.byz_cost_world import (
    CORES,
    ETHERNET,
    MODELS,
    MSMW,
    PEERS,
    STEPS,
    SYSTEMS,
    VANILLA,
    Deployment,
    Taken,
    simulate,
)
from axon.experiments.byz_scaling_claims import Found, Sweep, batches, claims_of
from axon.experiments.byzantine_world import USUAL, Counts
from axon.experiments.result import Result, Row
from axon.experiments.settings import Settings
from axon.report.figures import Figure, Panel, Point, Series
from axon.report.tables import Cell

NAME = "byz-scaling"
Made: TypeAlias = Callable[[str, int], Deployment]
"""What is deployed for a system at one place of a sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Over what is swept."""

    workers: Sequence[int] = (8, 13, 18, 23)
    """Bulyan with n - f gradients needs n = 5f + 3 of them, for f from 1 to 4."""
    peers: Sequence[int] = (4, 6, 8, 12, 16, 20)
    sizes: Sequence[int] = (10**5, 10**6, 10**7, 10**8)
    faulty_workers: Sequence[int] = (0, 1, 2, 3)
    faulty_servers: Sequence[int] = (0, 1, 2, 3)
    steps: int = STEPS


FULL = Plan()
QUICK = Plan(
    workers=(8, 13),
    peers=(4, 8, 12),
    sizes=(10**5, 10**7),
    faulty_workers=(0, 3),
    faulty_servers=(0, 1, 2),
    steps=3,
)
PEERS_SIZE, PEERS_COUNT = 10**6, 6
"""Numbers in a vector while peers grow more, and peers while the vectors grow longer."""


@dataclass(frozen=True, slots=True)
class Sweeps:
    """Runs each place of each sweep."""

    plan: Plan
    settings: Settings
    costs: Costs

    def found(self) -> Found:
        """All of them."""
        return Found(
            workers=self._over("workers", self.plan.workers, SYSTEMS, self._with_workers),
            peers=self._over("peers", self.plan.peers, (VANILLA, PEERS), self._with_peers),
            sizes=self._over("sizes", self.plan.sizes, (VANILLA, PEERS), self._with_size),
            faulty_workers=self._over(
                "faulty workers", self.plan.faulty_workers, (MSMW,), self._with_faulty_workers
            ),
            faulty_servers=self._over(
                "faulty servers", self.plan.faulty_servers, (MSMW,), self._with_faulty_servers
            ),
        )

    def _over(self, what: str, places: Iterable[int], systems: Iterable[str], made: Made) -> Sweep:
        self.settings.progress(f"over {what}")
        return {
            system: {place: self._simulated(made(system, place)) for place in places}
            for system in systems
        }

    def _simulated(self, deployment: Deployment) -> Taken:
        return simulate(deployment, steps=self.plan.steps, seed=self.settings.seed)

    def _with_workers(self, system: str, workers: int) -> Deployment:
        counts = replace(USUAL, workers=workers, faulty_workers=(workers - 3) // 5)
        return self._deployed(system, "CifarNet", counts)

    def _with_peers(self, system: str, peers: int) -> Deployment:
        return self._bare(system, peers, PEERS_SIZE)

    def _with_size(self, system: str, size: int) -> Deployment:
        return self._bare(system, PEERS_COUNT, size)

    def _with_faulty_workers(self, system: str, faulty: int) -> Deployment:
        return self._deployed(system, "ResNet50", replace(USUAL, faulty_workers=faulty))

    def _with_faulty_servers(self, system: str, faulty: int) -> Deployment:
        counts = replace(USUAL, servers=3 * faulty + 1, faulty_servers=faulty)
        return self._deployed(system, "ResNet50", counts)

    def _deployed(self, system: str, model: str, counts: Counts) -> Deployment:
        return Deployment(
            name=system, size=MODELS[model], link=ETHERNET, counts=counts, costs=self.costs
        )

    @staticmethod
    def _bare(system: str, count: int, size: int) -> Deployment:
        """Nodes that compute nothing, so that the step is the communication."""
        return Deployment(
            name=system,
            size=size,
            link=ETHERNET,
            counts=replace(USUAL, workers=count, faulty_workers=1),
            gradient_s=0.0,
            rule=Median(1),
        )


def run(settings: Settings) -> Result:
    """Run every sweep."""
    costs = Costs(QUICK_MEASURED if settings.quick else MOST_MEASURED)
    found = Sweeps(QUICK if settings.quick else FULL, settings, costs).found()
    return Result(
        name=NAME,
        title="Throughput and communication with more workers, longer vectors and more faulty",
        claims=claims_of(found),
        rows=tuple(_rows(found)),
        figure=_figure(found),
        notes=NOTES,
    )


def _rows(found: Found) -> list[Row]:
    return [
        {"over": what, "at": place, "system": system, **_cells(taken)}
        for what, sweep in found.by_name().items()
        for system, taken_by in sweep.items()
        for place, taken in taken_by.items()
    ]


def _cells(taken: Taken) -> dict[str, Cell]:
    return {
        "steps/s": taken.throughput,
        "batches/s": batches(taken),
        "computation [s]": taken.computation_s,
        "communication [s]": taken.communication_s,
        "aggregation [s]": taken.aggregation_s,
        "vectors/step": taken.vectors,
    }


def _figure(found: Found) -> Figure:
    panels = (
        ("CifarNet", "workers", "batches/s", found.workers),
        ("10⁶ numbers", "nodes", "communication [s]", found.peers),
        (f"{PEERS_COUNT} nodes", "numbers in a vector", "communication [s]", found.sizes),
        ("ResNet50", "faulty workers", "steps/s", found.faulty_workers),
        ("ResNet50", "faulty servers", "steps/s", found.faulty_servers),
    )
    return Figure("Scaling", tuple(_panel(*each) for each in panels))


def _panel(title: str, x_label: str, y_label: str, sweep: Sweep) -> Panel:
    def seen(taken: Taken) -> float:
        if y_label == "batches/s":
            return batches(taken)
        return taken.throughput if y_label == "steps/s" else taken.communication_s

    # Of vectors' lengths, which are no counts, a logarithmic axis needs floats.
    is_length = x_label == "numbers in a vector"
    lines = tuple(
        Series(
            system,
            tuple(
                Point(float(place) if is_length else place, seen(taken))
                for place, taken in by.items()
            ),
        )
        for system, by in sweep.items()
    )
    return Panel(title, x_label, y_label, lines, "both" if is_length else "")


NOTES = (
    f"In virtual time, over 10 Gbit/s full duplex at a switch that holds nobody up; a gradient "
    f"takes 1.6 s for ResNet50 and less by the size for others, rules what they take on this "
    f"machine, shared among the {CORES} cores of a node of the paper.",
    "Workers: f_w = (n_w - 3) // 5, the most that Bulyan bears with n_w - f_w gradients; 6 servers "
    "of which 1 may be faulty. SSMW waits for all workers, as in listing 3.1. A batch counts where "
    "a server used its gradient.",
    "Communication of peers and of vanilla: nothing is computed, so that a step is all waiting; "
    "peers bear 1 faulty one and take medians.",
    "Faulty workers: of 18, with 6 servers. Faulty servers: 3 f_ps + 1 servers. Nobody is faulty "
    "in fact.",
)
