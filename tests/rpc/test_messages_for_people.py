"""Mistakes people make: one clear line, and what to do about it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from axon import client
from axon.errors import BadArguments, ConfigurationError, DeadlineExceeded, NotFound
from axon.rpc.address import Address
from axon.rpc.security import keys
from axon.rpc.security.keys import Key, Keyring
from axon.worker import Worker
from tests.rpc.worlds import run, serving


def make_worker() -> Worker:
    worker = Worker("people")

    @worker.rpc()
    async def simple_hello(name: str = "you") -> str:
        return f"Hello {name}!!"

    @worker.rpc()
    async def calls_itself(address: str) -> Any:
        return client.get_stub(address).simple_hello().join()

    return worker


def test_names_that_are_nearly_right() -> None:
    async def main() -> None:
        async with serving(make_worker(), "http") as world:
            stub = client.CoroSimplexStub(
                worker_ip="127.0.0.1", port=world.address.port, rpc_name="simple_helo"
            )
            with pytest.raises(NotFound, match=r"did you mean simple_hello\?"):
                await stub()

    run(main)


def test_iterating_over_what_is_no_generator() -> None:
    async def main() -> None:
        async with serving(make_worker(), "http") as world:
            stub = await world.stub()
            with pytest.raises(BadArguments, match="not a generator"):
                await anext(aiter(stub.simple_hello()))

    run(main)


def test_a_blocking_call_on_a_workers_loop_is_refused() -> None:
    async def main() -> None:
        async with serving(make_worker(), "http") as world:
            stub = await world.stub(deadline_s=5)
            with pytest.raises(Exception, match="would stop the worker"):
                await stub.calls_itself(str(world.address))
            assert await stub.simple_hello() == "Hello you!!"

    run(main)


def test_a_worker_that_does_not_answer_meets_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"

        async def main() -> None:
            with pytest.raises(DeadlineExceeded, match=r"within 0\.2 s"):
                await client.connect(address, deadline_s=0.2)

        run(main)
        with pytest.raises(DeadlineExceeded, match="within"):
            client.get_stub(address, deadline_s=0.2)
        with pytest.raises(DeadlineExceeded, match="within"), client.deadline(0.2):
            client.get_stub(address)
        for seconds in (0, 0.2):
            with pytest.raises(DeadlineExceeded, match="within"):
                client.call(f"{address}/rpc/hello", deadline_s=seconds)


@pytest.mark.parametrize("id", ["", "a b", "x HTTP/1.1\r\n\r\nGET /evil", "é", "x" * 129])
def test_call_ids_are_plain_words(id: str) -> None:
    with pytest.raises(ConfigurationError, match="letters, digits"):
        client.attach("127.0.0.1:1", id)
    with pytest.raises(ConfigurationError, match="letters, digits"):
        client.CallOptions(duplex=True, call_id=id)


def test_certificates_mean_tls() -> None:
    assert Address.parse("pi:8443/net", tls=True) == Address("pi", 8443, "https", "net")
    assert Address.parse("https://pi", tls=True).scheme == "https"
    assert Address.parse("unix:///run/axon", tls=True).scheme == "unix"
    with pytest.raises(ConfigurationError, match="https"):
        Address.parse("http://pi", tls=True)


def test_a_key_may_be_given_by_its_folder(tmp_path: Path) -> None:
    key = Key.new("laptop")
    keys.save(tmp_path / keys.KEY_FILE, [key])
    assert Keyring.of(tmp_path).only() == key


@pytest.mark.parametrize("seconds", ["5", [1], object()])
def test_a_deadline_is_a_number(seconds: Any) -> None:
    with pytest.raises(ConfigurationError, match="number of seconds"):
        client.CallOptions(deadline_s=seconds)


def test_a_function_must_be_named() -> None:
    with pytest.raises(ConfigurationError, match="names no function"):
        client.call("127.0.0.1:1")
