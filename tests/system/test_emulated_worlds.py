"""The emulated world beside the simulated one, and what the system can add to it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import pytest

from axon.allocation.equal import Equal
from axon.errors import ConfigurationError
from axon.learning.tasks import default_spec, load_tasks
from axon.rounds.settings import Scheme
from axon.rpc.link import Link
from axon.testbed import cgroups, namespaces
from axon.testbed.activity import MATRIX_BYTES, PRODUCT_FLOPS, Activity
from axon.testbed.catalogue import Device
from axon.testbed.emulation import Emulation, emulated
from axon.testbed.simulation import simulated
from axon.values import RoundRecord
from tests.system.processes import DIGITS, QUICK, Happenings, play, quick_run, staged, statuses

pytestmark = pytest.mark.system

PLAIN = Device(
    kind="plain",
    flops_per_s=15e9,
    batch_overhead_s=0.03,
    memory_bytes=2**30,
    link=Link(latency_s=0.002, up_bytes_per_s=25e6, down_bytes_per_s=25e6),
)
DEVICES = {"fetching": PLAIN, "multiplying": PLAIN, "plain": PLAIN}
ACTIVITY = {
    "fetching": Activity({"downloading": 1.0}),
    "multiplying": Activity({"training": 1.0}),
}
TOLD = Scheme(allocate=Equal(shards=12))
RUN = quick_run(5, deadline_s=3.0, learning_rate=0.2)


@dataclass(frozen=True, slots=True)
class Both:
    """The same run, in both worlds."""

    emulated: list[RoundRecord]
    simulated: list[RoundRecord]


@pytest.fixture(scope="module")
def both() -> Both:
    emulation = Emulation(activity=ACTIVITY)
    with staged(emulated(DEVICES, emulation=emulation)) as stage:
        real = stage.play(RUN, scheme=TOLD)
    world = simulated(DEVICES, activity=ACTIVITY)
    return Both(real, world.run(lambda fleet: play(RUN, fleet, scheme=TOLD)))


def middle(records: Sequence[RoundRecord], time: Callable[[RoundRecord], float]) -> float:
    """Over all cycles but the first, which pays for much that happens once."""
    return median(time(record) for record in records[1:])


def answered_s(device: str) -> Callable[[RoundRecord], float]:
    """When its answers came."""

    def of(record: RoundRecord) -> float:
        found = next(one for one in record.devices if one.device == device)
        assert found.answered_s is not None, found
        return found.answered_s

    return of


@pytest.mark.alone
def test_it_takes_as_long_as_in_the_simulation(both: Both) -> None:
    reckoned = middle(both.simulated, lambda record: record.duration_s)
    assert middle(both.emulated, lambda record: record.duration_s) == pytest.approx(
        reckoned, rel=0.1
    )


@pytest.mark.alone
def test_it_learns_as_in_the_simulation(both: Both) -> None:
    for records in (both.emulated, both.simulated):
        assert {len(record.with_status("used")) for record in records} == {len(DEVICES)}
    real, reckoned = (
        [record.accuracy for record in records] for records in (both.emulated, both.simulated)
    )
    assert real == pytest.approx(reckoned, abs=0.02)
    assert (reckoned[-1] or 0.0) > (reckoned[0] or 1.0) + 0.05


@pytest.mark.alone
def test_an_owner_at_work_costs_what_contention_says(both: Both) -> None:
    plain = middle(both.emulated, answered_s("plain"))
    batches = RUN.spec.batches(4 * RUN.shard_samples)
    product_s = batches * PRODUCT_FLOPS / PLAIN.flops_per_s
    download_s = 2 * MATRIX_BYTES / PLAIN.link.down_bytes_per_s
    cost_s = middle(both.emulated, answered_s("multiplying")) - plain
    assert cost_s == pytest.approx(product_s, rel=0.15)
    cost_s = middle(both.emulated, answered_s("fetching")) - plain
    assert cost_s == pytest.approx(download_s, rel=0.15)


TALKATIVE = """
from torch import nn
from axon.learning import define

print("http://127.0.0.1:1")

class Talkative(nn.Sequential):
    def forward(self, inputs):
        print("x" * 20_000)
        return super().forward(inputs)

@define("talkative")
def talkative(inputs, classes):
    return Talkative(nn.Flatten(), nn.Linear(64, classes))
"""
"""It prints what could be an address, and then more than a pipe holds."""


def test_what_a_task_prints_goes_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "talkative.py"
    file.write_text(TALKATIVE)
    spec = default_spec(load_tasks(str(file)), DIGITS.shape, DIGITS.classes)
    emulation = Emulation(links="none", tasks=(str(file),))
    with staged(emulated({"a": QUICK}, emulation=emulation)) as stage:
        records = stage.play(replace(quick_run(2, deadline_s=3.0), spec=spec, evaluate_every=0))
    assert statuses(records, "a") == ["used", "used"]
    assert sum(record.batches for record in records) * 20_000 > 100_000, "no pipe holds as much"


def test_a_task_that_fails_on_a_device_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    file = tmp_path / "failing.py"
    file.write_text("print('hello', end='')\nraise LookupError('not here')\n")
    world = emulated({"a": QUICK}, emulation=Emulation(links="none", tasks=(str(file),)))
    with (
        pytest.raises(ConfigurationError, match=r"did not start: .*LookupError: not here"),
        staged(world),
    ):
        pass


@pytest.mark.alone
def test_links_in_the_kernel() -> None:
    found = namespaces.probe()
    if not found.works:
        pytest.skip(f"no namespaces: {found.reason}")
    emulation = Emulation(links="namespaces")
    with staged(emulated({"a": QUICK, "b": QUICK}, emulation=emulation)) as stage:
        assert our_networks()
        records = stage.play(quick_run(2))
    assert statuses(records, "a") == statuses(records, "b") == ["used", "used"]
    assert not our_networks()


@pytest.mark.alone
def test_a_quota_on_the_processor() -> None:
    found = cgroups.probe()
    if not found.works:
        pytest.skip(f"no quotas: {found.reason}")
    slow = replace(QUICK, flops_per_s=1e9)
    emulation = Emulation(cpu="quota", links="none")
    with staged(emulated({"a": slow, "b": slow}, emulation=emulation)) as stage:
        assert [len(held) for held in our_groups().values()] == [1, 1]
        again = Happenings(
            during={1: (0.1, lambda: stage.fleet.crash("b"))},
            after={1: lambda: stage.fleet.start("b")},
        )
        records = stage.play(quick_run(3, deadline_s=2.0), again)
        assert [len(held) for held in our_groups().values()] == [1, 1], "the new one is held too"
    assert statuses(records, "a") == ["used", "used", "used"]
    assert statuses(records, "b") == ["failed", "used", "used"]
    assert not our_groups()


def our_networks() -> list[str]:
    """What this process has made of namespaces and links, as the system lists them."""
    listings = (["ip", "netns", "list"], ["ip", "-brief", "link", "show"])
    lines = [
        line
        for command in listings
        for line in subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    ]
    return [line for line in lines if line.startswith(f"axon{os.getpid():x}-")]


def our_groups() -> dict[str, list[int]]:
    """The processes in each group that this process has made."""
    folders = [
        folder
        for place in cgroups.places(cgroups.ROOT)
        for folder in place.path.glob(f"axon-{os.getpid()}-*")
    ]
    return {folder.name: processes_in(folder) for folder in sorted(folders)}


def processes_in(group: Path) -> list[int]:
    return [int(line) for line in (group / "cgroup.procs").read_text().split()]
