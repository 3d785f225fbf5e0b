"""How the benchmark starts peers, asks them, and ends them."""

from __future__ import annotations

import itertools
import json
import os
import queue
import random
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from rpc_peers.measures import WORKERS, Budget, Measured
from rpc_peers.roster import GATHER, Peer

START_LIMIT_S = 20.0
ANSWER_LIMIT_S = 60.0
GATHER_PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores clients and servers are held to; none leaves the choice to the system."""

    client: int | None = None
    server: int | None = None


FREE = Cores()


class PeerError(Exception):
    """A peer's process ended, or did not answer in time."""


# Below the range from which the system takes the near ends of connections, so that none of the many
# clients can sit on a port a server is about to bind.
_candidates = itertools.count(random.SystemRandom().randrange(20_000, 28_000))


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on at the moment, each handed out once."""
    ports: list[int] = []
    for port in _candidates:
        if len(ports) == count:
            break
        with socket.socket() as place:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                place.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
    return ports


def wait_until_listening(process: subprocess.Popen[str], port: int) -> None:
    """Try to connect until somebody accepts, or the process is gone."""
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise PeerError(f"the server ended with code {process.returncode}")
        time.sleep(0.002)
    raise PeerError(f"the server did not listen within {START_LIMIT_S:g} s")


class Process:
    """One process of a peer; its standard error is kept, for the reason of a failure."""

    def __init__(
        self,
        peer: Peer,
        command: list[str],
        scratch: Path,
        *,
        answers: bool = False,
        core: int | None = None,
    ) -> None:
        self._errors: IO[str] = (scratch / f"errors-{time.monotonic_ns()}").open("w+")
        self.running = subprocess.Popen(
            [part.replace("{scratch}", str(scratch)) for part in command],
            env=peer.framework.environment(scratch),
            cwd=scratch,
            stdin=subprocess.PIPE if answers else subprocess.DEVNULL,
            stdout=subprocess.PIPE if answers else self._errors,
            stderr=self._errors,
            text=True,
        )
        if core is not None:
            # It is still single-threaded at this moment; the threads it makes inherit the core.
            os.sched_setaffinity(self.running.pid, {core})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> None:
        """End the process and close what led to it; doing so again changes nothing."""
        self.running.terminate()
        try:
            self.running.wait(timeout=3)
        except subprocess.TimeoutExpired:
            self.running.kill()
            self.running.wait()
        for pipe in (self.running.stdin, self.running.stdout, self._errors):
            if pipe is not None:
                pipe.close()

    def last_words(self) -> str:
        """The last line of standard error, where an exception says what it is."""
        self._errors.flush()
        lines = Path(self._errors.name).read_text().strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class Server(Process):
    """A peer's server, started; `wait` returns when all its ports accept."""

    def __init__(
        self, peer: Peer, ports: list[int], scratch: Path, core: int | None = None
    ) -> None:
        self.ports = ports
        super().__init__(peer, peer.server_command(ports), scratch, core=core)

    def wait(self) -> None:
        """Raises `PeerError` with the server's own words when it does not come up."""
        try:
            for port in self.ports:
                wait_until_listening(self.running, port)
        except PeerError as error:
            raise PeerError(f"{error}: {self.last_words()}") from error


class Client(Process):
    """A peer's client, which answers questions once it has said that it is ready."""

    def __init__(
        self, peer: Peer, ports: list[int], scratch: Path, core: int | None = None
    ) -> None:
        command = peer.client_command(ports)
        super().__init__(peer, command, scratch, answers=True, core=core)
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.running.stdout is not None
        for line in self.running.stdout:
            self._answers.put(line)
        self._answers.put("")

    def ready(self) -> None:
        """Wait until its imports are done."""
        self._answer()

    def ask(self, question: str, budget: Budget) -> Measured:
        """Put one question; raises `PeerError` when the client breaks or takes too long."""
        assert self.running.stdin is not None
        text = {"ask": question, "seconds": budget.seconds, "count": budget.count}
        try:
            self.running.stdin.write(json.dumps({**text, "seed": budget.seed}) + "\n")
            self.running.stdin.flush()
        except BrokenPipeError as error:
            raise PeerError(self.last_words()) from error
        return self._answer()

    def _answer(self) -> Measured:
        try:
            line = self._answers.get(timeout=ANSWER_LIMIT_S)
        except queue.Empty:
            raise PeerError(f"no answer within {ANSWER_LIMIT_S:g} s") from None
        if not line:
            self.running.wait()
            raise PeerError(self.last_words())
        measured: Measured = json.loads(line)
        return measured


class Field:
    """The servers and clients of one question; leaving ends them all."""

    def __init__(
        self, question: str, peers: list[Peer], scratch: Path, cores: Cores = FREE
    ) -> None:
        self.failures: dict[str, str] = {}
        self.clients: dict[str, Client] = {}
        self._stack = ExitStack()
        self._question, self._peers, self._scratch = question, peers, scratch
        self._cores = cores

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for peer, servers in self._start_servers(stack).items():
                self._start_client(stack, peer, servers)
            for name, client in list(self.clients.items()):
                try:
                    client.ready()
                except PeerError as error:
                    self.drop(name, str(error))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *reason: object) -> None:
        self._stack.close()

    def _start_servers(self, stack: ExitStack) -> Mapping[Peer, list[Server]]:
        """One server for all rows that call the same kind; a gather has its workers in two."""
        shared: dict[tuple[str, str], list[Server]] = {}
        for peer in self._peers:
            kind = (peer.module, peer.server)
            if kind not in shared:
                gathers = self._question == GATHER
                each = WORKERS // GATHER_PROCESSES if gathers else 1
                groups = [free_ports(each) for _ in range(GATHER_PROCESSES if gathers else 1)]
                shared[kind] = [
                    stack.enter_context(Server(peer, ports, self._scratch, self._cores.server))
                    for ports in groups
                ]
        return {peer: shared[peer.module, peer.server] for peer in self._peers}

    def _start_client(self, stack: ExitStack, peer: Peer, servers: list[Server]) -> None:
        try:
            for server in servers:
                server.wait()
        except PeerError as error:
            self.failures[peer.name] = str(error)
            return
        ports = [port for server in servers for port in server.ports]
        self.clients[peer.name] = stack.enter_context(
            Client(peer, ports, self._scratch, self._cores.client)
        )

    def drop(self, name: str, reason: str) -> None:
        """Go on without a peer that failed; its row says why."""
        self.failures[name] = reason
        self.clients.pop(name).end()
