"""What an orchestrator is asked to do: a run, and the scheme it is done by."""

from __future__ import annotations

from dataclasses import dataclass, field

from axon.aggregation.means import WeightedMean
from axon.allocation.equal import Open
from axon.data.shards import draw_uniform
from axon.errors import ConfigurationError
from axon.policies import Aggregator, Allocator, GlobalStep, Sampler, Selector
from axon.rounds.steps import Replace
from axon.selection.random import Everyone
from axon.shown import Shown
from axon.values import TaskSpec, check_amount, check_positive, check_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Shown):
    """What is to be done, whatever the world and the scheme."""

    spec: TaskSpec
    cycles: int
    deadline_s: float
    """Of each cycle; every other time-out is derived from it."""
    grace_s: float = 0.0
    """How long after the deadline answers are still taken, and learners train on: with one, the
    deadline is what shares are reckoned for and cycles are measured by, but cuts nobody off."""
    shard_samples: int
    name: str = "run"
    seed: int = 0
    quorum: int | None = None
    """So many good answers end a cycle, and fewer are a failure; None wants all, and needs one."""
    own_data: bool = False
    """Whether learners may train on data of their own, the amount of which they alone know."""
    evaluate_every: int = 1
    """In cycles; after the last one it is done in any case. 0 for never."""

    def __post_init__(self) -> None:
        check_whole("cycles", self.cycles, least=1)
        check_positive("deadline_s", self.deadline_s)
        check_amount("grace_s", self.grace_s)
        check_whole("shard_samples", self.shard_samples, least=1)
        check_whole("evaluate_every", self.evaluate_every, least=0)
        if self.quorum is not None:
            check_whole("quorum", self.quorum, least=1)

    def evaluates(self, cycle: int) -> bool:
        """Whether the model is tried on the test set after this cycle."""
        every = self.evaluate_every
        return every > 0 and (cycle % every == 0 or cycle == self.cycles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey(Shown):
    """What is asked of a learner before its first cycle: to benchmark itself on some shards."""

    shards: int = 8
    disclosed: bool = False
    """Whether it is asked to tell what it found, too; it may refuse."""

    def __post_init__(self) -> None:
        check_whole("shards", self.shards, least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme(Shown):
    """The decisions of a round, one policy each."""

    select: Selector = field(default_factory=Everyone)
    allocate: Allocator = field(default_factory=Open)
    sample: Sampler = draw_uniform
    aggregate: Aggregator = field(default_factory=WeightedMean)
    step: GlobalStep = field(default_factory=Replace)
    codec: str = "plain"
    survey: Survey | None = None
    """None asks nothing: learners that decide for themselves then find out in their first cycle."""

    @property
    def least(self) -> int:
        """The fewest updates that its rule can make one of; a robust rule says so itself."""
        return int(getattr(self.aggregate, "least", 1))

    def needed(self, quorum: int | None) -> int:
        """How many good answers a cycle needs, of a run with that quorum.

        Raises `ConfigurationError` where the quorum would end cycles with too few for the rule.
        """
        if quorum is not None and quorum < self.least:
            raise ConfigurationError(
                f"{self.aggregate} needs at least {self.least} updates, "
                f"and a quorum of {quorum} ends a cycle before they are there",
                hint="raise the quorum, or tolerate fewer liars",
            )
        return max(quorum or 1, self.least)
