"""MED as the mixed-integer program that Eq. 4.4 writes down, solved by HiGHS.

It is here to compare with: the products of choice and delay become big-M terms, whose relaxation
says little, so that a general solver needs minutes for what `allocate` does in a second. Needs the
package `highspy`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from axon.allocation.med.delays import Terms
from axon.allocation.med.problem import MedProblem
from axon.allocation.med.settled import measured
from axon.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Reference:
    """What the solver came to; None where it found no plan."""

    objective: float | None
    lower_bound: float
    proven: bool
    infeasible: bool


def solve_milp(problem: MedProblem, *, time_limit_s: float = 60.0) -> Reference:
    """The program's optimum, or the best plan within the time limit, with one thread."""
    highspy = _highspy()
    terms = Terms.of(problem)
    solver = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("time_limit", float(time_limit_s)),
        ("mip_rel_gap", 1e-9),
        ("mip_abs_gap", 1e-9),
        ("mip_feasibility_tolerance", 1e-9),
    ):
        solver.setOptionValue(option, value)
    shards = _write(solver, terms)
    solver.run()
    status = solver.getModelStatus()
    info = solver.getInfo()
    infeasible = status == highspy.HighsModelStatus.kInfeasible
    found = None
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        values = np.array(solver.getSolution().col_value)[shards]
        found = measured(terms, np.rint(values).astype(np.int64)).objective
    proven = status == highspy.HighsModelStatus.kOptimal
    return Reference(found, float(info.mip_dual_bound), proven, infeasible)


def _write(solver: Any, terms: Terms) -> Any:
    """Variables and rows; the columns of the shards, tasks by learners."""
    tasks, learners = terms.fixed_s.shape
    infinity = solver.inf
    delays = [solver.addVariable(0, float(terms.deadline_s[i]), 1.0).index for i in range(tasks)]
    serves = np.array([[solver.addBinary().index for _ in range(learners)] for _ in range(tasks)])
    shards = np.array(
        [
            [solver.addIntegral(0, terms.shards[i]).index for _ in range(learners)]
            for i in range(tasks)
        ]
    )

    def row(low: float, high: float, columns: list[int], factors: list[float]) -> None:
        solver.addRow(
            low, high, len(columns), np.array(columns, np.int32), np.array(factors, float)
        )

    for i in range(tasks):
        row(terms.shards[i], terms.shards[i], list(shards[i]), [1.0] * learners)
        for j in range(learners):
            fixed, each = float(terms.fixed_s[i, j]), float(terms.each_s[i, j])
            most = float(terms.within(i, np.array([j]), float(terms.deadline_s[i]))[0, 0])
            row(0.0, infinity, [delays[i], serves[i, j], shards[i, j]], [1.0, -fixed, -each])
            row(-infinity, 0.0, [shards[i, j], serves[i, j]], [1.0, -most])
            row(0.0, infinity, [shards[i, j], serves[i, j]], [1.0, -float(terms.serving)])
    for j in range(learners):
        row(float(terms.least > 0), 1.0, list(serves[:, j]), [1.0] * tasks)
    row(-infinity, terms.budget, list(shards.ravel()), list(np.tile(terms.price, tasks)))
    return shards


def _highspy() -> Any:
    """The package, or what to install: few need it."""
    try:
        return importlib.import_module("highspy")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "solve_milp needs the package highspy", hint="pip install 'axon-edge[milp]'"
        ) from error
