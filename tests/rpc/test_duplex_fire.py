"""Duplex under fire: real processes, killed and cut off at random moments of two hundred calls."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.rpc.scripts import Script, cuttable_link, free_port

CALLS = 200
FIRE_S = 9.0
LIMIT_S = 40.0
"""Three times what it takes on two idle cores."""

WORKER = """
import os, random, sys, time
import axon

effects = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

@axon.worker.rpc()
def act(number):
    os.write(effects, b"%d\\n" % number)
    os.fsync(effects)
    time.sleep(random.uniform(0.01, 0.25))
    return number

axon.worker.init(port=int(sys.argv[1]), grace_s=1.0)
"""

CLIENT = """
import asyncio, os, sys
import axon
from axon.errors import AxonError
from axon.rpc.calling.callers import caller_for

port, journal_path, calls, resume = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
way = axon.client.access(reconnect_s=1.0)
journal = os.open(journal_path, os.O_RDWR | os.O_CREAT | os.O_APPEND)

def write(word, number):
    os.write(journal, f"{word} {number}\\n".encode())
    os.fsync(journal)

def read():
    with open(journal_path) as file:
        lines = [line.split() for line in file]
    ended = {int(number) for word, number in lines if word != "begun"}
    return ended, {int(number) for _, number in lines} - ended

async def one(stub, number, begun):
    id = f"call-{number}"
    try:
        if begun and resume == "attach":
            caller = await caller_for(way)
            where = axon.client.Address.parse(f"127.0.0.1:{port}")
            value = await caller.attach(where, id, axon.client.CallOptions(deadline_s=8))
        else:
            if not begun:
                write("begun", number)
            value = await stub.options(call_id=id)(number)
        assert value == number, (value, number)
        write("returned", number)
    except AxonError as error:
        write(f"failed:{type(error).__name__}", number)
        await asyncio.sleep(0.1)

async def reached():
    # A call to a worker never seen fails at once, as it should; that is not what is tested here.
    for _ in range(100):
        try:
            return await axon.client.connect(f"127.0.0.1:{port}", reconnect_s=1.0)
        except AxonError:
            await asyncio.sleep(0.05)

async def main():
    stub = axon.client.CoroDuplexStub(
        worker_ip="127.0.0.1", port=port, rpc_name="act", deadline_s=8, reconnect_s=1.0)
    await reached()
    ended, begun = read()
    todo = iter([n for n in range(calls) if n not in ended])

    async def some():
        for number in todo:
            await one(stub, number, number in begun)

    await asyncio.gather(*(some() for _ in range(4)))

asyncio.run(main())
"""


class Fire:
    """The two processes, the link between them, and everything that happened to them."""

    def __init__(self, folder: Path, seed: int, *, kill_worker: bool, resume: str) -> None:
        self.effects = folder / "effects"
        self.journal = folder / "journal"
        self.kill_worker = kill_worker
        self.resume = resume
        self.chance = random.Random(seed)
        self.port = free_port()
        self.blows: Counter[str] = Counter()

    def run(self) -> None:
        """Make the calls under blows, and give the clients time to come to an end."""
        began = time.monotonic()
        with cuttable_link(self.port) as link:
            self.worker = self._start_worker()
            self.client = self._start_client(link.port)
            try:
                while self.client.process.poll() is None or self._left():
                    assert time.monotonic() < began + LIMIT_S, f"{self._left()} calls left"
                    time.sleep(self.chance.uniform(0.1, 0.9))
                    if self.client.process.poll() is not None:
                        code, _, err = self.client.result()
                        assert code == 0, err
                        break
                    # The last part goes undisturbed, so that what can end does.
                    if time.monotonic() < began + FIRE_S:
                        self._strike(link)
            finally:
                self.worker.kill()
                self.client.kill()

    def _start_worker(self) -> Script:
        return Script(WORKER, self.port, self.effects, AXON_LOG="off").until_listening(self.port)

    def _start_client(self, port: int) -> Script:
        return Script(CLIENT, port, self.journal, CALLS, self.resume)

    def _left(self) -> int:
        return CALLS - len(self.outcomes())

    def _strike(self, link: object) -> None:
        kinds = ["client", "link"] + (["worker"] if self.kill_worker else [])
        kind = self.chance.choice(kinds)
        self.blows[kind] += 1
        if kind == "client":
            self.client.kill()
            self.client = self._start_client(link.port)  # type: ignore[attr-defined]
        elif kind == "worker":
            self.worker.kill()
            self.worker = self._start_worker()
        else:
            link.cut()  # type: ignore[attr-defined]
            time.sleep(self.chance.uniform(0.0, 0.3))
            link.heal()  # type: ignore[attr-defined]

    def ran(self) -> Counter[int]:
        """How often each call had its effect."""
        return Counter(int(line) for line in self.effects.read_text().split())

    def outcomes(self) -> dict[int, str]:
        """What the clients reported of each call."""
        if not self.journal.exists():
            return {}
        lines = [line.split() for line in self.journal.read_text().splitlines()]
        return {int(number): word for word, number in lines if word != "begun"}


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_every_call_happens_once_or_is_reported_failed(tmp_path: Path, seed: int) -> None:
    """Client, link and worker die; a client that comes back attaches to what it had begun."""
    fire = Fire(tmp_path, seed, kill_worker=True, resume="attach")
    fire.run()
    ran, outcomes = fire.ran(), fire.outcomes()
    print(f"blows {dict(fire.blows)}, outcomes {dict(Counter(outcomes.values()))}")
    assert set(outcomes) == set(range(CALLS)), "a call without an outcome"
    assert {number: count for number, count in ran.items() if count > 1} == {}
    returned = {number for number, word in outcomes.items() if word == "returned"}
    assert {number for number in returned if ran[number] != 1} == set()
    assert len(returned) > CALLS / 2
    assert all(fire.blows[kind] for kind in ("client", "link", "worker"))


@pytest.mark.system
@pytest.mark.slow
def test_in_one_life_of_the_worker_making_a_call_again_is_harmless(tmp_path: Path) -> None:
    """Client and link die; a client that comes back makes the same calls under the same ids."""
    fire = Fire(tmp_path, 3, kill_worker=False, resume="call")
    fire.run()
    ran, outcomes = fire.ran(), fire.outcomes()
    print(f"blows {dict(fire.blows)}, outcomes {dict(Counter(outcomes.values()))}")
    assert set(outcomes) == set(range(CALLS)), "a call without an outcome"
    assert ran == Counter(range(CALLS))
    # Killed between acknowledging a result and writing it down, a client cannot have it again.
    lost = [number for number, word in outcomes.items() if word != "returned"]
    assert len(lost) <= 4 * fire.blows["client"]
    assert all(outcomes[number] == "failed:CallLost" for number in lost)
