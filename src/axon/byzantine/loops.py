"""What a server does in each topology: GARFIELD's listings 3.1 to 3.3, and its two baselines.

Each is a plain function of a server and a few numbers. Workers have no loop of their own: they
answer when they are asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from axon.byzantine.quorum import is_overtaken
from axon.byzantine.server import Server
from axon.errors import QuorumNotReached
from axon.policies import Aggregator
from axon.topology import Topology
from axon.topology.arrangements import Kind
from axon.values import Vector, check_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How long, with which rules, and how often the accuracy is computed."""

    steps: int
    rule: Aggregator
    """For gradients."""
    model_rule: Aggregator
    """For models, where servers exchange them."""
    accuracy_every: int = 10
    contractions: int = 0
    """Rounds in which peers agree on their gradient before they use it; for data that differ."""

    def __post_init__(self) -> None:
        check_whole("steps", self.steps, least=1)
        check_whole("accuracy_every", self.accuracy_every, least=1)
        check_whole("contractions", self.contractions, least=0)

    def is_due(self, step: int) -> bool:
        """Whether the accuracy is computed after this step; after the last one it always is."""
        return (step + 1) % self.accuracy_every == 0 or step + 1 == self.steps


Loop: TypeAlias = Callable[[Server, Topology, Training], Coroutine[Any, Any, None]]
"""What a server does from its first step to its last."""


async def train_single_server(server: Server, topology: Topology, training: Training) -> None:
    """SSMW, listing 3.1; with the mean for its rule it is the vanilla baseline."""
    for step in range(training.steps):
        gradients = await server.get_gradients(step, topology.gradients)
        gradient = await server.aggregate(training.rule, gradients)
        await server.update_model(gradient)
        if training.is_due(step):
            await server.compute_accuracy()


async def train_replicated_servers(server: Server, topology: Topology, training: Training) -> None:
    """MSMW, listing 3.2: the models of the servers meet after every step."""
    while (step := server.next_step) < training.steps:
        async with catching_up(server, topology, training):
            gradients = await server.get_gradients(step, topology.gradients)
            gradient = await server.aggregate(training.rule, gradients)
            await server.update_model(gradient)
            models = await server.get_models(topology.models)
            server.write_model(await server.aggregate(training.model_rule, models))
            if training.is_due(step):
                await server.compute_accuracy()


async def train_decentralised(server: Server, topology: Topology, training: Training) -> None:
    """Listing 3.3: peers first agree on a gradient where their data differ, then on a model."""
    while (step := server.next_step) < training.steps:
        async with catching_up(server, topology, training):
            gradients = await server.get_gradients(step, topology.gradients)
            gradient = await server.aggregate(training.rule, gradients)
            gradient = await contract(server, topology, training, gradient)
            await server.update_model(gradient)
            models = await server.get_models(topology.models)
            server.write_model(await server.aggregate(training.model_rule, models))
            if training.is_due(step):
                await server.compute_accuracy()


async def contract(
    server: Server, topology: Topology, training: Training, gradient: Vector
) -> Vector:
    """Bring the gradients of honest peers closer together, by some rounds of the same rule."""
    for _ in range(training.contractions):
        server.latest_aggregated_gradient = gradient
        gradients = await server.get_aggregated_gradients(topology.models)
        gradient = await server.aggregate(training.rule, gradients)
    return gradient


@asynccontextmanager
async def catching_up(
    server: Server, topology: Topology, training: Training
) -> AsyncIterator[None]:
    """A step after which a server that the others have left behind goes on from where they are."""
    try:
        yield
    except QuorumNotReached as error:
        if not is_overtaken(error):
            raise
        await server.rejoin(training.model_rule, topology.models)


LOOPS: Mapping[Kind, Loop] = {
    "vanilla": train_single_server,
    "single-server": train_single_server,
    "replicated-servers": train_replicated_servers,
    "decentralised": train_decentralised,
    # Section 3.6.2: every replica averages all gradients, so that each can take over.
    "crash-tolerant": train_single_server,
}
"""What a server does, by the kind of its topology."""
