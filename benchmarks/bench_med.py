"""How good MED's plans are beside two general solvers that have far more time.

    python benchmarks/bench_med.py [--quick] [--sizes 10x3 20x4] [--seeds 1] [--solver-s 60]
                                   [--least 1]

Learners have three states as in the thesis's section 4.3.1: a one-hot vector through a softmax of
heat 0.5, prices normal with mean 1 and variance 0.5 within [0.1, 1.5]. Speeds, links and sizes are
drawn, about 14 shards a learner, of which each must have `--least`. Deadlines are a quarter above
what learners dealt out like cards take; a loose budget never binds, a tight one is nine tenths of
what those learners cost. HiGHS (package highspy) and CP-SAT (package ortools) get one thread and
`--solver-s`; a solver that is not installed is left out. The ratio is our objective over the better
one's: below 1 we are better.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np

from axon.allocation.med import LearnerState, MedLearner, MedPlan, MedProblem, MedTask, allocate
from axon.allocation.med.delays import Terms
from axon.allocation.med.reference import solve_milp
from axon.allocation.med.settled import measured, settle
from axon.seeds import stream

LIMITS_S = {"10x3": 20.0, "10x4": 20.0, "20x4": 1.0, "50x5": 2.0, "100x5": 2.0, "1000x10": 10.0}
BARS = {
    "10x3": "optimum in 1 s, proven in 20 s",
    "10x4": "optimum in 1 s, proven in 20 s",
    "20x4": "ratio at most 1 in 1 s",
    "50x5": "ratio at most 0.95 in 2 s",
    "100x5": "ratio at most 0.95 in 2 s",
    "1000x10": "a plan and a gap in 10 s",
}
SHARDS_EACH = 14
SCALE = 10_000  # CP-SAT knows whole numbers only: a tenth of a millisecond, a hundredth of a cent.


def draw_learner(random: np.random.Generator, name: str, speeds: list[float]) -> MedLearner:
    """A device with a price and three states: idle, training, downloading."""
    price = float(np.clip(random.normal(1.0, math.sqrt(0.5)), 0.1, 1.5))
    quickness, link = random.uniform(0.4, 1.6), random.uniform(0.5e6, 8e6)
    own = [quickness * speed * random.uniform(0.7, 1.4) for speed in speeds]
    compute = (1.0, random.uniform(0.3, 0.7), 0.95)
    network = (1.0, 0.95, random.uniform(0.2, 0.6))
    weights = np.exp(np.eye(3)[random.integers(3)] / 0.5)
    states = [
        LearnerState(
            probability=float(weights[k] / weights.sum()),
            bytes_per_s=link * network[k],
            shards_per_s={f"task-{i}": rate * compute[k] for i, rate in enumerate(own)},
        )
        for k in range(3)
    ]
    return MedLearner(name, price, states)


def draw(size: str, seed: int, *, tight: bool, least: int = 1) -> MedProblem:
    """A problem that has a plan whenever the budget is loose."""
    learners, tasks = map(int, size.split("x"))
    random = stream(seed, "bench med", size)
    weights = random.uniform(0.3, 1.0, tasks)
    drawn = [
        MedTask(
            name=f"task-{i}",
            shards=max(2, round(SHARDS_EACH * learners * weight / weights.sum())),
            deadline_s=1e6,
            model_bytes=random.uniform(0.2e6, 4e6),
            shard_bytes=random.uniform(20e3, 400e3),
            passes=int(random.integers(1, 3)),
        )
        for i, weight in enumerate(weights)
    ]
    speeds = [random.uniform(0.5, 4.0) for _ in range(tasks)]
    who = [draw_learner(random, f"learner-{j:04}", speeds) for j in range(learners)]
    free = Terms.of(MedProblem(drawn, who, 1e9, least))
    dealt = settle(free, [np.arange(i, learners, tasks) for i in range(tasks)])
    assert dealt is not None
    delays = dict(zip(free.tasks, dealt.delays, strict=True))
    limited = [replace(task, deadline_s=1.25 * delays[task.name]) for task in drawn]
    budget = 0.9 * dealt.cost if tight else 2.0 * sum(free.shards)
    return MedProblem(limited, who, budget, least)


def solve_cpsat(problem: MedProblem, limit_s: float) -> float | None:
    """CP-SAT's objective with one thread, measured as ours is."""
    cp_model = importlib.import_module("ortools.sat.python.cp_model")

    terms = Terms.of(problem)
    tasks, learners = terms.fixed_s.shape
    model = cp_model.CpModel()
    delays = [
        model.new_int_var(0, math.floor(deadline * SCALE), "") for deadline in terms.deadline_s
    ]
    serves = [[model.new_bool_var("") for _ in range(learners)] for _ in range(tasks)]
    shards = [
        [model.new_int_var(0, terms.shards[i], "") for _ in range(learners)] for i in range(tasks)
    ]
    for i in range(tasks):
        model.add(sum(shards[i]) == terms.shards[i])
        for j in range(learners):
            fixed, each = (round(float(x[i, j]) * SCALE) for x in (terms.fixed_s, terms.each_s))
            most = int(terms.within(i, np.array([j]), float(terms.deadline_s[i]))[0, 0])
            model.add(delays[i] >= fixed * serves[i][j] + each * shards[i][j])
            model.add(shards[i][j] <= most * serves[i][j])
            model.add(shards[i][j] >= terms.serving * serves[i][j])
    only = model.add_exactly_one if terms.least else model.add_at_most_one
    for j in range(learners):
        only(serves[i][j] for i in range(tasks))
    prices = [math.ceil(price * SCALE) for price in terms.price]
    spent = sum(prices[j] * shards[i][j] for i in range(tasks) for j in range(learners))
    model.add(spent <= math.floor(terms.budget * SCALE))
    model.minimize(sum(delays))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = limit_s
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    counts = np.array([[solver.value(each) for each in row] for row in shards])
    return measured(terms, counts).objective


@dataclass(frozen=True, slots=True)
class Line:
    """One problem: what everybody came to."""

    size: str
    tight: bool
    ours: MedPlan
    within_1_s: float
    took_s: float
    highs: float | None
    cpsat: float | None

    @property
    def ratio(self) -> float | None:
        """Our objective over the better solver's; none where neither found a plan."""
        others = [each for each in (self.highs, self.cpsat) if each is not None]
        return self.ours.objective / min(others) if others else None

    def __str__(self) -> str:
        def number(value: float | None) -> str:
            return "-" if value is None else f"{value:.4f}"

        cells = [
            self.size,
            "tight" if self.tight else "loose",
            number(self.ours.objective),
            f"{self.took_s:.2f}",
            number(self.ours.lower_bound),
            f"{100 * self.ours.gap:.2f} %",
            number(self.highs),
            number(self.cpsat),
            number(self.ratio),
        ]
        return " | ".join(f"{cell:>10}" for cell in cells)


def measure(size: str, problem: MedProblem, *, tight: bool, solver_s: float) -> Line:
    """Solve one problem by everything that is installed."""
    limit_s = LIMITS_S[size]
    quick = allocate(problem, time_limit_s=min(1.0, limit_s))
    began = time.monotonic()
    ours = allocate(problem, time_limit_s=limit_s)
    took_s = time.monotonic() - began
    highs, cpsat = (None, None) if size == "1000x10" else solve_others(problem, solver_s)
    return Line(size, tight, ours, quick.objective, took_s, highs, cpsat)


def solve_highs(problem: MedProblem, limit_s: float) -> float | None:
    """HiGHS's objective with one thread."""
    return solve_milp(problem, time_limit_s=limit_s).objective


def solve_others(problem: MedProblem, limit_s: float) -> list[float | None]:
    """What the two solvers come to, side by side, in processes of their own.

    Each package brings a HiGHS, and the two cannot be loaded together.
    """
    solvers = {"highspy": solve_highs, "ortools": solve_cpsat}
    with ExitStack() as stack:
        calls: list[Future[float | None] | None] = []
        for package, solve in solvers.items():
            if importlib.util.find_spec(package) is None:
                calls.append(None)
                continue
            pool = stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
            calls.append(pool.submit(solve, problem, limit_s))
        return [None if call is None else call.result() for call in calls]


def verdicts(lines: list[Line]) -> Iterator[str]:
    """Each bar beside what was measured."""
    for size, bar in BARS.items():
        mine = [line for line in lines if line.size == size]
        if not mine:
            continue
        ratios = [line.ratio for line in mine if line.ratio is not None]
        worst = (
            f"worst ratio {max(ratios):.4f}, median {statistics.median(ratios):.4f}"
            if ratios
            else ""
        )
        slowest = max(line.took_s for line in mine)
        gap = max(line.ours.gap for line in mine)
        proven = sum(line.ours.proven for line in mine)
        early = sum(math.isclose(line.within_1_s, line.ours.objective) for line in mine)
        yield (
            f"{size:>8}  bar: {bar}; measured: {slowest:.2f} s at most, gap {100 * gap:.2f} % at "
            f"most, proven {proven} of {len(mine)}, final in 1 s {early} of {len(mine)} {worst}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, 5 s for the solvers")
    parser.add_argument("--sizes", nargs="+", choices=list(LIMITS_S))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--solver-s", type=float)
    parser.add_argument("--least", type=int, default=1, help="shards that every learner must have")
    options = parser.parse_args()
    sizes = options.sizes or (["10x3", "20x4"] if options.quick else list(LIMITS_S))
    solver_s = options.solver_s or (5.0 if options.quick else 60.0)
    titles = ["size", "budget", "ours", "s", "bound", "gap", "HiGHS", "CP-SAT", "ratio"]
    print(" | ".join(f"{title:>10}" for title in titles))
    lines = []
    for size in sizes:
        for seed in range(options.seeds):
            for tight in (False, True):
                problem = draw(size, seed, tight=tight, least=options.least)
                lines.append(measure(size, problem, tight=tight, solver_s=solver_s))
                print(lines[-1], flush=True)
    print("\n".join(verdicts(lines)))


if __name__ == "__main__":
    main()
