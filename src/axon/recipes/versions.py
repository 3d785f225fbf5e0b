"""What a run was made with, kept beside its settings and no part of them.

Two runs of one recipe are the same run in another year; whoever compares numbers wants to know that
the machine was another one.
"""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import torch

from axon.recipes.settings import MADE_WITH
from axon.version import __version__

_THEN = ", then "


def made_with(before: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Versions and the platform of this process, after those that the run went on with `before`."""
    now = {
        "axon": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "platform": platform.platform(),
    }
    return {name: _after((before or {}).get(name), version) for name, version in now.items()}


def made_before(saved: str | None) -> Mapping[str, Any]:
    """What the settings in a store say of it; nothing where there are none, or they are old."""
    table = tomllib.loads(msgspec.json.decode(saved, type=str)) if saved else {}
    told = table.get(MADE_WITH)
    return told if isinstance(told, dict) else {}


def _after(before: Any, now: str) -> str:
    """All that it was, in order, each once in a row."""
    if not isinstance(before, str) or not before:
        return now
    return before if before.split(_THEN)[-1] == now else f"{before}{_THEN}{now}"
