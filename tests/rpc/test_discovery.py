"""Discovery: the list is tested in virtual time, multicast with real sockets on loopback."""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import socket
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zeroconf._dns import DNSAddress, DNSPointer, DNSService, DNSText
from zeroconf._protocol.outgoing import DNSOutgoing
from zeroconf.asyncio import AsyncZeroconf

from axon.errors import ConfigurationError, ConnectFailed, DeadlineExceeded
from axon.rpc.address import Address
from axon.rpc.discovery.mdns import (
    MAX_ADDRESSES,
    SERVICE_TYPE,
    Announcement,
    Announcer,
    Directory,
    discover,
    printable,
    text_record,
)
from axon.testbed import virtual

LOOPBACK = ["127.0.0.1"]
Probe = Callable[[Address], Awaitable[Announcement | None]]


def announcement(
    name: str = "pi", address: str = "127.0.0.1:8000", functions: Sequence[str] = ("rpc/echo",)
) -> Announcement:
    return Announcement(
        name=name,
        address=Address.parse(address),
        functions=tuple(functions),
        version="0.1.0",
        scheme="http",
    )


def names(found: Sequence[Announcement]) -> list[str]:
    return [worker.name for worker in found]


class Network:
    """Workers by address, as the probe meets them; each can be switched off and on."""

    def __init__(self, **workers: str) -> None:
        self.names = {Address.parse(address): name for name, address in workers.items()}
        self.down: set[Address] = set()

    async def probe(self, address: Address) -> Announcement | None:
        await asyncio.sleep(0.01)
        if address in self.down or address not in self.names:
            return None
        return announcement(self.names[address], str(address))

    def directory(self, **options: float) -> Directory:
        return Directory(static=tuple(self.names), interfaces=(), probe=self.probe, **options)


# The values.


@given(st.text(max_size=300))
def test_printable_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) <= 200
    assert printable(shown) == shown


def test_a_hostile_name_is_cleaned_when_the_announcement_is_built() -> None:
    built = announcement("\x1b[31mpi\r\n\u202eevil\x00", functions=["a\x07b", "\x1b", "ok"])
    assert built.name == "[31mpi evil"
    assert built.functions == ("a b", "ok")
    assert announcement("\x00\n").name == "unnamed"
    assert len(announcement("n" * 1000).name) == 60


def test_a_worker_speaks_http_or_https() -> None:
    with pytest.raises(ConfigurationError, match="not 'ftp'"):
        Announcement(name="a", address=Address("h"), functions=(), version="1", scheme="ftp")


@given(st.text(max_size=80), st.lists(st.text(max_size=120), max_size=12))
def test_the_text_record_fits_and_says_when_functions_are_missing(
    name: str, functions: list[str]
) -> None:
    built = announcement(name, functions=functions)
    record = text_record(built)
    assert all(len(key) + 1 + len(value) <= 255 for key, value in record.items())
    listed = record["functions"].decode().split(",") if record["functions"] else []
    remaining = iter(built.functions)
    assert all(function in remaining for function in listed), "in order, nothing made up"
    assert ("more" in record) == (len(listed) < len(built.functions))
    assert record["name"].decode() == built.name


def test_the_text_record_takes_as_many_functions_as_go() -> None:
    record = text_record(announcement(functions=["a" * 200, "b" * 100, "c" * 44, "d"]))
    assert record["functions"] == b"a" * 200 + b"," + b"c" * 44
    assert record["more"] == b"1"
    assert "more" not in text_record(announcement(functions=["a" * 200, "c" * 44]))


def test_zeroconf_is_not_imported_with_the_module() -> None:
    code = "import sys, axon.rpc.discovery.mdns; sys.exit('zeroconf' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# The list, in virtual time and without a network.


def test_a_static_worker_appears_when_its_probe_succeeds() -> None:
    network = Network(pi="10.0.0.1:8000", nano="10.0.0.2:8000")
    network.down.add(Address("10.0.0.2"))

    async def main() -> None:
        async with network.directory(probe_every_s=1.0) as directory:
            assert directory.workers == ()
            assert names(await directory.wait_for(1, deadline_s=0.5)) == ["pi"]
            network.down.clear()
            assert names(await directory.wait_for(2, deadline_s=1.5)) == ["nano", "pi"]

    virtual.run(main())


def test_a_worker_leaves_after_two_failed_probes_and_may_come_back() -> None:
    network = Network(pi="10.0.0.1:8000")

    async def main() -> None:
        async with network.directory(probe_every_s=1.0) as directory:
            await asyncio.sleep(0.5)
            network.down.add(Address("10.0.0.1"))
            await asyncio.sleep(1.0)  # One failed probe.
            assert names(directory.workers) == ["pi"]
            await asyncio.sleep(1.0)  # Two.
            assert directory.workers == ()
            network.down.clear()
            await directory.wait_for(1, deadline_s=1.1)

    virtual.run(main())


def test_one_failed_probe_between_good_ones_is_forgiven() -> None:
    outcomes = itertools.cycle([True, False])
    listed: list[int] = []

    async def probe(address: Address) -> Announcement | None:
        return announcement(address=str(address)) if next(outcomes) else None

    async def main() -> None:
        async with Directory(
            static=["10.0.0.1"], interfaces=(), probe=probe, probe_every_s=1.0
        ) as directory:
            for _ in range(10):
                await asyncio.sleep(0.9)
                listed.append(len(directory.workers))

    virtual.run(main())
    assert listed == [1] * 10


def test_a_probe_that_hangs_or_fails_is_a_probe_that_did_not_answer() -> None:
    gone = asyncio.Event()

    async def probe(address: Address) -> Announcement | None:
        if address.port == 3:
            raise ConnectFailed("refused")
        if gone.is_set():
            await asyncio.sleep(3600)
        return announcement(address=str(address))

    async def main() -> None:
        async with Directory(static=["h:3", "h:4"], interfaces=(), probe=probe) as directory:
            await directory.wait_for(1, deadline_s=1.0)
            gone.set()
            await asyncio.sleep(10.0)
            assert directory.workers == ()

    virtual.run(main())


def test_a_defect_of_the_probe_reaches_the_user() -> None:
    async def probe(address: Address) -> Announcement | None:
        raise ZeroDivisionError(str(address))

    async def main() -> None:
        async with Directory(static=["h:1"], interfaces=(), probe=probe) as directory:
            with pytest.raises(ZeroDivisionError):
                await directory.wait_for(1, deadline_s=5.0)

    with pytest.raises(ZeroDivisionError):
        virtual.run(main())


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.integers(0, 5)),
        min_size=1,
        max_size=6,
        unique_by=lambda entry: (entry[0], entry[1]),
    )
)
def test_the_order_is_by_name_and_address_whoever_answers_first(
    entries: list[tuple[str, int, int]],
) -> None:
    delays = {Address(host=f"h{name}", port=port): delay for name, port, delay in entries}

    async def probe(address: Address) -> Announcement | None:
        await asyncio.sleep(delays[address] / 10)
        # Names that run against the hosts, so that sorting by address alone would show.
        return announcement({"ha": "z", "hb": "m", "hc": "m"}[address.host], str(address))

    async def main() -> list[tuple[str, str, int]]:
        async with Directory(static=tuple(delays), interfaces=(), probe=probe) as directory:
            found = await directory.wait_for(len(delays), deadline_s=1.0)
            return [(worker.name, worker.address.host, worker.address.port) for worker in found]

    order = virtual.run(main())
    assert order == sorted(order)


def test_a_place_named_twice_is_listed_once_and_by_the_address_that_reached_it() -> None:
    async def probe(address: Address) -> Announcement | None:
        return announcement(address="0.0.0.0:8000")  # What a worker behind a bridge would think.

    found = virtual.run(
        discover(static=["10.0.0.1", "http://10.0.0.1:8000/rpc"], interfaces=(), probe=probe)
    )
    assert [worker.address for worker in found] == [Address("10.0.0.1")]


def test_waiting_in_vain_says_what_was_wanted_and_found() -> None:
    network = Network(pi="10.0.0.1:8000")

    async def main() -> None:
        async with network.directory() as directory:
            with pytest.raises(DeadlineExceeded, match="wanted 3 workers within 5 s, found 1"):
                await directory.wait_for(3, deadline_s=5.0)

    virtual.run(main())


def test_discover_waits_its_time_and_no_longer() -> None:
    network = Network(pi="10.0.0.1:8000")

    async def main() -> float:
        found = await discover(wait_s=0.7, static=["10.0.0.1"], interfaces=(), probe=network.probe)
        assert names(found) == ["pi"]
        return asyncio.get_running_loop().time()

    assert virtual.run(main()) == pytest.approx(0.7)


def test_options_that_cannot_be_meant_are_refused() -> None:
    probe = Network().probe
    with pytest.raises(ConfigurationError, match="above 0"):
        Directory(probe=probe, probe_every_s=0)
    with pytest.raises(ConfigurationError, match="unknown scheme"):
        Directory(probe=probe, static=["gopher://x"])
    with pytest.raises(ConfigurationError, match="'eth0' is not an interface"):
        Directory(probe=probe, interfaces=["eth0"])
    with pytest.raises(ConfigurationError, match="cannot be announced"):
        Announcer(announcement(address="unix:///run/axon.sock"))


def test_an_interface_of_another_machine_is_refused_to_a_directory_and_forgiven_a_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    foreign = ["203.0.113.7"]  # Reserved for documentation, so nobody's.

    async def main() -> None:
        with pytest.raises(ConfigurationError, match=r"cannot listen on 203\.0\.113\.7"):
            async with Directory(interfaces=foreign, probe=Network().probe):
                pytest.fail("the directory opened on an interface that is not there")
        announcer = Announcer(announcement("lonely"), interfaces=foreign)
        await announcer.start()
        await until(lambda: bool(caplog.records))
        await announcer.stop()

    with caplog.at_level(logging.WARNING, logger="axon.rpc.discovery.mdns"):
        asyncio.run(main())
    assert "lonely is not announced on the network" in caplog.text


# Multicast, with real sockets on loopback.

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


async def until(condition: Callable[[], bool], *, deadline_s: float = 8.0) -> None:
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - another process changes it, not this loop
            await asyncio.sleep(0.02)


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
