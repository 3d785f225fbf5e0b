"""Devices that run `axon worker`: they join, leave and come back, and only those with the key."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from axon.rounds.remote import Hosting
from axon.testbed.deployment import deployed
from tests import forks
from tests.rpc.scripts import free_port
from tests.system.processes import (
    DeviceCommand,
    Happenings,
    pauses,
    play,
    quick_run,
    reasons,
    statuses,
)

pytestmark = [pytest.mark.system, pytest.mark.alone]

DEADLINE_S = 2.0


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two key files that have nothing to do with one another."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        with forks.command(f"keys new {folder / name} --no-tls", folder) as running:
            assert running.result()[0] == 0
    return {name: folder / name / "axon.key" for name in ("ours", "theirs")}


@pytest.fixture(scope="module")
def devices(keys: dict[str, Path]) -> Iterator[dict[str, DeviceCommand]]:
    """Two without a key, one with ours and one with another."""
    options: dict[str, tuple[object, ...]] = {
        "a": (),
        "b": (),
        "ours": ("--key", keys["ours"]),
        "theirs": ("--key", keys["theirs"]),
    }
    commands = {name: DeviceCommand(name, free_port(), *given) for name, given in options.items()}
    try:
        for command in commands.values():
            command.await_ready()
        yield commands
    finally:
        codes = {command.stop() for command in commands.values()}
    assert codes == {0}


def test_devices_come_and_go(devices: dict[str, DeviceCommand]) -> None:
    a, b = devices["a"], devices["b"]
    world = deployed({"a": a.address})

    def come_back() -> None:
        b.start()
        b.await_ready()

    def fall_over_and_come_back() -> None:
        b.stop(signal.SIGKILL)
        come_back()

    what = Happenings(
        after={
            2: lambda: world.fleet.join("b", b.address),
            3: b.stop,
            5: come_back,
            6: fall_over_and_come_back,
            7: lambda: world.fleet.leave("b"),
        }
    )
    records = world.run(lambda fleet: play(quick_run(8, deadline_s=DEADLINE_S), fleet, what))
    assert statuses(records, "a") == ["used"] * 8
    present = [[one.device for one in record.devices] for record in records]
    assert present == [["a"]] * 2 + [["a", "b"]] * 5 + [["a"]]
    assert statuses(records, "b") == ["used", "failed", "failed", "used", "used"]
    assert all("cannot be reached" in reason for reason in reasons(records, "b")[1:3])
    assert max(record.truancy for record in records) < -0.5, "for nobody was anybody waited"


def test_an_address_that_keeps_silent_holds_nobody_up(devices: dict[str, DeviceCommand]) -> None:
    b = devices["b"]
    world = deployed([devices["a"].address, b.address])
    b.send(signal.SIGSTOP)
    try:
        what = Happenings(after={2: lambda: b.send(signal.SIGCONT)})
        records = world.run(lambda fleet: play(quick_run(3, deadline_s=0.5), fleet, what))
    finally:
        b.send(signal.SIGCONT)
    assert statuses(records, "a") == ["used"] * 3
    assert statuses(records, b.address) == ["failed"] * 2, "it has not said its name"
    assert statuses(records, "b") == ["used"]
    assert max(record.truancy for record in records) <= 0.1
    assert max(pauses(records)) < 0.3


def test_only_with_the_key(devices: dict[str, DeviceCommand], keys: dict[str, Path]) -> None:
    hosts = [devices[name].address for name in ("ours", "theirs", "a")]
    world = deployed(hosts, hosting=Hosting(key=keys["ours"]))
    records = world.run(lambda fleet: play(quick_run(2, deadline_s=DEADLINE_S), fleet))
    assert statuses(records, "ours") == ["used", "used"]
    for record in records:
        others = {one.device: one for one in record.devices if one.device != "ours"}
        assert set(others) == set(hosts[1:]), "who has not said a name stands under the address"
        assert {one.status for one in others.values()} == {"failed"}
        assert others[hosts[1]].reason.startswith("Unauthorised: no key")
        assert others[hosts[2]].reason.endswith("the answer is not signed")
