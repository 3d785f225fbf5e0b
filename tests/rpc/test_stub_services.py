"""Stubs of services: how deep they go, the names they have, and the help they give."""

from __future__ import annotations

import functools
import inspect
import pydoc
import rlcompleter
from typing import Any

import pytest
import torch

import axon
from axon import client
from axon.errors import BadArguments, ConfigurationError, NotFound
from axon.worker import Worker
from tests.rpc.stubbed import base_worker, in_world, started
from tests.rpc.worlds import World


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
