"""How much memory a device has left, as the system and its container say.

A learner asks before it takes on a task: one that the system kills for its memory is lost to the
round without a word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from axon.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class _Hierarchy:
    """Where one version of Linux's control groups keeps its numbers."""

    folder: str
    limit: str
    used: str
    cache: str
    """In `memory.stat`: what is counted as used but given up when memory is wanted."""


_VERSION_1 = _Hierarchy(
    "sys/fs/cgroup/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file",
)
_VERSION_2 = _Hierarchy("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")


def available_bytes(root: Path = Path("/")) -> int:
    """What this process can still take before the system or its container runs out of memory.

    `root` is the folder under which `proc` and `sys` lie. Raises `ConfigurationError` on a system
    that does not say.
    """
    meminfo = _read(root / "proc/meminfo")
    available = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo, re.MULTILINE)
    on_device = int(available[1]) * 1024 if available else _sysconf_bytes()
    return min([on_device, *_group_rooms(root)])


def _sysconf_bytes() -> int:
    names = getattr(os, "sysconf_names", {})
    for pages in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):  # macOS knows only the second.
        if pages in names:
            return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
    raise ConfigurationError(
        "this system does not say how much memory it has",
        hint="give the learner its memory limit in its settings",
    )


def _group_rooms(root: Path) -> Iterator[int]:
    """What is left under the limit of each control group around this process that has one."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", maxsplit=2)
        if "memory" in controllers.split(","):
            hierarchy = _VERSION_1
        elif not controllers:
            hierarchy = _VERSION_2
        else:
            continue
        own = PurePosixPath(path.lstrip("/"))
        # Inside a container the path may be the host's; the folder itself is then the container's.
        for group in (own, *own.parents):
            room = _room(root / hierarchy.folder / group, hierarchy)
            if room is not None:
                yield room


def _room(group: Path, hierarchy: _Hierarchy) -> int | None:
    limit = _read(group / hierarchy.limit).strip()
    if not limit.isdecimal():  # No such group, or "max".
        return None
    used = int(_read(group / hierarchy.used) or 0)
    cache = re.search(rf"^{hierarchy.cache} (\d+)$", _read(group / "memory.stat"), re.MULTILINE)
    held = max(0, used - int(cache[1])) if cache else used
    return max(0, int(limit) - held)


def _read(path: Path) -> str:
    """The file's text; nothing where it is missing or not ours to read."""
    try:
        return path.read_text()
    except OSError:
        return ""
