"""The nouns of MED: what is to be trained, by whom, within what, and the plan that answers it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from axon.errors import ConfigurationError
from axon.values import check_amount, check_positive, check_whole

MOST = 10**9
"""Of shards, passes and least shards: sums of them over all learners stay exact."""
Constraint = Literal["deadline", "budget", "least shards", "learners"]


@dataclass(frozen=True, slots=True)
class MedTask:
    """One request: `shards` of data to be trained on within a deadline (D_i, T_i)."""

    name: str
    shards: int
    deadline_s: float
    model_bytes: float
    shard_bytes: float
    passes: int = 1
    """Table 4.1's iterations: how often a learner goes over its shards."""

    def __post_init__(self) -> None:
        _check_name("a task's name", self.name)
        _check_count(f"shards of {self.name!r}", self.shards, least=1)
        check_positive(f"deadline_s of {self.name!r}", self.deadline_s)
        check_amount(f"model_bytes of {self.name!r}", self.model_bytes)
        check_amount(f"shard_bytes of {self.name!r}", self.shard_bytes)
        _check_count(f"passes of {self.name!r}", self.passes, least=1)


@dataclass(frozen=True, slots=True)
class LearnerState:
    """What a learner may be doing, how likely that is, and how fast it then is (b, c)."""

    probability: float
    bytes_per_s: float
    shards_per_s: Mapping[str, float]
    """By the name of the task, for one pass."""

    def __post_init__(self) -> None:
        if not isinstance(self.shards_per_s, Mapping):
            raise ConfigurationError(
                f"shards_per_s must be a rate for each task by its name, got {self.shards_per_s!r}"
            )
        # A copy, so that the caller's later changes do not change the state.
        object.__setattr__(self, "shards_per_s", dict(self.shards_per_s))
        check_amount("probability", self.probability)
        check_positive("bytes_per_s", self.bytes_per_s)
        for task, rate in self.shards_per_s.items():
            check_positive(f"shards_per_s for {task!r}", rate)


@dataclass(frozen=True, slots=True)
class MedLearner:
    """A device, the price it asks for a shard, and the states it may be in."""

    name: str
    price: float
    states: Sequence[LearnerState]

    def __post_init__(self) -> None:
        _check_name("a learner's name", self.name)
        _check_all(f"states of {self.name!r}", self.states, LearnerState)
        object.__setattr__(self, "states", tuple(self.states))
        check_amount(f"price of {self.name!r}", self.price)
        total = math.fsum(state.probability for state in self.states)
        if not math.isclose(total, 1.0, abs_tol=1e-9):
            raise ConfigurationError(
                f"probability of the {len(self.states)} states of {self.name!r} "
                f"must add up to 1, got {total:g}"
            )


@dataclass(frozen=True, slots=True)
class MedProblem:
    """Tasks, learners, and what may be spent on all of them together."""

    tasks: Sequence[MedTask]
    learners: Sequence[MedLearner]
    budget: float
    least_shards: int = 1
    """Every learner serves a task with at least so many shards (D_l); with 0 it may stay idle."""

    def __post_init__(self) -> None:
        _check_all("tasks", self.tasks, MedTask)
        _check_all("learners", self.learners, MedLearner)
        object.__setattr__(self, "tasks", tuple(self.tasks))
        object.__setattr__(self, "learners", tuple(self.learners))
        check_amount("budget", self.budget)
        _check_count("least_shards", self.least_shards, least=0)
        _check_distinct("tasks", [task.name for task in self.tasks])
        _check_distinct("learners", [learner.name for learner in self.learners])
        for learner in self.learners:
            for state in learner.states:
                for task in self.tasks:
                    if task.name not in state.shards_per_s:
                        raise ConfigurationError(
                            f"shards_per_s of {learner.name!r} lacks task {task.name!r}",
                            hint="every state needs a rate for every task",
                        )


@dataclass(frozen=True, slots=True)
class MedPlan:
    """Who trains how many shards of what, how long that takes, and how good it is."""

    shards: Mapping[str, Mapping[str, int]]
    """By task, then by learner; a learner without shards is not in it."""
    delays: Mapping[str, float]
    """By task: the largest expected delay among its learners, in seconds."""
    objective: float
    """The sum of the delays (Eq. 4.4a)."""
    lower_bound: float
    """No plan whatsoever has a smaller objective."""
    cost: float
    limit_reached: bool
    """The time limit ended the search; with more time the plan may be better."""

    @property
    def gap(self) -> float:
        """How far the objective may be above the best there is, as a part of it; 0 is proven."""
        if not self.objective:
            return 0.0
        return max(0.0, (self.objective - self.lower_bound) / self.objective)

    @property
    def proven(self) -> bool:
        """Whether no plan is better, up to rounding."""
        return self.gap <= 1e-9


@dataclass(frozen=True, slots=True)
class Remedy:
    """One number that would have to be another one: at least `value`.

    For the least shards of a learner it is at most that. For learners it is how many, and where
    that is fewer than there are, `without` names those who would have to stay out.
    """

    constraint: Constraint
    value: float
    task: str | None = None
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.without:
            return f"doing without {' and '.join(map(repr, self.without))}"
        if self.constraint == "deadline":
            return f"a deadline of {self.task!r} of at least {self.value:.9g} s"
        if self.constraint == "budget":
            return f"a budget of at least {self.value:.9g}"
        if self.constraint == "learners":
            return f"at least {self.value:g} learners"
        return f"least_shards of at most {self.value:g}"


class Infeasible(ConfigurationError):
    """No plan keeps to all constraints.

    Each of `remedies` by itself would make one possible, all else as it is; where no single one
    would, `together` is true and all of them are needed. They are least where `proven`; otherwise
    the problem is too large to try everything, and they are the least that were found to do.
    """

    def __init__(
        self, message: str, *, remedies: Sequence[Remedy], together: bool = False, proven: bool
    ) -> None:
        joined = (" and " if together else ", or ").join(map(str, remedies))
        super().__init__(message, hint=f"it would take {joined}")
        self.remedies = tuple(remedies)
        self.together = together
        self.proven = proven

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints that bind, each once."""
        return tuple(dict.fromkeys(remedy.constraint for remedy in self.remedies))


def _check_name(what: str, name: str) -> None:
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{what} must be a text of at least one letter, got {name!r}")


def _check_count(field: str, value: int, *, least: int) -> None:
    check_whole(field, value, least=least)
    if value > MOST:
        raise ConfigurationError(
            f"{field} must be at most {MOST:,}, got {value!r:.30}",
            hint="put more data into each shard",
        )


def _check_all(field: str, values: object, kind: type) -> None:
    wrong = (
        [each for each in values if not isinstance(each, kind)]
        if isinstance(values, Sequence) and not isinstance(values, str)
        else [values]
    )
    if wrong:
        raise ConfigurationError(
            f"{field} must be a sequence of {kind.__name__}, got {wrong[0]!r:.60}"
        )


def _check_distinct(field: str, names: Sequence[str]) -> None:
    if not names:
        raise ConfigurationError(f"{field} must hold at least one, got none")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigurationError(f"{field} must have different names, got {twice!r} twice")
