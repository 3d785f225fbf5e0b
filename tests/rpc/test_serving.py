"""What a worker lets go of: calls that never began, results nobody takes, its port, its tasks."""

from __future__ import annotations

import asyncio
import colorsys
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from axon.errors import ConfigurationError, NotFound
from axon.rpc.address import Address
from axon.rpc.limits import Limits
from axon.rpc.memory.network import Network
from axon.rpc.messages import Request, Response
from axon.rpc.replies import error_response
from axon.rpc.security.keys import Key
from axon.rpc.serving.duplex import _ENTRY_BYTES
from axon.worker import Serving, Worker, progress
from tests.rpc.scripts import free_port, listens
from tests.rpc.worlds import run, serving

REPLY_PORT = 9000
KINDS = ["async-generator", "generator-in-a-thread", "generator-on-the-loop"]


def generators(error: BaseException | None = None) -> Worker:
    """One of each kind, which fails to tidy up where an error is given."""
    worker = Worker("w")

    @worker.rpc(name="async-generator")
    async def on_the_loop(count) -> AsyncIterator[int]:  # type: ignore[no-untyped-def]
        try:
            for number in range(count):
                yield number
        finally:
            if error is not None:
                raise error

    def plain(count) -> Iterator[int]:  # type: ignore[no-untyped-def]
        yield from range(count)

    worker.rpc(name="generator-in-a-thread")(plain)
    worker.rpc(name="generator-on-the-loop", executor="inline")(plain)
    return worker


async def lines(network: Network, address: Address, path: str, body: bytes) -> bytes:
    """All that a stream of JSON says."""
    target = f"/rpc/{path}".encode()
    client = network.transport("client")
    response = await client.exchange(address, Request(b"POST", target, {}, (body,)))
    assert response.headers[b"content-type"] == b"application/x-ndjson"
    return b"".join(response.body)


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_arguments_of_a_generator_take_no_room(kind: str) -> None:
    async def main() -> None:
        limits = Limits(max_calls=2)
        async with serving(generators(), "memory", limits=limits) as world:
            assert world.network is not None
            for _ in range(4):
                told = await lines(world.network, world.address, kind, b"[1, 2, 3]")
                assert b'"bad-arguments"' in told
                assert b"too many positional arguments" in told
            assert not world.serving.dispatcher.engine.active
            assert await lines(world.network, world.address, kind, b"[3]") == b"0\n1\n2\n"
            tallies = [item.tally.outcomes for item in world.serving.dispatcher._services]
            assert {"failed": 4, "done": 1} in tallies

    run(main)


@pytest.mark.parametrize("kind", KINDS)
def test_a_type_error_of_the_generators_own_is_its_own(kind: str) -> None:
    async def main() -> None:
        async with serving(generators(), "memory") as world:
            assert world.network is not None
            told = await lines(world.network, world.address, kind, b'["many"]')
            assert b'"code":"remote","type":"TypeError"' in told.replace(b" ", b"")

    run(main)


@pytest.mark.slow
@pytest.mark.parametrize("error", [ValueError("tidy"), SystemExit(3)], ids=["error", "exit"])
def test_a_generator_that_fails_to_tidy_up_is_let_go(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(generators(error), "http") as world:
            stub = await world.stub("rpc/async-generator")
            items = aiter(stub(1 << 40))
            assert await anext(items) == 0
            await items.aclose()
            assert await world.serving.dispatcher.engine.drain(10)

    with caplog.at_level(logging.WARNING):
        run(main)
    assert [record.getMessage() for record in caplog.records] == [
        f"rpc/async-generator raised {error!r} when it was closed"
    ]


# The port


class BrokenAnnouncer:
    """Cannot say goodbye."""

    async def start(self) -> None:
        await asyncio.sleep(0)

    async def stop(self) -> None:
        raise RuntimeError("no goodbye")


def sleeper() -> Worker:
    worker = Worker("w")

    @worker.rpc()
    async def nap(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "rested"

    return worker


def test_an_announcer_that_fails_to_stop_leaves_no_port_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Worker, "_announcer", lambda *_: BrokenAnnouncer())
    port = free_port()

    async def main() -> None:
        async with sleeper().serving(port=port):
            assert listens(port)

    with pytest.raises(RuntimeError, match="no goodbye"):
        run(main)
    assert not listens(port)


def test_an_announcer_that_cannot_be_made_leaves_no_port_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise ConfigurationError("no interface")

    monkeypatch.setattr(Worker, "_announcer", broken)
    port = free_port()

    async def main() -> None:
        with pytest.raises(ConfigurationError, match="no interface"):
            async with sleeper().serving(port=port):
                pytest.fail("nothing is served")
        assert not listens(port)

    run(main)


def test_a_shutdown_that_is_cancelled_leaves_nothing_behind() -> None:
    async def main() -> None:
        begun = asyncio.Event()
        ports = []

        async def serve() -> None:
            async with serving(sleeper(), "http", grace_s=60.0) as world:
                ports.append(world.address.port)
                stub = await world.stub()
                calls.append(asyncio.ensure_future(stub.nap.options(duplex=True)(50)))
                calls.append(asyncio.ensure_future(stub.nap(50)))
                for _ in range(500):
                    if len(world.serving.dispatcher.engine.active) == len(calls):
                        break
                    await asyncio.sleep(0.01)
                held.append(world.serving)
                begun.set()

        calls: list[asyncio.Future[Any]] = []
        held: list[Serving] = []
        task = asyncio.ensure_future(serve())
        await begun.wait()
        await asyncio.sleep(0.1)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not listens(ports[0])
        assert not held[0].dispatcher.engine.active
        assert not held[0].dispatcher.desk._tasks
        told = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(outcome).__name__ for outcome in told} == {"WorkerStopping"}

    run(main)


# Duplex results and those who take them


class Client:
    """What listens where a duplex call wants its result: a few lines, and not well behaved."""

    def __init__(self, answer: Callable[[Request], Response | Awaitable[Response]]) -> None:
        self._answer = answer
        self.got: list[bytes] = []

    def admit(self, request: Request) -> Response | None:
        return None

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        self.got.append(request.target)
        return self._answer(request)


def reporter() -> Worker:
    worker = Worker("w")

    @worker.rpc()
    async def report() -> int:
        progress(1)
        return 7

    return worker


async def submit(network: Network, address: Address, id: str) -> None:
    headers = {
        b"axon-mode": b"duplex",
        b"axon-call": id.encode(),
        b"axon-reply-to": b"memory:%d" % REPLY_PORT,
    }
    request = Request(b"POST", b"/rpc/report", headers, (b"[]",))
    response = await network.transport("client").exchange(address, request)
    assert response.status == 202


def with_client(
    client: Client, main: Callable[[Network, Serving], Awaitable[None]], **options: Any
) -> None:
    """Run against a worker on a network where that client listens, in virtual time."""

    async def body() -> None:
        async with serving(reporter(), "memory", **options) as world:
            assert world.network is not None
            transport = world.network.transport("client")
            listener = await transport.listen(client, Address("client", REPLY_PORT, "memory"))
            await main(world.network, world.serving)
            await listener.close()

    run(body, loop="virtual")


def refusal() -> Response:
    return error_response(NotFound("nobody waits for that here"), as_json=False)


def test_a_result_that_is_refused_was_not_delivered() -> None:
    answers = iter([refusal(), refusal(), Response(502), Response(204)])
    client = Client(lambda _: next(answers))

    async def main(network: Network, served: Serving) -> None:
        await submit(network, served.address, "c")
        await asyncio.sleep(5)
        # The first refusal was of the progress; the result is offered until it is taken.
        assert client.got == [b"/_axon/progress/c", *[b"/_axon/results/c"] * 3]
        assert served.dispatcher.desk.undelivered == 1  # Until it is acknowledged.

    with_client(client, main)


def test_a_refusal_in_our_own_words_of_another_error_harms_nothing() -> None:
    odd = Response(500, {b"axon-error": b"cannot-travel"}, (b"no",))
    client = Client(lambda _: odd)

    async def main(network: Network, served: Serving) -> None:
        broken: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: broken.append(told))
        await submit(network, served.address, "c")
        await asyncio.sleep(5)
        assert client.got.count(b"/_axon/results/c") == 3
        assert not served.dispatcher.desk._tasks
        assert not broken

    with_client(client, main)


def test_small_results_are_kept_within_bounds_too() -> None:
    client = Client(lambda _: refusal())

    async def main(network: Network, served: Serving) -> None:
        for number in range(40):
            await submit(network, served.address, f"c{number}")
        await asyncio.sleep(5)
        desk = served.dispatcher.desk
        assert desk.undelivered == 9  # Ten would need their bodies' bytes as well.
        assert list(desk._entries) == [f"c{number}" for number in range(31, 40)]
        for entry in list(desk._entries.values()):
            desk.acknowledge(entry)
        assert desk._kept_bytes == 0

    with_client(client, main, limits=Limits(max_results_bytes=10 * _ENTRY_BYTES))


@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_client_that_never_answers_outlives_no_stop(acknowledged: bool) -> None:
    async def silence(_: Request) -> Response:
        await asyncio.sleep(1e6)
        return Response(204)

    client = Client(silence)

    async def main() -> None:
        network = Network(seed=1)
        transport = network.transport("client")
        await transport.listen(client, Address("client", REPLY_PORT, "memory"))
        before = asyncio.all_tasks()
        async with reporter().serving(
            "worker", 8000, transport=network.transport("worker"), grace_s=0.1
        ) as served:
            await submit(network, served.address, "c")
            await asyncio.sleep(0.2)
            if acknowledged:
                desk = served.dispatcher.desk
                desk.acknowledge(desk.find("c", ""))
        await asyncio.sleep(0.5)  # What stopped there reaches the other end of the link.
        left = [str(task.get_coro()) for task in asyncio.all_tasks() - before]
        assert not [name for name in left if "DuplexDesk" in name]
        assert client.got

    run(main, loop="virtual")


@pytest.mark.parametrize("duplex", [False, True])
def test_progress_is_pickled_where_results_are(duplex: bool) -> None:
    worker = Worker("w")

    @worker.rpc()
    async def report() -> int:
        progress(re.compile("a+"))
        progress(lambda: None)
        await asyncio.sleep(0.1)
        return 7

    async def main() -> None:
        async with serving(worker, "http", key=Key.new("k"), pickling=True) as world:
            stub = await world.stub(duplex=duplex)
            seen: list[Any] = []
            assert await stub.report.options(progress=seen.append)() == 7
            assert seen[0] == re.compile("a+")
            assert seen[1].startswith("progress that cannot travel")

    run(main)


# Registration


class Stateful:
    """Its methods are bound to an object that no child process has."""

    def first(self) -> int:
        return 1


def test_a_service_in_processes_is_refused_where_a_child_could_not_find_it() -> None:
    worker = Worker("w")
    with pytest.raises(ConfigurationError, match="bound to an object"):
        worker.service(Stateful(), "stateful", executor="process")
    assert not list(worker.services)
    worker.service(colorsys, "colours", executor="process")
    assert {function.executor for function in worker.services} == {"process"}
    assert "colours/rgb_to_hsv" in [function.path for function in worker.services]


class Mixed:
    """One method a child process finds, and one that it does not."""

    @staticmethod
    def alone() -> int:
        return 1

    def bound(self) -> int:
        return 2


def test_an_object_is_offered_whole_or_not_at_all() -> None:
    worker = Worker("w")
    with pytest.raises(ConfigurationError, match="bound to an object"):
        worker.service(Mixed(), "mixed", executor="process")
    assert not list(worker.services)
