"""DAB, data allocation via benchmarking: a learner works out for itself what it can do.

D. J. Mays, "Data Allocation and Benchmarking in Parallelized Mobile Edge Learning", MSc thesis,
Queen's University, 2023, section 3.3.
"""

from __future__ import annotations

import math
from fractions import Fraction

from axon.values import Capability, TaskCost, check_positive


def shard_bound(capability: Capability, cost: TaskCost, deadline_s: float) -> int:
    """The most shards a learner can fetch, train and answer for before the deadline (Eq. 3.5).

    a < (D - 2 Ω_m / b) / (μ / c + Ω_d / b), never negative: 0 sits the cycle out. It is a
    `SelfAllocator`, and the one that learners use unless they are given another. The number of
    shards that exist is the caller's to cap it with.
    """
    check_positive("deadline_s", deadline_s)
    # Fractions hold floats exactly: a bound that is a whole number is excluded, not rounded past.
    compute, link = Fraction(capability.shards_per_s), Fraction(capability.bytes_per_s)  # c, b
    models_s = 2 * cost.model_bytes / link  # One comes down, one goes up.
    shard_s = cost.passes / compute + cost.shard_bytes / link
    bound = (Fraction(deadline_s) - models_s) / shard_s
    return max(0, math.ceil(bound) - 1)
