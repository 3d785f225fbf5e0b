"""A survey over the network: learners that tell, refuse, lie, are silent, or know of no survey."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from axon import client
from axon.learning.learner import Abilities, Learner
from axon.learning.service import LearnerService
from axon.policies import Situation
from axon.rounds.events import SurveyEnded
from axon.rounds.settings import Scheme, Survey
from axon.rounds.survey import Finding
from axon.testbed.charged import ChargedCompute, JobPool
from axon.values import Capability, Order, RoundRecord, Share
from tests.rounds.test_remote import USED, Hostile, ends, fit, statuses
from tests.rounds.worlds import NAMES, NetworkScene, address_of, sum_up

TELL = Survey(shards=4, disclosed=True)


def by_capability(members: Sequence[str], situation: Situation) -> dict[str, Share]:
    return {name: Share(shards=2) for name in members if name in situation.capabilities}


class Surveyed(Hostile):
    """Trains as it should, and answers a survey as the test says."""

    def __init__(self, name: str, answer: Callable[[Order, bool], Any]) -> None:
        super().__init__({"name": name}, fit)
        self._answer = answer

    async def benchmark(self, order: Order, disclose: bool) -> Any:
        answer = self._answer(order, disclose)
        return await answer if asyncio.iscoroutine(answer) else answer


def scene_of(survey: Survey = TELL, addresses: Any = None, **services: Any) -> NetworkScene:
    scene = NetworkScene(addresses, cycles=2)
    allocate = by_capability if survey.disclosed else Scheme().allocate
    scene.scheme = Scheme(allocate=allocate, survey=survey)
    scene.services = {name.replace("_", "-"): service for name, service in services.items()}
    return scene


def found_in(scene: NetworkScene) -> dict[str, Finding]:
    return {
        name: finding
        for event in scene.events
        if isinstance(event, SurveyEnded)
        for name, finding in event.findings.items()
    }


def durations(records: list[RoundRecord]) -> float:
    return max(record.duration_s for record in records)


@pytest.mark.parametrize("listed", [None, [address_of(name) for name in NAMES]])
def test_learners_tell_over_the_network_under_any_name(listed: Any) -> None:
    scene = scene_of(addresses=listed)
    records = scene.play()
    assert [statuses(record) for record in records] == [USED, USED]
    capabilities = [finding.capability for finding in found_in(scene).values()]
    # Batches of 4 take 10 ms, whatever they are.
    assert [told and told.shards_per_s for told in capabilities] == pytest.approx([50.0] * 3)


def test_undisclosed_they_benchmark_themselves_and_tell_nothing() -> None:
    scene = scene_of(Survey(shards=4))
    scene.play()
    assert found_in(scene) == dict.fromkeys(NAMES, Finding(status="benchmarked", cycle=1))


def test_a_learner_that_refuses_is_recorded_with_its_reason() -> None:
    scene = scene_of()
    compute = ChargedCompute(JobPool(sum_up), lambda spec, size: 0.01)
    access = client.access(transport=scene.transport("pi-1"), reconnect_s=0.0)
    learner = Learner("pi-1", compute, Abilities(discloses=False))
    scene.services["pi-1"] = LearnerService(learner, access)
    for record in scene.play():
        assert statuses(record) == USED | {"pi-1": "declined"}
        assert ends(record)["pi-1"][1].startswith("survey: ")


def fail(order: Order, disclose: bool) -> Any:
    raise KeyError("\x1b[2J" + "x" * 10**5)


def lie(order: Order, disclose: bool) -> Any:
    capability = Capability(shards_per_s=1.0, bytes_per_s=1.0)
    object.__setattr__(capability, "shards_per_s", float("nan"))
    return capability


ANSWERS: dict[str, tuple[Callable[[Order, bool], Any], str]] = {
    "text": (lambda order, disclose: "quick", "failed"),
    "a mapping": (lambda order, disclose: {"shards_per_s": 1e9, "bytes_per_s": 1e9}, "failed"),
    "an update": (lambda order, disclose: fit(order), "failed"),
    "absurd": (lambda order, disclose: Capability(shards_per_s=1e300, bytes_per_s=1.0), "failed"),
    "not a number": (lie, "failed"),
    "too much": (lambda order, disclose: np.zeros(1 << 20), "failed"),
    "an error": (fail, "failed"),
    "silence": (lambda order, disclose: asyncio.Event().wait(), "failed"),
    "nothing": (lambda order, disclose: None, "declined"),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_what_is_no_capability_costs_its_sender_alone(kind: str) -> None:
    answer, status = ANSWERS[kind]
    scene = scene_of(pi_1=Surveyed("pi-1", answer))
    records = scene.play()
    for record in records:
        assert statuses(record) == USED | {"pi-1": status}
        reason = ends(record)["pi-1"][1]
        assert 0 < len(reason) < 400
        assert reason.isprintable()
    assert found_in(scene)["pi-1"].capability is None
    assert records[0].started_s <= 1.05 * scene.run.deadline_s + 1e-6
    assert durations(records) <= scene.run.deadline_s


def test_a_worker_of_before_surveys_trains_on_where_nothing_need_be_told() -> None:
    older = Hostile({"name": "pi-1"}, fit)
    disclosed, kept = scene_of(pi_1=older), scene_of(Survey(), pi_1=older)
    for record in disclosed.play():
        assert statuses(record) == USED | {"pi-1": "failed"}
        assert "benchmark" in ends(record)["pi-1"][1]
    for record in kept.play():
        assert statuses(record) == USED
