"""Packages whose names are loaded when first used, so that importing them is cheap."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`: `homes` says, as `module` or `module:name`, where a name lives."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, inner = homes[name].partition(":")
        found = importlib.import_module(module)
        return getattr(found, inner) if inner else found

    return find
