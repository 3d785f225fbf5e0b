"""Faults in the middle of a cycle, on real processes: the others go on, the lost one comes back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from axon.testbed.emulation import emulated
from axon.values import RoundRecord
from tests.system.processes import (
    QUICK,
    Happenings,
    Stage,
    pauses,
    quick_run,
    reasons,
    staged,
    statuses,
)

pytestmark = [pytest.mark.system, pytest.mark.alone]

MIDDLE_S = 0.12
"""After a cycle began: everybody is training."""
SLOW_UP = replace(QUICK.link, up_bytes_per_s=0.05e6)
"""An update takes over a third of a second."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    devices = {"a": QUICK, "b": QUICK, "c": replace(QUICK, link=SLOW_UP)}
    with staged(emulated(devices)) as stage:
        yield stage


def check_the_others(records: list[RoundRecord]) -> None:
    """No cycle took more than a tenth too long, none was late to begin, nobody else was lost."""
    assert max(record.truancy for record in records) <= 0.1
    assert max(pauses(records)) < 0.5
    assert set(statuses(records, "a")) == {"used"}


def test_killed(stage: Stage) -> None:
    records = stage.play(
        quick_run(5),
        Happenings(
            during={2: (MIDDLE_S, lambda: stage.fleet.crash("b"))},
            after={3: lambda: stage.fleet.start("b")},
        ),
    )
    check_the_others(records[:3])
    check_the_others(records[3:])
    assert statuses(records, "b") == ["used", "failed", "failed", "used", "used"]
    assert reasons(records, "b")[1].startswith("the connection was lost")
    assert reasons(records, "b")[2].startswith("cannot be reached")
    assert records[2].truancy < 0.0, "for who is known to be gone nobody waits"


def test_frozen(stage: Stage) -> None:
    records = stage.play(
        quick_run(5),
        Happenings(
            during={2: (MIDDLE_S, lambda: stage.fleet.freeze("b"))},
            after={3: lambda: stage.fleet.thaw("b")},
        ),
    )
    check_the_others(records)
    assert statuses(records, "b") == ["used", "failed", "failed", "used", "used"]
    assert reasons(records, "b")[1:3] == ["no answer by the deadline"] * 2


def test_frozen_and_awake_in_the_next_cycle(stage: Stage) -> None:
    records = stage.play(
        quick_run(4),
        Happenings(
            during={
                2: (MIDDLE_S, lambda: stage.fleet.freeze("b")),
                3: (MIDDLE_S, lambda: stage.fleet.thaw("b")),
            }
        ),
    )
    check_the_others(records)
    assert statuses(records, "b") == ["used", "failed", "used", "used"]


def test_cut_off(stage: Stage) -> None:
    records = stage.play(
        quick_run(5),
        Happenings(
            during={2: (MIDDLE_S, lambda: stage.fleet.partition("b"))},
            after={3: lambda: stage.fleet.heal("b")},
        ),
    )
    check_the_others(records)
    assert statuses(records, "b") == ["used", "failed", "failed", "used", "used"]
    assert reasons(records, "b")[1:3] == ["no answer by the deadline"] * 2


def test_too_late(stage: Stage) -> None:
    records = stage.play(quick_run(4, deadline_s=0.5, learning_rate=0.05))
    check_the_others(records)
    assert statuses(records, "c")[0] == "failed"
