"""CPU quotas: what is found, what is believed, and that a busy process really slows down."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from axon.errors import ConfigurationError
from axon.testbed import cgroups
from axon.testbed.cgroups import CpuQuota, Place, Probe, judge, places, probe

BUSY = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"


@pytest.fixture
def no_quotas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A machine with whatever control groups the test writes under a folder."""
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    cgroups._probe.cache_clear()
    yield tmp_path
    cgroups._probe.cache_clear()


def test_both_versions_are_found_where_they_control_the_cpu(tmp_path: Path) -> None:
    assert places(tmp_path) == []
    (tmp_path / "cpu,cpuacct").mkdir()
    (tmp_path / "cpu,cpuacct" / "cpu.cfs_quota_us").touch()
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    (tmp_path / "unified").mkdir()
    controllers = tmp_path / "unified" / "cgroup.controllers"
    controllers.write_text("cpuset memory\n")
    assert [place.version for place in places(tmp_path)] == [1]
    controllers.write_text("cpuset cpu memory\n")
    assert [place.version for place in places(tmp_path)] == [1, 2]
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    assert places(tmp_path)[1:] == [Place(tmp_path, 2), Place(tmp_path / "unified", 2)]


@pytest.mark.parametrize(
    ("share", "throttled", "works", "why"),
    [
        (0.30, 3, True, ""),
        (0.16, 3, True, ""),
        (0.44, 1, True, ""),
        (0.97, 0, False, "the quota is not kept"),
        (0.50, 3, False, "the quota is not kept"),
        (0.30, 0, False, "not by the quota"),
        (0.10, 3, False, "not by the quota"),
    ],
)
def test_only_a_quota_that_is_kept_is_believed(
    share: float, throttled: int, works: bool, why: str
) -> None:
    verdict = judge(share, throttled, 2)
    assert (verdict.works, verdict.version) == (works, 2)
    assert f"got {share:.2f} of a processor and was stopped {throttled} times" in verdict.reason
    assert why in verdict.reason


def test_a_machine_without_control_groups_says_so(no_quotas: Path) -> None:
    assert probe() == Probe(False, None, f"no cgroup under {no_quotas} controls the CPU")
    with pytest.raises(ConfigurationError, match=r"do not work here: no cgroup .*DutyCycle"):
        CpuQuota(0.5)


def test_a_cpu_file_that_the_kernel_does_not_offer_is_not_made(no_quotas: Path) -> None:
    (no_quotas / "cgroup.controllers").write_text("cpu\n")
    (no_quotas / "cgroup.subtree_control").write_text("cpu\n")
    verdict = probe()
    assert (verdict.works, verdict.version) == (False, 2)
    assert "no CPU quota can be set" in verdict.reason
    assert sorted(path.name for path in no_quotas.iterdir()) == [
        "cgroup.controllers",
        "cgroup.subtree_control",
    ]


@pytest.mark.parametrize(
    ("fraction", "complaint"), [(0.0, "above 0, got 0.0"), (0.001, "at least 0.01, got 0.001")]
)
def test_a_quota_that_cannot_be_meant_is_refused(fraction: float, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        CpuQuota(fraction)


@pytest.fixture
def working() -> Probe:
    verdict = probe()
    if not verdict.works:
        pytest.skip(verdict.reason)
    return verdict


@pytest.fixture
def busy_pid() -> Iterator[int]:
    child = subprocess.Popen([sys.executable, "-S", "-c", BUSY])
    yield child.pid
    child.kill()
    child.wait()


def own_groups() -> list[Path]:
    return [
        group
        for place in places(cgroups.ROOT)
        for group in place.path.glob(f"axon-{os.getpid()}-*")
    ]


def share(pid: int, for_s: float) -> float:
    """The part of one processor that a process uses, by its own clock of nanoseconds."""
    clock = (~pid << 3) | 2  # the kernel's number for the CPU clock of another process
    began_s, used_s = time.monotonic(), time.clock_gettime(clock)
    time.sleep(for_s)
    return (time.clock_gettime(clock) - used_s) / (time.monotonic() - began_s)


@pytest.mark.alone
@pytest.mark.system
def test_a_quota_slows_a_busy_process_until_it_is_closed(working: Probe, busy_pid: int) -> None:
    with CpuQuota(0.2) as quota:
        quota.add(busy_pid)
        time.sleep(0.1)
        held = share(busy_pid, 0.5)
        assert len(own_groups()) == 1
    assert 0.0 < held < 0.3
    assert own_groups() == []
    assert "axon-" not in Path(f"/proc/{busy_pid}/cgroup").read_text()


@pytest.mark.alone
@pytest.mark.system
def test_each_quota_is_a_group_of_its_own_and_closes_once_or_often(working: Probe) -> None:
    first, second = CpuQuota(0.5), CpuQuota(1.5)
    assert len(own_groups()) == 2
    first.close()
    first.close()
    assert len(own_groups()) == 1
    with pytest.raises(ConfigurationError, match="closed CPU quota"):
        first.add(os.getpid())
    second.close()
    assert own_groups() == []


@pytest.mark.alone
@pytest.mark.system
def test_a_forgotten_quota_is_removed(working: Probe) -> None:
    quota = CpuQuota(0.5)
    assert len(own_groups()) == 1
    del quota
    assert own_groups() == []


@pytest.mark.alone
@pytest.mark.system
def test_a_process_that_has_ended_cannot_be_added(working: Probe) -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    child.wait()
    with CpuQuota(0.5) as quota, pytest.raises(ConfigurationError, match=rf"{child.pid} .*no such"):
        quota.add(child.pid)
    assert own_groups() == []


@pytest.mark.alone
@pytest.mark.system
def test_a_quota_left_open_is_removed_at_exit(working: Probe) -> None:
    # The other process believes what was measured here.
    place = cgroups._probe()[1]
    assert place is not None
    program = (
        "import os, pathlib\n"
        "from axon.testbed import cgroups\n"
        f"place = cgroups.Place(pathlib.Path({str(place.path)!r}), {place.version})\n"
        "cgroups._probe = lambda: (None, place)\n"
        "quota = cgroups.CpuQuota(0.5)\n"
        "quota.add(os.getpid())\n"
        "print(quota._group)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    group = Path(done.stdout.strip())
    assert group.name.startswith("axon-")
    assert not group.exists()
    assert done.stderr == ""
