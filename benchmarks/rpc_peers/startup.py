"""What a worker costs before it has done anything: imports, start to first answer, idle memory."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rpc_peers.measures import Budget, Measured
from rpc_peers.processes import Client, PeerError, Server, free_ports
from rpc_peers.roster import AXON, ECHO, PEERS, Framework, Peer

BARE = "(bare interpreter)"
FEW_CALLS = Budget(seconds=0.2, count=100)
WORKERS_OF = ("Axon", "gRPC sync", "gRPC aio", "Pyro5", "RPyC", "axon-ECRG")


@dataclass(frozen=True, slots=True)
class Import:
    """A row of the import table."""

    name: str
    statement: str
    framework: Framework


def imports() -> list[Import]:
    """The bare interpreter, Axon's name alone, and each framework as a program would import it."""
    rows = [Import(BARE, "pass", AXON), Import("import axon", "import axon", AXON)]
    seen = {peer.framework.name: peer.framework for peer in PEERS if peer.name in WORKERS_OF}
    for framework in seen.values():
        modules = framework.imports.removesuffix(", numpy")
        label = modules if framework is not seen.get("axon-ECRG") else f"{modules} (axon-ECRG)"
        rows.append(Import(f"import {label}", f"import {modules}", framework))
    return rows


def time_imports(rounds: int, absent: Mapping[str, str], scratch: Path) -> dict[str, Measured]:
    """Wall milliseconds of a fresh interpreter that imports and ends, the rows taken in turn."""
    samples: dict[str, list[float]] = {}
    for _ in range(rounds):
        for row in imports():
            if row.framework.name not in absent or row.name in (BARE, "import axon"):
                samples.setdefault(row.name, []).append(_run_once(row, scratch))
    bare_ms = median(samples[BARE])
    return {
        name: {"import_ms": median(values), "beyond_bare_ms": median(values) - bare_ms}
        for name, values in samples.items()
    }


def _run_once(row: Import, scratch: Path) -> float:
    assert row.framework.python is not None
    start = time.perf_counter()
    subprocess.run(
        [row.framework.python, "-c", row.statement],
        env=row.framework.environment(scratch),
        cwd=scratch,
        check=True,
    )
    return (time.perf_counter() - start) * 1e3


def time_workers(
    rounds: int, absent: Mapping[str, str], scratch: Path
) -> tuple[dict[str, Measured], dict[str, str]]:
    """Start to first answer, and memory after a few; medians, and who failed."""
    samples: dict[str, list[Measured]] = {}
    failures: dict[str, str] = {}
    for _ in range(rounds):
        for peer in _peers(absent):
            try:
                samples.setdefault(peer.name, []).append(_start_once(peer, scratch))
            except PeerError as error:
                failures[peer.name] = str(error)
    return {
        name: {metric: median(one[metric] for one in visits) for metric in visits[0]}
        for name, visits in samples.items()
        if visits and name not in failures
    }, failures


def _peers(absent: Mapping[str, str]) -> Iterator[Peer]:
    for peer in PEERS:
        if peer.name in WORKERS_OF and ECHO in peer.questions and peer.framework.name not in absent:
            yield peer


def _start_once(peer: Peer, scratch: Path) -> Measured:
    ports = free_ports(1)
    with Client(peer, ports, scratch) as client:
        client.ready()  # the client's own start must not count
        start_s = time.monotonic()
        with Server(peer, ports, scratch) as server:
            server.wait()
            answered_s = client.ask("first", FEW_CALLS)["answered_at_s"]
            client.ask(ECHO, FEW_CALLS)
            return {
                "first_answer_ms": (answered_s - start_s) * 1e3,
                "idle_rss_mb": resident_mb(server.running.pid),
            }


def resident_mb(process_id: int) -> float:
    """Memory a process occupies, in megabytes of a million bytes."""
    status = Path(f"/proc/{process_id}/status")
    if status.exists():
        line = next(one for one in status.read_text().splitlines() if one.startswith("VmRSS"))
        return int(line.split()[1]) * 1024 / 1e6
    told = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(process_id)], capture_output=True, text=True, check=True
    )
    return int(told.stdout) * 1024 / 1e6
