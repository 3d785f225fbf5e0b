"""What an orchestrator tells those who watch it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from axon.rounds.survey import Finding
from axon.values import DeviceRecord, Plan, RoundRecord


@dataclass(frozen=True, slots=True)
class SurveyBegan:
    """Learners are asked to benchmark themselves before their first cycle."""

    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SurveyEnded:
    """It is known what came of asking them."""

    findings: Mapping[str, Finding]


@dataclass(frozen=True, slots=True)
class CycleBegan:
    """The orders are out."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class LearnerProgress:
    """A learner has trained so many of its batches."""

    device: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class LearnerSettled:
    """It is known what became of a learner in this cycle."""

    record: DeviceRecord


@dataclass(frozen=True, slots=True)
class CycleEnded:
    """The cycle is over, recorded and saved."""

    record: RoundRecord


Event: TypeAlias = (
    SurveyBegan | SurveyEnded | CycleBegan | LearnerProgress | LearnerSettled | CycleEnded
)
