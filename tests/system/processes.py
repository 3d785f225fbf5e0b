"""Worlds of real processes for the tests here: quick devices, faults, who is left over."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path

from axon.data.datasets import load
from axon.learning.tasks import default_spec
from axon.recipes.keeping import Keeping
from axon.recipes.runner import run_recipe
from axon.recipes.settings import Recipe
from axon.rounds.events import CycleBegan, CycleEnded, Event
from axon.rounds.fleet import Fleet
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme
from axon.rpc.link import Link
from axon.rpc.loops import new_event_loop
from axon.testbed.catalogue import Device
from axon.testbed.emulation import Emulated, EmulatedFleet
from axon.values import RoundRecord
from tests import forks
from tests.forks import FORKS

QUICK = Device(
    kind="quick",
    flops_per_s=2e9,
    batch_overhead_s=0.005,
    memory_bytes=2**30,
    link=Link(latency_s=0.001, up_bytes_per_s=20e6, down_bytes_per_s=20e6),
)
"""All of digits in about 0.27 s: slow enough for a fault to find it at work."""

DIGITS = load("digits", seed=0)
SPEC = default_spec("twonn", DIGITS.shape, DIGITS.classes)

DEVICE_PROCESS = b"axon.testbed.device"


def quick_run(cycles: int, *, deadline_s: float = 1.0, learning_rate: float | None = None) -> Run:
    """A run of the digits task; another learning rate makes it a task that no learner knows."""
    spec = SPEC if learning_rate is None else replace(SPEC, learning_rate=learning_rate)
    return Run(spec=spec, cycles=cycles, deadline_s=deadline_s, shard_samples=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class Happenings:
    """What befalls a fleet during a run."""

    during: Mapping[int, tuple[float, Callable[[], None]]] = field(default_factory=dict)
    """By cycle: so many seconds after it began, this."""
    after: Mapping[int, Callable[[], Awaitable[None] | object]] = field(default_factory=dict)
    """By cycle: this between it and the next."""


async def play(
    run: Run, fleet: Fleet, what: Happenings | None = None, *, scheme: Scheme | None = None
) -> list[RoundRecord]:
    """Run all cycles while things happen."""
    happenings, loop = what or Happenings(), asyncio.get_running_loop()

    def hear(event: Event) -> None:
        if isinstance(event, CycleBegan) and event.plan.cycle in happenings.during:
            after_s, action = happenings.during[event.plan.cycle]
            loop.call_later(after_s, action)

    records = []
    orchestrator = Orchestrator(run, DIGITS, fleet, scheme, listen=hear)
    async with aclosing(orchestrator.cycles()) as cycles:
        async for record in cycles:
            records.append(record)
            if record.cycle in happenings.after:
                pending = happenings.after[record.cycle]()
                if isinstance(pending, Awaitable):
                    await pending
    return records


@dataclass(frozen=True, slots=True)
class Stage:
    """An emulated world that several tests share, for its processes take seconds to start."""

    runner: asyncio.Runner
    fleet: EmulatedFleet

    def play(
        self, run: Run, what: Happenings | None = None, *, scheme: Scheme | None = None
    ) -> list[RoundRecord]:
        """`play` on the world's own loop."""
        return self.runner.run(play(run, self.fleet, what, scheme=scheme))


@contextmanager
def staged(world: Emulated) -> Iterator[Stage]:
    """A world for as long as the block lasts."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        fleet = runner.run(world.__aenter__())
        try:
            yield Stage(runner, fleet)
        finally:
            runner.run(world.__aexit__(None, None, None))


class DeviceCommand:
    """`axon worker` in a process of its own."""

    def __init__(self, name: str, port: int, *options: object) -> None:
        self.name = name
        given = " ".join(map(str, options))
        self._words = f"worker --name {name} --port {port} --threads 1 --no-announce {given}"
        self.address = f"http://127.0.0.1:{port}"
        self.start()

    def start(self) -> None:
        """Start it, for the first time or again at the same address."""
        self._running = forks.command(self._words, Path.cwd())

    def await_ready(self) -> None:
        """Wait until it can be reached."""
        line = self._running.line()
        assert self.address in line, f"{self.name} did not start: {line!r}"

    def send(self, number: signal.Signals) -> None:
        """Freeze it, thaw it, or worse."""
        self._running.send(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it, and give its exit code."""
        with self._running:
            self.send(number)
            return self._running.result(15.0)[0]


class Life:
    """An orchestrator in a process of its own, which tells of the cycles it has ended."""

    def __init__(self, recipe: Recipe, out: Path) -> None:
        self._told, telling = FORKS.Pipe(duplex=False)
        self._process = FORKS.Process(target=_live, args=(recipe, out, telling), daemon=True)
        self._process.start()
        telling.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None, "it was started"
        return self._process.pid

    def next_cycle(self) -> int | None:
        """The number of the cycle that it has ended next; 0 when its first begins; None at its end.

        What a killed one has said before is still heard.
        """
        heard = self._told.poll(30)
        assert heard, f"nothing was heard for 30 s; its exit code is {self._process.exitcode}"
        try:
            number: int = self._told.recv()
        except (EOFError, ConnectionResetError):
            return None
        return number

    def kill(self) -> None:
        """End it at once, like a machine that loses its power."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.join()

    def end(self) -> int | None:
        """Its exit code, once it has ended by itself."""
        self._process.join()
        return self._process.exitcode


def _live(recipe: Recipe, out: Path, telling: Connection) -> None:
    # A life takes seconds; one that hangs says where, and ends.
    faulthandler.dump_traceback_later(50, exit=True)
    began = False

    def hear(event: Event) -> None:
        nonlocal began
        if isinstance(event, CycleBegan) and not began:
            began = True
            telling.send(0)
        elif isinstance(event, CycleEnded):
            telling.send(event.record.cycle)

    run_recipe(recipe, Keeping(out=out, resume=True), listen=hear)


def statuses(records: list[RoundRecord], device: str) -> list[str]:
    """What became of a device, cycle by cycle."""
    return [one.status for record in records for one in record.devices if one.device == device]


def reasons(records: list[RoundRecord], device: str) -> list[str]:
    """Why it was not used, cycle by cycle."""
    return [one.reason for record in records for one in record.devices if one.device == device]


def pauses(records: list[RoundRecord]) -> list[float]:
    """Between the end of each cycle and the beginning of the next."""
    return [later.started_s - earlier.ended_s for earlier, later in pairwise(records)]


def device_processes(parent: int) -> set[int]:
    """The ids of the living device processes that a process has started."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and _parent_of(folder) == parent:
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue  # It has ended meanwhile.
            if DEVICE_PROCESS in command:
                found.add(int(folder.name))
    return found


def _parent_of(folder: Path) -> int | None:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def wait_until_gone(pids: Collection[int], *, within_s: float) -> bool:
    """Whether all of them end in time."""
    until_s = time.monotonic() + within_s
    while any(map(_is_alive, pids)):
        if time.monotonic() > until_s:
            return False
        time.sleep(0.01)
    return True


def _is_alive(pid: int) -> bool:
    """Whether a process runs, or at least is stopped; one that waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")
