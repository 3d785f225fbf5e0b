"""A learner of the simulated world, as the orchestrator reaches it: across a reckoned link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from axon.attacks.seam import Attack
from axon.devices.states import StateEstimate
from axon.learning.evaluation import flops_per_sample
from axon.learning.experience import Kept
from axon.learning.learner import Abilities, Answer, Learner
from axon.learning.lying import Lying, Memory, poisoned
from axon.learning.pace import Pace
from axon.learning.service import Learning
from axon.rounds.depot import Depot
from axon.rounds.fleet import Report
from axon.rpc.memory.network import HEAD_BYTES
from axon.seeds import Name, plain_stream, stream
from axon.testbed.activity import Activity, Contention, contention, draw
from axon.testbed.catalogue import Device
from axon.testbed.charged import ChargedCompute, JobPool
from axon.testbed.reckoned import Host, ReckonedLink
from axon.values import Capability, Declined, Order, Samples, TaskSpec, Update, Vector


class Remembered(NamedTuple):
    """What of a simulated learner must outlive its process."""

    paces: tuple[tuple[TaskSpec, Pace], ...]
    is_down: bool
    is_cut: bool
    experience: Kept = Kept()
    lies: Memory = ()
    """What a liar goes by."""


class SimulatedLearner:
    """A learner as the orchestrator reaches it, across a reckoned link."""

    def __init__(
        self,
        name: str,
        device: Device,
        pool: JobPool,
        abilities: Abilities,
        activity: Activity | None,
    ) -> None:
        self._compute = ChargedCompute(pool, self._batch_s)
        self._abilities = abilities
        self.learner = Learner(name, self._compute, abilities)
        self._liar: Lying | None = None
        self.host = Host(name)
        self.depots: dict[str, Depot] = {}
        """Where it fetches from, by run."""
        self._name = name
        self.device = device
        self._activity = activity
        self._contention = Contention()
        self._link: ReckonedLink | None = None
        self._is_cut = False
        self._begun = (0, 0, "")

    def wear(self, attack: Attack, seed: int) -> None:
        """Become a liar, before the first order."""
        data = self._abilities.data
        if data is not None:
            data = poisoned(data, attack)
        own = replace(self._abilities, data=data)
        self.learner = Learner(self._name, self._compute, own)
        self._liar = Lying(self.learner, attack, seed)

    @property
    def _answering(self) -> Learning:
        return self._liar or self.learner

    def begin(self, seed: int, cycle: int, run: str = "") -> None:
        """Draw this cycle's chances anew, so that a cycle never depends on those before it.

        Where several runs go on at once, the same cycle of another run has other chances.
        """
        self._begun = (seed, cycle, run)
        self._face(cycle, self._named(cycle))

    def _named(self, *numbers: int) -> tuple[Name, ...]:
        _, _, run = self._begun
        return (run, *numbers, self._name) if run else (*numbers, self._name)

    def _face(self, cycle: int, flights: tuple[Name, ...]) -> None:
        """A link with chances of its own, and an owner in the state of that cycle."""
        seed, _, _ = self._begun
        random = plain_stream(seed, "link", *flights)
        self._link = ReckonedLink(self.device.link, random)
        if self._is_cut:
            self._link.cut()
        if self._activity is not None:
            state = draw(self._activity, stream(seed, "activity", *self._named(cycle)))
            self._contention = contention(state)

    def snapshot(self) -> Remembered:
        paces, kept = tuple(self.learner.paces.items()), self.learner.experience.keep()
        lies = () if self._liar is None else self._liar.keep()
        return Remembered(paces, self.host.is_down, self._is_cut, kept, lies)

    def restore(self, remembered: Remembered) -> None:
        self.learner.paces.update(remembered.paces)
        self.host.is_down = remembered.is_down
        self._is_cut = remembered.is_cut
        self.learner.experience.take_up(remembered.experience)
        if self._liar is not None:
            self._liar.take_up(remembered.lies)

    def cut(self) -> None:
        self._is_cut = True
        if self._link is not None:
            self._link.cut()

    def heal(self) -> None:
        self._is_cut = False
        if self._link is not None:
            self._link.heal()

    async def train(self, order: Order, report: Report | None) -> Answer:
        """Do an order, at the device's pace."""
        return await self.host.serve(self._train(order, report))

    async def _train(self, order: Order, report: Report | None) -> Answer:
        await self._wire.send("down", HEAD_BYTES)
        answer = await self._answering.train(order, self, report)
        size = 0
        if isinstance(answer, Update):
            size = sum(part.nbytes for part in answer.payload.values())
        await self._wire.send("up", HEAD_BYTES + size)
        return answer

    async def benchmark(self, order: Order, disclose: bool) -> Capability | Declined | None:
        """Benchmark itself, at the device's pace; see `Peer.benchmark`."""
        return await self.host.serve(self._benchmark(order, disclose))

    async def _benchmark(self, order: Order, disclose: bool) -> Capability | Declined | None:
        begun = _, cycle, _ = self._begun
        # Other chances than those of the cycle that follows, which is then the same without it.
        self._face(order.cycle, self._named(order.cycle, cycle))
        try:
            await self._wire.send("down", HEAD_BYTES)
            answer = await self.learner.benchmark(order, self, disclose)
            await self._wire.send("up", HEAD_BYTES)
        finally:
            self.begin(*begun)
        return answer

    async def states(self, kinds: Sequence[str]) -> tuple[StateEstimate, ...] | Declined:
        """What it tells of its states; see `Tells.states`."""
        return await self.host.serve(self._states(kinds))

    async def _states(self, kinds: Sequence[str]) -> tuple[StateEstimate, ...] | Declined:
        await self._wire.send("down", HEAD_BYTES)
        answer = self.learner.states(kinds)
        await self._wire.send("up", HEAD_BYTES)
        return answer

    # The learner's source

    async def model(self, run: str, cycle: int) -> Vector:
        vector = self._stock(run).model(run, cycle)
        await self._download(vector.nbytes)
        return vector

    async def shards(self, run: str, cycle: int, ticket: str, count: int) -> Samples:
        samples = self._stock(run).shards(run, cycle, ticket, count)
        await self._download(samples.nbytes)
        return samples

    async def _download(self, size: int) -> None:
        extra = self._contention.extra_download_bytes
        await self._wire.ask(HEAD_BYTES, HEAD_BYTES + size + extra)

    @property
    def _wire(self) -> ReckonedLink:
        assert self._link is not None, "a cycle begins with a muster"
        return self._link

    def _stock(self, run: str) -> Depot:
        assert run in self.depots, "a run begins with hosting"
        return self.depots[run]

    def _batch_s(self, spec: TaskSpec, samples: int) -> float:
        return self._contention.batch_s(self.device, flops_per_sample(spec), samples)
