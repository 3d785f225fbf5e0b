"""Training data: the sets by name, their cut into shards, and their division among devices.

load("digits").train                        the real handwritten digits that ship with Axon
Shards(samples, 100, seed=7).take(numbers)  what an orchestrator hands out
partition_of("dirichlet:0.3")               who owns what, where the data never moves
"""

from axon.data.datasets import Dataset, load
from axon.data.partitions import partition_of
from axon.data.shards import Shards, draw_uniform

__all__ = ["Dataset", "Shards", "draw_uniform", "load", "partition_of"]
