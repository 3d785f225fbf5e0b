"""Scopes that end: alone, nested, many at once, and beside somebody else's cancellation."""

from __future__ import annotations

import asyncio

import pytest

from axon.rpc.expiry import Alarm
from axon.testbed import virtual


def test_work_in_time_is_left_alone() -> None:
    async def main() -> float:
        alarm = Alarm()
        for _ in range(3):
            with alarm.after(1.0) as expiry:
                await asyncio.sleep(0.9)
            assert not expiry.expired
        return asyncio.get_running_loop().time()

    assert virtual.run(main()) == pytest.approx(2.7)


def test_work_that_takes_too_long_is_cancelled_at_its_end() -> None:
    async def main() -> None:
        alarm = Alarm()
        loop = asyncio.get_running_loop()
        for seconds in (5.0, 1.0, 3.0):  # A later scope may end before the timer's.
            began = loop.time()
            with pytest.raises(TimeoutError), alarm.after(seconds) as expiry:
                await asyncio.sleep(60)
            assert expiry.expired
            assert loop.time() - began == pytest.approx(seconds, abs=0.002)
        with alarm.after(None):
            await asyncio.sleep(100)

    virtual.run(main())


def test_many_scopes_end_each_at_its_own_time() -> None:
    async def one(alarm: Alarm, seconds: float, ends: list[float]) -> None:
        try:
            with alarm.after(seconds):
                await asyncio.sleep(50)
        except TimeoutError:
            ends.append(asyncio.get_running_loop().time())

    async def main() -> None:
        alarm = Alarm()
        ends: list[float] = []
        times = [7, 3, 3, 11, 1, 60]
        await asyncio.gather(*(one(alarm, seconds, ends) for seconds in times))
        assert ends == pytest.approx([1, 3, 3, 7, 11], abs=0.002)

    virtual.run(main())


def test_a_time_out_of_the_work_itself_is_told_apart() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError, match="mine"), Alarm().after(5) as expiry:
            raise TimeoutError("mine")
        assert not expiry.expired

    virtual.run(main())


def test_somebody_elses_cancellation_stays_one() -> None:
    async def work(alarm: Alarm) -> None:
        with alarm.after(5):
            await asyncio.sleep(60)

    async def main() -> None:
        alarm = Alarm()
        task = asyncio.ensure_future(work(alarm))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Both in one turn of the loop: the outer cancellation wins.
        task = asyncio.ensure_future(work(alarm))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_at(6.0, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    virtual.run(main())


def test_scopes_nest() -> None:
    async def main() -> None:
        alarm = Alarm()
        with alarm.after(10) as outer:
            with pytest.raises(TimeoutError), alarm.after(1) as inner:
                await asyncio.sleep(5)
            assert inner.expired
            await asyncio.sleep(1)
        assert not outer.expired
        with pytest.raises(TimeoutError), alarm.after(1), alarm.after(10):
            await asyncio.sleep(5)

    virtual.run(main())


def test_a_scope_can_be_ended_from_outside() -> None:
    async def main() -> None:
        expiry = Alarm().after(None)
        asyncio.get_running_loop().call_later(1, expiry.end)
        with pytest.raises(TimeoutError), expiry:
            await asyncio.sleep(60)
        assert expiry.expired

    virtual.run(main())
