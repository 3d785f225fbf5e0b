"""What an orchestrator tells those who watch it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from axon.rounds.leadership import Leadership
from axon.rounds.survey import Finding
from axon.values import DeviceRecord, Plan, RoundRecord


@dataclass(frozen=True, slots=True)
class StandsBy:
    """Another orchestrator leads the run; this one watches it."""

    leadership: Leadership


@dataclass(frozen=True, slots=True)
class TookOver:
    """From now on this orchestrator leads the run."""

    epoch: int
    holder: str
    cycles: int
    """How many were saved by then."""


@dataclass(frozen=True, slots=True)
class StoreLost:
    """The store cannot be reached; without it nothing is advanced, and it is asked on."""

    reason: str


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
    StandsBy
    | TookOver
    | StoreLost
    | SurveyBegan
    | SurveyEnded
    | CycleBegan
    | LearnerProgress
    | LearnerSettled
    | CycleEnded
)
