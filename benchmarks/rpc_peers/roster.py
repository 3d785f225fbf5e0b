"""Who takes part in which question, and why someone is left out."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
SOURCE = BENCHMARKS.parent / "src"

ECHO, IN_FLIGHT, BULK, GATHER = "echo", "in_flight", "bulk", "gather"


@dataclass(frozen=True, slots=True)
class Framework:
    """An interpreter and the import that must work in it."""

    name: str
    imports: str
    python: str | None = sys.executable
    without_python: str = ""

    def environment(self, scratch: Path) -> dict[str, str]:
        """The variables its processes get."""
        paths = [str(BENCHMARKS)]
        if self.python == sys.executable:
            paths.append(str(SOURCE))
        quiet = {"GRPC_VERBOSITY": "ERROR", "PYTHONUNBUFFERED": "1"}
        search = {"PYTHONPATH": os.pathsep.join(paths), "BENCH_SCRATCH": str(scratch)}
        return {**os.environ, **quiet, **search}

    def why_absent(self, scratch: Path) -> str | None:
        """The reason it cannot take part, or none."""
        if self.python is None:
            return self.without_python
        command = [self.python, "-c", f"import {self.imports}"]
        environment = self.environment(scratch)
        done = subprocess.run(
            command, env=environment, cwd=scratch, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return None
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


AXON = Framework("Axon", "axon.client, axon.worker")
RAW = Framework("raw", "numpy")
GRPC = Framework("gRPC", "grpc")
PYRO5 = Framework("Pyro5", "Pyro5.api")
RPYC = Framework("RPyC", "rpyc")
ECRG = Framework(
    "axon-ECRG",
    "axon.client, numpy",
    os.environ.get("AXON_ECRG_PYTHON"),
    "AXON_ECRG_PYTHON does not name an interpreter with axon-ECRG and numpy",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One row: a client, the server it calls, and the questions it answers."""

    name: str
    framework: Framework
    module: str
    server: str
    client: str
    questions: tuple[str, ...]

    def server_command(self, ports: list[int]) -> list[str]:
        """What to run as its server."""
        return self._command("serve", self.server, ports)

    def client_command(self, ports: list[int]) -> list[str]:
        """What to run as its client."""
        return self._command("client", self.client, ports)

    def _command(self, role: str, variant: str, ports: list[int]) -> list[str]:
        assert self.framework.python is not None
        module = f"rpc_peers.{self.module}"
        return [self.framework.python, "-m", module, role, variant, *map(str, ports)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AxonPeer(Peer):
    """A single worker is the plain worker script; only the gather needs many in a process."""

    def server_command(self, ports: list[int]) -> list[str]:
        if self.server == "many":
            return self._command("serve", self.server, ports)
        scratch_key = ["{scratch}/bench.key"] if self.server == "signed" else []
        return [sys.executable, "-m", "rpc_peers.axon_worker", str(ports[0]), *scratch_key]


def _row(
    name: str, framework: Framework, module: str, server: str, client: str, *questions: str
) -> Peer:
    kind = AxonPeer if framework is AXON else Peer
    return kind(
        name=name,
        framework=framework,
        module=module,
        server=server,
        client=client,
        questions=questions,
    )


PEERS = (
    _row("raw, event loop", RAW, "raw", "loop", "loop", ECHO),
    _row("raw, blocking", RAW, "raw", "blocking", "blocking", ECHO),
    _row("raw, 1 connection, pipelined", RAW, "raw", "loop", "loop", IN_FLIGHT),
    _row("raw, 64 connections", RAW, "raw", "loop", "loop-64", IN_FLIGHT),
    _row("raw, one buffer kept", RAW, "raw", "blocking", "blocking", BULK),
    _row("raw, fresh buffers", RAW, "raw", "blocking-fresh", "blocking-fresh", BULK),
    _row("raw, event loop", RAW, "raw", "work", "loop", GATHER),
    _row("Axon", AXON, "axon_peer", "plain", "inline", ECHO, IN_FLIGHT, BULK),
    _row("Axon, async def", AXON, "axon_peer", "plain", "async", ECHO, IN_FLIGHT),
    _row("Axon, thread", AXON, "axon_peer", "plain", "thread", ECHO, IN_FLIGHT),
    _row("Axon, blocking stub", AXON, "axon_peer", "plain", "blocking", ECHO, BULK),
    _row("Axon, signed", AXON, "axon_peer", "signed", "signed", ECHO, IN_FLIGHT, BULK),
    _row("Axon", AXON, "axon_peer", "many", "inline", GATHER),
    _row("gRPC sync", GRPC, "grpc_peer", "sync", "sync", ECHO, IN_FLIGHT),
    _row("gRPC sync, aio server", GRPC, "grpc_peer", "aio", "sync", ECHO),
    _row("gRPC aio", GRPC, "grpc_peer", "aio", "aio", ECHO, IN_FLIGHT, GATHER),
    _row("gRPC aio, 2 channels", GRPC, "grpc_peer", "aio", "aio-2", IN_FLIGHT),
    _row("gRPC aio, 4 channels", GRPC, "grpc_peer", "aio", "aio-4", IN_FLIGHT),
    _row("gRPC aio, 8 channels", GRPC, "grpc_peer", "aio", "aio-8", IN_FLIGHT),
    _row("gRPC unary", GRPC, "grpc_peer", "sync", "sync", BULK),
    _row("gRPC unary, aio", GRPC, "grpc_peer", "aio", "aio", BULK),
    _row("gRPC stream, 256 KB chunks", GRPC, "grpc_peer", "sync", "stream-256k", BULK),
    _row("gRPC stream, 1 MB chunks", GRPC, "grpc_peer", "sync", "stream-1m", BULK),
    _row("gRPC stream, 4 MB chunks", GRPC, "grpc_peer", "sync", "stream-4m", BULK),
    _row("Pyro5", PYRO5, "pyro5_peer", "plain", "serpent", ECHO),
    _row("Pyro5, marshal", PYRO5, "pyro5_peer", "plain", "marshal", ECHO, IN_FLIGHT, BULK, GATHER),
    _row("RPyC", RPYC, "rpyc_peer", "plain", "plain", ECHO, IN_FLIGHT, BULK, GATHER),
    _row("axon-ECRG", ECRG, "ecrg_peer", "plain", "blocking", ECHO, BULK),
    _row("axon-ECRG", ECRG, "ecrg_peer", "plain", "awaitable", IN_FLIGHT, GATHER),
)


def taking_part(question: str, absent: dict[str, str]) -> list[Peer]:
    """The peers of one question whose framework is there."""
    return [p for p in PEERS if question in p.questions and p.framework.name not in absent]
