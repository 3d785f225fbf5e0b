"""Random problems, and an oracle that knows nothing of how they are solved."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from axon.allocation.med import LearnerState, MedLearner, MedPlan, MedProblem, MedTask
from axon.seeds import stream


def learner(
    name: str, price: float, seconds: dict[str, float], bytes_per_s: float = 1e3
) -> MedLearner:
    """One certain state, in which a shard of each task takes so many seconds to train."""
    rates = {task: 1 / each for task, each in seconds.items()}
    return MedLearner(name, price, [LearnerState(1.0, bytes_per_s, rates)])


def task(name: str, shards: int, deadline_s: float = 1e3, model_bytes: float = 0.0) -> MedTask:
    """A task whose shards weigh nothing."""
    return MedTask(name, shards, deadline_s, model_bytes=model_bytes, shard_bytes=0.0)


def drawn(
    *names: int | str, learners: int, tasks: int, most_shards: int, least: int = 1
) -> MedProblem:
    """A problem with two states a learner, whose limits bind about as often as not."""
    random = stream(11, "med", *names, learners, tasks, most_shards, least)
    who = [_drawn_learner(random, f"learner-{j}", tasks) for j in range(learners)]
    what = [
        MedTask(
            name=f"task-{i}",
            shards=int(random.integers(max(1, least), most_shards + 1)),
            deadline_s=float(random.uniform(0.5, 2.5) * most_shards * tasks / learners),
            model_bytes=float(random.uniform(0, 500)),
            shard_bytes=float(random.uniform(0, 200)),
            passes=int(random.integers(1, 3)),
        )
        for i in range(tasks)
    ]
    total = sum(each.shards for each in what)
    return MedProblem(what, who, float(random.uniform(0.4, 1.3) * total), least)


def _drawn_learner(random: np.random.Generator, name: str, tasks: int) -> MedLearner:
    sure = float(random.uniform(0.1, 0.9))
    states = [
        LearnerState(
            probability,
            float(random.uniform(200, 2000)),
            {f"task-{i}": float(random.uniform(0.5, 4.0)) for i in range(tasks)},
        )
        for probability in (sure, 1 - sure)
    ]
    return MedLearner(name, round(float(random.uniform(0.1, 1.5)), 2), states)


def delay(what: MedTask, who: MedLearner, count: int) -> float:
    """Eq. 4.3 as it is written, for a learner that serves."""
    return sum(
        state.probability
        * (
            (2 * what.model_bytes + what.shard_bytes * count) / state.bytes_per_s
            + what.passes * count / state.shards_per_s[what.name]
        )
        for state in who.states
    )


def brute_force(problem: MedProblem) -> float:
    """The objective of the best plan by trying every plan; infinite where there is none."""
    best = math.inf
    for owners in itertools.product(range(len(problem.tasks)), repeat=len(problem.learners)):
        choices = [_ways(problem, owners, number) for number in range(len(problem.tasks))]
        for ways in itertools.product(*choices):
            cost = sum(way[1] for way in ways)
            if cost <= problem.budget * (1 + 1e-14):
                best = min(best, sum(way[0] for way in ways))
    return best


def _ways(problem: MedProblem, owners: Sequence[int], number: int) -> list[tuple[float, float]]:
    """Delay and cost of every way to share out one task among its learners."""
    what = problem.tasks[number]
    who = [each for each, owner in zip(problem.learners, owners, strict=True) if owner == number]
    ways = []
    for counts in _shares(what.shards, len(who), problem.least_shards):
        # Only who is idle, which takes a least of 0, is spared the models.
        served = [(each, count) for each, count in zip(who, counts, strict=True) if count]
        longest = max(delay(what, each, count) for each, count in served)
        if longest <= what.deadline_s * (1 + 1e-12):
            ways.append((longest, sum(each.price * count for each, count in served)))
    return ways


def _shares(total: int, members: int, least: int) -> Iterator[tuple[int, ...]]:
    if members == 0:
        if total == 0:
            yield ()
        return
    for count in range(least, total + 1):
        for rest in _shares(total - count, members - 1, least):
            yield (count, *rest)


def check_plan(problem: MedProblem, plan: MedPlan) -> None:
    """Every constraint of Eq. 4.4, and that the plan says of itself what is true."""
    by_name = {each.name: each for each in problem.learners}
    served = [name for shares in plan.shards.values() for name in shares]
    assert len(served) == len(set(served))
    assert not problem.least_shards or set(served) == set(by_name)
    cost = 0.0
    for what in problem.tasks:
        shares = plan.shards[what.name]
        assert sum(shares.values()) == what.shards
        assert min(shares.values()) >= max(1, problem.least_shards)
        longest = max(delay(what, by_name[name], count) for name, count in shares.items())
        assert math.isclose(longest, plan.delays[what.name], rel_tol=1e-9)
        assert plan.delays[what.name] <= what.deadline_s
        cost += sum(by_name[name].price * count for name, count in shares.items())
    assert cost <= problem.budget * (1 + 1e-14)  # The sum here is of floats.
    assert plan.cost <= problem.budget
    assert math.isclose(cost, plan.cost, rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(plan.objective, sum(plan.delays.values()), rel_tol=1e-12)
    assert 0 <= plan.lower_bound <= plan.objective


def with_deadline(problem: MedProblem, name: str, deadline_s: float) -> MedProblem:
    """The same with one deadline changed."""
    tasks = [
        replace(each, deadline_s=deadline_s) if each.name == name else each
        for each in problem.tasks
    ]
    return replace(problem, tasks=tasks)
