"""What happened at a server, step by step: who was heard, who was refused, and where time went."""

from __future__ import annotations

from dataclasses import dataclass, field

from axon.byzantine.quorum import Quorum, Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step of one server; times are seconds on the loop's clock."""

    server: str
    step: int
    started_s: float
    """Since the server was made."""
    ended_s: float
    gradients_s: float
    """Waiting for gradients: the workers' computation and the way there and back."""
    exchange_s: float
    """Waiting for the models and the aggregated gradients of other servers."""
    aggregation_s: float
    update_s: float
    accuracy_s: float
    gradients_from: tuple[str, ...]
    models_from: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    accuracy: float | None
    """Of the model after the step, where it was computed."""

    @property
    def duration_s(self) -> float:
        """How long the step took, less what measuring the accuracy took."""
        return self.ended_s - self.started_s - self.accuracy_s


@dataclass(slots=True, kw_only=True)
class OpenStep:
    """A step that is under way."""

    server: str
    step: int
    started_s: float
    gradients_s: float = 0.0
    exchange_s: float = 0.0
    aggregation_s: float = 0.0
    update_s: float = 0.0
    accuracy_s: float = 0.0
    gradients_from: tuple[str, ...] = ()
    models_from: tuple[str, ...] = ()
    refusals: list[Refusal] = field(default_factory=list)
    accuracy: float | None = None

    def heard_gradients(self, quorum: Quorum, seconds: float) -> None:
        """Note whose gradients came."""
        self.gradients_s += seconds
        self.gradients_from = quorum.members
        self.refusals += quorum.refusals

    def heard_servers(self, quorum: Quorum, seconds: float, *, models: bool) -> None:
        """Note whose models, or aggregated gradients, came."""
        self.exchange_s += seconds
        if models:
            self.models_from = quorum.members
        self.refusals += quorum.refusals

    def ended(self, ended_s: float) -> StepRecord:
        """The record of it."""
        return StepRecord(
            server=self.server,
            step=self.step,
            started_s=self.started_s,
            ended_s=ended_s,
            gradients_s=self.gradients_s,
            exchange_s=self.exchange_s,
            aggregation_s=self.aggregation_s,
            update_s=self.update_s,
            accuracy_s=self.accuracy_s,
            gradients_from=self.gradients_from,
            models_from=self.models_from,
            refusals=tuple(self.refusals),
            accuracy=self.accuracy,
        )
