"""Small clusters on digits for the tests here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from torch import nn

from axon.attacks.seam import Scene
from axon.byzantine.cluster import Cluster
from axon.byzantine.loops import Training
from axon.byzantine.outcomes import Outcome
from axon.byzantine.running import World, in_memory
from axon.data.datasets import load
from axon.learning.tasks import default_spec, define
from axon.policies import Aggregator
from axon.testbed import virtual
from axon.topology import Topology
from axon.values import Vector

DIGITS = load("digits")


@define("test-linear")
def linear(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(inputs), classes))


SPEC = default_spec("test-linear", DIGITS.shape, DIGITS.classes, learning_rate=0.5)
"""Learns much in few steps."""
TWONN = default_spec("twonn", DIGITS.shape, DIGITS.classes, learning_rate=0.3)


def vector(*values: float) -> Vector:
    return np.array(values, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Said:
    """A node that answers as a function does."""

    says: Callable[[str, int, int], Awaitable[object]]

    async def read(self, kind: str, step: int, round: int = 0) -> object:
        return await self.says(kind, step, round)


class Faulty:
    """An attack with a mistake in it, which shows from its third step on."""

    omniscient = False
    remembers = 0

    def __call__(self, own: Vector, scene: Scene) -> Vector:
        if scene.step < 2:
            return -own
        raise ZeroDivisionError(f"in step {scene.step}")


def answering(value: object, *, after_s: float = 0.0) -> Said:
    """A node with one answer to everything."""

    async def says(_kind: str, _step: int, _round: int) -> object:
        if after_s:
            await asyncio.sleep(after_s)
        if isinstance(value, BaseException):
            raise value
        return value

    return Said(says)


def cluster(
    topology: Topology,
    rule: Aggregator,
    model_rule: Aggregator | None = None,
    *,
    steps: int = 20,
    contractions: int = 0,
    **settings: Any,
) -> Cluster:
    """A cluster that trains the small net on digits."""
    training = Training(
        steps=steps,
        rule=rule,
        model_rule=model_rule or rule,
        accuracy_every=steps,
        contractions=contractions,
    )
    return Cluster(
        topology=topology,
        spec=settings.pop("spec", SPEC),
        dataset=DIGITS,
        training=training,
        seed=settings.pop("seed", 3),
        **settings,
    )


def run(chosen: Cluster, world: World | None = None) -> Outcome:
    """Run it in virtual time."""
    return virtual.run(in_memory(chosen, world))


def failures(outcome: Outcome) -> Mapping[str, str]:
    """Why servers gave up, by name."""
    return {name: each.failure for name, each in outcome.servers.items() if each.failure}


def often_counted(outcome: Outcome) -> bool:
    """Whether every hostile node was heard in most steps: an attack that took place."""
    return all(2 * steps > outcome.steps for steps in outcome.counted.values())


def refused(outcome: Outcome) -> set[str]:
    """Everybody whom an honest server ever refused."""
    return {
        refusal.node
        for each in outcome.servers.values()
        for record in each.records
        for refusal in record.refusals
    }
