"""What every experiment can be told: how much, from which seed, on which data, and who listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from axon.errors import ConfigurationError

# With numpy, which `axon reproduce --list` does without.
if TYPE_CHECKING:
    from axon.data.datasets import Dataset

Progress = Callable[[str], None]
"""Called with a line about what is being done."""


MOST_REPEATS = 10_000
"""Beyond it lies a slip of the keyboard."""


def _silent(_line: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an experiment is to be run; what is left out is the experiment's own choice."""

    quick: bool = False
    """Seconds rather than minutes: fewer repeats and smaller data, by the same code."""
    seed: int = 0
    repeats: int | None = None
    dataset: str | None = None
    progress: Progress = _silent

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ConfigurationError(f"seed must be at least 0, got {self.seed}")
        if self.repeats is not None and not 1 <= self.repeats <= MOST_REPEATS:
            raise ConfigurationError(
                f"repeats must be from 1 to {MOST_REPEATS}, got {self.repeats}"
            )

    def repeated(self, usual: int, quick: int) -> int:
        """How often to measure, where an experiment would do it `usual` or `quick` times."""
        if self.repeats is not None:
            return self.repeats
        return quick if self.quick else usual


def load_dataset(settings: Settings) -> tuple[Dataset, str]:
    """What to train on, and a note for the result where it is not what the paper trained on.

    MNIST, unless another was asked for; digits, which every installation has, where MNIST is not
    to be had, and for a quick look.
    """
    # Late, because numpy comes with it.
    from axon.data import locate
    from axon.data.datasets import load

    if settings.dataset is not None:
        return load(settings.dataset), ""
    if settings.quick:
        return load("digits"), "A quick look trains on digits (8 x 8 pixels) instead of MNIST."
    try:
        return load("mnist"), ""
    except ConfigurationError:
        source = locate.SOURCES["mnist"]
        # Files that are there and are not MNIST's are an error of this machine, not a lack.
        if all(locate.find(source, file) for file in locate.DIMENSIONS):
            raise
        return load("digits"), "MNIST is not to be had on this machine; trained on digits instead."
