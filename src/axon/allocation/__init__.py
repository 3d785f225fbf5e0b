"""How much each learner does: one scheme a file, each a pure function.

equal       the same for all, a given number for each, or left to the learners
dab         what a learner can do by the deadline, computed by the learner itself
"""

from axon.allocation.dab import shard_bound
from axon.allocation.equal import Equal, Fixed, Open, equal_split

__all__ = ["Equal", "Fixed", "Open", "equal_split", "shard_bound"]
