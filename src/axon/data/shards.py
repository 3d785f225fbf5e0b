"""The unit in which training data is handed out: a shard of a fixed number of samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from axon.errors import ConfigurationError
from axon.seeds import stream
from axon.values import Samples, check_whole


class Shards:
    """A training set, shuffled once and cut into shards of the same size.

    The samples left over, fewer than one shard has, take no part: equal shards are what lets a
    learner's speed be told in shards per second.
    """

    def __init__(self, samples: Samples, shard_samples: int, *, seed: int) -> None:
        check_whole("shard_samples", shard_samples, least=1)
        if shard_samples > len(samples):
            raise ConfigurationError(
                f"a shard of {shard_samples} samples cannot be cut from {len(samples)}",
                hint="choose smaller shards",
            )
        self.shard_samples = shard_samples
        self._count = len(samples) // shard_samples
        order = stream(seed, "cut").permutation(len(samples))[: self._count * shard_samples]
        # Kept in their order, so that one shard is a piece of memory and costs no copy.
        self._samples = samples.take(order)
        self._samples.inputs.flags.writeable = False
        self._samples.labels.flags.writeable = False

    def __len__(self) -> int:
        return self._count

    @property
    def shard_bytes(self) -> int:
        """What one takes on the wire and in memory."""
        return self._samples.nbytes // self._count

    def take(self, numbers: NDArray[np.intp]) -> Samples:
        """The samples of these shards, in the order of the numbers; of one shard without a copy."""
        outside = numbers[(numbers < 0) | (numbers >= self._count)]
        if outside.size:
            raise ConfigurationError(
                f"there is no shard {outside[0]}: the {self._count} shards are numbered from 0"
            )
        size = self.shard_samples
        if len(numbers) == 1:
            start = int(numbers[0]) * size
            return self._samples.take(slice(start, start + size))
        return self._samples.take((numbers[:, np.newaxis] * size + np.arange(size)).reshape(-1))


def draw_uniform(shards: int, count: int, random: np.random.Generator) -> NDArray[np.intp]:
    """Different numbers below `shards`, each set and order as likely as any other.

    Where more are wanted than there are, all of them come, shuffled.
    """
    check_whole("count", count, least=0)
    return random.permutation(shards)[:count].astype(np.intp, copy=False)
