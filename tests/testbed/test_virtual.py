"""Virtual time: exact, ordered, never asleep, and loud when nothing can happen any more."""

from __future__ import annotations

import asyncio
import math
import socket
import sys
import time
from collections.abc import AsyncIterator

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.testbed.virtual import Deadlock, VirtualLoop, run


async def now_after(delay_s: float) -> float:
    await asyncio.sleep(delay_s)
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("start", [0.0, 3.5, 1.7e9])
def test_the_clock_starts_where_told_and_moves_by_what_is_slept(start: float) -> None:
    assert run(now_after(0.0), start=start) == start
    assert run(now_after(2.0), start=start) == start + 2.0


@pytest.mark.parametrize("start", [math.nan, math.inf])
def test_a_clock_cannot_start_at(start: float) -> None:
    with pytest.raises(ValueError, match="finite start"):
        VirtualLoop(start=start)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.1 + 0.2, 0.3, 1e-12, 5.0]), max_size=40))
def test_timers_run_at_their_exact_time_and_ties_in_the_order_they_were_set(
    delays: list[float],
) -> None:
    async def main() -> list[tuple[float, int]]:
        loop = asyncio.get_running_loop()
        ran: list[tuple[float, int]] = []

        def note(number: int) -> None:
            ran.append((loop.time(), number))

        for number, delay in enumerate(delays):
            loop.call_at(delay, note, number)
        await asyncio.sleep(10.0)
        return ran

    assert run(main()) == sorted((delay, number) for number, delay in enumerate(delays))


def test_cancelling_timers_does_not_disturb_the_order_of_ties() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        ran: list[int] = []
        timers = [loop.call_at(1.0, ran.append, number) for number in range(400)]
        for number, timer in enumerate(timers):
            if number % 3:
                timer.cancel()  # enough of them that asyncio rebuilds its heap
        await asyncio.sleep(2.0)
        return ran

    assert run(main()) == list(range(0, 400, 3))


def test_an_hour_of_a_hundred_thousand_sleeps_takes_no_time() -> None:
    async def device(number: int) -> None:
        for _ in range(100):
            await asyncio.sleep(35.0 + number / 1000)

    async def main() -> float:
        async with asyncio.TaskGroup() as group:
            for number in range(1000):
                group.create_task(device(number))
        return asyncio.get_running_loop().time()

    began = time.process_time()
    assert run(main()) == pytest.approx(3599.9)
    # A tracer, such as one that measures coverage, makes every line cost many times more.
    assert time.process_time() - began < (2.0 if sys.gettrace() is None else 30.0)


def test_deadlines_of_asyncio_and_anyio_fire_in_virtual_time() -> None:
    async def main() -> list[float]:
        times = []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await asyncio.sleep(5.0)
        times.append(anyio.current_time())
        with pytest.raises(TimeoutError), anyio.fail_after(2.0):
            await anyio.sleep(5.0)
        times.append(anyio.current_time())
        with anyio.move_on_after(4.0) as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught
        times.append(anyio.current_time())
        assert anyio.current_time() == asyncio.get_running_loop().time()
        return times

    assert run(main()) == [1.0, 3.0, 7.0]


def test_threads_are_refused() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="compute runs inline"):
            asyncio.get_running_loop().run_in_executor(None, print)
        with pytest.raises(RuntimeError, match="compute runs inline"):
            await asyncio.to_thread(print)

    run(main())


def test_sockets_are_refused() -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        with left, right, pytest.raises(RuntimeError, match="no socket is waited for"):
            asyncio.get_running_loop().add_reader(left, print)

    run(main())


def test_a_timer_for_no_time_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="NaN"):
            asyncio.get_running_loop().call_at(math.nan, print)

    run(main())


def test_a_closed_loop_takes_no_timers() -> None:
    loop = VirtualLoop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1.0, print)


def test_a_deadlock_names_the_tasks_that_wait_and_lets_them_clean_up() -> None:
    cleaned: list[str] = []

    async def waits_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("waiter")

    async def main() -> None:
        await asyncio.sleep(3.0)
        await asyncio.create_task(waits_for_ever(), name="the waiter")

    with pytest.raises(Deadlock, match=r"at 3\.0 s .*main.*the waiter \(.*waits_for_ever\)"):
        run(main())
    assert cleaned == ["waiter"]


def test_a_sleep_without_end_is_a_deadlock_and_not_a_jump_to_infinity() -> None:
    with pytest.raises(Deadlock, match=r"at 0\.0 s"):
        run(asyncio.sleep(math.inf))


def test_what_is_left_is_cancelled_in_the_order_it_began() -> None:
    ended: list[int] = []

    async def device(number: int) -> None:
        try:
            await asyncio.sleep(100.0)
        finally:
            ended.append(number)

    async def main() -> None:
        tasks = [asyncio.create_task(device(number)) for number in range(50)]
        await asyncio.sleep(1.0)
        assert not any(task.done() for task in tasks)

    run(main())
    assert ended == list(range(50))


def test_async_generators_left_open_are_closed() -> None:
    closed: list[bool] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            await asyncio.sleep(0)
            closed.append(True)

    kept = numbers()

    async def main() -> int:
        return await anext(kept)

    assert run(main()) == 1
    assert closed == [True]


def test_a_cancelled_group_ends_in_the_same_order_whatever_the_addresses() -> None:
    async def main(ended: list[int], ballast: list[bytearray]) -> None:
        async def device(number: int) -> None:
            ballast.append(bytearray(number * 37 % 501))
            try:
                await anyio.sleep_forever()
            finally:
                ended.append(number)

        with anyio.move_on_after(1.0):
            async with asyncio.TaskGroup() as group:
                for number in range(60):
                    ballast.append(bytearray(number * 13 % 1001))
                    group.create_task(device(number))

    runs = []
    ballast: list[bytearray] = []
    for _ in range(3):
        ended: list[int] = []
        run(main(ended, ballast))
        del ballast[::2]  # leaves holes, so that the next run's tasks lie elsewhere
        runs.append(ended)
    assert sorted(runs[0]) == list(range(60))
    assert runs[0] == runs[1] == runs[2]


def test_the_result_and_the_error_of_main_come_through() -> None:
    async def fails() -> None:
        await asyncio.sleep(1.0)
        raise KeyError("mine")

    assert run(now_after(4.0)) == 4.0
    with pytest.raises(KeyError, match="mine"):
        run(fails())
