"""Whether an answer is fit to be averaged, and if not, why not.

Nothing a learner says is believed before it passed here: it may be broken, late by a cycle, or
lying.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from axon.policies import Codec
from axon.printable import blanked
from axon.values import Declined, Order, Status, Timings, Update, Vector

MOST = 1 << 53
"""No count is larger: up to here every whole number is a float too, in sums and in JSON."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of an answer."""

    status: Status
    reason: str = ""
    update: Update | None = None
    vector: Vector | None = None


def judge(
    answer: object, order: Order, *, reference: Vector, codec: Codec, most_batches: int | None
) -> Verdict:
    """Used, refused or declined; `most_batches` is what the learner can have trained at most."""
    if isinstance(answer, Declined):
        return Verdict("declined", shortened(answer.reason))
    if not isinstance(answer, Update):
        return Verdict("refused", f"answered with {type(answer).__name__}, not an update")
    problem = _misplaced(answer, order) or _miscounted(answer, most_batches, order.spec.batch_size)
    if problem:
        return Verdict("refused", problem)
    try:
        vector = codec.decode(answer.payload, reference)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        # Whatever the payload is made of, it was not made by this codec.
        return Verdict("refused", f"its payload cannot be read: {shortened(str(error))}")
    problem = _unfit(vector, reference)
    return Verdict("refused", problem) if problem else Verdict("used", "", answer, vector)


def _misplaced(update: Update, order: Order) -> str:
    if not _same(update.run, order.run):
        return f"answered for run {shortened(update.run)}, not {order.run}"
    if not _same(update.cycle, order.cycle):
        return f"answered for cycle {shortened(update.cycle)}, not {order.cycle}"
    if not _same(update.device, order.device):
        return f"answered as {shortened(update.device)}, not {order.device}"
    return ""


def _same(got: object, wanted: object) -> bool:
    # The type first: an array that is compared gives an array, which is neither true nor false.
    return type(got) is type(wanted) and got == wanted


def _miscounted(update: Update, most_batches: int | None, batch_size: int) -> str:
    for name in ("batches", "samples", "shards"):
        value = getattr(update, name)
        if type(value) is not int or not 0 <= value <= MOST:
            return f"{name} must be a whole number up to 2^53, got {shortened(value)}"
    if not isinstance(update.loss, float) or not isinstance(update.halted, bool):
        return "loss must be a number and halted a truth value"
    if update.timings is not None and not _are_timings(update.timings):
        return "timings must be two numbers of seconds"
    return _overstated(update, most_batches, batch_size)


def _overstated(update: Update, most_batches: int | None, batch_size: int) -> str:
    if update.batches < 1:
        return "trained no batch"
    if most_batches is not None and update.batches > most_batches:
        return f"claims {update.batches} batches, its share has {most_batches}"
    if update.samples > update.batches * batch_size:
        return f"claims {update.samples} samples in {update.batches} batches of {batch_size}"
    return ""


def _are_timings(timings: object) -> bool:
    return isinstance(timings, Timings) and all(
        isinstance(value, float) and 0.0 <= value < math.inf
        for value in (timings.download_s, timings.train_s)
    )


def _unfit(vector: Vector, reference: Vector) -> str:
    if not isinstance(vector, np.ndarray) or vector.dtype != np.float32:
        return f"parameters must be float32, got {getattr(vector, 'dtype', type(vector).__name__)}"
    if vector.shape != reference.shape:
        return f"parameters have shape {vector.shape}, wanted {reference.shape}"
    if _has_finite_square(vector):
        return ""
    bad = int(vector.size - np.count_nonzero(np.isfinite(vector)))
    if bad:
        return f"{bad} of {vector.size} parameters are not finite"
    # No model is like that, and an average with it would be all of it.
    return "parameters are so large that their squares overflow"


def is_finite(vector: Vector) -> bool:
    """Whether every value is."""
    return _has_finite_square(vector) or bool(np.isfinite(vector).all())


def _has_finite_square(vector: Vector) -> bool:
    # One number tells: a product with itself is finite only where every value is, and a quarter of
    # the time of looking at each.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.dot(vector, vector)))


def shortened(value: object, limit: int = 200) -> str:
    """What a learner says, for a record: short, and nothing that a terminal obeys."""
    said = value if isinstance(value, str) else _described(value)
    text = blanked(said[: limit + 1])
    return text if len(text) <= limit else text[:limit] + "…"


def _described(value: object) -> str:
    """A number as it is, and anything else by its type: not every value has a text."""
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 1 << 64):
        return str(value)
    return f"a value of type {type(value).__name__}"
