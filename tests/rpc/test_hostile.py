"""A real worker among hostile peers: nothing runs, nothing leaks, good clients do not feel it."""

from __future__ import annotations

import asyncio
import os
import pickle
import resource
import socket
import statistics
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from axon import client
from axon.rpc import wire
from axon.rpc.loops import new_event_loop
from tests.rpc.malformed import ENVELOPES, MALFORMED, TEXTS
from tests.rpc.raw import knock, listen_to, request
from tests.rpc.targets import AXON, RSS_GROWTH_MB, Target

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    worker = Target(tmp_path_factory.mktemp("hostile"))
    try:
        worker.warm_up()
        yield worker
    finally:
        worker.process.kill()
        worker.process.wait(10)


@pytest.fixture(autouse=True)
def unharmed(target: Target) -> Iterator[None]:
    """After each attack the worker answers, holds nothing, and has logged no error."""
    yield
    target.check()
    target.settle()
    assert target.process.poll() is None
    log = target.log.read_text()
    assert "Traceback" not in log
    assert " error axon" not in log


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_get_a_status(target: Target, name: str) -> None:
    data, status = MALFORMED[name]
    for _ in range(20):
        assert target.attack(data, 2) == [status]


@pytest.mark.parametrize(
    "path",
    [b"/rpc/__class__", b"/rpc/echo/../x", b"//rpc//echo", b"/rpc/%2e%2e/x", b"/rpc",
     b"/rpc/echo/__globals__", b"/_axon/../rpc/echo", b"/rpc/echo%00", b"/../../etc/passwd",
     b"/", b"*", b"/rpc/echo#", b"http://worker/rpc/__init__", b"/rpc/echo.__call__",
     b"/_axon/calls/../../x", b"/rpc/" + b"%" * 99],
)  # fmt: skip
def test_odd_targets_reach_nothing(target: Target, path: bytes) -> None:
    for method in (b"POST", b"GET", b"DELETE", b"PUT", b"OPTIONS", b"TRACE"):
        [status] = target.attack(request(path, b"[1]", method=method))
        assert status in (400, 404, 410), (method, status)


class Evil:
    """Makes a file wherever it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.marker), "w")


@pytest.mark.parametrize(
    "kind",
    [b"application/axon", b"application/python-pickle", b"application/octet-stream",
     b"application/json", b"application/x-axon-pickle"],
)  # fmt: skip
def test_pickles_never_run(target: Target, tmp_path: Path, kind: bytes) -> None:
    evil = Evil(tmp_path / "marker")
    bodies = [pickle.dumps([[evil], {}], protocol) for protocol in range(6)]
    bodies.append(b"".join(map(bytes, wire.encode([[evil], {}], pickling=True))))
    for body in bodies:
        [status] = target.attack(request(b"/rpc/echo", body, headers={b"content-type": kind}))
        assert 400 <= status < 500
    assert not evil.marker.exists()
    pickle.loads(bodies[0])[0][0].close()
    assert evil.marker.exists(), "the payload itself is at fault"


@pytest.mark.parametrize("name", ENVELOPES)
def test_broken_envelopes(target: Target, name: str) -> None:
    for _ in range(5):
        [status] = target.attack(request(b"/rpc/echo", ENVELOPES[name], headers=AXON))
        assert status in (400, 413)


@pytest.mark.parametrize("name", TEXTS)
def test_broken_json(target: Target, name: str) -> None:
    for _ in range(5):
        [status] = target.attack(request(b"/rpc/echo", TEXTS[name]))
        assert status in (400, 413, 422)


def test_json_with_repeated_keys_calls_once(target: Target) -> None:
    with knock(target.port, request(b"/rpc/add", b'{"left": 1, "left": 40, "right": 2}')) as link:
        [answer] = listen_to(link)
    assert (answer.status, bytes(answer.body)) == (200, b"42")


def test_zstd_bombs_do_not_go_off(target: Target) -> None:
    zstandard = pytest.importorskip("zstandard")
    engine = zstandard.ZstdCompressor().compressobj()
    bomb = b"".join(engine.compress(bytes(1 << 20)) for _ in range(1024)) + engine.flush()
    assert len(bomb) < 200_000
    headers = {**AXON, b"content-encoding": b"zstd"}
    for _ in range(5):
        assert target.attack(request(b"/rpc/echo", bomb, headers=headers)) == [413]
    assert target.attack(request(b"/rpc/echo", bomb[:1000], headers=headers))[0] in (400, 413)
    assert target.attack(request(b"/rpc/echo", b"no zstd", headers=headers)) == [400]


def test_a_thousand_requests_in_one_write(target: Target) -> None:
    data = b"".join(request(b"/rpc/echo", b"[%d]" % number) for number in range(1000))
    with knock(target.port, data) as link:
        answers = listen_to(link, 1000)
    assert [int(answer.body) for answer in answers] == list(range(1000))


def test_expect_continue(target: Target) -> None:
    head = request(b"/rpc/echo", b"", headers={b"content-length": b"3", b"expect": b"100-continue"})
    with knock(target.port, head) as link:
        assert link.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        link.sendall(b"[7]")
        assert [bytes(answer.body) for answer in listen_to(link)] == [b"7"]


def test_slow_senders_are_told_and_cut_off(target: Target) -> None:
    firsts = [
        b"POST /rpc/echo HTTP/1.1\r\nhost: ",
        request(b"/rpc/echo", b"", headers={b"content-length": b"100000"}),
        b"POST /rpc/echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1;",
    ]
    with ExitStack() as stack:
        links = [stack.enter_context(knock(target.port, first)) for first in firsts * 10]
        began = time.monotonic()
        while time.monotonic() - began < 6.0:
            for link in links:
                with suppress(ConnectionError):
                    link.sendall(b"a")
            time.sleep(1.0)
            target.check()
        said = [[answer.status for answer in listen_to(link)] for link in links]
    # A byte sent into the closed connection may have cost a peer its answer.
    assert all(s in ([408], []) for s in said)
    assert said.count([408]) > 15


def test_stalled_bodies_are_cut_off(target: Target) -> None:
    head = request(b"/rpc/echo", b"", headers={b"content-length": b"%d" % (60 << 20)})
    with ExitStack() as stack:
        links = [stack.enter_context(knock(target.port, head + bytes(5000))) for _ in range(50)]
        target.check()
        assert target.memory_mb() - target.rss_mb < RSS_GROWTH_MB
        assert [[a.status for a in listen_to(link)] for link in links] == [[408]] * 50


@pytest.mark.alone  # The others wait for a flood of requests, at most as long as `check` allows.
def test_answers_nobody_reads_are_dropped(target: Target) -> None:
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(knock(target.port, request(b"/rpc/blob", b"[50000000]")))
        piped = stack.enter_context(socket.create_connection(("127.0.0.1", target.port)))
        piped.setblocking(False)
        with suppress(BlockingIOError):
            for _ in range(500):
                piped.send(request(b"/_axon/profile", b"", method=b"GET") * 20)
        target.check()
        time.sleep(1.0)
        target.check()
        for _ in range(100):
            if target.count_files() <= target.open_files:
                break
            time.sleep(0.1)
        assert target.count_files() <= target.open_files


def test_ten_thousand_idle_connections(target: Target) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 11_000:
        pytest.skip(f"needs 11,000 open files, this machine allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 11_000), hard))
    try:
        with ExitStack() as stack:
            kept = stack.enter_context(knock(target.port))
            assert [a.status for a in _again(kept)] == [200]
            for _ in range(10_000):
                stack.enter_context(socket.create_connection(("127.0.0.1", target.port)))
            target.check()
            assert [a.status for a in _again(kept)] == [200]  # Known before, so not sent away.
            assert target.memory_mb() - target.rss_mb < RSS_GROWTH_MB
            assert target.count_files() < target.open_files + 1200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _again(link: socket.socket) -> list[Any]:
    link.sendall(request(b"/rpc/echo", b"[1]"))
    return listen_to(link)


def test_connection_churn(target: Target) -> None:
    for number in range(5000):
        link = socket.create_connection(("127.0.0.1", target.port))
        if number % 3 == 1:
            link.sendall(b"POST /rpc/echo HT")
        elif number % 3 == 2:  # Leaves with a reset.
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.close()


# A good client beside all of that

_ATTACKER = """
    import socket, sys, time
    from tests.rpc.raw import knock, request
    from tests.rpc.malformed import MALFORMED

    port, until = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    held = [knock(port) for _ in range(300)]
    held += [knock(port, b"POST / HTTP/1.1\\r\\na: ") for _ in range(50)]
    held += [knock(port, request(b"/rpc/blob", b"[50000000]")) for _ in range(2)]
    small = [data for data, _ in MALFORMED.values() if len(data) < 10_000]
    print("ready", flush=True)
    number = 0
    while time.monotonic() < until:
        with knock(port, small[number % len(small)]):
            number += 1
        if number % 50 == 0:
            with knock(port, request(b"/rpc/echo", b"[" * 100_000)):
                number += 1
        time.sleep(0.004)
    print(number, flush=True)
"""


def _p50_us(target: Target, windows: int = 8, calls: int = 200) -> float:
    """The best of several short windows' medians: noise only ever adds."""

    async def measure() -> float:
        stub = await client.connect(f"127.0.0.1:{target.port}")
        medians = []
        for _ in range(windows):
            times = []
            for _ in range(calls):
                began = time.perf_counter()
                assert await stub.rpc.echo(1) == 1
                times.append(time.perf_counter() - began)
            medians.append(statistics.median(times))
            await asyncio.sleep(0.1)
        return min(medians) * 1e6

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(measure())


@pytest.mark.alone
def test_a_good_client_keeps_its_latency(
    target: Target, tmp_path: Path, record_property: Any
) -> None:
    script = tmp_path / "attacker.py"
    script.write_text(textwrap.dedent(_ATTACKER))
    undisturbed = _p50_us(target)
    root = str(Path(__file__).parents[2])
    attacker = subprocess.Popen(
        [sys.executable, str(script), str(target.port), "3"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root},
    )
    try:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == b"ready\n"
        disturbed = _p50_us(target)
        attacks = int(attacker.stdout.readline())
    finally:
        attacker.kill()
        attacker.wait(10)
        if attacker.stdout is not None:
            attacker.stdout.close()
    record_property("p50_us", (undisturbed, disturbed, attacks))
    print(f"p50 {undisturbed:.0f} us alone, {disturbed:.0f} us beside {attacks} attacks")
    assert attacks > 100
    assert disturbed < 3 * undisturbed


def test_everything_at_once(target: Target) -> None:
    """All kinds side by side, from several threads; each still gets its own answer."""
    kinds = [
        *MALFORMED.values(),
        *((request(b"/rpc/echo", body, headers=AXON), 0) for body in ENVELOPES.values()),
        *((request(b"/rpc/echo", body), 0) for body in TEXTS.values() if len(body) < 1_000_000),
    ]
    wrong: list[object] = []

    def attack(offset: int) -> None:
        for number in range(len(kinds)):
            data, status = kinds[(number + offset) % len(kinds)]
            said = target.attack(data)
            if len(said) != 1 or not 400 <= said[0] < 600 or (status and said != [status]):
                wrong.append((data[:60], status, said))

    threads = [threading.Thread(target=attack, args=(7 * number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert target.memory_mb() - target.rss_mb < RSS_GROWTH_MB
