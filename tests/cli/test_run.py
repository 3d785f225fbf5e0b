"""`axon run`: the same from a TOML file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from axon.recipes.settings import read_recipe
from tests.cli.scenes import SMALL, Shell

RECIPE = """
devices = "pair"
allocator = "equal:2"
cycles = 2
seed = 7
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


def test_a_file_is_as_good_as_options(shell: Shell, file: Path, tmp_path: Path) -> None:
    assert shell("run", file, "--out", tmp_path / "a").code == 0
    assert shell("train", *SMALL, "--seed", 7, "--out", tmp_path / "b").code == 0
    one, other = ((tmp_path / name / "records.jsonl").read_bytes() for name in "ab")
    assert one == other
    assert one.count(b"\n") == 2


def test_what_a_run_keeps_can_be_run_again(shell: Shell, file: Path, tmp_path: Path) -> None:
    shell("run", file, "--out", tmp_path / "a")
    shell("run", tmp_path / "a" / "run.toml", "--out", tmp_path / "b")
    one, other = ((tmp_path / name / "records.jsonl").read_bytes() for name in "ab")
    assert one == other
    # What it was made with stands in the file as well, and says nothing against going on.
    again = shell("run", tmp_path / "a" / "run.toml", "--out", tmp_path / "a", "--resume")
    assert (again.code, again.err) == (0, "")


def test_options_override_the_file(shell: Shell, file: Path, tmp_path: Path) -> None:
    shell("run", file, "--seed", 8, "--cycles", 1, "--out", tmp_path / "a")
    kept = read_recipe(tmp_path / "a" / "run.toml")
    assert (kept.seed, kept.cycles, kept.devices) == (8, 1, "pair")


def test_resuming_goes_by_what_the_file_said_at_first(
    shell: Shell, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a"
    shell("run", file, "--out", out)
    assert shell("run", file, "--out", out, "--resume", "--cycles", 3).out.startswith("cycle 3/3")
    file.write_text(RECIPE + "deadline_s = 9.0\n")
    ended = shell("run", file, "--out", out, "--resume")
    assert ended.code == 2
    assert "deadline_s is 9.0 here and was 1.0 there" in ended.err


def test_devices_of_ones_own_stand_in_the_file(shell: Shell, file: Path) -> None:
    file.write_text(
        RECIPE.replace('devices = "pair"', "") + '[device.mine]\nlike = "pi-1"\nflops_per_s = 1e9\n'
    )
    assert "\nmine " in shell("run", file).out


def test_hosts_in_the_file_mean_the_deployed_world(shell: Shell, file: Path) -> None:
    file.write_text('hosts = ["pi.local"]\n')
    assert "pass --key" in shell("run", file).err


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("cycles = ", "is not TOML"),
        ("cycels = 3", "unknown setting cycels"),
        ('cycles = "3"', "of the wrong kind"),
        ("deadline_s = -1.0", "deadline_s must be"),
        ("cycles = 0", "cycles must be"),
        ('[device.mine]\nlike = "toaster"', "no device is called 'toaster'"),
    ],
)
def test_a_file_that_cannot_be_meant_is_one_line(
    text: str, part: str, shell: Shell, file: Path
) -> None:
    file.write_text(text)
    ended = shell("run", file)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert part in ended.err


def test_a_file_that_cannot_be_read_is_one_line(shell: Shell, tmp_path: Path) -> None:
    ended = shell("run", tmp_path / "none.toml")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "cannot read" in ended.err
    (tmp_path / "bytes.toml").write_bytes(os.urandom(8) + b"\xff\x00")
    assert "is not TOML" in shell("run", tmp_path / "bytes.toml").err
