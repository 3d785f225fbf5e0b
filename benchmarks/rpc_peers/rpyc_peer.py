"""RPyC with a threaded server; arrays travel as bytes, as an array itself would travel by name."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import rpyc  # type: ignore[import-untyped]
from rpyc.core.channel import Channel  # type: ignore[import-untyped]
from rpyc.core.stream import SocketStream  # type: ignore[import-untyped]
from rpyc.utils.server import ThreadedServer  # type: ignore[import-untyped]

from rpc_peers.driver import main

if TYPE_CHECKING:
    from rpc_peers.measures import Array

# zlib is on by default and no connection option turns it off; float data hardly compresses, so with
# it the bulk question would measure zlib alone.
Channel.COMPRESSION_THRESHOLD = 1 << 40
# It copies the rest of a message after each piece it writes: in its own pieces of 64 kB a 64 MB
# array takes nearly twenty seconds there and back, in these about one.
SocketStream.MAX_IO_CHUNK = 16 << 20


class Service(rpyc.Service):  # type: ignore[misc]
    """What a server offers."""

    def exposed_echo(self, payload: bytes) -> bytes:
        return payload

    def exposed_echo_array(self, data: bytes) -> bytes:
        import numpy as np  # late: only the bulk question needs it

        return np.frombuffer(data, dtype=np.float32).tobytes()

    def exposed_work(self, work_s: float) -> float:
        time.sleep(work_s)
        return work_s


class Client:
    """One connection for each thread; remote functions are looked up once, not at each call."""

    def open(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._bulk = self._connect(ports[0])
        self._echo_array = self._bulk.root.echo_array
        workers = [self._connect(port) for port in ports] if len(ports) > 1 else []
        self._workers = [(link, link.root.work) for link in workers]

    def _connect(self, port: int) -> rpyc.Connection:
        return rpyc.connect("127.0.0.1", port, config={"sync_request_timeout": 60})

    @contextmanager
    def caller(self) -> Iterator[Callable[[bytes], object]]:
        link = self._connect(self._ports[0])
        try:
            yield link.root.echo
        finally:
            link.close()

    def echo_array(self, array: Array) -> Array:
        import numpy as np  # late: only the bulk question needs it

        return np.frombuffer(self._echo_array(array.tobytes()), dtype=np.float32)

    def work(self, worker: int, work_s: float) -> object:
        _, work = self._workers[worker]
        return work(work_s)


def serve(variant: str, ports: Sequence[int]) -> None:
    """One threaded server for each port."""
    del variant
    threads = []
    for port in ports:
        server = ThreadedServer(Service, hostname="127.0.0.1", port=port)
        threads.append(threading.Thread(target=server.start, daemon=True))
        threads[-1].start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(serve, blocking={"plain": Client})
