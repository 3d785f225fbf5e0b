"""Many updates become one.

mean        the average, weighted by the batches behind each update or not
"""

from axon.aggregation.mean import Mean, WeightedMean, weighted_mean

__all__ = ["Mean", "WeightedMean", "weighted_mean"]
