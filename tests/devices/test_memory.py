"""The memory that is left, as the files of a made-up system have it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from axon.devices import available_bytes
from axon.errors import ConfigurationError

MEMINFO = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    4000 kB\n"
ON_DEVICE = 4000 * 1024


def system(root: Path, files: dict[str, str], meminfo: str = MEMINFO) -> Path:
    """A root folder with these files in it."""
    for name, text in {"proc/meminfo": meminfo, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_a_container_it_is_what_the_kernel_says(tmp_path: Path) -> None:
    assert available_bytes(system(tmp_path, {})) == ON_DEVICE


def test_a_limit_of_version_2_counts_less_what_is_held(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": "1000000\n",
        "sys/fs/cgroup/memory.current": "400000\n",
        "sys/fs/cgroup/memory.stat": "anon 250000\ninactive_file 150000\nactive_file 0\n",
    }
    # The inactive cache is given up when memory is wanted.
    assert available_bytes(system(tmp_path, files)) == 1_000_000 - (400_000 - 150_000)


def test_a_limit_of_version_1_counts_less_what_is_held(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "7:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n",
        # The folder itself is the container's; the path of the host is not to be seen in it.
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000000\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "400000\n",
        "sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 150000\n",
    }
    assert available_bytes(system(tmp_path, files)) == 750_000


@pytest.mark.parametrize("tighter", ["a", "a/b"])
def test_the_tightest_of_the_groups_around_the_process_counts(tmp_path: Path, tighter: str) -> None:
    files = {
        "proc/self/cgroup": "0::/a/b\n",
        "sys/fs/cgroup/a/memory.max": "3000000",
        "sys/fs/cgroup/a/b/memory.max": "3000000",
    }
    files[f"sys/fs/cgroup/{tighter}/memory.max"] = "2000000"
    assert available_bytes(system(tmp_path, files)) == 2_000_000


@pytest.mark.parametrize(
    ("line", "name", "limit"),
    [
        ("0::/", "sys/fs/cgroup/memory.max", "max\n"),
        ("4:memory:/", "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("5:pids:/", "sys/fs/cgroup/memory.max", "1\n"),
    ],
)
def test_no_limit_is_no_limit(tmp_path: Path, line: str, name: str, limit: str) -> None:
    root = system(tmp_path, {"proc/self/cgroup": line, name: limit})
    assert available_bytes(root) == ON_DEVICE


def test_a_container_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/",
        "sys/fs/cgroup/memory.max": "1000",
        "sys/fs/cgroup/memory.current": "1001",
    }
    assert available_bytes(system(tmp_path, files)) == 0


@pytest.mark.parametrize("known", ["SC_AVPHYS_PAGES", "SC_PHYS_PAGES"])
def test_a_system_without_these_files_is_asked_for_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    pages = {known: 10, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf_names", dict.fromkeys(pages, 0))
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert available_bytes(tmp_path) == 40960
    # Kernels before 3.14 have no MemAvailable.
    assert available_bytes(system(tmp_path, {}, meminfo="MemFree: 1000 kB\n")) == 40960


def test_a_system_that_does_not_say_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sysconf_names", {})
    with pytest.raises(ConfigurationError, match="does not say how much memory"):
        available_bytes(tmp_path)


def test_this_machine_has_some() -> None:
    assert 1 << 20 < available_bytes() < 1 << 50
