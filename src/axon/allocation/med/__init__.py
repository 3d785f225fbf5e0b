"""MED, minimum expected delay: many tasks over uncertain devices under one budget.

    plan = allocate(MedProblem(tasks, learners, budget=300.0))
    plan.shards["fashion"]["nano-3"]

D. J. Mays, "Data Allocation and Benchmarking in Parallelized Mobile Edge Learning", MSc thesis,
Queen's University, 2023, chapter 4. Minimise over whole shards d_ij the sum over tasks of the
largest expected delay among their learners (Eq. 4.4), where

    delay_ij = d_ij · E[passes_i / c_ij + shard_bytes_i / b_j] + 2 · model_bytes_i · E[1 / b_j],

all shards of each task are allotted, each delay is within its task's deadline, each learner serves
one task with D_l shards (`least_shards`) at least, and the prices of all shards together are within
the budget. Where the text leaves a choice, this is what was chosen:

- Eq. 4.3 charges the models to every learner, also without a shard; here only to those who serve,
  as Eq. 4.1 takes the largest delay over the learners "associated with" a task.
- Eq. 4.4e gives every learner at least D_l shards, "to ensure the utilization of all learners": a
  device has to be used even where it slows its task down, and one too many makes a plan
  impossible. With D_l = 0 learners may stay idle.
- The iterations of Table 4.1 multiply the time for training: `passes`.
- Eq. 4.4b is not strict: a delay equal to the deadline is within it.
- Eq. 4.4d has no slack: prices and budget are the decimals written, and their sums are exact.

problem     the nouns: what is asked and what is answered
delays      what follows once it is known who serves a task
settled     an assignment made into a plan, exactly: one budget over several tasks
grid        the value of many changes at once
search      who serves what, by local search
subsets     who serves what, proven where the time is enough, for up to 12 learners
bounds      a bound below every plan, for more
explain     why there is no plan, and the least that would change that
solve       `allocate`; MMTT-Ideal and MMTT-Uncertain
reference   the same as a mixed-integer program, for HiGHS
"""

from axon.allocation.med.problem import (
    Infeasible,
    LearnerState,
    MedLearner,
    MedPlan,
    MedProblem,
    MedTask,
    Remedy,
)
from axon.allocation.med.solve import allocate, believed, mmtt_ideal, mmtt_uncertain

__all__ = [
    "Infeasible",
    "LearnerState",
    "MedLearner",
    "MedPlan",
    "MedProblem",
    "MedTask",
    "Remedy",
    "allocate",
    "believed",
    "mmtt_ideal",
    "mmtt_uncertain",
]
