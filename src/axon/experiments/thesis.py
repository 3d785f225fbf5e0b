"""What the experiments of the DAB thesis share: its two schemes, and its nets as it trained them.

Its nets end in a softmax, and what it calls cross-entropy is taken from there with another one: at
an accuracy of 95 % it reports a loss of 1.50. A softmax once comes to 0.2 there; twice, it cannot
come below log(1 + 9/e) = 1.461. Two of them flatten the gradients, so that training is slow. The
nets of the catalogue have it once; here they are known by a second name with the thesis's loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from axon.allocation.csa import StalenessAware
from axon.allocation.equal import Open
from axon.experiments.mnist import BENCHMARK_SHARDS
from axon.experiments.runs import Measure, Repeats
from axon.learning.nets import two_conv, twonn
from axon.learning.tasks import cross_entropy, define
from axon.rounds.settings import Scheme, Survey

LOSSES: Mapping[str, str] = {"softmax twice": "-twice", "softmax once": ""}
"""How the loss is taken, and what the name of a net then ends in; first as the thesis did."""

SUMMED_UP = (
    "The thesis's losses (1.50 at 95 %) are those of a softmax in the net and another in the "
    "cross-entropy, which cannot come below 1.461 and flattens the gradients. Claims are held "
    "against training of that kind; the nets that Axon ships take it once."
)
BELIEVED = (
    "CSA is told once what a learner can do, before the first cycle, and believes it ever after; "
    "with DAB every cycle that a learner trains is its next benchmark. Where devices change, that "
    "is in favour of DAB, and the papers do not say how often CSA asks."
)


def twice(outputs: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of what went through a softmax already."""
    return cross_entropy(outputs.softmax(dim=1), labels)


define("twonn-twice", loss=twice)(twonn)
define("two-conv-twice", loss=twice)(two_conv)


def dab(passes: int) -> Scheme:
    """Each learner benchmarks itself and decides how much it does in so many passes."""
    return Scheme(allocate=Open(passes=passes), survey=Survey(shards=BENCHMARK_SHARDS))


def csa(slack: float = 0.0) -> Scheme:
    """The orchestrator knows everybody's benchmark and deals out all shards, with own passes.

    Without the slack that Axon's CSA keeps of a deadline, because the paper's has none.
    """
    survey = Survey(shards=BENCHMARK_SHARDS, disclosed=True)
    return Scheme(allocate=StalenessAware(slack=slack), survey=survey)


@dataclass(frozen=True, slots=True)
class Pair:
    """Both schemes, from the same seeds."""

    dab: Repeats
    csa: Repeats

    def gaps(self, measure: Measure, *, relative: bool = False) -> list[list[float]]:
        """By how much DAB's number is above CSA's, repeat by repeat, in each cycle it is known of.

        Relative gaps are in per cent of CSA's number.
        """
        return [
            [
                (one - other) * (100.0 / other if relative else 1.0)
                for mine, yours in zip(ours, theirs, strict=True)
                if (one := measure(mine)) is not None and (other := measure(yours)) is not None
            ]
            for ours, theirs in zip(self.dab.runs, self.csa.runs, strict=True)
        ]
