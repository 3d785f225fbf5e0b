"""Large arrays pass between processes without being held twice on either side."""

from __future__ import annotations

import json

import pytest

from tests.rpc.scripts import Script, free_port

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]

GIGABYTES_2 = 2**31
EXTRA_BYTES = 64 << 20
"""What either side may use beyond the array itself."""

WATCH = """
import os, sys, threading, time

class Peak:
    '''The most anonymous memory seen while it watched.'''

    def __init__(self):
        self.base = self.most = anonymous()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        while not self._stop.wait(0.002):
            self.look()

    def look(self):
        self.most = max(self.most, anonymous())

    def end(self):
        self._stop.set()
        self._thread.join()
        self.look()
        return self.most - self.base

def anonymous():
    # Whether a mapping is private or shared must not decide what is counted.
    kinds = ("RssAnon:", "RssShmem:")
    with open("/proc/self/status") as status:
        return sum(int(line.split()[1]) << 10 for line in status if line.startswith(kinds))
"""

WORKER = (
    WATCH
    + """
import axon

peak = None

@axon.worker.rpc()
def begin(kind, size):
    '''Make what `give` gives, then watch.'''
    global peak, made
    made = make(kind, size) if size else None
    peak = Peak()

@axon.worker.rpc()
def end():
    return peak.end()

@axon.worker.rpc()
def take(value):
    peak.look()  # All of it is here now, and gone a moment later.
    flat = value.reshape(-1)
    return [int(flat[0]), int(flat[-1]), len(flat)]

@axon.worker.rpc()
def give():
    return made

def make(kind, size):
    if kind == "torch":
        import torch
        return torch.ones(size, dtype=torch.uint8)
    import numpy
    return numpy.ones(size, dtype=numpy.uint8)

if __name__ == "__main__":
    axon.worker.init(port=int(sys.argv[1]))
"""
)

CLIENT = (
    WORKER.partition("if __name__")[0]
    + """
import json

port, kind, size, way = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
stub = axon.client.get_stub(f"127.0.0.1:{port}", stub_type="sync", deadline_s=60)
# Once small, so that what is loaded on first use is not counted.
small = make(kind, 1 << 21)
stub.begin(kind, 1 << 21)
stub.take(small)
stub.give()
stub.end()
stub.begin(kind, size if way == "give" else 0)
array = make(kind, size) if way == "take" else None
mine = Peak()
began = time.perf_counter()
if way == "take":
    first, last, count = stub.take(array)
else:
    array = stub.give()
    first, last, count = int(array[0]), int(array[-1]), len(array)
seconds = time.perf_counter() - began
assert (first, last, count) == (1, 1, size), (first, last, count)
here, there = mine.end(), stub.end()
print(json.dumps({"client": here, "worker": there, "seconds": seconds}))
"""
)


def transfer(kind: str, size: int, way: str) -> dict[str, float]:
    """Extra bytes on both sides of one transfer, the received array itself taken off."""
    port = free_port()
    with Script(WORKER, port, AXON_LOG="off") as worker:
        worker.until_listening(port)
        with Script(CLIENT, port, kind, size, way) as client:
            code, out, err = client.result(100)
    assert code == 0, err
    used: dict[str, float] = json.loads(out)
    receiver = "worker" if way == "take" else "client"
    used[receiver] -= size
    assert used[receiver] > -(1 << 20), "the array that came was not seen, so nothing else was"
    megabytes = {side: f"{used[side] / 1e6:.1f} MB" for side in ("client", "worker")}
    print(f"{kind} {way} {size >> 20} MiB in {used['seconds']:.2f} s, extra {megabytes}")
    return used


def available_bytes() -> int:
    with open("/proc/meminfo") as info:
        line = next(line for line in info if line.startswith("MemAvailable:"))
    return int(line.split()[1]) << 10


@pytest.mark.parametrize("way", ["take", "give"])
def test_two_gigabytes_pass_without_a_second_copy(way: str) -> None:
    if available_bytes() < 3 * GIGABYTES_2:
        pytest.skip("less than 6 GiB of memory to spare")
    used = transfer("numpy", GIGABYTES_2, way)
    assert used["client"] < EXTRA_BYTES
    assert used["worker"] < EXTRA_BYTES


@pytest.mark.parametrize("way", ["take", "give"])
def test_a_tensor_passes_without_a_second_copy(way: str) -> None:
    pytest.importorskip("torch")
    used = transfer("torch", 256 << 20, way)
    assert used["client"] < EXTRA_BYTES
    assert used["worker"] < EXTRA_BYTES
