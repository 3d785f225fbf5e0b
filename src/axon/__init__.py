"""Axon: learning across the devices people already have.

`axon.worker` offers functions of this device, `axon.client` calls those of others. Importing `axon`
is cheap and starts nothing; its parts are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from axon.version import __version__

if TYPE_CHECKING:
    from axon import client, errors, stubs, values, worker
    from axon.rpc.wire import register

__all__ = ["__version__", "client", "errors", "register", "stubs", "values", "worker"]

_MODULES = ("client", "errors", "stubs", "values", "worker")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"axon.{name}")
    if name == "register":
        return importlib.import_module("axon.rpc.wire").register
    raise AttributeError(f"module 'axon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
