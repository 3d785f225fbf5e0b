"""Discovery: its values, and the list of workers in virtual time and without a network."""

from __future__ import annotations

import asyncio
import itertools
import logging
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import ConfigurationError, ConnectFailed, DeadlineExceeded
from axon.printable import printable
from axon.rpc.address import Address
from axon.rpc.discovery.mdns import (
    Announcement,
    Announcer,
    Directory,
    discover,
    text_record,
)
from axon.testbed import virtual
from tests.rpc.announcements import announcement, names, until


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


def test_what_is_cut_says_so() -> None:
    assert printable("x" * 200) == "x" * 200
    assert printable("x" * 201) == "x" * 199 + "…"
    assert printable("ab cd", limit=4) == "ab…"


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
