"""What an orchestrator needs of a world: learners to reach, and a place from which they fetch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import ParamSpec, Protocol, TypeVar

from axon.rounds.depot import Depot
from axon.values import Order

P = ParamSpec("P")
T = TypeVar("T")
Report = Callable[[int, int], None]


class Peer(Protocol):
    """A learner as the orchestrator reaches it."""

    async def train(self, order: Order, report: Report | None) -> object:
        """Whatever the learner answers: nothing about it is known until it has been judged."""

    async def benchmark(self, order: Order, disclose: bool) -> object:
        """Let the learner benchmark itself on the shards of an order of cycle 0.

        None when it has; its `Capability` where that was asked for; `Declined` with the reason.
        """


class Tells(Protocol):
    """A learner that may be asked about itself, whether or not it takes part in anything."""

    async def states(self, kinds: Sequence[str]) -> object:
        """A tuple of the learner's `StateEstimate`, with rates for tasks of these kinds.

        It is empty where the learner has seen nothing of itself yet; `Declined` with the reason
        where it keeps its states to itself.
        """


class Fleet(Protocol):
    """The learners of a world."""

    def hosting(self, depot: Depot) -> AbstractAsyncContextManager[None]:
        """Let learners fetch from the depot for as long as the block lasts."""

    async def muster(self, cycle: int) -> Mapping[str, Peer]:
        """Who is there for this cycle, by name, in the order of names."""

    async def aside(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something that takes a while so that the loop stays free, where the world can."""

    def snapshot(self) -> str:
        """What must survive the orchestrator's death for a run to go on as if nothing happened.

        Real devices remember for themselves; simulated ones die with the process.
        """

    def restore(self, snapshot: str) -> None:
        """Take up what `snapshot` gave."""


class SharedFleet(Fleet, Protocol):
    """A fleet on which several runs go on at once, each with a part of its learners."""

    def part(self, members: Callable[[], Collection[str]]) -> Fleet:
        """The same learners for a run beside others: those that `members` names at each muster.

        It is the caller who sees to it that no learner is mustered by two runs at once.
        """

    async def tellers(self, names: Collection[str], cycle: int) -> Mapping[str, Tells]:
        """Those of the names who are there, to be asked about themselves, between two cycles.

        They fetch nothing for it, so that no depot is needed.
        """

    def watching(self) -> AbstractAsyncContextManager[None]:
        """Keep an eye on who comes and goes for as long as the block lasts."""

    async def roster(self) -> Sequence[str]:
        """The names of those who are there now, sorted; asked within `watching`."""
