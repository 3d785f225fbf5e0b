"""CPU quotas by Linux control groups, where they bite.

That a quota can be written does not mean that it is kept: in some containers the file is there and
does nothing. So a busy child is measured under one before any is handed out.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias

from axon.errors import ConfigurationError
from axon.values import check_positive

Version: TypeAlias = Literal[1, 2]

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
"""Over which a quota is kept: the kernel's own default."""
LEAST_QUOTA_US = 1_000
"""The kernel takes no smaller one."""

TRIAL_FRACTION = 0.3
TRIAL_S = 0.3
BITES = (0.15, 0.45)
"""Between which the trial's share of a processor lies when the quota is kept."""

_HINT = "run as root with a writable cgroup, or throttle with axon.testbed.throttle.DutyCycle"
# The child ends by itself, in case nobody is left to end it.
_BUSY = "import time\nend = time.monotonic() + 10\nwhile time.monotonic() < end: pass"
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether CPU quotas work here, by which version of control groups, and how that is known."""

    works: bool
    version: Version | None
    reason: str


@dataclass(frozen=True, slots=True)
class Place:
    """A directory in which groups with a CPU quota can be made."""

    path: Path
    version: Version


def probe() -> Probe:
    """Measure, once a process and in about half a second, whether CPU quotas work here."""
    return _probe()[0]


def judge(share: float, throttled: int, version: Version) -> Probe:
    """Whether a quota was kept, from what a busy child got and how often the kernel stopped it.

    The share alone would not do: on a crowded machine a child gets little without a quota too.
    """
    found = f"under a quota of {TRIAL_FRACTION:.2f} a busy process got {share:.2f} of a processor"
    found += f" and was stopped {throttled} times (cgroup v{version})"
    least, most = BITES
    if share > most:
        return Probe(False, version, f"{found}: the quota is not kept")
    if share < least or throttled == 0:
        return Probe(False, version, f"{found}: not by the quota, as far as can be told")
    return Probe(True, version, found)


class CpuQuota:
    """A share of one processor, kept by the kernel, for the processes that are added to it.

    It ends when closed, forgotten, or at exit; processes still in it then go on without. The first
    quota of a process takes as long to make as `probe` does.
    """

    def __init__(self, fraction: float) -> None:
        check_positive("fraction", fraction)
        quota_us = round(fraction * PERIOD_US)
        if quota_us < LEAST_QUOTA_US:
            least = LEAST_QUOTA_US / PERIOD_US
            raise ConfigurationError(f"a CPU quota is at least {least}, got {fraction}")
        verdict, place = _probe()
        if place is None:
            raise ConfigurationError(f"CPU quotas do not work here: {verdict.reason}", hint=_HINT)
        self.fraction = fraction
        self._group = _make_group(place, quota_us)
        self._end = weakref.finalize(self, _remove_group, self._group, os.getpid())

    def add(self, pid: int) -> None:
        """Put a process, and the children it starts from now on, under the quota."""
        if not self._end.alive:
            raise ConfigurationError(
                f"process {pid} cannot join a closed CPU quota", hint="make a new CpuQuota"
            )
        try:
            _write(self._group / "cgroup.procs", pid)
        except ProcessLookupError as error:
            raise ConfigurationError(
                f"process {pid} cannot join a CPU quota: there is no such process",
                hint="add it while it runs",
            ) from error
        except OSError as error:
            raise ConfigurationError(
                f"process {pid} cannot join a CPU quota: {error}", hint=_HINT
            ) from error

    def close(self) -> None:
        """End the quota; once or several times."""
        self._end()

    def __enter__(self) -> CpuQuota:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@functools.cache
def _probe() -> tuple[Probe, Place | None]:
    refusals: list[Probe] = []
    for place in places(ROOT):
        verdict = _measure(place)
        if verdict.works:
            return verdict, place
        refusals.append(verdict)
    if not refusals:
        return Probe(False, None, f"no cgroup under {ROOT} controls the CPU"), None
    reason = "; ".join(refusal.reason for refusal in refusals)
    return Probe(False, refusals[-1].version, reason), None


def places(root: Path) -> list[Place]:
    """Where a quota could be set, as the files there have it; whether it bites is another matter.

    Version 1 mounts each controller by itself; version 2 lists them in one tree, which stands
    under `unified` where both are mounted.
    """
    found = [
        Place(path, 1)
        for path in (root / "cpu", root / "cpu,cpuacct")
        if (path / "cpu.cfs_quota_us").exists()
    ]
    for path in (root, root / "unified"):
        controllers = path / "cgroup.controllers"
        if controllers.exists() and "cpu" in controllers.read_text().split():
            found.append(Place(path, 2))
    # `cpu` is often a link to `cpu,cpuacct`.
    return list({place.path.resolve(): place for place in found}.values())


def _measure(place: Place) -> Probe:
    try:
        share, throttled = _try_quota(place)
    except ConfigurationError as error:
        return Probe(False, place.version, error.message)
    except OSError as error:
        return Probe(False, place.version, f"a process cannot be held in a cgroup: {error}")
    return judge(share, throttled, place.version)


def _try_quota(place: Place) -> tuple[float, int]:
    """The share of a processor that a busy child gets, and how often the kernel stopped it."""
    group = _make_group(place, round(TRIAL_FRACTION * PERIOD_US))
    try:
        with _busy_child() as pid:
            _write(group / "cgroup.procs", pid)
            # The period in which it joins is partly free, and a child takes a while to start.
            time.sleep(PERIOD_US / 1e6)
            return _cpu_share(pid, TRIAL_S), _throttled(group)
    finally:
        _remove_group(group, os.getpid())


def _throttled(group: Path) -> int:
    lines = (group / "cpu.stat").read_text().splitlines()
    counts = dict(line.split() for line in lines)
    return int(counts.get("nr_throttled", 0))


@contextmanager
def _busy_child() -> Iterator[int]:
    child = subprocess.Popen([sys.executable, "-S", "-c", _BUSY])  # noqa: S603  (our own code)
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait()


def _cpu_share(pid: int, for_s: float) -> float:
    """The part of one processor that a process uses for so long."""
    began_s, used_s = time.monotonic(), _cpu_s(pid)
    time.sleep(for_s)
    return (_cpu_s(pid) - used_s) / (time.monotonic() - began_s)


def _cpu_s(pid: int) -> float:
    # The name of a program stands in brackets and may hold anything; numbers follow the last one.
    # Those of the time in user and in kernel mode are the 14th and 15th of all, in ticks.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _make_group(place: Place, quota_us: int) -> Path:
    group = place.path / f"axon-{os.getpid()}-{next(_numbers)}"
    try:
        if place.version == 2:
            _let_children_use_cpu(place.path)
        group.mkdir()
    except OSError as error:
        raise ConfigurationError(f"no cgroup can be made: {error}", hint=_HINT) from error
    try:
        _set_quota(group, quota_us, place.version)
    except OSError as error:
        group.rmdir()
        raise ConfigurationError(f"no CPU quota can be set: {error}", hint=_HINT) from error
    return group


def _let_children_use_cpu(parent: Path) -> None:
    control = parent / "cgroup.subtree_control"
    if "cpu" not in control.read_text().split():
        _write(control, "+cpu")


def _set_quota(group: Path, quota_us: int, version: Version) -> None:
    if version == 2:
        _write(group / "cpu.max", f"{quota_us} {PERIOD_US}")
    else:
        _write(group / "cpu.cfs_period_us", PERIOD_US)
        _write(group / "cpu.cfs_quota_us", quota_us)


def _remove_group(group: Path, owner: int) -> None:
    """Move who is left back among the rest, and remove the group, which must be empty for it."""
    if os.getpid() != owner:
        return  # a forked copy of the owner forgets its copy of the quota, and no more
    patience_until_s = time.monotonic() + 1.0
    while group.exists():
        try:
            _empty_group(group)
            group.rmdir()
        except OSError as error:
            # A process that is just ending still counts for a moment.
            if time.monotonic() > patience_until_s:
                raise ConfigurationError(
                    f"a cgroup cannot be removed: {error}", hint=f"later: rmdir {group}"
                ) from error
            time.sleep(0.01)


def _empty_group(group: Path) -> None:
    for pid in (group / "cgroup.procs").read_text().split():
        try:
            _write(group.parent / "cgroup.procs", pid)
        except ProcessLookupError:
            continue  # it has ended meanwhile


def _write(file: Path, value: int | str) -> None:
    # Never creates the file: where the kernel does not offer it, writing one would mean nothing.
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)
