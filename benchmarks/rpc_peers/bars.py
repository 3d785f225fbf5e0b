"""The bars Axon must clear, each a ratio or a limit within one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rpc_peers.measures import Measured

Results: TypeAlias = Mapping[str, Mapping[str, Measured]]
"""question -> row -> metric"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One target, judged."""

    name: str
    measured: float
    target: float
    unit: str
    at_least: bool

    @property
    def passed(self) -> bool:
        return self.measured >= self.target if self.at_least else self.measured <= self.target

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        verdict = "PASS" if self.passed else "FAIL"
        return (
            f"{verdict}  {self.name:<58}{self.measured:>10.2f} {sign} {self.target:.2f} {self.unit}"
        )


class MissingError(Exception):
    """A row a bar needs was not measured."""


def _value(results: Results, question: str, metric: str, row: str) -> float:
    try:
        return results[question][row][metric]
    except KeyError:
        raise MissingError(f"{row!r} has no {metric}") from None


def _best(
    results: Results, question: str, metric: str, prefix: str, choose: Callable[..., float]
) -> float:
    values = [
        measured[metric]
        for row, measured in results.get(question, {}).items()
        if row.startswith(prefix)
    ]
    if not values:
        raise MissingError(f"no row of {prefix!r} in {question}")
    return float(choose(values))


def _echo(results: Results, row: str = "Axon") -> float:
    return _value(results, "echo", "p50_us", row)


def _bulk(results: Results, row: str = "Axon") -> float:
    return _value(results, "bulk", "mb_per_s", row)


def _ratio(name: str, target: float, above: float, below: float, *, at_least: bool) -> Bar:
    return Bar(name=name, measured=above / below, target=target, unit="x", at_least=at_least)


def _limit(name: str, target: float, measured: float, unit: str) -> Bar:
    return Bar(name=name, measured=measured, target=target, unit=unit, at_least=False)


def _grpc_echo(results: Results) -> Bar:
    best = _best(results, "echo", "p50_us", "gRPC", min)
    return _ratio("echo p50: best gRPC / Axon", 4, best, _echo(results), at_least=True)


def _pyro5_echo(results: Results) -> Bar:
    other = _echo(results, "Pyro5")
    return _ratio("echo p50: Axon / Pyro5 as it comes", 1, _echo(results), other, at_least=False)


def _pyro5_marshal_echo(results: Results) -> Bar:
    other = _echo(results, "Pyro5, marshal")
    return _ratio("echo p50: Axon / Pyro5 with marshal", 1, _echo(results), other, at_least=False)


def _raw_echo(results: Results) -> Bar:
    floor = _echo(results, "raw, event loop")
    return _ratio("echo p50: Axon / raw event loop", 3, _echo(results), floor, at_least=False)


def _signing(results: Results) -> Bar:
    more_us = _echo(results, "Axon, signed") - _echo(results)
    return _limit("echo p50: signed - unsigned", 40, more_us, "us")


def _in_flight(results: Results) -> Bar:
    best = _best(results, "in_flight", "calls_per_s", "gRPC aio", max)
    rate = _value(results, "in_flight", "calls_per_s", "Axon")
    return _ratio("64 in flight: Axon / best gRPC aio", 8, rate, best, at_least=True)


def _grpc_unary(results: Results) -> Bar:
    best = _best(results, "bulk", "mb_per_s", "gRPC unary", max)
    return _ratio("bulk: Axon / best gRPC unary", 4, _bulk(results), best, at_least=True)


def _grpc_stream(results: Results) -> Bar:
    best = _best(results, "bulk", "mb_per_s", "gRPC stream", max)
    return _ratio("bulk: Axon / best gRPC stream", 1, _bulk(results), best, at_least=True)


def _raw_bulk(results: Results) -> Bar:
    # The harder floor of the two: a socket that keeps its buffer pays for no fresh pages.
    best = _best(results, "bulk", "mb_per_s", "raw", max)
    return _ratio("bulk: Axon / best raw socket", 0.6, _bulk(results), best, at_least=True)


def _signed_bulk(results: Results) -> Bar:
    signed = _bulk(results, "Axon, signed")
    return _ratio("bulk: signed / unsigned", 0.5, signed, _bulk(results), at_least=True)


def _gather(results: Results) -> Bar:
    # Stated in milliseconds, because an overhead near nothing makes a ratio jump.
    other = _value(results, "gather", "overhead_ms", "gRPC aio")
    mine = _value(results, "gather", "overhead_ms", "Axon")
    return _limit("gather overhead: Axon, against gRPC aio / 3", other / 3, mine, "ms")


def _import(results: Results) -> Bar:
    took = _value(results, "import", "import_ms", "import axon")
    return _limit("start: `import axon`, the interpreter included", 150, took, "ms")


def _first_answer(results: Results) -> Bar:
    took = _value(results, "worker", "first_answer_ms", "Axon")
    return _limit("start: process start to first answer", 400, took, "ms")


def _memory(results: Results) -> Bar:
    return _limit("start: idle worker", 45, _value(results, "worker", "idle_rss_mb", "Axon"), "MB")


BARS: tuple[tuple[str, Callable[[Results], Bar]], ...] = (
    ("echo p50 against gRPC", _grpc_echo),
    ("echo p50 against Pyro5", _pyro5_echo),
    ("echo p50 against Pyro5 with marshal", _pyro5_marshal_echo),
    ("echo p50 against raw", _raw_echo),
    ("echo p50, signed", _signing),
    ("64 in flight", _in_flight),
    ("bulk against gRPC unary", _grpc_unary),
    ("bulk against gRPC stream", _grpc_stream),
    ("bulk against raw", _raw_bulk),
    ("bulk, signed", _signed_bulk),
    ("gather", _gather),
    ("import", _import),
    ("first answer", _first_answer),
    ("idle memory", _memory),
)


def judge(results: Results) -> tuple[list[Bar], dict[str, str]]:
    """Every bar that could be measured, and why the others could not."""
    judged: list[Bar] = []
    missing: dict[str, str] = {}
    for name, bar in BARS:
        try:
            judged.append(bar(results))
        except MissingError as reason:
            missing[name] = str(reason)
    return judged, missing
