"""Many updates become one.

means           the average, weighted by the batches behind each update or not
coordinatewise  median, trimmed mean, mean around the median; `weighing` them
neighbours      Krum and Multi-Krum; `diameters` MDA; `extraction` Bulyan
geometric       the geometric median, centred clipping; `hull` where their points lie
filters         what can be done to updates before a rule
rules           the robust rules as policies
wholeness       how many vectors with NaN or infinity a rule bears; `ordering` how ties are broken

A rule is a function of a stack, one vector a row, from numpy or torch; its result is of the same
kind. Underneath, `engines` choose who does the work: `chunked` (with `gram` and `networks`) in this
machine's memory, `kernels` on a GPU, `plain` elsewhere. Names are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from axon.lazy import lazily

if TYPE_CHECKING:
    from axon.aggregation.coordinatewise import mean_around_median, median, trimmed_mean
    from axon.aggregation.diameters import mda
    from axon.aggregation.extraction import bulyan
    from axon.aggregation.filters import bucketing, clipping, nearest_neighbour_mixing
    from axon.aggregation.geometric import centered_clipping, geometric_median
    from axon.aggregation.means import Mean, WeightedMean, mean, weighted_mean
    from axon.aggregation.neighbours import krum, multi_krum
    from axon.aggregation.rules import (
        MDA,
        RULES,
        Bucketed,
        Bulyan,
        CenteredClipping,
        Clipped,
        GeometricMedian,
        Krum,
        MeanAroundMedian,
        Median,
        Mixed,
        MultiKrum,
        RobustRule,
        TrimmedMean,
    )

__all__ = [
    "MDA",
    "RULES",
    "Bucketed",
    "Bulyan",
    "CenteredClipping",
    "Clipped",
    "GeometricMedian",
    "Krum",
    "Mean",
    "MeanAroundMedian",
    "Median",
    "Mixed",
    "MultiKrum",
    "RobustRule",
    "TrimmedMean",
    "WeightedMean",
    "bucketing",
    "bulyan",
    "centered_clipping",
    "clipping",
    "geometric_median",
    "krum",
    "mda",
    "mean",
    "mean_around_median",
    "median",
    "multi_krum",
    "nearest_neighbour_mixing",
    "trimmed_mean",
    "weighted_mean",
]

_HOMES = {
    "Mean": "means",
    "WeightedMean": "means",
    "mean": "means",
    "weighted_mean": "means",
    "median": "coordinatewise",
    "trimmed_mean": "coordinatewise",
    "mean_around_median": "coordinatewise",
    "krum": "neighbours",
    "multi_krum": "neighbours",
    "mda": "diameters",
    "bulyan": "extraction",
    "geometric_median": "geometric",
    "centered_clipping": "geometric",
    "bucketing": "filters",
    "clipping": "filters",
    "nearest_neighbour_mixing": "filters",
}

__getattr__ = lazily(
    __name__, {name: f"axon.aggregation.{_HOMES.get(name, 'rules')}:{name}" for name in __all__}
)


def __dir__() -> list[str]:
    return sorted(__all__)
