"""Generators in threads: order, back-pressure, closing and cancelling."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.rpc.executors import Running, ThreadPool, current, jobs
from axon.rpc.executors.jobs import READ_AHEAD
from tests.rpc.executor_helpers import until, with_pool


class Source:
    """A generator that notes what happens to it."""

    def __init__(self) -> None:
        self.made = 0
        self.events: list[str] = []
        self.threads: set[int] = set()

    def count(self, stop: int = 1_000_000) -> Iterator[int]:
        try:
            for number in range(stop):
                self.threads.add(threading.get_ident())
                self.made += 1
                yield number
        except BaseException as error:
            self.events.append(type(error).__name__)
            raise
        finally:
            self.threads.add(threading.get_ident())
            self.events.append("finally")

    def stall(self) -> Iterator[int]:
        try:
            yield 0
            while True:
                self.made += 1
        except BaseException as error:
            self.events.append(type(error).__name__)
            raise


class TestIterate:
    def test_items_in_order_then_the_end(self) -> None:
        source = Source()

        async def body(pool: ThreadPool) -> list[int]:
            return [n async for n in pool.iterate(source.count, (100,), {}, Running())]

        assert with_pool(body) == list(range(100))
        assert source.events == ["finally"]
        assert len(source.threads) == 1

    def test_any_iterable_will_do(self) -> None:
        async def body(pool: ThreadPool) -> list[int]:
            return [n async for n in pool.iterate(lambda: [1, 2], (), {}, Running())]

        assert with_pool(body) == [1, 2]

    def test_an_error_comes_after_the_items_before_it(self) -> None:
        def fail() -> Iterator[int]:
            yield 1
            yield 2
            raise ValueError("third")

        async def body(pool: ThreadPool) -> None:
            items = pool.iterate(fail, (), {}, Running())
            assert [await anext(items), await anext(items)] == [1, 2]
            with pytest.raises(ValueError, match="third"):
                await anext(items)

        with_pool(body)

    @settings(max_examples=25, deadline=None)
    @given(taken=st.integers(0, 12))
    def test_the_generator_is_at_most_the_read_ahead_in_front(self, taken: int) -> None:
        source = Source()

        async def body(pool: ThreadPool) -> None:
            items = pool.iterate(source.count, (), {}, Running())
            assert [await anext(items) for _ in range(taken)] == list(range(taken))
            if taken:
                await until(lambda: source.made == taken + READ_AHEAD)
            await asyncio.sleep(0.002)
            assert source.made == (taken + READ_AHEAD if taken else 0)
            await items.aclose()

        with_pool(body)

    def test_closing_closes_the_generator_in_its_thread(self) -> None:
        source = Source()

        async def body(pool: ThreadPool) -> None:
            items = pool.iterate(source.count, (), {}, Running())
            assert await anext(items) == 0
            await items.aclose()
            assert source.events == ["GeneratorExit", "finally"]
            assert len(source.threads) == 1
            with pytest.raises(StopAsyncIteration):
                await anext(items)

        with_pool(body)

    def test_an_error_while_closing_is_raised(self) -> None:
        def bad_end() -> Iterator[int]:
            try:
                while True:
                    yield 1
            finally:
                raise OSError("disk full")

        async def body(pool: ThreadPool) -> None:
            items = pool.iterate(bad_end, (), {}, Running())
            await anext(items)
            with pytest.raises(OSError, match="disk full"):
                await items.aclose()

        with_pool(body)

    def test_closing_interrupts_a_generator_that_does_not_yield(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(jobs, "YIELD_GRACE_S", 0.02)
        source = Source()

        async def body(pool: ThreadPool) -> None:
            items = pool.iterate(source.stall, (), {}, Running())
            assert await anext(items) == 0
            await until(lambda: source.made)
            await items.aclose()
            assert source.events == ["Cancelled"]

        with_pool(body)

    def test_cancelling_the_wait_interrupts_it(self) -> None:
        source = Source()

        async def body(pool: ThreadPool) -> None:
            running = Running()
            items = pool.iterate(source.stall, (), {}, running)
            await anext(items)
            task = asyncio.ensure_future(anext(items))
            await until(lambda: source.made)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert running.cancelled
            assert source.events == ["Cancelled"]

        with_pool(body, max_threads=1)

    def test_closed_in_the_queue_never_runs(self) -> None:
        source = Source()

        async def body(pool: ThreadPool) -> None:
            gate = threading.Event()
            first = pool.run(gate.wait, (5,), {}, Running())
            items = pool.iterate(source.count, (), {}, Running())
            task = asyncio.ensure_future(anext(items))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            gate.set()
            await first
            assert await pool.run(int, ("1",), {}, Running()) == 1
            assert source.made == 0

        with_pool(body, max_threads=1)

    def test_all_items_see_one_context_with_the_call_in_it(self) -> None:
        depth = contextvars.ContextVar("depth", default=0)

        def deeper() -> Iterator[tuple[int, Running | None]]:
            for _ in range(3):
                depth.set(depth.get() + 1)
                yield depth.get(), current.get()

        async def body(pool: ThreadPool) -> None:
            running = Running()
            got = [item async for item in pool.iterate(deeper, (), {}, running)]
            assert got == [(1, running), (2, running), (3, running)]
            assert depth.get() == 0

        with_pool(body)

    def test_a_forgotten_iterator_does_not_hold_its_thread(self) -> None:
        source = Source()

        async def body(pool: ThreadPool) -> None:
            async for _ in pool.iterate(source.count, (), {}, Running()):
                break
            gc.collect()
            await until(lambda: source.events == ["GeneratorExit", "finally"])
            assert await pool.run(int, ("1",), {}, Running()) == 1

        with_pool(body, max_threads=1)
