"""Boards over the transport: bounds on what a caller asks and on what a node answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from axon import client
from axon.byzantine.board import MODEL, Absent, Board, Readable
from axon.byzantine.wire import (
    MOST_READS,
    SERVICE,
    BoardService,
    Fair,
    RemoteBoard,
    serving_limits,
)
from axon.errors import (
    AxonError,
    NotFound,
    Overloaded,
    ProtocolError,
    RemoteError,
    TooLarge,
)
from axon.rpc.address import Address
from axon.rpc.calling.options import CallOptions
from axon.rpc.calling.stubs import GenericStub, RemoteFunction
from axon.rpc.http.transport import HttpTransport
from axon.rpc.memory.network import Network
from axon.rpc.security.keys import Key, Keyring
from axon.testbed import virtual
from axon.worker import Worker
from tests.byzantine.worlds import answering, vector

MOST = 8


@dataclass
class Trap:
    """A class that is loaded here, of which nobody ever asked for an instance."""

    built: ClassVar[int] = 0
    value: int = 0

    def __post_init__(self) -> None:
        Trap.built += 1


@asynccontextmanager
async def offered(node: Readable, *callers: str) -> AsyncIterator[Mapping[str, RemoteBoard]]:
    """A node in memory and the ways of some hosts to it."""
    network = Network()
    worker = Worker("node")
    worker.service(BoardService(node), SERVICE)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(
            worker.serving(
                "node",
                7000,
                transport=Fair(network.transport("node"), MOST),
                limits=serving_limits(3),
                grace_s=0.0,
                tracebacks=False,
            )
        )
        yield {
            name: RemoteBoard(
                "memory://node:7000",
                client.access(transport=network.transport(name), reconnect_s=0.0),
                size=2,
            )
            for name in callers
        }


def test_vectors_and_their_absence_travel() -> None:
    async def main() -> None:
        board = Board()
        board.post(MODEL, 0, vector(1, 2))
        async with offered(board, "a") as ways:
            read = await ways["a"].read(MODEL, 0)
            assert isinstance(read, np.ndarray)
            assert (read.dtype, read.tolist()) == (np.float32, [1, 2])
            assert await ways["a"].read(MODEL, 99) == Absent("early", 99, 0)
            with pytest.raises(RemoteError, match="only model") as refused:
                await ways["a"].read("secrets", 0)
            assert refused.value.remote_traceback == "", "a stranger is told no more"

    virtual.run(main())


def test_a_flood_of_one_caller_keeps_nobody_else_out() -> None:
    async def main() -> None:
        board = Board()
        async with offered(board, "flood", "honest") as ways:
            flood = [asyncio.ensure_future(ways["flood"].read(MODEL, n % 9)) for n in range(500)]
            await asyncio.sleep(1.0)
            refused = [one for one in flood if one.done()]
            assert len(refused) == 500 - MOST
            assert all(isinstance(one.exception(), Overloaded) for one in refused)
            waiting = asyncio.ensure_future(ways["honest"].read(MODEL, 0))
            await asyncio.sleep(1.0)
            board.post(MODEL, 0, vector(3, 4))
            read = await waiting
            assert isinstance(read, np.ndarray)
            for one in flood:
                one.cancel()
            await asyncio.gather(*flood, return_exceptions=True)
            # Those called off have left their places.
            assert isinstance(await ways["flood"].read(MODEL, 0), np.ndarray)

    virtual.run(main())


def test_a_liar_does_not_choose_what_is_built() -> None:
    async def main() -> None:
        lie = Trap(3)
        async with offered(answering([lie]), "a") as ways:
            built = Trap.built
            with pytest.raises(ProtocolError, match=r"class .*Trap is not known"):
                await ways["a"].read(MODEL, 0)
            assert Trap.built == built

    virtual.run(main())


def test_an_oversized_answer_is_cut_off() -> None:
    async def main() -> None:
        async with offered(answering(np.zeros(1 << 20, np.float32)), "a") as ways:
            with pytest.raises(TooLarge):
                await ways["a"].read(MODEL, 0)

    virtual.run(main())


def test_nothing_but_reading_is_offered_and_questions_are_short() -> None:
    async def main() -> None:
        network = Network()
        worker = Worker("node")
        worker.service(BoardService(Board()), SERVICE)
        access = client.access(transport=network.transport("a"), reconnect_s=0.0)
        where = Address("node", 7000, "memory")
        async with worker.serving(
            "node", 7000, transport=Fair(network.transport("node")), limits=serving_limits(3)
        ):
            assert [function.path for function in worker.services] == ["board/read"]

            def call(path: str) -> RemoteFunction:
                return RemoteFunction(access, where, path, GenericStub, CallOptions())

            with pytest.raises(NotFound):
                await call("board/post")(MODEL, 0, vector(6, 6))
            with pytest.raises(AxonError):
                await call("board/read")("x" * (1 << 20), 0)

    virtual.run(main())


def test_callers_of_one_host_are_told_apart_by_their_keys() -> None:
    keys = {name: Key.new(name) for name in ("flood", "honest")}

    async def main() -> None:
        network = Network()
        worker = Worker("node")
        board = Board()
        worker.service(BoardService(board), SERVICE)
        async with worker.serving(
            "node",
            7000,
            transport=Fair(network.transport("node"), MOST),
            key=Keyring(keys.values()),
            grace_s=0.0,
        ):
            shared = network.transport("one-host")
            ways = {
                name: RemoteBoard(
                    "memory://node:7000",
                    client.access(transport=shared, key=key, reconnect_s=0.0),
                    size=2,
                )
                for name, key in keys.items()
            }
            flood = [asyncio.ensure_future(ways["flood"].read(MODEL, 1)) for _ in range(50)]
            await asyncio.sleep(1.0)
            board.post(MODEL, 0, vector(3, 4))
            assert isinstance(await ways["honest"].read(MODEL, 0), np.ndarray)
            assert sum(one.done() for one in flood) == 50 - MOST
            for one in flood:
                one.cancel()
            await asyncio.gather(*flood, return_exceptions=True)

    virtual.run(main())


def test_connections_of_one_host_are_few() -> None:
    async def main() -> None:
        limits, board, worker = serving_limits(3), Board(), Worker("node")
        board.post(MODEL, 0, vector(1, 2))
        worker.service(BoardService(board), SERVICE)
        transport = HttpTransport(limits=limits)
        async with worker.serving(
            "127.0.0.1", 0, transport=transport, limits=limits, announce=False, grace_s=0.0
        ) as serving:
            where = serving.address
            opened = [
                await asyncio.open_connection(where.host, where.port)
                for _ in range(2 * MOST_READS + 20)
            ]
            way = RemoteBoard(where, client.access(reconnect_s=0.0), size=2)
            assert isinstance(await way.read(MODEL, 0), np.ndarray)
            # Its own one took the place of another.
            assert sum(reader.at_eof() for reader, _ in opened) == 21
            for _, writer in opened:
                writer.close()
        await transport.close()

    asyncio.run(main())
