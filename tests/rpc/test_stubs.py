"""What a client holds in place of remote things, used as people use their own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import os
import pydoc
import rlcompleter
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import axon
from axon import client
from axon.errors import BadArguments, CallCancelled, ConfigurationError, NotFound
from axon.worker import Serving, Worker
from tests.rpc.worlds import World, run, serving


class Leaf:
    """The lowest."""

    def name(self) -> str:
        return "leaf"


class Branch:
    def __init__(self) -> None:
        self.leaf = Leaf()
        self.number = 7

    def name(self) -> str:
        return "branch"


class Tree:
    """A tree with a branch."""

    def __init__(self) -> None:
        self.branch = Branch()
        self.up = self  # A circle, which must not be walked for ever.
        self.looked = 0

    @property
    def costly(self) -> Leaf:
        self.looked += 1
        return Leaf()

    @functools.cached_property
    def costlier(self) -> Leaf:
        self.looked += 1
        return Leaf()

    @staticmethod
    def plant(kind: str = "oak") -> str:
        """Plant one.

        It takes a while.
        """
        return kind

    @classmethod
    def kind(cls) -> str:
        return cls.__name__

    def name(self) -> str:
        return "tree"

    def _hidden(self) -> None:
        raise AssertionError("called what is private")


class Awkward:
    """Every name here is one that a stub has, or could have, for itself."""

    def options(self) -> str:
        return "options"

    def call(self) -> str:
        return "call"

    def mro(self) -> str:
        return "mro"

    def name(self) -> str:
        return "name"

    def __call__(self) -> str:
        return "itself"


def pid_in_process() -> int:
    return os.getpid()


def base_worker() -> Worker:
    worker = Worker("stubbed")

    @worker.rpc(executor="inline")
    def echo(value: Any) -> Any:
        """Give back what came."""
        return value

    @worker.rpc()
    async def slow(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "done"

    return worker


@contextmanager
def started(worker: Worker) -> Iterator[Serving]:
    running = worker.start(port=0)
    try:
        yield running
    finally:
        running.shutdown()


def in_world(worker: Worker, main: Any) -> None:
    async def go() -> None:
        async with serving(worker, "http") as world:
            await main(world)

    run(go)


# Services


@pytest.mark.parametrize(
    ("depth", "inside"),
    [
        (1, ["kind", "name", "plant"]),
        (2, ["branch", "kind", "name", "plant"]),
        (3, ["branch", "kind", "name", "plant"]),
    ],
)
def test_a_service_goes_as_deep_as_asked(depth: int, inside: list[str]) -> None:
    worker = Worker("forest")
    tree = Tree()
    worker.service(tree, "tree", depth=depth)
    assert tree.looked == 0

    async def main(world: World) -> None:
        stub = await world.stub("tree")
        assert dir(stub) == inside
        assert await stub.name() == "tree"
        assert await stub.plant() == "oak"
        assert await stub.plant("elm") == "elm"
        assert await stub.kind() == "Tree"
        if depth >= 2:
            assert await stub.branch.name() == "branch"
        if depth >= 3:
            assert await stub.branch.leaf.name() == "leaf"
            assert await (await world.stub("tree/branch/leaf")).name() == "leaf"
        elif depth == 2:
            assert dir(stub.branch) == ["name"]
        for private in ("_hidden", "__class__", "__init__", "_hidden/name"):
            named = client.CoroSimplexStub(
                worker_ip=str(world.address), rpc_name=f"tree/{private}", **world.access
            )
            with pytest.raises(NotFound):
                await named()

    in_world(worker, main)


def test_depths_that_cannot_be_meant() -> None:
    worker = Worker("none")
    with pytest.raises(ConfigurationError, match="at least 1"):
        worker.service(Tree(), "tree", depth=0)
    with pytest.raises(ConfigurationError, match="nothing to call"):
        worker.service(object(), "thing")
    with pytest.raises(ConfigurationError, match="path"):
        worker.service(Tree(), "_tree")


def test_a_model_is_called_like_one() -> None:
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
    worker = Worker("models")
    worker.service(net, "net")
    with started(worker) as running, torch.no_grad():
        where = f"127.0.0.1:{running.address.port}/net"
        remote = client.get_stub(where, stub_type=axon.stubs.SyncStub)
        x = torch.randn(5, 4)
        assert torch.equal(remote(x), net(x))
        assert torch.equal(remote.forward(x), net(x))
        assert torch.equal(remote.forward(input=x), net(x))
        state = remote.state_dict()
        assert list(state) == list(net.state_dict())
        assert all(torch.equal(state[name], net.state_dict()[name]) for name in state)
        other = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
        ).eval()
        other.load_state_dict(state)
        assert torch.equal(other(x), net(x))
        assert "forward" in dir(remote)


def test_a_list_is_a_service() -> None:
    worker = Worker("shared")
    items: list[Any] = [1, 2]
    worker.service(items, "items", executor="inline")
    worker.service({"a": 1}, "table", executor="inline")

    async def main(world: World) -> None:
        stub = await world.stub("items")
        assert await stub.append({"x": 3}) is None
        assert await stub.pop() == {"x": 3}
        assert await stub.pop(0) == 1
        assert await stub.index(2) == 0
        await stub.extend([5, 4])
        await stub.sort(reverse=True)
        assert items == [5, 4, 2]
        with pytest.raises(BadArguments):
            stub.append()
        with pytest.raises(IndexError):
            await stub.pop(100)
        table = await world.stub("table")
        assert await table.get("a") == 1
        # Python itself does not know these signatures, so the worker judges the arguments.
        assert await table.pop("b", 9) == 9
        await table.update(c=3)
        assert await table.get("c") == 3
        with pytest.raises(TypeError):
            await table.pop()
        with pytest.raises(KeyError):
            await table.pop("z")

    in_world(worker, main)


def test_names_that_are_a_stubs_own() -> None:
    worker = base_worker()
    worker.service(Awkward(), "awkward", executor="inline")
    worker.rpc(name="options", executor="inline")(lambda: "rpc options")
    worker.rpc(name="awkward", executor="inline")(lambda: "rpc awkward")
    worker.rpc(name="rpc", executor="inline")(lambda: "rpc rpc")

    async def main(world: World) -> None:
        stub = await world.stub()
        assert await stub.options() == "rpc options"
        assert await stub.rpc.awkward() == "rpc awkward"
        assert await stub.rpc.rpc() == "rpc rpc"
        # A service goes before a function of its name, which is still there in full.
        assert await stub.awkward() == "itself"
        for name in ("options", "call", "mro", "name"):
            assert await getattr(stub.awkward, name)() == name
        assert await stub.awkward.name.options(deadline_s=3)() == "name"
        assert dir(stub.awkward) == ["call", "mro", "name", "options"]

    in_world(worker, main)


def test_a_callable_service_has_options_unless_it_has_its_own() -> None:
    worker = Worker("callable")

    class Adder:
        def __call__(self, left: int, right: int) -> int:
            return left + right

        def again(self) -> str:
            return "again"

    worker.service(Adder(), "adder", executor="inline")

    async def main(world: World) -> None:
        stub = await world.stub("adder")
        assert await stub(1, 2) == 3
        assert await stub.options(deadline_s=5)(1, 2) == 3
        with pytest.raises(BadArguments):
            stub(1)

    in_world(worker, main)


def test_private_names_are_never_offered() -> None:
    worker = Worker("private")
    for name in ("_x", "__x__", "", "a/_b", "a..b", "a b", "a?b", "-a"):
        with pytest.raises(ConfigurationError, match="path"):
            worker.rpc(name=name)(lambda: None)
    assert list(worker.services) == []


def test_names_of_any_language() -> None:
    worker = Worker("polyglot")

    @worker.rpc(executor="inline")
    def größe(länge: int) -> int:  # noqa: PLC2401
        return länge

    @worker.rpc(executor="inline")
    def 計算(値: int) -> int:  # noqa: PLC2401
        return 値 * 2

    worker.rpc(name="with-dash.and.dots", executor="inline")(lambda: "dashed")

    async def main(world: World) -> None:
        stub = await world.stub()
        assert await stub.größe(3) == 3
        assert await stub.größe(länge=4) == 4
        assert await stub.計算(値=2) == 4
        assert await getattr(stub, "with-dash.and.dots")() == "dashed"
        one = await client.connect(f"{world.address}/rpc/größe")
        assert await one(5) == 5
        named = client.CoroSimplexStub(worker_ip=str(world.address), rpc_name="計算")
        assert await named(3) == 6

    in_world(worker, main)


# Help


def test_help_and_completion() -> None:
    worker = base_worker()
    worker.service(Tree(), "tree", depth=3)
    with started(worker) as running:
        stub = client.get_stub(str(running.address))
        shown = pydoc.plain(pydoc.render_doc(stub.tree))
        assert "plant(kind: str = 'oak') -> str" in shown
        assert "It takes a while." in shown
        assert "branch" in shown
        assert "_hidden" not in shown
        one = pydoc.plain(pydoc.render_doc(stub.tree.plant))
        assert "plant(kind: str = 'oak') -> str" in one
        assert "Plant one." in one
        assert str(inspect.signature(stub.echo)) == "(value: Any) -> Any"
        assert stub.echo.__name__ == "echo"
        completer = rlcompleter.Completer({"stub": stub})
        assert completer.attr_matches("stub.tree.pl") == ["stub.tree.plant("]
        assert set(completer.attr_matches("stub.tree.branch.")) >= {
            "stub.tree.branch.leaf",
            "stub.tree.branch.name()",
        }
        assert {"echo", "rpc", "slow", "tree"} <= set(dir(stub))
        assert repr(stub.tree) == f"<stub of {running.address}/tree>"
        with pytest.raises(AttributeError, match="it offers branch, kind, name, plant"):
            stub.tree.fell  # noqa: B018


# A worker that changes


def test_functions_that_come_and_go() -> None:
    worker = base_worker()

    async def main(world: World) -> None:
        stub = await world.stub()
        assert await stub.echo(1) == 1
        late = client.CoroSimplexStub(worker_ip=str(world.address), rpc_name="late")
        with pytest.raises(NotFound, match="it offers rpc/echo, rpc/slow"):
            await late()
        worker.rpc(name="late", executor="inline")(lambda: "better than never")
        assert await late() == "better than never"
        assert await (await world.stub()).late() == "better than never"
        worker.services.remove("rpc/echo")
        with pytest.raises(NotFound):
            await stub.echo(1)
        with pytest.raises(AttributeError):
            (await world.stub()).echo  # noqa: B018
        # Another function under the same name, with other arguments.
        worker.rpc(name="late", executor="inline")(lambda whom: f"late, {whom}")
        with pytest.raises(BadArguments):
            await late()
        assert await late("Ada") == "late, Ada"

    in_world(worker, main)


# Threads and loops


def test_one_stub_in_many_threads() -> None:
    with started(base_worker()) as running:
        stub = client.get_stub(str(running.address), stub_type="sync")

        def calls(place: int) -> list[int]:
            return [stub.echo(1000 * place + turn) for turn in range(50)]

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            results = list(pool.map(calls, range(20)))
        assert results == [[1000 * place + turn for turn in range(50)] for place in range(20)]


def test_one_stub_in_many_loops() -> None:
    with started(base_worker()) as running:
        stub = client.get_stub(str(running.address))

        async def calls(place: int) -> list[int]:
            return [await stub.echo(1000 * place + turn) for turn in range(50)]

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            results = list(pool.map(lambda place: asyncio.run(calls(place)), range(20)))
        assert results == [[1000 * place + turn for turn in range(50)] for place in range(20)]


@pytest.mark.parametrize("kind", [client.CoroSimplexStub, client.CoroDuplexStub])
def test_a_named_stub_outlives_a_loop(kind: Any) -> None:
    with started(base_worker()) as running:
        stub = kind(worker_ip="127.0.0.1", port=running.address.port, rpc_name="echo")

        async def main(value: str) -> str:
            answer: str = await stub(value)
            return answer

        assert [asyncio.run(main(text)) for text in ("a", "b", "c")] == ["a", "b", "c"]


# Workers that call workers


def test_calls_from_inside_a_workers_function() -> None:
    behind = base_worker()
    front = Worker("front")
    stubs: dict[str, Any] = {}

    @front.rpc()
    def in_thread(value: int) -> int:
        answer: int = stubs["sync"].echo(value)
        return answer + 1

    @front.rpc()
    async def on_loop(value: int) -> int:
        answer: int = await stubs["generic"].echo(value)
        return answer + 1

    @front.rpc()
    def joined(value: int) -> int:
        answer: int = stubs["generic"].echo(value).join()
        return answer + 1

    with started(behind) as far, started(front) as near:
        stubs["sync"] = client.get_stub(str(far.address), stub_type="sync")
        stubs["generic"] = client.get_stub(str(far.address))
        stub = client.get_stub(str(near.address), stub_type="sync")
        assert [stub.in_thread(1), stub.on_loop(2), stub.joined(3)] == [2, 3, 4]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert list(pool.map(stub.in_thread, range(40))) == list(range(1, 41))


@pytest.mark.system
def test_a_function_in_a_process_of_its_own() -> None:
    worker = base_worker()
    worker.rpc(executor="process")(pid_in_process)
    with started(worker) as running:
        stub = client.get_stub(str(running.address), stub_type="sync")
        pids = {stub.pid_in_process() for _ in range(3)}
        assert os.getpid() not in pids
        assert len(pids) == 1  # Kept warm.


# A call in one's hands


def test_a_call_gives_its_outcome_as_often_as_asked() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        call = stub.echo([1])
        assert not call.done()
        assert await call == [1]
        assert await call == [1]
        assert call.join() == [1]
        assert call.done()
        failing = stub.echo(asyncio.Lock())
        for _ in range(2):
            with pytest.raises(TypeError, match="Lock"):
                await failing
        with pytest.raises(TypeError, match="Lock"):
            failing.join()

    in_world(base_worker(), main)


def test_a_call_awaited_by_two_says_so() -> None:
    async def main(world: World) -> None:
        call = (await world.stub()).slow(0.2)
        first = asyncio.ensure_future(call)
        await asyncio.sleep(0.05)
        with pytest.raises(RuntimeError, match="already being awaited"):
            await call
        with pytest.raises(RuntimeError, match="cannot be joined"):
            call.join()
        assert await first == "done"
        assert await call == "done"

    in_world(base_worker(), main)


def test_cancelled_before_it_began() -> None:
    ran: list[int] = []
    worker = base_worker()
    worker.rpc(name="note", executor="inline")(ran.append)

    async def main(world: World) -> None:
        stub = await world.stub()
        awaited, joined = stub.note(1), stub.note(2)
        for call in (awaited, joined):
            call.cancel()
        with pytest.raises(CallCancelled, match="before it was sent"):
            await awaited
        with pytest.raises(CallCancelled, match="before it was sent"):
            joined.join()
        assert await stub.echo(1) == 1
        assert ran == []

    in_world(worker, main)


def test_cancelled_while_awaited() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        call = stub.slow(20)
        asyncio.get_running_loop().call_later(0.05, call.cancel)
        asyncio.get_running_loop().call_later(0.05, call.cancel)
        began = time.monotonic()
        with pytest.raises(CallCancelled):
            await call
        assert time.monotonic() - began < 5
        # The task that awaited goes on as if nothing had been.
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        assert await stub.echo("on") == "on"
        from_thread = stub.slow(20)
        threading.Timer(0.05, from_thread.cancel).start()
        with pytest.raises(CallCancelled):
            await from_thread
        assert await world.serving.dispatcher.engine.drain(5)  # Ended on the worker as well.
        finished = stub.slow(0)
        await finished
        finished.cancel()
        await asyncio.sleep(0)
        assert await finished == "done"

    in_world(base_worker(), main)


def test_cancelled_in_the_background_while_awaited() -> None:
    async def main(world: World) -> None:
        stub = await world.stub(stub_type="thread")
        call = stub.slow(20)
        asyncio.get_running_loop().call_later(0.05, call.cancel)
        with pytest.raises(CallCancelled):
            await call
        task = asyncio.ensure_future(stub.slow(20))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_world(base_worker(), main)


def test_futures_are_pythons_own() -> None:
    with started(base_worker()) as running:
        stub = client.get_stub(str(running.address), stub_type=axon.stubs.FutureStub)
        futures = [stub.slow(20), stub.echo(1), stub.echo(2)]
        done, waiting = concurrent.futures.wait(futures[1:], timeout=10)
        assert {future.result() for future in done} == {1, 2}
        assert not waiting
        first = next(concurrent.futures.as_completed(futures, timeout=10))
        assert first.result() in (1, 2)
        assert futures[0].cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            futures[0].result(5)
        assert isinstance(stub.echo.options(deadline_s=0)(1).exception(5), TimeoutError)
