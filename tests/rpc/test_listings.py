"""The listings of the thesis as they stand there, each in a process of its own."""

from __future__ import annotations

import re
import signal
import time

import pytest

from axon.rpc.address import DEFAULT_PORT
from tests.rpc.scripts import Script, free_port, listens

pytestmark = pytest.mark.system

ALGORITHM_4 = """\
import axon

@axon.worker.rpc()
def simple_hello(name):
    greeting = f"Hello {name}!!"
    print(greeting)
    return greeting

axon.worker.init()
"""

ALGORITHM_5 = """\
import axon

stub = axon.client.SyncSimplexStub(worker_ip="127.0.0.1", rpc_name="simple_hello")

greeting = stub("John")
"""

ALGORITHM_8 = """\
import axon
import asyncio

stub = axon.client.CoroSimplexStub(worker_ip="127.0.0.1", rpc_name="simple_hello")

async def main():
    await stub("John")

asyncio.run(main())
"""

ALGORITHM_9 = """\
import axon

stub = axon.client.AsyncSimplexStub(worker_ip="127.0.0.1", rpc_name="simple_hello")

handle = stub("John")

result = handle.join()
"""

CLIENTS = {"5": ALGORITHM_5, "8": ALGORITHM_8, "9": ALGORITHM_9}
TWINS = {f"{name} duplex": text.replace("Simplex", "Duplex") for name, text in CLIENTS.items()}


def play(worker_text: str, client_texts: dict[str, str], port: int) -> None:
    """Run the worker's listing, then each client's; each must have it greet John once."""
    with Script(worker_text) as worker:
        worker.until_listening(port)
        for name, text in client_texts.items():
            began = time.monotonic()
            with Script(text) as client:
                assert client.result() == (0, "", ""), f"Algorithm {name}"
            assert worker.line() == "Hello John!!", f"Algorithm {name}"
            print(f"Algorithm {name}: {time.monotonic() - began:.2f} s")
        worker.send(signal.SIGTERM)
        code, out, err = worker.result()
        assert (code, out) == (0, ""), "a greeting too many"
        assert "Traceback" not in err


@pytest.mark.alone
def test_the_listings_run_verbatim() -> None:
    if listens(DEFAULT_PORT):
        pytest.skip(f"something else holds port {DEFAULT_PORT}")
    play(ALGORITHM_4, {**CLIENTS, **TWINS}, DEFAULT_PORT)


def test_the_listings_run_on_a_chosen_port() -> None:
    port = free_port()
    worker = ALGORITHM_4.replace("init()", f"init(port={port})")
    clients = {
        name: re.sub(r'(worker_ip="127.0.0.1")', rf"\1, port={port}", text)
        for name, text in {**CLIENTS, **TWINS}.items()
    }
    assert all(f"port={port}" in text for text in (worker, *clients.values()))
    play(worker, clients, port)


def test_the_listings_give_the_greeting_back() -> None:
    port = free_port()
    worker = ALGORITHM_4.replace("init()", f"init(port={port})")
    asked = {
        "5": ALGORITHM_5 + "print(greeting)\n",
        "8": ALGORITHM_8.replace('await stub("John")', 'print(await stub("John"))'),
        "9": ALGORITHM_9 + "print(result)\n",
    }
    with Script(worker) as running:
        running.until_listening(port)
        for text in asked.values():
            for pattern in ("Simplex", "Duplex"):
                chosen = text.replace("Simplex", pattern)
                chosen = chosen.replace('"127.0.0.1"', f'"127.0.0.1", port={port}')
                with Script(chosen) as client:
                    assert client.result() == (0, "Hello John!!\n", "")
