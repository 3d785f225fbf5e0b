"""What a device's owner does with it meanwhile, and what that costs the learner on it.

The three states of the MED experiments (section 4.3.1 of the DAB thesis): an idle device gives all
it has, one that is training multiplies two 900 x 900 matrices beside every batch, and one that is
downloading fetches a 900 x 900 matrix beside every download. Stressors do so where training and
transport are real; `contention` is the same work as numbers, for where time is charged.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from axon.errors import ConfigurationError
from axon.testbed.catalogue import Device
from axon.values import check_positive

State: TypeAlias = Literal["idle", "training", "downloading"]
STATES: tuple[State, ...] = get_args(State)

SIDE = 900
MATRIX_BYTES = SIDE * SIDE * 8
"""The matrix that is fetched holds doubles."""
PRODUCT_FLOPS = 2 * SIDE**3
"""A multiplication and an addition for each of the 900^3 terms of a product."""


@dataclass(frozen=True, slots=True)
class Activity:
    """How likely a device is to be found in each state; a state left out never occurs."""

    probabilities: Mapping[State, float]

    def __post_init__(self) -> None:
        for state, probability in self.probabilities.items():
            _check_state(state)
            if not 0.0 <= probability <= 1.0:
                raise ConfigurationError(
                    f"the probability of {state!r} is from 0 to 1, got {probability}"
                )
        total = math.fsum(self.probabilities.values())
        if not math.isclose(total, 1.0, abs_tol=1e-6):
            raise ConfigurationError(f"probabilities of states add up to 1, got {total}")


def heated(random: np.random.Generator, heat: float = 0.5) -> Activity:
    """A device's habits: softmax(x / heat), where x is 1 at a state drawn evenly and else 0.

    Much heat makes all states alike; little makes one of them nearly certain.
    """
    check_positive("heat", heat)
    favourite = STATES[random.integers(len(STATES))]
    # Divided through by exp(1 / heat), which is too large for a float when heat is small.
    other = math.exp(-1.0 / heat)
    total = 1.0 + (len(STATES) - 1) * other
    return Activity({state: (1.0 if state == favourite else other) / total for state in STATES})


def draw(activity: Activity, random: np.random.Generator) -> State:
    """The state in which a device is found this time."""
    weights = np.array([activity.probabilities.get(state, 0.0) for state in STATES])
    return STATES[random.choice(len(STATES), p=weights / weights.sum())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """The work that a device does beside the learner's, on the same processor and link."""

    extra_flops_per_batch: float = 0.0
    extra_download_bytes: int = 0

    def batch_s(self, device: Device, flops_per_sample: float, samples: int) -> float:
        """How long one batch takes to train on a device that is so occupied."""
        return (
            device.batch_s(flops_per_sample, samples)
            + self.extra_flops_per_batch / device.flops_per_s
        )


_CONTENTIONS: dict[State, Contention] = {
    "idle": Contention(),
    "training": Contention(extra_flops_per_batch=float(PRODUCT_FLOPS)),
    "downloading": Contention(extra_download_bytes=MATRIX_BYTES),
}


def contention(state: State) -> Contention:
    """What a device does beside the learner's work when it is in that state."""
    _check_state(state)
    return _CONTENTIONS[state]


def training_stressor(state: State, random: np.random.Generator) -> Callable[[], None]:
    """A function to call beside every batch: the product, if the state is training, or nothing."""
    _check_state(state)
    if state != "training":
        return lambda: None
    left = random.random((SIDE, SIDE), dtype=np.float32)
    right = random.random((SIDE, SIDE), dtype=np.float32)
    product = np.empty_like(left)

    def multiply() -> None:
        np.matmul(left, right, out=product)

    return multiply


async def download_stressor(state: State, fetch: Callable[[], Awaitable[NDArray[Any]]]) -> None:
    """Fetch the matrix, if the state is downloading: to be awaited together with every download.

    `fetch` brings `random_matrix` from wherever the learner downloads, over the same link.
    """
    _check_state(state)
    if state != "downloading":
        return
    matrix = await fetch()
    if matrix.nbytes != MATRIX_BYTES:
        raise ConfigurationError(
            f"the matrix to download has {MATRIX_BYTES} bytes, got {matrix.nbytes}",
            hint="serve axon.testbed.activity.random_matrix",
        )


def random_matrix(random: np.random.Generator) -> NDArray[np.float64]:
    """What a downloading device fetches; random, so that no codec makes it any smaller."""
    return random.random((SIDE, SIDE))


def _check_state(state: str) -> None:
    if state not in STATES:
        raise ConfigurationError(
            f"no state is called {state!r}", hint=f"known are {', '.join(STATES)}"
        )
