"""MNIST as the DAB thesis cuts it, and how much of it learners benchmark themselves on."""

from __future__ import annotations

PIXELS, CLASSES = 784, 10
SHARD_SAMPLES, SHARDS = 500, 120
BENCHMARK_SHARDS = 8
"""Beyond it, the thesis says, a benchmark hardly improves."""


def shard_samples(samples: int) -> int:
    """The thesis's shards, or as many smaller ones where a data set is smaller than its own."""
    return max(1, min(SHARD_SAMPLES, samples // SHARDS))
