"""Reading what a node posts: what is there, what is waited for, what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from axon.byzantine.board import FAR, GRADIENT, MODEL, UPDATED, Absent, Board
from axon.errors import ConfigurationError
from axon.testbed import virtual
from axon.values import Vector


def vector(*values: float) -> Vector:
    return np.array(values, dtype=np.float32)


def test_what_was_posted_is_read_and_cannot_change() -> None:
    async def main() -> None:
        board, own = Board(), vector(1, 2)
        board.post(MODEL, 0, own)
        own[0] = 9
        read = await board.read(MODEL, 0)
        assert isinstance(read, np.ndarray)
        assert read.tolist() == [1, 2]
        with pytest.raises(ValueError, match="read-only"):
            read[0] = 3

    virtual.run(main())


def test_many_wait_for_one_thing_and_who_leaves_disturbs_nobody() -> None:
    async def main() -> None:
        board = Board()
        readers = [asyncio.ensure_future(board.read(UPDATED, 3)) for _ in range(5)]
        await asyncio.sleep(1)
        readers[0].cancel()
        board.post(MODEL, 3, vector(0))  # Another kind is another thing.
        await asyncio.sleep(1)
        assert not any(reader.done() for reader in readers[1:])
        board.post(UPDATED, 3, vector(7))
        read = await asyncio.gather(*readers[1:])
        assert [each.tolist() for each in read if isinstance(each, np.ndarray)] == [[7]] * 4

    virtual.run(main())


def test_old_steps_are_gone_and_far_ones_early_at_once() -> None:
    async def main() -> None:
        board = Board(window=4)
        for step in range(10):
            board.post(MODEL, step, vector(step))
        began_s = asyncio.get_running_loop().time()
        assert isinstance(await board.read(MODEL, 6), np.ndarray)
        assert await board.read(MODEL, 5) == Absent("gone", 5, 9)
        assert await board.read(MODEL, 14) == Absent("early", 14, 9)
        assert await board.read(MODEL, FAR) == Absent("early", FAR, 9)
        assert asyncio.get_running_loop().time() == began_s

    virtual.run(main())


def test_waiting_has_an_end() -> None:
    async def main() -> None:
        board = Board(window=4, wait_s=3.0)
        assert await board.read(MODEL, 2) == Absent("early", 2, -1)
        assert asyncio.get_running_loop().time() == 3.0
        skipped = asyncio.ensure_future(board.read(UPDATED, 0))
        await asyncio.sleep(0)
        board.post(MODEL, 8, vector(1))  # The step it waits for will not come any more.
        assert await skipped == Absent("gone", 0, 8)
        assert asyncio.get_running_loop().time() == 3.0

    virtual.run(main())


@pytest.mark.parametrize(
    ("kind", "step", "round"),
    [
        ("secrets", 0, 0),
        (np.zeros(2), 0, 0),
        (MODEL, -1, 0),
        (MODEL, True, 0),
        (MODEL, 1e3, 0),
        (MODEL, 1 << 60, 0),
        (GRADIENT, 0, 64),
        (GRADIENT, 0, "0"),
    ],
)
def test_a_question_that_nobody_honest_asks(kind: Any, step: Any, round: Any) -> None:
    with pytest.raises(ConfigurationError):
        virtual.run(Board().read(kind, step, round))


@pytest.mark.parametrize(
    "fields",
    [
        ("never", 0, 0),
        (np.zeros(2), 0, 0),
        ("gone", -1, 0),
        ("gone", 0, 1 << 20000),
        ("gone", "1", 0),
    ],
)
def test_an_absence_that_cannot_be_meant(fields: Any) -> None:
    with pytest.raises(ConfigurationError):
        Absent(*fields)
