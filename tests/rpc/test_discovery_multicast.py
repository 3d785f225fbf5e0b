"""Discovery by multicast, with real sockets on loopback."""

from __future__ import annotations

import asyncio
import functools
import socket
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from zeroconf._dns import DNSAddress, DNSPointer, DNSService, DNSText
from zeroconf._protocol.outgoing import DNSOutgoing
from zeroconf.asyncio import AsyncZeroconf

from axon.rpc.address import Address
from axon.rpc.discovery.mdns import MAX_ADDRESSES, SERVICE_TYPE, Announcement, Announcer, Directory
from tests.rpc.announcements import announcement, names, until

LOOPBACK = ["127.0.0.1"]
Probe = Callable[[Address], Awaitable[Announcement | None]]
GROUP, MDNS_PORT = "224.0.0.251", 5353


@functools.cache
def multicast_obstacle() -> str | None:
    """Why multicast DNS cannot work on loopback here, found by sending a datagram to ourselves."""
    try:
        with (
            closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as port_check,
            closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as receiver,
            closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sender,
        ):
            port_check.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "SO_REUSEPORT"):
                port_check.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            port_check.bind(("", MDNS_PORT))
            receiver.bind(("", 0))
            receiver.settimeout(1.0)
            interface = socket.inet_aton("127.0.0.1")
            membership = socket.inet_aton(GROUP) + interface
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
            sender.sendto(b"axon", (GROUP, receiver.getsockname()[1]))
            receiver.recv(16)
    except OSError as error:
        return f"no multicast on loopback: {error!r}"
    return None


@pytest.fixture
def multicast() -> None:
    reason = multicast_obstacle()
    if reason is not None:
        pytest.skip(reason)


def unique(name: str) -> str:
    """Other tests may announce on this machine at the same moment."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def answering(*workers: Announcement) -> Probe:
    known = {worker.address: worker for worker in workers}

    async def probe(address: Address) -> Announcement | None:
        return known.get(address)

    return probe


WORKER = """
import asyncio, socket, sys
from axon.rpc.address import Address
from axon.rpc.discovery.mdns import Announcement, Announcer

async def main(name):
    listener = socket.create_server(("127.0.0.1", 0))
    address = Address(*listener.getsockname())
    announcer = Announcer(Announcement(
        name=name, address=address, functions=("rpc/echo",), version="0.1.0", scheme="http"))
    await announcer.start()
    print(address.port, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await announcer.stop()
    listener.close()

asyncio.run(main(sys.argv[1]))
"""


@contextmanager
def worker_process(name: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that listens and announces itself until it is sent a line, and its port."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def probe_by_connecting(name: str, port: int) -> Probe:
    async def probe(address: Address) -> Announcement | None:
        if address.port != port:
            return None
        _, writer = await asyncio.open_connection(address.host, address.port)
        writer.close()
        await writer.wait_closed()
        return announcement(name, str(address))

    return probe


@pytest.mark.system
@pytest.mark.usefixtures("multicast")
def test_a_worker_in_another_process_is_found_and_its_goodbye_removes_it() -> None:
    name = unique("polite")

    async def main(process: subprocess.Popen[str], port: int) -> None:
        assert process.stdin is not None
        # So seldom a probe that only the goodbye can be what removes the worker.
        async with Directory(
            interfaces=LOOPBACK, probe=probe_by_connecting(name, port), probe_every_s=60.0
        ) as directory:
            found = await directory.wait_for(1, deadline_s=8.0)
            assert [(worker.name, worker.address) for worker in found] == [
                (name, Address("127.0.0.1", port))
            ]
            process.stdin.write("stop\n")
            process.stdin.flush()
            await until(lambda: directory.workers == ())

    with worker_process(name) as (process, port):
        asyncio.run(main(process, port))


@pytest.mark.system
@pytest.mark.usefixtures("multicast")
def test_a_killed_worker_leaves_when_its_probes_fail() -> None:
    name = unique("killed")

    async def main(process: subprocess.Popen[str], port: int) -> None:
        async with Directory(
            interfaces=LOOPBACK, probe=probe_by_connecting(name, port), probe_every_s=0.1
        ) as directory:
            await directory.wait_for(1, deadline_s=8.0)
            process.kill()
            await until(lambda: directory.workers == (), deadline_s=3.0)

    with worker_process(name) as (process, port):
        asyncio.run(main(process, port))


@pytest.mark.system
@pytest.mark.usefixtures("multicast")
def test_namesakes_are_told_apart_and_the_silent_are_not_listed() -> None:
    name = unique("twin")
    twins = [announcement(name, f"127.0.0.1:{port}") for port in (7001, 7002)]
    over_ipv6 = announcement(unique("six"), "[::1]:7003")
    silent = announcement(unique("silent"), "127.0.0.1:7004")
    everywhere = announcement(unique("wide"), "0.0.0.0:7005")
    answered = [over_ipv6, *twins, replace(everywhere, address=Address("127.0.0.1", 7005))]

    async def main() -> None:
        announcers = [Announcer(each) for each in (*twins, over_ipv6, silent)]
        announcers.append(Announcer(everywhere, interfaces=LOOPBACK))
        async with Directory(interfaces=LOOPBACK, probe=answering(*answered)) as directory:
            for announcer in announcers:
                await announcer.start()
            found = await directory.wait_for(4, deadline_s=8.0)
        assert list(found) == sorted(answered, key=lambda each: (each.name, each.address.port))
        await asyncio.gather(*(announcer.stop() for announcer in announcers))

    asyncio.run(main())


@pytest.mark.alone
@pytest.mark.system
@pytest.mark.usefixtures("multicast")
def test_starting_takes_no_time_and_stopping_at_once_is_clean() -> None:
    async def main() -> float:
        clock = asyncio.get_running_loop().time
        announcer = Announcer(announcement(unique("brief")))
        before = clock()
        await announcer.start()
        took = clock() - before
        await announcer.stop()
        await announcer.stop()
        return took

    assert asyncio.run(main()) < 0.05


@pytest.mark.system
@pytest.mark.usefixtures("multicast")
def test_hostile_announcements_do_not_break_the_directory() -> None:
    honest = announcement(unique("honest"), "127.0.0.1:7011")
    hostile = unique("hostile")
    asked: set[Address] = set()

    async def probe(address: Address) -> Announcement | None:
        asked.add(address)
        if address.port == 7012:
            return announcement(hostile, str(address))
        return await answering(honest)(address)

    async def main() -> None:
        attacker = AsyncZeroconf(interfaces=LOOPBACK)
        await attacker.zeroconf.async_wait_for_start()
        announcer = Announcer(honest)
        async with Directory(interfaces=LOOPBACK, probe=probe, probe_every_s=0.1) as directory:
            attacker.zeroconf.async_send(forged("\x1b[2J\x07evil", 7013, b""))
            attacker.zeroconf.async_send(forged(hostile, 7012, HOSTILE_RECORDS))
            await directory.wait_for(1, deadline_s=8.0)
            await announcer.start()
            found = await directory.wait_for(2, deadline_s=8.0)
        await announcer.stop()
        await attacker.async_close()
        assert names(found) == [honest.name, hostile]

    asyncio.run(main())
    # What was forged to be 40 places is looked for in a few of them only.
    assert len({address for address in asked if address.port == 7012}) == MAX_ADDRESSES


HOSTILE_RECORDS = b"".join(
    bytes([len(text)]) + text
    for text in [
        b"name=\xff\xfe\x1b]0;owned\x07",
        b"scheme=javascript",
        b"functions=" + b"\x80" * 200,
        b"=no key",
        b"name",
        *[b"k%d=" % number + b"x" * 240 for number in range(20)],
    ]
)


def forged(label: str, port: int, records: bytes) -> DNSOutgoing:
    """A response that announces a service as no honest library would let us."""
    response, internet, unique_internet, ttl = 0x8400, 1, 0x8001, 120
    name, server = f"{label}.{SERVICE_TYPE}", f"forged-{port}.local."
    out = DNSOutgoing(response)
    out.add_answer_at_time(DNSPointer(SERVICE_TYPE, 12, internet, ttl, name), 0)
    out.add_answer_at_time(DNSService(name, 33, unique_internet, ttl, 0, 0, port, server), 0)
    out.add_answer_at_time(DNSText(name, 16, unique_internet, ttl, records), 0)
    for last in range(1, 41):
        address = socket.inet_aton(f"127.0.0.{last}")
        out.add_answer_at_time(DNSAddress(server, 1, unique_internet, ttl, address), 0)
    return out
