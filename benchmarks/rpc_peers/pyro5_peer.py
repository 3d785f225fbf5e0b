"""Pyro5, with its default serializer and with marshal, the faster of those it ships with."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import Pyro5.api  # type: ignore[import-untyped]

from rpc_peers.driver import main

if TYPE_CHECKING:
    from rpc_peers.measures import Array

# Off by default; costs nothing here and keeps small messages from ever waiting for company.
Pyro5.config.SOCK_NODELAY = True


@Pyro5.api.expose
class Service:
    """What a daemon offers."""

    def echo(self, payload: bytes) -> bytes:
        return payload

    def echo_array(self, data: bytes) -> bytes:
        import numpy as np  # late: only the bulk question needs it

        return np.frombuffer(data, dtype=np.float32).tobytes()

    def work(self, work_s: float) -> float:
        time.sleep(work_s)
        return work_s


class Client:
    """One proxy for each thread: a proxy belongs to the thread that made it."""

    def __init__(self, serializer: str) -> None:
        Pyro5.config.SERIALIZER = serializer

    def open(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._bulk = self._proxy(ports[0])
        self._workers = [self._proxy(port) for port in ports] if len(ports) > 1 else []

    def _proxy(self, port: int) -> Pyro5.api.Proxy:
        return Pyro5.api.Proxy(f"PYRO:service@127.0.0.1:{port}")

    @contextmanager
    def caller(self) -> Iterator[Callable[[bytes], object]]:
        with self._proxy(self._ports[0]) as proxy:
            yield proxy.echo

    def echo_array(self, array: Array) -> Array:
        import numpy as np  # late: only the bulk question needs it

        return np.frombuffer(self._bulk.echo_array(array.tobytes()), dtype=np.float32)

    def work(self, worker: int, work_s: float) -> object:
        proxy = self._workers[worker]
        proxy._pyroClaimOwnership()  # any thread of the pool may be asked to wait for this worker
        return proxy.work(work_s)


def serve(variant: str, ports: Sequence[int]) -> None:
    """One daemon for each port, with Pyro5's own thread pool; the client picks the serializer."""
    del variant
    threads = []
    for port in ports:
        daemon = Pyro5.api.Daemon(host="127.0.0.1", port=port)
        daemon.register(Service, "service")
        threads.append(threading.Thread(target=daemon.requestLoop, daemon=True))
        threads[-1].start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(
        serve,
        blocking={
            "serpent": lambda: Client("serpent"),
            "marshal": lambda: Client("marshal"),
        },
    )
