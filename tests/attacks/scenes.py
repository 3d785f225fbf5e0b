"""Scenes for attackers, with as little in them as a test needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from axon.attacks.seam import Scene
from axon.seeds import stream
from axon.values import Vector


def vector(*values: float) -> Vector:
    return np.array(values, np.float32)


def scene(honest: Sequence[Vector] = (), **changes: Any) -> Scene:
    known: dict[str, Any] = {"step": 3, "attackers": 1, "past": (), "random": stream(7, "attack")}
    return Scene(honest=honest, **(known | changes))
