"""Functions in threads: results, queues, interrupts, and nothing left over."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import random
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from axon.errors import CallCancelled, WorkerStopping
from axon.rpc.executors import Cancelled, Running, ThreadPool, check, current, progress
from tests.rpc.executor_helpers import until, with_pool


def test_importing_brings_in_nothing_heavy() -> None:
    heavy = {"multiprocessing", "ctypes", "numpy"}
    code = f"import sys, axon.rpc.executors; print({heavy} & set(sys.modules) or 'nothing')"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "nothing"


@contextlib.contextmanager
def rapid_thread_switches() -> Iterator[None]:
    """Let threads take turns so often that they meet in the middle of everything."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class TestResults:
    def test_value_with_arguments(self) -> None:
        async def body(pool: ThreadPool) -> Any:
            return await pool.run(divmod, (17, 5), {}, Running()), await pool.run(
                sorted, ([1, 3, 2],), {"reverse": True}, Running()
            )

        assert with_pool(body) == ((3, 2), [3, 2, 1])

    @pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt])
    def test_exceptions_arrive_and_the_pool_goes_on(self, kind: type[BaseException]) -> None:
        def fail() -> None:
            raise kind("why")

        async def body(pool: ThreadPool) -> Any:
            with pytest.raises(kind, match="why"):
                await pool.run(fail, (), {}, Running())
            return await pool.run(int, ("7",), {}, Running())

        assert with_pool(body, max_threads=1) == 7

    @pytest.mark.parametrize("kind", [StopIteration, GeneratorExit, asyncio.CancelledError])
    def test_exceptions_that_steer_coroutines_are_wrapped(self, kind: type[BaseException]) -> None:
        def fail() -> None:
            raise kind

        async def body(pool: ThreadPool) -> None:
            with pytest.raises(RuntimeError, match=kind.__name__) as caught:
                await pool.run(fail, (), {}, Running())
            assert isinstance(caught.value.__cause__, kind)

        with_pool(body)

    def test_traceback_shows_the_function_and_not_the_pool(self) -> None:
        def fail() -> None:
            raise ValueError

        async def body(pool: ThreadPool) -> list[str]:
            future = pool.run(fail, (), {}, Running())
            await asyncio.wait([future])
            error = future.exception()
            assert error is not None
            return [frame.name for frame in traceback.extract_tb(error.__traceback__)]

        assert with_pool(body) == ["fail"]

    @pytest.mark.parametrize("raises", [False, True])
    def test_nothing_is_kept_alive_afterwards(self, raises: bool) -> None:
        class Large(Exception):
            pass

        def give() -> Large:
            if raises:
                raise Large
            return Large()

        async def body(pool: ThreadPool) -> None:
            future = pool.run(give, (), {}, Running())
            await asyncio.wait([future])
            seen = weakref.ref(future.exception() or future.result())
            del future
            await until(lambda: seen() is None, seconds=2)

        gc.disable()
        try:
            with_pool(body)
        finally:
            gc.enable()

    def test_context_is_a_copy_with_the_call_in_it(self) -> None:
        colour = contextvars.ContextVar("colour", default="none")

        def look() -> tuple[str, Running | None]:
            seen = colour.get()
            colour.set("changed")
            return seen, current.get()

        async def body(pool: ThreadPool) -> None:
            colour.set("blue")
            running = Running()
            assert await pool.run(look, (), {}, running) == ("blue", running)
            assert colour.get() == "blue"
            assert current.get() is None

        with_pool(body)

    def test_progress_is_reported(self) -> None:
        def count_aloud() -> None:
            for number in range(3):
                progress(number)

        async def body(pool: ThreadPool) -> list[object]:
            told: list[object] = []
            await pool.run(count_aloud, (), {}, Running(None, told.append))
            return told

        assert with_pool(body) == [0, 1, 2]


class TestThreads:
    def test_calls_one_after_another_share_a_thread(self) -> None:
        async def body(pool: ThreadPool) -> set[int]:
            return {await pool.run(threading.get_ident, (), {}, Running()) for _ in range(50)}

        assert len(with_pool(body)) == 1

    def test_beyond_the_limit_calls_queue(self) -> None:
        busy = 0
        most = 0
        lock = threading.Lock()

        def occupy(n: int) -> int:
            nonlocal busy, most
            with lock:
                busy += 1
                most = max(most, busy)
            time.sleep(0.005)
            with lock:
                busy -= 1
            return n

        async def body(pool: ThreadPool) -> Any:
            return await asyncio.gather(*(pool.run(occupy, (n,), {}, Running()) for n in range(12)))

        assert with_pool(body, max_threads=3) == list(range(12))
        assert most == 3

    def test_daemon_threads_that_end_with_the_pool(self) -> None:
        async def body(pool: ThreadPool) -> threading.Thread:
            thread: threading.Thread = await pool.run(threading.current_thread, (), {}, Running())
            assert thread.daemon
            assert thread.name.startswith("axon-worker")
            return thread

        thread = with_pool(body)
        thread.join(5)
        assert not thread.is_alive()

    def test_close_hands_back_what_is_queued_and_refuses_more(self) -> None:
        began, gate = threading.Event(), threading.Event()

        def occupy() -> bool:
            began.set()
            return gate.wait(5)

        async def body(pool: ThreadPool) -> None:
            first = pool.run(occupy, (), {}, Running())
            await until(began.is_set)
            second = pool.run(pytest.fail, ("it ran",), {}, Running())
            third = pool.iterate(pytest.fail, ("it ran",), {}, Running())
            waiting = asyncio.ensure_future(anext(third))
            await asyncio.sleep(0)
            pool.close()
            pool.close()
            gate.set()
            assert await first is True
            with pytest.raises(WorkerStopping, match="before the call began"):
                await second
            with pytest.raises(WorkerStopping, match="before the call began"):
                await waiting
            with pytest.raises(WorkerStopping, match="closed"):
                pool.run(int, (), {}, Running())

        with_pool(body, max_threads=1)

    def test_a_loop_that_closed_meanwhile_makes_no_noise(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        pool = ThreadPool(max_threads=1)
        gate = threading.Event()

        async def leave() -> None:
            pool.run(gate.wait, (5,), {}, Running())

        async def come_back() -> Any:
            return await pool.run(int, ("3",), {}, Running())

        asyncio.run(leave())
        gate.set()
        assert asyncio.run(come_back()) == 3
        pool.close()
        assert capfd.readouterr().err == ""


async def pause(seconds: float) -> None:
    """Finer than a timer."""
    ends = time.perf_counter() + seconds
    await until(lambda: time.perf_counter() > ends, step_s=0)


def spin(counter: list[int]) -> None:
    while True:
        counter[0] += 1


class TestCancelling:
    def test_a_busy_loop_stops(self) -> None:
        async def body(pool: ThreadPool) -> None:
            counter, running = [0], Running()
            future = pool.run(spin, (counter,), {}, running)
            await until(lambda: counter[0])
            began = time.monotonic()
            future.cancel()
            assert running.cancelled
            with pytest.raises(asyncio.CancelledError):
                await future
            # The only thread is free again, so the loop is over.
            reached = await pool.run(lambda: counter[0], (), {}, Running())
            assert time.monotonic() - began < 0.5
            await asyncio.sleep(0.02)
            assert counter[0] == reached

        with_pool(body, max_threads=1)

    def test_cleanup_runs_and_a_broad_except_does_not_stop_it(self) -> None:
        seen: list[str] = []

        def stubborn() -> None:
            try:
                while True:
                    try:
                        seen.append("turn")
                        del seen[:-1]
                    except Exception:
                        continue
            finally:
                seen.append("cleaned up")

        async def body(pool: ThreadPool) -> None:
            future = pool.run(stubborn, (), {}, Running())
            await until(lambda: seen)
            future.cancel()
            await until(lambda: "cleaned up" in seen)

        with_pool(body)

    def test_a_blocking_call_ends_when_it_ends_and_gives_its_thread_back(self) -> None:
        async def body(pool: ThreadPool) -> None:
            future = pool.run(time.sleep, (0.25,), {}, Running())
            await asyncio.sleep(0.02)
            began = time.monotonic()
            future.cancel()
            with pytest.raises(asyncio.CancelledError):
                await future
            assert time.monotonic() - began < 0.15
            assert await pool.run(int, ("5",), {}, Running()) == 5

        with_pool(body, max_threads=1)

    def test_cancelled_in_the_queue_never_runs(self) -> None:
        async def body(pool: ThreadPool) -> None:
            ran: list[int] = []
            gate = threading.Event()
            first = pool.run(gate.wait, (5,), {}, Running())
            second = pool.run(ran.append, (2,), {}, Running())
            third = pool.run(ran.append, (3,), {}, Running())
            second.cancel()
            gate.set()
            await asyncio.gather(first, third)
            assert ran == [3]

        with_pool(body, max_threads=1)

    def test_cancelling_after_the_end_changes_nothing(self) -> None:
        async def body(pool: ThreadPool) -> None:
            running = Running()
            future = pool.run(int, ("1",), {}, running)
            assert await future == 1
            assert not future.cancel()
            assert not running.cancelled

        with_pool(body)

    def test_check_stops_code_that_asks(self) -> None:
        async def body(pool: ThreadPool) -> None:
            asked = threading.Event()
            running = Running()

            def ask() -> None:
                while True:
                    check()
                    asked.set()
                    time.sleep(0.001)

            future = pool.run(ask, (), {}, running)
            await until(asked.is_set)
            # Marked without being interrupted, as code below an extension would find it.
            running.cancelled = True
            with pytest.raises(CallCancelled) as caught:
                await future
            assert isinstance(caught.value.__cause__, Cancelled)

        with_pool(body)

    def test_races_between_cancel_and_finish_leave_the_pool_healthy(self) -> None:
        outcomes = {"finished": 0, "interrupted": 0}
        started = threading.Event()

        def turn(times: int) -> int:
            try:
                started.set()
                for _ in range(times):
                    pass
            except Cancelled:
                outcomes["interrupted"] += 1
                raise
            outcomes["finished"] += 1
            return times

        async def body(pool: ThreadPool) -> None:
            chance = random.Random(20)
            for number in range(500):
                # Every fifth is sure to be interrupted, the others may end before or after.
                times = chance.randrange(20_000) if number % 5 else 10**9
                started.clear()
                future = pool.run(turn, (times,), {}, Running())
                if number % 2 or not number % 5:
                    await until(started.is_set, step_s=0)
                await pause(chance.random() * 2e-4)
                future.cancel()
                # No interrupt meant for the call before may reach this one.
                assert await pool.run(turn, (number,), {}, Running()) == number

        with rapid_thread_switches():
            with_pool(body, max_threads=1)
        assert outcomes["interrupted"] >= 100
        assert outcomes["finished"] >= 500
