"""Named random streams: the same seed and names give the same numbers, whatever else was drawn.

    stream(7, "shards", 3, "pi-1").integers(10)

A run keeps its seed and no generator's state: what a cycle draws depends on the cycle's number and
the device's name, never on what happened before. That is why a run can be taken up after a crash,
and why one more device changes nothing for the others.
"""

from __future__ import annotations

import hashlib
from random import Random

import numpy as np

Name = int | str


def stream(seed: int, *names: Name) -> np.random.Generator:
    """The generator of numbers for one purpose."""
    return np.random.Generator(np.random.PCG64(_digest(seed, names)))


def plain_stream(seed: int, *names: Name) -> Random:
    """The same idea with the standard library's generator, for code that draws single numbers."""
    return Random(_digest(seed, names))  # noqa: S311  (chance, not secrecy)


def derive(seed: int, *names: Name) -> int:
    """A seed of its own for something that takes a number: 63 bits."""
    return _digest(seed, names) >> 65


def _digest(seed: int, names: tuple[Name, ...]) -> int:
    # `repr` keeps 1 and "1" apart, and the separator keeps ("a", "b") and ("ab",) apart.
    text = "\x1f".join(map(repr, (seed, *names)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
