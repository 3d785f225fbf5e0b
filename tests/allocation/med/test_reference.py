"""The mixed-integer program agrees."""

from __future__ import annotations

import sys

import pytest

from axon.allocation.med import Infeasible, allocate
from axon.allocation.med.reference import solve_milp
from axon.errors import ConfigurationError
from tests.allocation.med.problems import drawn


@pytest.mark.slow
@pytest.mark.parametrize("least", [0, 1, 3])
def test_the_program_has_the_same_optimum(least: int) -> None:
    pytest.importorskip("highspy", reason="the extra milp is not installed")
    feasible = 0
    for number in range(12):
        problem = drawn(number, learners=6, tasks=2, most_shards=20, least=least)
        reference = solve_milp(problem, time_limit_s=20.0)
        try:
            plan = allocate(problem, time_limit_s=20.0)
        except Infeasible:
            assert reference.infeasible
            continue
        feasible += 1
        assert reference.proven
        assert plan.objective == pytest.approx(reference.objective, rel=1e-6)
        assert reference.lower_bound <= plan.objective * (1 + 1e-6)
    assert feasible > 2


def test_without_the_solver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(ConfigurationError, match="milp"):
        solve_milp(drawn(1, learners=3, tasks=1, most_shards=3))
