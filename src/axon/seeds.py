"""Named random streams: the same seed and names give the same numbers, whatever else was drawn.

    stream(7, "shards", 3, "pi-1").integers(10)

A run keeps its seed and no generator's state: what a cycle draws depends on the cycle's number and
the device's name, never on what happened before. That is why a run can be taken up after a crash,
and why one more device changes nothing for the others.
"""

from __future__ import annotations

import hashlib
from random import Random
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

Name = int | str


def stream(seed: int, *names: Name) -> np.random.Generator:
    """The generator of numbers for one purpose."""
    stirred = _Stirred(_digest(seed, names, 32))
    # Any ISeedSequence will do; numpy's stubs know only its own.
    return np.random.Generator(np.random.PCG64(stirred))  # type: ignore[arg-type]


def plain_stream(seed: int, *names: Name) -> Random:
    """The same idea with the standard library's generator, for code that draws single numbers."""
    digest = _digest(seed, names, 16)
    return Random(int.from_bytes(digest, "little"))  # noqa: S311  (chance, not secrecy)


def derive(seed: int, *names: Name) -> int:
    """A seed of its own for something that takes a number: 63 bits."""
    return int.from_bytes(_digest(seed, names, 8), "little") >> 1


class _Stirred(ISeedSequence):
    """A digest as it is: numpy's own sequence would stir it a second time, for most of the cost."""

    __slots__ = ("_digest",)

    def __init__(self, digest: bytes) -> None:
        self._digest = digest

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """The first words of the digest; PCG64 wants all 32 bytes."""
        return np.frombuffer(self._digest, np.dtype(dtype).newbyteorder("<"))[:n_words]


def _digest(seed: int, names: tuple[Name, ...], size: int) -> bytes:
    # `repr` keeps 1 and "1" apart, and the separator keeps ("a", "b") and ("ab",) apart.
    text = "\x1f".join(map(repr, (seed, *names)))
    return hashlib.blake2b(text.encode(), digest_size=size).digest()
