"""A device that offers four functions. Run it, then call them from anywhere on this machine."""

import sys
import time
from collections.abc import Iterator
from typing import Any

import axon


@axon.worker.rpc()
def simple_hello(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}!!"


@axon.worker.rpc()
def train(epochs: int) -> float:
    """Pretend to train, reporting the loss after each epoch."""
    loss = 1.0
    for epoch in range(epochs):
        time.sleep(0.05)
        loss *= 0.7
        axon.worker.progress({"epoch": epoch + 1, "loss": round(loss, 3)})
    return loss


@axon.worker.rpc()
def readings(count: int) -> Iterator[int]:
    """A sensor: each item is sent when the caller asks for the next."""
    yield from range(count)


@axon.worker.rpc(executor="inline")
def echo(value: Any) -> Any:
    """Give back what came."""
    return value


if __name__ == "__main__":
    axon.worker.init(port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
