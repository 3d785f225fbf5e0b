"""The experiments by name; a module is imported when its experiment runs, not to list it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from axon.errors import ConfigurationError

# With them come numbers and figures, which a listing does without.
if TYPE_CHECKING:
    from axon.experiments.result import Result
    from axon.experiments.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A published result that can be measured again."""

    name: str
    summary: str
    source: str
    """Where it was published."""
    trains: bool = True
    """Whether it trains, and so needs torch."""
    learns: bool = True
    """Whether what it trains on matters, and so which data set is read."""

    def run(self, settings: Settings) -> Result:
        """Measure it again."""
        module = importlib.import_module(f"axon.experiments.{self.name.replace('-', '_')}")
        result: Result = module.run(settings)
        return result


_THESIS = "D. J. Mays, MSc thesis, Queen's University, 2023"
_ASYNCHRONOUS = (
    "U. Mohammad, S. Sorour: Adaptive Task Allocation for Asynchronous Federated Mobile Edge "
    "Learning"
)
_GARFIELD = "A. H. A. Guirguis, PhD thesis, EPFL, 2022"
_IN_ORDER = (
    Experiment(
        name="sb-runtime",
        summary="how well subset benchmarking and FLOPS predict the time to train",
        source=f"{_THESIS}, Fig. 3.2",
        learns=False,
    ),
    Experiment(
        name="sb-download",
        summary="how well subset benchmarking predicts the time to download 60 shards",
        source=f"{_THESIS}, Fig. 3.3",
        trains=False,
        learns=False,
    ),
    Experiment(
        name="dab-cycles",
        summary="loss and accuracy of DAB and CSA, cycle by cycle, with two and four devices",
        source=f"{_THESIS}, Fig. 3.4 and 3.5",
    ),
    Experiment(
        name="dab-deadline",
        summary="how DAB and CSA keep a deadline on four Jetson Nanos, and what it costs",
        source=f"{_THESIS}, Fig. 3.6 to 3.8",
    ),
    Experiment(
        name="med-learners",
        summary="how MED shares three tasks among four to ten learners whose owners use them",
        source=f"{_THESIS}, Fig. 4.1 to 4.5",
        learns=False,
    ),
    Experiment(
        name="med-tasks",
        summary="how MED shares one to four tasks among ten learners whose owners use them",
        source=f"{_THESIS}, Fig. 4.6 to 4.10",
        learns=False,
    ),
    Experiment(
        name="staleness",
        summary="how stale four allocations of 60,000 samples are, with 2 to 20 learners",
        source=f"{_ASYNCHRONOUS}, Fig. 2",
        trains=False,
        learns=False,
    ),
    Experiment(
        name="async-accuracy",
        summary="accuracy of asynchronous, synchronous and equal allocation, cycle by cycle",
        source=f"{_ASYNCHRONOUS}, Fig. 3",
    ),
    Experiment(
        name="gar-microbench",
        summary="how long the aggregation rules take, over the number of vectors and their size",
        source=f"{_GARFIELD}, Fig. 3.3",
        learns=False,
    ),
    Experiment(
        name="byz-convergence",
        summary="accuracy of six systems that trust some nodes or none, step by step",
        source=f"{_GARFIELD}, Fig. 3.4",
    ),
    Experiment(
        name="byz-attacks",
        summary="what lying workers and servers do to three systems and to every robust rule",
        source=f"{_GARFIELD}, Fig. 3.5",
    ),
    Experiment(
        name="byz-cost",
        summary="what a step costs where servers and workers may be faulty, and where it goes",
        source=f"{_GARFIELD}, Fig. 3.6 and 3.7",
        learns=False,
    ),
    Experiment(
        name="byz-scaling",
        summary="throughput and communication with more workers, peers and faulty nodes",
        source=f"{_GARFIELD}, Fig. 3.8 to 3.10",
        learns=False,
    ),
)
EXPERIMENTS: Mapping[str, Experiment] = {each.name: each for each in _IN_ORDER}


def find(name: str) -> Experiment:
    """The experiment of that name; an unknown name is told the known ones."""
    if name not in EXPERIMENTS:
        raise ConfigurationError(
            f"there is no experiment {name!r}", hint=f"known are {', '.join(EXPERIMENTS)}"
        )
    return EXPERIMENTS[name]
