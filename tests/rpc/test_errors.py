"""What a function raises, as its caller meets it; and that the worker outlives all of it."""

from __future__ import annotations

import asyncio
import builtins
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from axon import client
from axon.errors import CallCancelled, DeadlineExceeded, NotFound, RemoteError
from axon.rpc.executors import Cancelled
from axon.rpc.messages import Response
from axon.rpc.replies import raise_for
from axon.worker import Worker
from tests.rpc.worlds import World, run, serving

LEAVING = (SystemExit, KeyboardInterrupt)
EVERY = sorted(
    (kind for kind in vars(builtins).values() if isinstance(kind, type)), key=lambda x: x.__name__
)
BUILTIN = [kind for kind in EVERY if issubclass(kind, BaseException)]
NOT_THEMSELVES = (StopIteration, StopAsyncIteration, BaseExceptionGroup)
"""Python gives these a meaning of their own when they pass through a coroutine, or an empty group
none at all."""
_UNICODE: dict[type[BaseException], tuple[Any, ...]] = {
    UnicodeDecodeError: ("utf-8", b"\xff", 0, 1, "bad start"),
    UnicodeEncodeError: ("ascii", "ü", 0, 1, "no such letter"),
    UnicodeTranslateError: ("ü", 0, 1, "no such letter"),
}


def make(name: str) -> BaseException:
    kind = getattr(builtins, name)
    if kind is BaseExceptionGroup:
        made: BaseException = kind("several", [ValueError("one"), SystemExit("two")])
    elif kind is ExceptionGroup:
        made = kind("several", [ValueError("one"), KeyError("two")])
    else:
        made = kind(*_UNICODE.get(kind, ("said so",)))
    return made


class Odd(Exception):
    """One of the user's own."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


class Curt(BaseException):
    """Not an `Exception`, as other libraries have them."""


class Mute:
    def __str__(self) -> str:
        raise ZeroDivisionError


def raise_in_process(name: str) -> None:
    """At the top of the module, where a child process finds it."""
    raise make(name)


def count_in_process(name: str) -> Iterator[int]:
    yield 1
    raise make(name)


def make_worker() -> Worker:
    worker = Worker("falling")

    @worker.rpc(executor="inline")
    def inline(name: str) -> None:
        raise make(name)

    @worker.rpc(name="thread")
    def in_thread(name: str) -> None:
        raise make(name)

    @worker.rpc(name="async")
    async def in_task(name: str) -> None:
        await asyncio.sleep(0)
        raise make(name)

    worker.rpc(name="process", executor="process")(raise_in_process)
    worker.rpc(name="process_items", executor="process")(count_in_process)

    @worker.rpc(executor="inline")
    def inline_items(name: str) -> Iterator[int]:
        yield 1
        raise make(name)

    @worker.rpc()
    def thread_items(name: str) -> Iterator[int]:
        yield 1
        raise make(name)

    @worker.rpc()
    async def async_items(name: str) -> AsyncIterator[int]:
        yield 1
        raise make(name)

    @worker.rpc(executor="inline")
    def odd(which: str) -> None:
        raise odd_one(which)

    @worker.rpc(executor="inline")
    def cancel_inline() -> None:
        raise asyncio.CancelledError

    @worker.rpc(executor="inline")
    def ping() -> str:
        return "pong"

    return worker


def odd_one(which: str) -> BaseException:
    """An exception that is hard to describe."""
    error: BaseException = {"odd": Odd("mine"), "curt": Curt("short")}.get(which, Odd(which))
    match which:
        case "unspeakable":
            error = Unspeakable()
        case "notes":
            error.add_note("first")
            error.add_note("second")
        case "mute notes":
            error.__notes__ = [Mute(), "heard"]  # type: ignore[list-item]
        case "no list of notes":
            error.__notes__ = 7  # type: ignore[assignment]
        case "a traceback of its own":
            error.remote_traceback = 7  # type: ignore[attr-defined]
        case "long":
            error = Odd("x" * 100_000)
        case "surrogate":
            error = Odd("half \ud800 a letter")
        case "exit":
            error = SystemExit(3)
        case "check":
            error = Cancelled()
    return error


def in_world(main: Any, **options: Any) -> None:
    async def go() -> None:
        async with serving(make_worker(), "http", **options) as world:
            await main(world)

    run(go)


async def caught(call: Any) -> Exception:
    """What a call raises, whatever it is."""
    try:
        value = await call
    except Exception as error:
        return error
    raise AssertionError(f"nothing was raised, but {value!r} returned")


@pytest.mark.parametrize("where", ["inline", "thread", "async"])
def test_every_builtin_exception_arrives_as_itself(where: str) -> None:
    async def main(world: World) -> None:
        function = getattr(await world.stub("rpc"), where)
        seen = 0
        for kind in BUILTIN:
            error = await caught(function(kind.__name__))
            assert isinstance(error, RemoteError), kind
            assert "make(name)" in error.remote_traceback, kind
            if issubclass(kind, Exception) and not issubclass(kind, NOT_THEMSELVES):
                as_itself = UnicodeError if issubclass(kind, UnicodeError) else kind
                assert isinstance(error, as_itself), kind
                assert error.type_name == kind.__name__
                seen += 1
            elif where == "inline" or issubclass(kind, LEAVING):
                assert error.type_name == kind.__name__
        assert seen > 50
        assert await (await world.stub()).ping() == "pong"

    in_world(main)


def test_the_message_comes_along_as_python_shows_it() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        assert str(await caught(stub.inline("ValueError"))) == "ValueError: said so"
        assert str(await caught(stub.inline("KeyError"))) == "KeyError: 'said so'"
        assert "can't decode byte 0xff" in str(await caught(stub.inline("UnicodeDecodeError")))

    in_world(main)


def test_a_group_is_shown_with_its_members() -> None:
    async def main(world: World) -> None:
        error = await caught((await world.stub()).inline("ExceptionGroup"))
        assert isinstance(error, RemoteError)
        assert error.type_name == "ExceptionGroup"
        assert error.message == "several (2 sub-exceptions)"
        assert "ValueError: one" in error.remote_traceback
        assert "KeyError: 'two'" in error.remote_traceback

    in_world(main)


@pytest.mark.parametrize(
    ("which", "type_name", "says"),
    [
        ("odd", "Odd", "mine"),
        ("unspeakable", "Unspeakable", "whose text fails with ZeroDivisionError"),
        ("curt", "Curt", "short"),
        ("a traceback of its own", "Odd", "a traceback of its own"),
        ("no list of notes", "Odd", "no list of notes"),
        ("surrogate", "Odd", "half ? a letter"),
        ("exit", "SystemExit", "3"),
        ("check", "Cancelled", ""),
    ],
)
def test_odd_exceptions_are_described(which: str, type_name: str, says: str) -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        error = await caught(stub.odd(which))
        assert type(error) is RemoteError
        assert error.type_name == type_name
        assert says in error.message
        assert "odd_one" in error.remote_traceback
        assert await stub.ping() == "pong"

    in_world(main)


def test_notes_travel_and_a_broken_one_breaks_nothing() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        assert (await caught(stub.odd("notes"))).__notes__[:2] == ["first", "second"]
        broken = (await caught(stub.odd("mute notes"))).__notes__
        assert broken[0] == "<note whose text fails with ZeroDivisionError>"
        assert broken[1] == "heard"

    in_world(main)


def test_a_long_message_is_cut() -> None:
    async def main(world: World) -> None:
        error = await caught((await world.stub()).odd("long"))
        assert isinstance(error, RemoteError)
        assert 10_000 < len(error.message) < 20_000
        assert error.message.endswith("…")

    in_world(main)


@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize("where", ["inline", "thread", "async"])
@pytest.mark.parametrize("kind", LEAVING)
def test_leaving_the_program_is_not_the_workers(
    kind: type[BaseException], where: str, duplex: bool
) -> None:
    async def main(world: World) -> None:
        stub = await world.stub("rpc", duplex=duplex)
        for _ in range(3):
            error = await caught(getattr(stub, where)(kind.__name__))
            assert type(error) is RemoteError
            assert error.type_name == kind.__name__
            assert error.message == "said so"
        assert await stub.ping() == "pong"

    in_world(main)


@pytest.mark.parametrize("where", ["inline_items", "thread_items", "async_items"])
@pytest.mark.parametrize("kind", [*LEAVING, ValueError])
def test_leaving_from_a_generator(kind: type[BaseException], where: str) -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        items = aiter(getattr(stub, where)(kind.__name__))
        assert await anext(items) == 1
        with pytest.raises(RemoteError) as raised:
            await anext(items)
        assert raised.value.type_name == kind.__name__
        assert raised.value.message == "said so"
        assert "make(name)" in raised.value.remote_traceback
        assert await stub.ping() == "pong"

    in_world(main)


@pytest.mark.parametrize("where", ["inline", "thread", "async"])
def test_leaving_while_progress_is_followed(where: str) -> None:
    async def main(world: World) -> None:
        function = getattr(await world.stub("rpc"), where).options(progress=lambda _: None)
        error = await caught(function("SystemExit"))
        assert isinstance(error, RemoteError)
        assert error.type_name == "SystemExit"
        assert await (await world.stub()).ping() == "pong"

    in_world(main)


@pytest.mark.system
def test_leaving_from_a_child_process() -> None:
    async def main(world: World) -> None:
        stub = await world.stub("rpc")
        for kind in (*LEAVING, ValueError):
            error = await caught(stub.process(kind.__name__))
            assert isinstance(error, RemoteError)
            assert error.type_name == kind.__name__
            assert "raise_in_process" in error.remote_traceback
        items = aiter(stub.process_items("SystemExit"))
        assert await anext(items) == 1
        with pytest.raises(RemoteError, match="SystemExit"):
            await anext(items)
        assert await stub.ping() == "pong"

    in_world(main)


def test_a_function_that_cancels_itself_tells_its_caller() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        with pytest.raises(CallCancelled, match="cancelled itself"):
            await stub.cancel_inline()
        assert await stub.ping() == "pong"

    in_world(main)


def test_what_a_worker_further_on_raised_keeps_its_type() -> None:
    """A function that calls another worker fails with what failed there."""
    front = Worker("front")
    reached: list[Any] = []

    @front.rpc()
    async def relay(name: str) -> None:
        await reached[0].inline(name)

    @front.rpc()
    async def relay_late() -> None:
        await reached[0].ping.options(deadline_s=0)()

    async def main(world: World) -> None:
        reached.append(await world.stub())
        async with front.serving(port=0) as before:
            stub = await client.connect(before.address)
            error = await caught(stub.relay("ZeroDivisionError"))
            assert isinstance(error, RemoteError)
            assert isinstance(error, ZeroDivisionError)
            assert str(error) == "ZeroDivisionError: said so"
            assert sum("Remote traceback" in note for note in error.__notes__) == 1
            exit_told = await caught(stub.relay("SystemExit"))
            assert str(exit_told) == "SystemExit: said so"
            late = await caught(stub.relay_late())
            # The call to us was answered in time, so it is not our deadline that passed.
            assert not isinstance(late, DeadlineExceeded)
            assert isinstance(late, RemoteError)
            assert late.type_name == "DeadlineExceeded"

    in_world(main)


def test_the_traceback_is_shown_to_whoever_does_not_catch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def main(world: World) -> None:
        error = await caught((await world.stub()).inline("ValueError"))
        sys.excepthook(type(error), error, error.__traceback__)

    in_world(main)
    shown = capsys.readouterr().err
    assert "Remote traceback:" in shown
    assert "in inline" in shown


def test_a_worker_may_keep_to_itself_where_it_failed() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        items = aiter(stub.async_items("ValueError"))
        await anext(items)
        for call in (stub.inline("ValueError"), stub.thread("ValueError"), anext(items)):
            error = await caught(call)
            assert isinstance(error, RemoteError)
            assert (error.message, error.remote_traceback) == ("said so", "")

    in_world(main, tracebacks=False)


def test_a_web_page_is_not_shown_as_the_words_of_a_worker() -> None:
    page = Response(404, {b"content-type": b"text/html;charset=utf-8"}, (b"<html>not here</html>",))
    with pytest.raises(NotFound, match="a web page came with HTTP status 404"):
        raise_for(page)
