"""The systems in real processes over HTTP: one for each node, all on the cores of this machine."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import fmean
from typing import Any

import torch

from axon.aggregation import Median, MultiKrum, WeightedMean
from axon.byzantine import Cluster, Node, StepRecord, Training, serving, train
from axon.errors import ConfigurationError
from axon.experiments.byz_cost_world import (
    CRASH,
    MSMW,
    NOISE,
    PEERS,
    SSMW,
    VANILLA,
    Taken,
    step_s,
)
from axon.experiments.settings import Settings
from axon.learning.tasks import default_spec
from axon.topology import (
    Topology,
    crash_tolerant,
    decentralised,
    replicated_servers,
    single_server,
    vanilla,
)

WORKERS, SERVERS, FAULTY = 5, 4, 1
STEPS = 12
NET = "threenn"
"""574 thousand numbers, 2.3 MB."""
START_S = 120.0
"""How long processes may take to come up, and to end a run: they all share a few cores."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a process is told: the cluster, and who of it to be."""

    cluster: Cluster
    name: str
    addresses: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Told:
    """What a node has to tell when all are done."""

    records: tuple[StepRecord, ...]
    computing_s: tuple[float, ...]
    """Of its gradients, without the first."""
    cpu_s: float
    wall_s: float
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A system in real processes."""

    taken: Taken
    cpu_s: float
    """Of all nodes, a step."""
    busy: float
    """The part of this machine's cores that the nodes took, in per cent."""


def in_processes(
    systems: Sequence[str], settings: Settings, *, steps: int = STEPS, workers: int = WORKERS
) -> dict[str, Measured]:
    """Each system for some steps, in processes that are started once."""
    clusters = {system: cluster(system, steps, workers, settings.seed) for system in systems}
    most = max(len(each.topology.nodes) for each in clusters.values())
    settings.progress(f"{most} real processes, {len(systems)} systems")
    with _processes(most) as pipes:
        return {system: _measured(each, pipes) for system, each in clusters.items()}


def cluster(system: str, steps: int, workers: int, seed: int) -> Cluster:
    """A small one, in the synchronous variant that the paper runs with PyTorch."""
    robust = system in (SSMW, MSMW, PEERS)
    return Cluster(
        topology=_topology(system, workers),
        spec=default_spec(NET, NOISE.shape, NOISE.classes),
        dataset=NOISE,
        training=Training(
            steps=steps,
            rule=MultiKrum(FAULTY) if robust else WeightedMean(),
            model_rule=Median(FAULTY) if robust else WeightedMean(),
            accuracy_every=steps,
        ),
        seed=seed,
        primary_patience_s=10.0,
    )


def _topology(system: str, workers: int) -> Topology:
    if system == VANILLA:
        return vanilla(workers)
    if system == SSMW:
        return single_server(workers, faulty=FAULTY, synchronous=True)
    if system == CRASH:
        return crash_tolerant(SERVERS, workers, faulty_servers=FAULTY)
    if system == MSMW:
        return replicated_servers(
            SERVERS, workers, faulty_servers=FAULTY, faulty_workers=FAULTY, synchronous=True
        )
    return decentralised(workers, faulty=FAULTY, synchronous=True)


def _measured(chosen: Cluster, pipes: Sequence[Connection]) -> Measured:
    names = chosen.topology.nodes
    used = dict(zip(names, pipes, strict=False))
    addresses = dict(zip(names, _addresses(len(names)), strict=True))
    for name, pipe in used.items():
        pipe.send(Part(chosen, name, addresses))
    _all_heard(used)
    for word in ("go", "tell"):
        for pipe in used.values():
            pipe.send(word)
        heard = _all_heard(used)
    return _summed(chosen, heard)


def _all_heard(pipes: Mapping[str, Connection]) -> dict[str, Any]:
    return {name: _heard(pipe, name) for name, pipe in pipes.items()}


def _summed(chosen: Cluster, told: Mapping[str, Told]) -> Measured:
    failures = [f"{name}: {each.failure}" for name, each in told.items() if each.failure]
    if failures:
        raise ConfigurationError(f"a server gave up: {failures[0]}")
    records = [told[name].records for name in chosen.topology.servers]
    fastest = min(records, key=lambda each: sum(record.duration_s for record in each))
    computing = [took_s for each in told.values() for took_s in each.computing_s]
    taken = Taken(
        step_s=step_s(fastest),
        computation_s=fmean(computing),
        aggregation_s=fmean(record.aggregation_s for record in fastest[1:]),
        gradients=fmean(len(record.gradients_from) for record in fastest[1:]),
    )
    cpu_s = sum(each.cpu_s for each in told.values())
    all_s = max(each.wall_s for each in told.values()) * (os.cpu_count() or 1)
    return Measured(taken=taken, cpu_s=cpu_s / chosen.training.steps, busy=100.0 * cpu_s / all_s)


def _addresses(count: int) -> list[str]:
    """Free ports of this machine, below those that the system gives to connections.

    Nodes that begin first connect to one another, and must not take the port of one that follows.
    """
    found: set[int] = set()
    while len(found) < count:
        port = secrets.choice(range(10_000, 32_000))
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.add(port)
    return [f"http://127.0.0.1:{port}" for port in sorted(found)]


@contextmanager
def _processes(count: int) -> Iterator[list[Connection]]:
    # Not forked: PyTorch's threads would be missing in the copy.
    spawned = get_context("spawn")
    ends = [spawned.Pipe() for _ in range(count)]
    processes = [spawned.Process(target=_live, args=(end,), daemon=True) for _, end in ends]
    try:
        for process in processes:
            process.start()
        for _, end in ends:
            end.close()
        yield [own for own, _ in ends]
    finally:
        for process in processes:
            if process.pid is not None:
                process.kill()
                process.join()
        for own, _ in ends:
            own.close()


def _heard(pipe: Connection, name: str) -> Any:
    try:
        if pipe.poll(START_S):
            return pipe.recv()
    except EOFError as error:
        raise ConfigurationError(f"the process of {name} ended too soon") from error
    raise ConfigurationError(f"the process of {name} said nothing for {START_S:g} s")


def _live(pipe: Connection) -> None:
    """Be one node after the other, as one is told."""
    # An interrupt goes to all processes of a terminal; the first one ends the others itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    # Whoever started it may end without a word.
    with suppress(EOFError):
        asyncio.run(_nodes(pipe))


async def _nodes(pipe: Connection) -> None:
    while True:
        part: Part = await asyncio.to_thread(pipe.recv)
        async with serving(part.cluster, part.name, part.addresses) as node:
            await _act(node, pipe)


async def _act(node: Node, pipe: Connection) -> None:
    pipe.send("ready")
    await asyncio.to_thread(pipe.recv)
    began_s, cpu_began_s = time.monotonic(), time.process_time()
    trained = await train(node) if node.server is not None else None
    pipe.send("done")
    # Until all are: others may still have to read.
    await asyncio.to_thread(pipe.recv)
    computing = node.worker.computing_s if node.worker is not None else {}
    pipe.send(
        Told(
            records=trained.records if trained is not None else (),
            computing_s=tuple(took_s for step, took_s in computing.items() if step),
            cpu_s=time.process_time() - cpu_began_s,
            wall_s=time.monotonic() - began_s,
            failure=trained.failure if trained is not None else "",
        )
    )
