"""Links shaped by the kernel: what is asked of it, and, where it lets us, what it then does."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network

import pytest

from axon.errors import ConfigurationError
from axon.rpc.link import Link
from axon.testbed import namespaces
from axon.testbed.namespaces import (
    SUBNETS,
    Namespace,
    Namespaces,
    bucket,
    free_subnet,
    probe,
    remaining,
)

MB = 1_000_000
LINK = Link(up_bytes_per_s=2 * MB, down_bytes_per_s=2 * MB)
SERVER = """
import socket, sys
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    with connection, connection.makefile("rwb") as stream:
        for line in stream:
            way, size = line.split()
            if way == b"down":
                stream.read(int(size))
                stream.write(b"k")
            else:
                stream.write(bytes(int(size)))
            stream.flush()
"""
"""Takes bytes down and acknowledges them, or sends them up."""


# What needs no root


def test_what_the_kernel_cannot_do_remains() -> None:
    link = Link(latency_s=0.1, up_bytes_per_s=10.0, down_bytes_per_s=20.0, jitter_s=0.2, loss=0.3)
    assert remaining(link) == Link(latency_s=0.1, jitter_s=0.2, loss=0.3)
    assert remaining(Link(up_bytes_per_s=10.0)) == Link()


@pytest.mark.parametrize(
    ("bytes_per_s", "rate", "burst", "waiting"),
    [
        (1000.0, 8000, 1514, 16 * 1514),  # a packet at a time, and never less than a few in line
        (2_000_000.0, 16_000_000, 8000, 100_000),  # a tick's worth, and 50 ms in line
        (0.01, 8, 1514, 16 * 1514),  # the least there is
    ],
)
def test_a_bucket_fits_its_rate(bytes_per_s: float, rate: int, burst: int, waiting: int) -> None:
    wanted = ["tbf", "rate", f"{rate}bit", "burst", f"{burst}", "limit", f"{burst + waiting}"]
    assert bucket(bytes_per_s) == wanted


def test_a_subnet_is_the_first_that_overlaps_nothing() -> None:
    assert free_subnet([]) == (0, IPv4Network("10.213.0.0/24"))
    busy = [IPv4Network("10.213.0.0/23"), IPv4Network("10.213.2.7/32"), IPv4Network("0.0.0.0/32")]
    assert free_subnet(busy) == (3, IPv4Network("10.213.3.0/24"))
    assert free_subnet([IPv4Network("10.0.0.0/8")]) == (128, IPv4Network("172.29.0.0/24"))
    with pytest.raises(ConfigurationError, match="all 256 private subnets"):
        free_subnet([IPv4Network("10.0.0.0/8"), IPv4Network("172.16.0.0/12")])
    assert len(set(SUBNETS)) == 256


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    found = probe()
    assert not found.works
    assert "no program `ip`" in found.reason


def test_names_are_checked_before_anything_is_made() -> None:
    with pytest.raises(ConfigurationError, match="not open"):
        Namespaces().add("pi", LINK)
    with pytest.raises(ConfigurationError, match="no namespace 'pi'"):
        Namespaces().command("pi", ["true"])


def test_the_longest_names_fit_and_all_that_was_made_is_removed_in_reverse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands: list[tuple[str, ...]] = []

    def record(*command: str) -> str:
        commands.append(command)
        return ""

    monkeypatch.setattr(namespaces, "_run", record)
    monkeypatch.setattr(namespaces, "_program", lambda name: name)
    monkeypatch.setattr(namespaces, "free_subnet", lambda _: (255, SUBNETS[255]))
    monkeypatch.setattr("os.getpid", lambda: (1 << 22) - 1)
    with Namespaces() as spaces:
        added = [spaces.add(f"device-{number}", LINK) for number in range(253)]
        with pytest.raises(ConfigurationError, match="room for 253"):
            spaces.add("one-more", LINK)
    assert added[-1] == Namespace("device-252", "172.29.127.254")
    made = [command[1:4:2] for command in commands if command[2] == "add" and command[0] == "ip"]
    removed = [command[1:4:2] for command in commands if command[2] == "delete"]
    named = [entry for entry in made if entry[0] in ("link", "netns")]
    assert removed == named[::-1]
    assert max(len(name) for kind, name in named if kind == "link") == 15


# What does


@pytest.fixture(scope="module")
def spaces() -> Iterator[Namespaces]:
    found = probe()
    if not found.works:
        pytest.skip(found.reason)
    with Namespaces() as opened:
        yield opened


def traces(pid: int) -> list[str]:
    """Every interface and namespace that carries a process's id."""
    pattern = re.compile(rf"axon{pid:x}-[^\s:@]*")
    listings = (["ip", "link", "show"], ["ip", "netns", "list"])
    outputs = (subprocess.run(argv, capture_output=True, text=True) for argv in listings)
    return sorted({name for output in outputs for name in pattern.findall(output.stdout)})


@contextmanager
def connection(spaces: Namespaces, space: Namespace) -> Iterator[socket.socket]:
    """To a server inside."""
    argv = spaces.command(space.name, [sys.executable, "-I", "-c", SERVER, space.address])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            with socket.create_connection((space.address, port), timeout=20.0) as client:
                yield client
        finally:
            server.kill()


def push_down(client: socket.socket, size: int) -> float:
    began = time.monotonic()
    client.sendall(b"down %d\n" % size + bytes(size))
    assert client.recv(1) == b"k"
    return time.monotonic() - began


def pull_up(client: socket.socket, size: int) -> float:
    began = time.monotonic()
    client.sendall(b"up %d\n" % size)
    left = size
    while left:
        left -= len(client.recv(1 << 16))
    return time.monotonic() - began


@pytest.mark.alone
@pytest.mark.system
def test_each_direction_has_its_own_rate(spaces: Namespaces) -> None:
    even = spaces.add("even", LINK)
    with connection(spaces, even) as client:
        assert push_down(client, MB) == pytest.approx(0.5, rel=0.25)
        assert pull_up(client, MB) == pytest.approx(0.5, rel=0.25)
    uneven = spaces.add("uneven", Link(down_bytes_per_s=4 * MB, up_bytes_per_s=MB))
    with connection(spaces, uneven) as client:
        assert push_down(client, MB) == pytest.approx(0.25, rel=0.25)
        assert pull_up(client, MB // 2) == pytest.approx(0.5, rel=0.25)
    free = spaces.add("free", Link(latency_s=1.0))
    with connection(spaces, free) as client:
        assert push_down(client, MB) < 0.1


@pytest.mark.alone
@pytest.mark.system
def test_a_partition_stops_traffic_and_healing_resumes_it(spaces: Namespaces) -> None:
    pi = spaces.add("parted", LINK)
    with connection(spaces, pi) as client:
        push_down(client, 1000)
        spaces.partition("parted")
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            push_down(client, 1000)
        spaces.heal("parted")
        client.settimeout(20.0)
        assert client.recv(1) == b"k"
        # Still shaped as it was. The connection itself starts slowly after its silence.
        quickest_s = min(push_down(client, MB) for _ in range(3))
        assert quickest_s == pytest.approx(0.5, rel=0.25)


@pytest.mark.system
def test_those_inside_reach_themselves_one_another_and_this_machine(spaces: Namespaces) -> None:
    one, two = spaces.add("one", Link()), spaces.add("two", Link())
    connect = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
    with socket.create_server((spaces.address, 0)) as here:
        port = str(here.getsockname()[1])
        argv = [sys.executable, "-I", "-c", connect, spaces.address, port]
        assert subprocess.run(spaces.command("one", argv)).returncode == 0
    with connection(spaces, two) as client:
        port = str(client.getpeername()[1])
        argv = [sys.executable, "-I", "-c", connect, two.address, port]
        assert subprocess.run(spaces.command("one", argv)).returncode == 0
        assert subprocess.run(spaces.command("two", argv)).returncode == 0
    assert one.address != two.address


@pytest.mark.system
def test_two_at_once_do_not_collide_and_nothing_is_left(spaces: Namespaces) -> None:
    before = traces(os.getpid())
    with Namespaces() as one, Namespaces() as two:
        first, second = one.add("pi", LINK), two.add("pi", LINK)
        assert len({spaces.address, one.address, two.address}) == 3
        assert first.address != second.address
        with connection(one, first) as near, connection(two, second) as far:
            push_down(near, 1000)
            push_down(far, 1000)
        assert len(traces(os.getpid())) == len(before) + 6
    assert traces(os.getpid()) == before
    one.close()
    with pytest.raises(ConfigurationError, match="not open"):
        one.add("pi", LINK)


@pytest.mark.system
def test_what_cannot_be_finished_is_undone(
    spaces: Namespaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = traces(os.getpid())
    with monkeypatch.context() as patch:
        patch.setattr(namespaces, "bucket", lambda _: ["no-such-queue"])
        with pytest.raises(ConfigurationError, match=r"`tc qdisc add .* failed with 2: .+"):
            spaces.add("half", LINK)
    assert traces(os.getpid()) == before
    spaces.add("half", LINK)
    with pytest.raises(ConfigurationError, match="each name once"):
        spaces.add("half", LINK)
    with pytest.raises(ConfigurationError, match="cannot be a new"):
        spaces.add("two words", LINK)


@pytest.mark.system
def test_what_a_killed_process_left_is_removed_by_the_next(spaces: Namespaces) -> None:
    script = (
        "import os\n"
        "from axon.rpc.link import Link\n"
        "from axon.testbed.namespaces import Namespaces\n"
        "Namespaces().__enter__().add('pi', Link(up_bytes_per_s=1e6))\n"
        "print(os.getpid(), flush=True); os._exit(9)"
    )
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    pid = int(killed.stdout)
    assert len(traces(pid)) == 3
    kept = traces(os.getpid())
    with Namespaces():
        assert traces(pid) == []
    assert traces(os.getpid()) == kept
