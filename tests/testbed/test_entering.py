"""Worlds in a notebook: run where a loop is running already, interrupted, shown."""

from __future__ import annotations

import asyncio
import html
import signal
import sys
import threading
import traceback

import anyio
import pytest

from axon.errors import ConfigurationError
from axon.rpc.loops import serving_here
from axon.testbed import deployed, emulated, simulated
from axon.testbed.catalogue import DEVICES
from axon.testbed.simulation import SimulatedFleet


async def sleep_and_tell(fleet: SimulatedFleet) -> tuple[int, float, int]:
    await anyio.sleep(3600)
    return len(fleet.learners), anyio.current_time(), threading.get_ident()


def test_a_world_runs_within_a_loop_that_runs_already() -> None:
    async def cell() -> tuple[int, float, int]:
        return simulated("thesis").run(sleep_and_tell, start_s=400.0)

    devices, now_s, thread = asyncio.run(cell())
    assert (devices, now_s) == (4, 4000.0)
    assert thread != threading.get_ident()
    assert simulated("thesis").run(sleep_and_tell)[2] == threading.get_ident()


def test_what_is_raised_within_arrives() -> None:
    async def fail(_: SimulatedFleet) -> None:
        raise LookupError("no such cell")

    async def cell() -> None:
        simulated("thesis").run(fail)

    with pytest.raises(LookupError, match="no such cell"):
        asyncio.run(cell())


def waits_for_a_result(thread: int) -> bool:
    stack = traceback.extract_stack(sys._current_frames()[thread])
    return [each.name for each in stack[-2:]] == ["result", "wait"]


def test_an_interrupt_ends_what_runs() -> None:
    ended = []
    waiting = threading.get_ident()

    async def work_for_ever(_: SimulatedFleet) -> None:
        while not waits_for_a_result(waiting):  # noqa: ASYNC110  (in virtual time)
            await anyio.sleep(1.0)
        signal.pthread_kill(waiting, signal.SIGINT)
        try:
            for _each in range(1_000_000):  # Seconds of virtual time, should nothing end it.
                await anyio.sleep(1.0)
        finally:
            ended.append(True)

    async def cell() -> None:
        simulated("thesis").run(work_for_ever)

    # Not `asyncio.run`, which would take the interrupt for itself; a notebook's loop does not.
    loop = asyncio.new_event_loop()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell())
    finally:
        loop.close()
        signal.signal(signal.SIGINT, handler)
    assert ended == [True]


def test_no_world_blocks_the_loop_of_a_worker() -> None:
    async def serve() -> None:
        with serving_here():
            simulated("thesis").run(sleep_and_tell)

    with pytest.raises(ConfigurationError, match="event loop of a worker"):
        asyncio.run(serve())


def test_worlds_say_who_is_in_them() -> None:
    assert repr(simulated("thesis")) == "<Simulated world of jetson-nano, pi-1, pi-2, pi-3>"
    assert repr(simulated("thesis").fleet) == "<SimulatedFleet of jetson-nano, pi-1, pi-2, pi-3>"
    assert repr(emulated(["pi-1"])) == "<Emulated world of pi-1>"
    many = {f"pi-{each}": DEVICES["pi-1"] for each in range(10)}
    assert repr(simulated(many)).endswith("pi-7 and 2 more>")
    assert repr(deployed({"desk": "10.0.0.7"})) == "<Deployed world of <RemoteFleet of desk>>"
    announced = deployed(["10.0.0.7"], discover=True)
    assert "10.0.0.7" in repr(announced)
    assert "whoever announces himself" in repr(announced)


def test_a_notebook_shows_the_devices_of_a_world_and_obeys_none() -> None:
    hostile = "<img src=x onerror=alert(1)>"
    shown = simulated({hostile: DEVICES["pi-1"]})._repr_html_()
    assert f"<td>{html.escape(hostile)}</td><td>pi-1</td>" in shown
    assert "<img" not in shown
    assert "flops_per_s" in shown
