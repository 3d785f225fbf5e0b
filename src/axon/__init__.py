"""Axon: learning across the devices people already have.

`axon.worker` offers functions of this device, `axon.client` calls those of others. Importing `axon`
is cheap and starts nothing; its parts are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from axon.lazy import lazily
from axon.version import __version__

if TYPE_CHECKING:
    from axon import client, errors, stubs, values, worker
    from axon.rpc.wire import register

__all__ = ["__version__", "client", "errors", "register", "stubs", "values", "worker"]

__getattr__ = lazily(
    __name__,
    {name: f"axon.{name}" for name in ("client", "errors", "stubs", "values", "worker")}
    | {"register": "axon.rpc.wire:register"},
)


def __dir__() -> list[str]:
    return sorted(__all__)
