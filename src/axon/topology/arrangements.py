"""The arrangements of servers and workers in GARFIELD, section 3.5, as values.

An arrangement says who there is, how many of them may be faulty, and how many answers a server
waits for. In an asynchronous network that is n - f, because f may never answer; whoever says
`synchronous` promises that all answer in time, waits for all n, and needs fewer nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from axon.errors import ConfigurationError
from axon.values import check_whole

Kind: TypeAlias = Literal[
    "vanilla", "single-server", "replicated-servers", "decentralised", "crash-tolerant"
]
Names: TypeAlias = int | Sequence[str]
"""Names, or how many to make up: worker-0, worker-1, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Who there is and how many answers are waited for; the functions below make those that hold.

    In a decentralised one every node is server and worker, under one name.
    """

    kind: Kind
    servers: tuple[str, ...]
    workers: tuple[str, ...]
    faulty_servers: int = 0
    """f_ps: how many servers may be faulty without harm."""
    faulty_workers: int = 0
    """f_w, of the workers."""
    gradients: int
    """How many gradients a server waits for."""
    models: int = 0
    """How many models a server waits for, its own among them; 0 where servers do not meet."""

    def __post_init__(self) -> None:
        for party, names, faulty in (
            ("server", self.servers, self.faulty_servers),
            ("worker", self.workers, self.faulty_workers),
        ):
            check_whole(f"faulty_{party}s", faulty, least=0)
            _check_names(party, names)
            _check_count(party, len(names), faulty + 1, "f + 1", faulty)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Everybody, each once."""
        return tuple(dict.fromkeys((*self.servers, *self.workers)))

    def read_by(self, node: str) -> tuple[str, ...]:
        """Those whose vectors a node reads."""
        read: list[str] = []
        if node in self.servers:
            read += [*self.workers, *(self.servers if self.models else ())]
        if node in self.workers and self.kind != "decentralised":
            read += self.servers
        return tuple(name for name in dict.fromkeys(read) if name != node)

    def check_rules(self, gradient_least: int, model_least: int) -> None:
        """Raise unless as many answers are waited for as each rule needs at least."""
        for what, least, waited in (
            ("gradients", gradient_least, self.gradients),
            ("models", model_least, self.models),
        ):
            if waited and waited < least:
                raise ConfigurationError(
                    f"the rule for {what} needs at least {least}, "
                    f"and a server of {self.kind} waits for {waited}",
                    hint="take more nodes, fewer faulty ones, or another rule",
                )


def vanilla(workers: Names) -> Topology:
    """One trusted server that waits for every worker: nothing is tolerated."""
    named = _named("worker", workers)
    return Topology(kind="vanilla", servers=("server",), workers=named, gradients=len(named))


def single_server(workers: Names, *, faulty: int, synchronous: bool = False) -> Topology:
    """SSMW: one trusted server among workers of which some may be faulty (section 3.5.1)."""
    named = _named("worker", workers)
    return Topology(
        kind="single-server",
        servers=("server",),
        workers=named,
        faulty_workers=faulty,
        gradients=_waited(len(named), faulty, synchronous),
    )


def replicated_servers(
    servers: Names,
    workers: Names,
    *,
    faulty_servers: int,
    faulty_workers: int,
    synchronous: bool = False,
) -> Topology:
    """MSMW: servers need not be trusted either, and exchange their models (section 3.5.2)."""
    places, named = _named("server", servers), _named("worker", workers)
    _check_majority("server", len(places), faulty_servers, synchronous)
    return Topology(
        kind="replicated-servers",
        servers=places,
        workers=named,
        faulty_servers=faulty_servers,
        faulty_workers=faulty_workers,
        gradients=_waited(len(named), faulty_workers, synchronous),
        models=_waited(len(places), faulty_servers, synchronous),
    )


def decentralised(peers: Names, *, faulty: int, synchronous: bool = False) -> Topology:
    """Peers only: each has data of its own and keeps a model of its own (section 3.5.3)."""
    named = _named("peer", peers)
    _check_majority("peer", len(named), faulty, synchronous)
    waited = _waited(len(named), faulty, synchronous)
    return Topology(
        kind="decentralised",
        servers=named,
        workers=named,
        faulty_servers=faulty,
        faulty_workers=faulty,
        gradients=waited,
        models=waited,
    )


def crash_tolerant(servers: Names, workers: Names, *, faulty_servers: int) -> Topology:
    """Replicas that all average, and workers that follow the first one alive (section 3.6.2).

    Servers may crash and must not lie; workers may do neither.
    """
    places, named = _named("server", servers), _named("worker", workers)
    return Topology(
        kind="crash-tolerant",
        servers=places,
        workers=named,
        faulty_servers=faulty_servers,
        gradients=len(named),
    )


def _named(party: str, given: Names) -> tuple[str, ...]:
    if not isinstance(given, int):
        return tuple(sorted(given))
    check_whole(f"{party}s", given, least=1)
    width = len(str(given - 1))
    return tuple(f"{party}-{number:0{width}}" for number in range(given))


def _waited(count: int, faulty: int, synchronous: bool) -> int:
    return count if synchronous else count - faulty


def _check_majority(party: str, count: int, faulty: int, synchronous: bool) -> None:
    """Of n - f answers f may be lies, and the rest must outnumber them."""
    check_whole(f"faulty_{party}s", faulty, least=0)
    factor = 2 if synchronous else 3
    _check_count(party, count, factor * faulty + 1, f"{factor}f + 1", faulty)


def _check_count(party: str, count: int, least: int, formula: str, faulty: int) -> None:
    if count < least:
        raise ConfigurationError(
            f"to tolerate f = {faulty} faulty {party}s at least {formula} = {least} are needed, "
            f"got {count}"
        )


def _check_names(party: str, names: tuple[str, ...]) -> None:
    if len(set(names)) != len(names) or not all(names):
        raise ConfigurationError(f"{party}s need different names, got {list(names)}")
