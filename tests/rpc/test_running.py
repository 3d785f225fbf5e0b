"""The running call: its clock, its flag, and interrupts that land in the function or nowhere."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from axon.rpc.executors import Cancelled, Running, ThreadPool, check, current, in_child, progress
from axon.rpc.executors.running import Window
from tests.rpc.executor_helpers import with_pool


class TestRunning:
    def test_without_deadline_time_is_unlimited(self) -> None:
        assert Running().remaining_s() is None

    def test_on_the_loop_the_loop_clock_counts(self) -> None:
        async def main() -> float | None:
            loop = asyncio.get_running_loop()
            running = Running(deadline=loop.time() + 100)
            loop.time = lambda: 0.0  # type: ignore[method-assign]
            deadline = running.deadline
            assert deadline is not None
            return (running.remaining_s() or 0.0) - deadline

        assert asyncio.run(main()) == 0.0

    def test_in_a_thread_it_counts_down_by_the_same_clock(self) -> None:
        async def body(pool: ThreadPool) -> Any:
            # A loop whose clock has nothing to do with the machine's.
            loop = asyncio.get_running_loop()
            origin = time.monotonic()
            loop.time = lambda: time.monotonic() - origin + 1e6  # type: ignore[method-assign]
            running = Running(deadline=loop.time() + 10)
            return await pool.run(running.remaining_s, (), {}, running)

        assert 9.0 < with_pool(body) <= 10.0

    def test_never_below_zero(self) -> None:
        assert Running(deadline=time.monotonic() - 5).remaining_s() == 0.0

    def test_outside_of_a_call_nothing_happens(self) -> None:
        progress("unheard")
        check()
        assert current.get() is None
        assert not in_child()


class TestWindow:
    def test_an_interrupt_after_the_last_line_stays_inside_the_guard(self) -> None:
        window = Window(Running())
        entered, leave = threading.Event(), threading.Event()
        story: list[str] = []

        def function() -> None:
            entered.set()
            leave.wait(5)
            story.append("returned")

        def thread() -> None:
            try:
                window.guard(function)
            except Cancelled:
                story.append("cancelled")
            for _ in range(10_000):
                pass
            story.append("lived on")

        caller = threading.Thread(target=thread)
        caller.start()
        entered.wait(5)
        # With the lock taken the function can return but its window cannot shut.
        with window._lock:
            leave.set()
            while not story:
                time.sleep(0.001)
            assert window._thread is not None
            window._struck = window._strike(window._thread)
        caller.join(5)
        assert story == ["returned", "cancelled", "lived on"]
