"""What GARFIELD says of scaling (Fig. 3.8 to 3.10), held against what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from axon.experiments.byz_cost_world import CRASH, MSMW, PEERS, SSMW, VANILLA, Taken
from axon.experiments.gar_microbench_claims import exponent
from axon.experiments.result import Claim
from axon.report.tables import shown

STEADY = 20.0
"""Per cent by which a slowdown that is "almost constant" may change."""
ALMOST = 10.0
"""Per cent within which throughputs are "almost the same"."""
LINEAR, QUADRATIC = (0.8, 1.2), (1.8, 2.2)
"""Exponents that count as 1 and as 2: a step has parts that do not grow at all."""
DROP, FIRST = 50.0, 33.0
"""Per cent of throughput that faulty servers may cost, and the overhead of the first of them."""

Sweep: TypeAlias = Mapping[str, Mapping[int, Taken]]
"""By system and place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Every sweep."""

    workers: Sweep
    peers: Sweep
    sizes: Sweep
    faulty_workers: Sweep
    faulty_servers: Sweep

    def by_name(self) -> dict[str, Sweep]:
        """By what is swept, as a table names it."""
        return {
            "workers": self.workers,
            "nodes": self.peers,
            "numbers in a vector": self.sizes,
            "faulty workers": self.faulty_workers,
            "faulty servers": self.faulty_servers,
        }


def batches(taken: Taken) -> float:
    """A second: those whose gradients were used."""
    return taken.gradients * taken.throughput


def claims_of(found: Found) -> tuple[Claim, ...]:
    """Every sentence of the paper about the figures."""
    return (
        _scale(found.workers),
        _peers_scale(found.workers),
        _steady(found.workers),
        _as_well(found.workers),
        _grows("the communication time of peers grows quadratically with n", found.peers, PEERS),
        _grows("the communication time of vanilla grows linearly with n", found.peers, VANILLA),
        _messages(found.peers),
        *(_with_size(found.sizes, system) for system in (PEERS, VANILLA)),
        _faulty_workers(found.faulty_workers[MSMW]),
        *_faulty_servers(found.faulty_servers[MSMW]),
    )


def _growth(by: Mapping[int, Taken]) -> float:
    """How many times the batches of the fewest workers the most process."""
    return batches(by[max(by)]) / batches(by[min(by)])


def _scale(sweep: Sweep) -> Claim:
    factors = {system: _growth(by) for system, by in sweep.items() if system != PEERS}
    worst = min(factors, key=lambda system: factors[system])
    least, most = min(sweep[worst]), max(sweep[worst])
    return Claim(
        claim="all systems but the decentralised one process more batches with more workers",
        paper="all scale",
        measured=factors[worst],
        unit=f"times the batches with {most} workers as with {least}, by {worst}",
        holds=factors[worst] > 1.0,
        why=", ".join(f"{system} {shown(factor)}" for system, factor in factors.items()),
    )


def _peers_scale(sweep: Sweep) -> Claim:
    factor, crash = _growth(sweep[PEERS]), _growth(sweep[CRASH])
    return Claim(
        claim="decentralised learning does not process more batches with more peers",
        paper="does not scale",
        measured=factor,
        unit=f"times the batches with {max(sweep[PEERS])} peers as with {min(sweep[PEERS])}",
        holds=factor <= 1.0,
        why=f"every peer has a link of its own here, and a step's communication grows with n, not "
        f"with n²; it scales less than the crash-tolerant system's {shown(crash)} all the same",
    )


def _steady(sweep: Sweep) -> Claim:
    """Decided by the system whose slowdown changes most."""
    changes: dict[str, float] = {}
    for system in (SSMW, MSMW, CRASH):
        slowdowns = [
            taken.step_s / sweep[VANILLA][place].step_s for place, taken in sweep[system].items()
        ]
        # Rounded, or what does not change at all would be told as the rounding of a sum.
        changes[system] = round(100.0 * (max(slowdowns) / min(slowdowns) - 1.0), 6)
    worst = max(changes, key=lambda system: changes[system])
    return Claim(
        claim="with more workers the slowdown of SSMW, MSMW and crash tolerance is almost constant",
        paper="almost constant",
        measured=changes[worst],
        unit=f"% from the least to the most, of {worst}",
        holds=changes[worst] <= STEADY,
        why=", ".join(f"{system} {shown(change)} %" for system, change in changes.items()),
    )


def _as_well(sweep: Sweep) -> Claim:
    growth = _growth(sweep[MSMW]) / _growth(sweep[CRASH])
    return Claim(
        claim="MSMW scales almost as well as crash tolerance",
        paper="almost as good",
        measured=100.0 * growth,
        unit="% of its growth",
        holds=growth >= 1.0 - ALMOST / 100.0,
        why="it uses the gradients of n - f workers, and crash tolerance those of all",
    )


def _exponent(by: Mapping[int, Taken]) -> float:
    return exponent([*map(float, by)], [taken.communication_s for taken in by.values()])


def _grows(claim: str, sweep: Sweep, system: str) -> Claim:
    quadratic = "quadratically" in claim
    found, (least, most) = _exponent(sweep[system]), QUADRATIC if quadratic else LINEAR
    return Claim(
        claim=claim,
        paper="quadratically" if quadratic else "linearly",
        measured=found,
        unit="as the exponent",
        holds=least <= found <= most,
        why="a peer sends to n - 1 others and hears of as many, all of them at the same time where "
        "each has a link of its own at a switch; the traffic of all is what is quadratic"
        if quadratic
        else "the server's link carries every model and every gradient",
    )


def _messages(sweep: Sweep) -> Claim:
    """Two vectors for each pair of peers, of which a quorum calls off what it no longer needs."""
    parts = {count: taken.vectors / count**2 for count, taken in sweep[PEERS].items()}
    most = max(parts)
    each = ", ".join(f"{shown(taken.vectors)} with {n}" for n, taken in sweep[PEERS].items())
    return Claim(
        claim="a step of peers needs O(n²) messages: at most 2n² vectors, and at least n²",
        paper="O(n²), against O(n) of vanilla",
        measured=parts[most],
        unit=f"n², with {most} peers",
        holds=parts[most] >= 1.0 and max(parts.values()) <= 2.0,
        why=f"vectors that arrived: {each}",
    )


def _with_size(sweep: Sweep, system: str) -> Claim:
    found, (least, most) = _exponent(sweep[system]), LINEAR
    return Claim(
        claim=f"the communication time of {system} grows linearly with d",
        paper="linearly",
        measured=found,
        unit="as the exponent",
        holds=least <= found <= most,
        why="latency, which does not grow, weighs more with short vectors",
    )


def _faulty_workers(by: Mapping[int, Taken]) -> Claim:
    throughputs = [taken.throughput for taken in by.values()]
    apart = 100.0 * (1.0 - min(throughputs) / max(throughputs))
    return Claim(
        claim="with more faulty workers the throughput of MSMW stays almost the same",
        paper="almost the same",
        measured=apart,
        unit="% from the most to the least",
        holds=apart <= ALMOST,
        why="a server waits for n - f gradients, fewer where more may be faulty: "
        + ", ".join(f"{shown(taken.throughput)} steps/s with {f}" for f, taken in by.items()),
    )


def _faulty_servers(by: Mapping[int, Taken]) -> list[Claim]:
    none, most = by[0], max(by)
    drop = 100.0 * (1.0 - by[most].throughput / none.throughput)
    overhead = 100.0 * (by[1].step_s / none.step_s - 1.0)
    each = ", ".join(f"{shown(taken.throughput)} steps/s with {f}" for f, taken in by.items())
    return [
        Claim(
            claim=f"{most} faulty servers cost MSMW less than {DROP:g} % of its throughput",
            paper=f"less than {DROP:g} %",
            measured=drop,
            unit="%",
            holds=drop < DROP,
            why=each,
        ),
        Claim(
            claim=f"the first faulty server costs MSMW at most {FIRST:g} % more time",
            paper=FIRST,
            measured=overhead,
            unit="%",
            holds=overhead <= FIRST,
            why=each,
        ),
    ]
