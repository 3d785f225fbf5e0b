"""How much each learner does: one scheme a file, each a pure function.

equal       the same for all, a given number for each, or left to the learners
dab         what a learner can do by the deadline, computed by the learner itself
margin      what a learner keeps back at the end of a deadline, learnt from its own misses
staleness   who trains how many samples for how many epochs, all for one period, hardly stale
epochs      how long samples and epochs take a learner, and how many fit in a period
windows     the least staleness there can be, exactly
levels      the same with the least average staleness
relaxation  the published approximations of it, to compare with
link        what a radio link and a clock make of the times of a learner
"""

from axon.allocation.dab import shard_bound
from axon.allocation.epochs import EpochTime
from axon.allocation.equal import Equal, Fixed, Open, equal_split
from axon.allocation.margin import Tails

__all__ = ["EpochTime", "Equal", "Fixed", "Open", "Tails", "equal_split", "shard_bound"]
