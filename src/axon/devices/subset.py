"""Subset benchmarking as arithmetic: what parts of a task took, as a line for the whole of it.

    line = fit([(100, 1.2), (200, 2.1), (400, 4.2)])
    line.predict(2000)      # Interval(value=20.03, low=9.44, high=30.62)

A point is an amount, of samples or of bytes, and the seconds it took. D. J. Mays, "Data Allocation
and Benchmarking in Parallelized Mobile Edge Learning", MSc thesis, Queen's University, 2023,
section 3.2, divides one amount by its time; a line knows beside it what is paid only once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from axon.errors import ConfigurationError
from axon.intervals import Interval, student_t
from axon.values import check_amount, check_positive, check_whole

Method: TypeAlias = Literal["affine", "ratio"]
Point: TypeAlias = tuple[float, float]

QUICKEST_S = 1e-15
"""What one of an amount takes at least; what took no time at all is quick enough with that."""

LEAST, MOST = 1e-60, 1e60
"""Of any amount or time: beyond lies nothing that is measured, and squares that are no floats."""

ALIKE = 1e-9
"""Amounts that differ by less than this part of them say nothing of what is paid once."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """How far points lie from their line, and how sure the line is of itself."""

    freedom: int
    """Points beyond those that it takes to draw the line; at least 1."""
    variance: float
    """Of the seconds that one of the amount takes."""
    centre: float
    """The amount at which the line is surest; in parts of the variance it is unsure there by
    `level`, and by `tilt` more for each square of the distance from it."""
    level: float
    tilt: float


@dataclass(frozen=True, slots=True)
class Line:
    """Seconds as a part that is paid once and a part for each of the amount."""

    fixed_s: float
    each_s: float
    doubt: Doubt | None = None
    """None where no point was left over to tell."""

    @property
    def rate(self) -> float:
        """How much of the amount a second does, beside what is paid once."""
        return 1.0 / self.each_s

    def predict(self, amount: float) -> Interval:
        """How long so much will take; where no point was left over to tell, anything may be."""
        check_amount("amount", amount)
        _check_size("amount", amount)
        value, doubt = self.fixed_s + self.each_s * amount, self.doubt
        if doubt is None:
            return Interval(value, -math.inf, math.inf)
        unsure = amount + doubt.level + doubt.tilt * (amount - doubt.centre) ** 2
        half = student_t(doubt.freedom) * math.sqrt(doubt.variance * unsure)
        return Interval(value, value - half, value + half)


def nested(most: int) -> tuple[int, ...]:
    """The sizes tried in a benchmark of that many shards: a quarter of them, half, and all."""
    check_whole("shards of a benchmark", most, least=1)
    return tuple(sorted({max(1, most // 4), max(1, most // 2), most}))


def fit(points: Sequence[Point], method: Method = "affine") -> Line:
    """The line through what was measured.

    "ratio" is the paper's: the seconds of the largest amount over that amount, and nothing paid
    once. "affine" is least squares over all the points, where neither part may be negative: what
    is paid once is then 0, and one distinct amount gives the ratio.
    """
    _check(points, method)
    largest = max(amount for amount, _ in points)
    smallest = min(amount for amount, _ in points)
    if method == "ratio" or largest - smallest <= ALIKE * largest:
        return _proportional([point for point in points if largest - point[0] <= ALIKE * largest])
    return _affine(points)


def _affine(points: Sequence[Point]) -> Line:
    # Weighted by 1 / amount. The time of an amount is a sum over its batches or packets, each of
    # which varies by itself, so its variance grows with the amount; equal weights would let the
    # noise of the largest decide what is paid once, which the smallest know best.
    weights = math.fsum(1.0 / amount for amount, _ in points)
    centre = len(points) / weights
    mean_s = math.fsum(took_s / amount for amount, took_s in points) / weights
    spread = math.fsum((amount - centre) ** 2 / amount for amount, _ in points)
    together = math.fsum(
        (amount - centre) * (took_s - mean_s) / amount for amount, took_s in points
    )
    each_s = together / spread
    fixed_s = mean_s - each_s * centre
    # Rounding may leave a line through the origin a hair below it, which is the border's case too.
    if fixed_s <= 0.0 or each_s <= 0.0:
        # The best with nothing paid once. Where more took less time it is not the best of all, but
        # that would be a device of no end of speed: noise, and no promise to make.
        return _proportional(points)
    doubt = _doubt(points, fixed_s, each_s, freedom=len(points) - 2)
    return Line(
        fixed_s,
        max(each_s, QUICKEST_S),
        doubt and Doubt(*doubt, centre=centre, level=1.0 / weights, tilt=1.0 / spread),
    )


def _proportional(points: Sequence[Point]) -> Line:
    """The least squares with nothing paid once; with weights of 1 / amount, all over all."""
    total = math.fsum(amount for amount, _ in points)
    each_s = math.fsum(took_s for _, took_s in points) / total
    doubt = _doubt(points, 0.0, each_s, freedom=len(points) - 1)
    return Line(
        0.0,
        max(each_s, QUICKEST_S),
        doubt and Doubt(*doubt, centre=0.0, level=0.0, tilt=1.0 / total),
    )


def _doubt(
    points: Sequence[Point], fixed_s: float, each_s: float, *, freedom: int
) -> tuple[int, float] | None:
    """The degrees of freedom and the variance that is left, if there are any."""
    if freedom < 1:
        return None
    squares = ((took_s - fixed_s - each_s * amount) ** 2 / amount for amount, took_s in points)
    return freedom, math.fsum(squares) / freedom


def _check(points: Sequence[Point], method: Method) -> None:
    if method not in get_args(Method):
        raise ConfigurationError(
            f"no method {method!r} to fit a benchmark", hint=f"known: {', '.join(get_args(Method))}"
        )
    if not points:
        raise ConfigurationError("a line needs at least 1 point, got 0")
    for amount, took_s in points:
        check_positive("the amount of a point", amount)
        check_amount("the seconds of a point", took_s)
        _check_size("the amount of a point", amount)
        _check_size("the seconds of a point", took_s, least=0.0)


def _check_size(name: str, value: float, least: float = LEAST) -> None:
    if value and not least <= value <= MOST:
        raise ConfigurationError(f"{name} must be from {least:g} to {MOST:g}, got {value!r}")
