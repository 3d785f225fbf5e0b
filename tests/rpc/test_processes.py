"""The process pool: what crosses the pipe, how children die, and that none stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from multiprocessing import Pipe as connect
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import CannotTravel, ConfigurationError, WorkerStopping
from axon.rpc.executors import ProcessPool, Running, current, in_child, progress
from axon.rpc.executors.pipes import OUT_OF_BAND_BYTES, Kind, Pipe, pack
from tests.rpc.executor_helpers import until


class Plain(Exception):
    """Travels as it is."""


class Awkward(Exception):
    """Pickles, but cannot be built again from its arguments."""

    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")


class Library:
    """Stands for a user's class."""

    @classmethod
    def shelf(cls) -> str:
        return cls.__name__

    def read(self) -> str:
        return "a page"


def describe(value: int, *, times: int = 1) -> tuple[int, int, bool]:
    return value * times, os.getpid(), in_child()


def remaining() -> float | None:
    running = current.get()
    return None if running is None else running.remaining_s()


def report(values: list[int]) -> str:
    for value in values:
        progress(value)
    return "done"


def fail(kind: str) -> None:
    if kind == "awkward":
        raise Awkward(code=4)
    if kind == "exit":
        raise SystemExit(9)
    raise Plain(kind)


def give_lambda() -> object:
    return lambda: None


def leave(code: int) -> None:
    os._exit(code)


def double(array: Any) -> Any:
    array *= 2
    return array


def count(stop: int, mark: str) -> Iterator[int]:
    try:
        yield from range(stop)
    finally:
        Path(mark).write_text("closed")


def ignore_everything(mark: str) -> None:
    Path(mark).write_text(str(os.getpid()))
    while True:
        try:
            time.sleep(10)
        except BaseException:
            continue


def kill_and_wait(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    # Wait without collecting its exit code, which belongs to the pool.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


async def nothing() -> None:
    """An async function."""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    """One child for the calls that leave it unharmed, since starting one takes its time."""
    pool = ProcessPool(max_processes=1)
    yield pool
    pool.close()


class TestCheck:
    @pytest.mark.parametrize(
        ("function", "reason"),
        [
            (lambda: None, "lambda"),
            (Library().read, "bound to an object"),
            (nothing, "async"),
            (object(), "no module and name"),
        ],
    )
    def test_refuses_what_a_child_cannot_find(self, function: Any, reason: str) -> None:
        with pytest.raises(ConfigurationError, match=reason) as caught:
            ProcessPool.check(function)
        assert "executor='thread'" in caught.value.hint

    def test_refuses_a_function_inside_a_function(self) -> None:
        def inner() -> None:
            """Never called."""

        with pytest.raises(ConfigurationError, match="inside a function"):
            ProcessPool.check(inner)

    def test_refuses_an_interactive_session(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "__main__", type(sys)("__main__"))
        monkeypatch.setattr(describe, "__module__", "__main__")
        with pytest.raises(ConfigurationError, match="interactive"):
            ProcessPool.check(describe)

    @pytest.mark.parametrize("function", [describe, Library.shelf, Library.read, len, os.getpid])
    def test_accepts_what_a_module_has(self, function: Callable[..., Any]) -> None:
        ProcessPool.check(function)


class TestPipe:
    @settings(max_examples=30, deadline=None)
    @given(
        sizes=st.lists(st.integers(0, 3 * OUT_OF_BAND_BYTES), max_size=4), text=st.text(max_size=20)
    )
    def test_values_arrive_equal_and_writable(self, sizes: list[int], text: str) -> None:
        import numpy

        arrays = [numpy.arange(size, dtype=numpy.uint8) for size in sizes]
        message = pack(Kind.RESULT, (text, arrays), "")
        assert len(message) == 1 + sum(size >= OUT_OF_BAND_BYTES for size in sizes)
        near, far = (Pipe(end) for end in connect())
        near.send(message)
        kind, load = far.receive()
        near.close()
        got_text, got_arrays = load()
        far.close()
        assert (kind, got_text) == (Kind.RESULT, text)
        for got, sent in zip(got_arrays, arrays, strict=True):
            assert numpy.array_equal(got, sent)
            assert got.flags.writeable

    def test_the_end_in_the_middle_of_a_message_is_seen(self) -> None:
        import numpy

        one, other = connect()
        message = pack(Kind.RESULT, numpy.zeros(OUT_OF_BAND_BYTES, numpy.uint8), "")
        one.send_bytes(message[0])
        one.close()
        far = Pipe(other)
        with pytest.raises(EOFError):
            far.receive()
        far.close()


class TestCalls:
    def test_results_come_from_one_warm_child(self, pool: ProcessPool) -> None:
        async def body() -> Any:
            first = await pool.run(describe, (3,), {"times": 2}, Running())
            return first, await pool.run(describe, (4,), {}, Running())

        (value, pid, inside), (other_value, other_pid, _) = asyncio.run(body())
        assert (value, other_value) == (6, 4)
        assert pid == other_pid != os.getpid()
        assert inside
        assert not in_child()

    def test_children_leave_ctrl_c_to_the_parent(self, pool: ProcessPool) -> None:
        async def body() -> None:
            _, pid, _ = await pool.run(describe, (1,), {}, Running())
            os.kill(pid, signal.SIGINT)
            assert (await pool.run(describe, (2,), {}, Running()))[1] == pid

        asyncio.run(body())

    def test_classmethods_and_large_arrays(self, pool: ProcessPool) -> None:
        import numpy

        async def body() -> Any:
            array = numpy.arange(500_000, dtype=numpy.float64)
            doubled = await pool.run(double, (array,), {}, Running())
            assert numpy.array_equal(doubled, array * 2)
            return await pool.run(Library.shelf, (), {}, Running())

        assert asyncio.run(body()) == "Library"

    def test_progress_and_deadline_cross(self, pool: ProcessPool) -> None:
        async def body() -> Any:
            told: list[object] = []
            assert await pool.run(report, ([1, 2, 3],), {}, Running(None, told.append)) == "done"
            assert told == [1, 2, 3]
            deadline = asyncio.get_running_loop().time() + 60
            return await pool.run(remaining, (), {}, Running(deadline))

        assert 50 < asyncio.run(body()) <= 60

    def test_exceptions_bring_their_traceback(self, pool: ProcessPool) -> None:
        async def body() -> None:
            with pytest.raises(Plain, match="oh") as plain:
                await pool.run(fail, ("oh",), {}, Running())
            assert "in fail" in plain.value.remote_traceback  # type: ignore[attr-defined]
            with pytest.raises(SystemExit):
                await pool.run(fail, ("exit",), {}, Running())
            with pytest.raises(RuntimeError, match=r"Awkward: code 4 .*does not pickle") as awkward:
                await pool.run(fail, ("awkward",), {}, Running())
            assert "in fail" in awkward.value.remote_traceback  # type: ignore[attr-defined]

        asyncio.run(body())

    def test_what_does_not_pickle_is_named(self, pool: ProcessPool) -> None:
        async def body() -> None:
            with pytest.raises(CannotTravel, match="an argument of describe"):
                await pool.run(describe, (lambda: None,), {}, Running())
            with pytest.raises(CannotTravel, match="the result of give_lambda"):
                await pool.run(give_lambda, (), {}, Running())
            with pytest.raises(ConfigurationError, match=r"finds no .*inner"):
                await pool.run(lost_function(), (), {}, Running())

        asyncio.run(body())


def lost_function() -> Callable[[], None]:
    def inner() -> None:
        """Never called."""

    return inner


class TestIterate:
    def test_items_then_closing_runs_finally_in_the_child(
        self, pool: ProcessPool, tmp_path: Path
    ) -> None:
        async def body() -> None:
            whole, part = tmp_path / "whole", tmp_path / "part"
            got = [n async for n in pool.iterate(count, (50, str(whole)), {}, Running())]
            assert got == list(range(50))
            assert whole.read_text() == "closed"
            items = pool.iterate(count, (50, str(part)), {}, Running())
            assert await anext(items) == 0
            assert not part.exists()
            await items.aclose()
            assert part.read_text() == "closed"
            # The child is unharmed and in step.
            assert (await pool.run(describe, (1,), {}, Running()))[0] == 1

        asyncio.run(body())


class TestDeath:
    def test_a_death_fails_its_own_call_only_and_cancel_kills(self, tmp_path: Path) -> None:
        async def body() -> None:
            pool = ProcessPool(max_processes=1)
            with pytest.raises(RuntimeError, match=r"leave ended .* exit code 3"):
                await pool.run(leave, (3,), {}, Running())
            mark = tmp_path / "pid"
            future = pool.run(ignore_everything, (str(mark),), {}, Running())
            pid = await pid_in(mark)
            future.cancel()
            with pytest.raises(asyncio.CancelledError):
                await future
            _, fresh, _ = await pool.run(describe, (1,), {}, Running())
            assert not is_alive(pid)
            kill_and_wait(fresh)
            # It died while idle, so the next call never meets it.
            assert (await pool.run(describe, (5,), {}, Running()))[0] == 5
            pool.close()

        asyncio.run(body())

    def test_close_leaves_no_child_alive(self, tmp_path: Path) -> None:
        async def body() -> None:
            pool = ProcessPool(max_processes=2)
            mark = tmp_path / "pid"
            busy = pool.run(ignore_everything, (str(mark),), {}, Running())
            _, idle, _ = await pool.run(describe, (1,), {}, Running())
            pid = await pid_in(mark)
            pool.close()
            assert not is_alive(pid)
            assert not is_alive(idle)
            with pytest.raises(RuntimeError, match="SIGKILL"):
                await busy
            with pytest.raises(WorkerStopping):
                pool.run(describe, (1,), {}, Running())

        asyncio.run(body())


async def pid_in(mark: Path) -> int:
    def read() -> str:
        return mark.read_text() if mark.exists() else ""

    await until(read, seconds=20)
    return int(read())


SCRIPT = """
    import asyncio, sys, time
    from axon.rpc.executors import ProcessPool, Running, in_child

    print("imported", in_child(), flush=True)

    class Trouble(Exception):
        pass

    def work(n):
        print("working", flush=True)
        if n < 0:
            raise Trouble(n)
        if n == 0:
            time.sleep(60)
        return n + 1

    async def main():
        pool = ProcessPool(max_processes=1)
        ProcessPool.check(work)
        print("got", await pool.run(work, (int(sys.argv[1]),), {}, Running()), flush=True)
        try:
            await pool.run(work, (-1,), {}, Running())
        except Trouble as trouble:
            print("caught", trouble, flush=True)

    if not in_child():
        # No __name__ guard and no close: a script that starts its worker at module level.
        asyncio.run(main())
"""


def start_script(folder: Path, argument: str) -> subprocess.Popen[str]:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return subprocess.Popen(
        [sys.executable, str(path), argument],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


class TestScripts:
    def test_a_main_script_works_and_does_not_start_itself_again(self, tmp_path: Path) -> None:
        with start_script(tmp_path, "1") as script:
            output, _ = script.communicate(timeout=30)
        imports = ["imported False", "imported True"]
        assert output.splitlines() == [*imports, "working", "got 2", "working", "caught -1"]
        assert script.returncode == 0

    def test_children_go_when_the_parent_is_killed(self, tmp_path: Path) -> None:
        with start_script(tmp_path, "0") as script:
            assert script.stdout is not None
            while "working" not in script.stdout.readline():
                assert script.poll() is None
            script.kill()
            # The child holds the other end of this pipe too: its end is the child's end.
            assert script.stdout.read() == ""
