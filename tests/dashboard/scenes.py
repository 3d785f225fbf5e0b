"""Records and feeds for the tests of the dashboard, without a run behind them."""

from __future__ import annotations

import urllib.request
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from axon.dashboard.course import About
from axon.dashboard.facts import CELL, FAILED, LATE, USED, Facts
from axon.dashboard.feed import Feed
from axon.values import DeviceRecord, RoundRecord, Status, Timings

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "\u2028'\"&`${alert(3)}",
    "=HYPERLINK(1)",
    "pi-\u202e1-ip",
)
"""Names that mean something to a browser, a script, a spreadsheet or the order of letters."""


def device(
    name: str, status: Status = "used", *, took_s: float | None = 0.8, **changes: Any
) -> DeviceRecord:
    """A device that fetched for 0.1 s, trained for 0.5 s and answered after 0.8 s."""
    answered = status in ("used", "late", "refused")
    known: dict[str, Any] = {
        "planned_shards": 10,
        "shards": 10 if answered else 0,
        "batches": 20 if answered else 0,
        "samples": 500 if answered else 0,
        "fetched_s": 0.1,
        "answered_s": took_s if answered else None,
        "timings": Timings(download_s=0.1, train_s=0.5) if answered else None,
    }
    return DeviceRecord(device=name, status=status, **{**known, **changes})


def record(cycle: int, devices: Sequence[DeviceRecord], **changes: Any) -> RoundRecord:
    """A cycle of a second, whose accuracy rises by a twentieth."""
    known: dict[str, Any] = {
        "run": "run",
        "started_s": float(cycle - 1),
        "ended_s": cycle - 0.1,
        "deadline_s": 1.0,
        "batches": sum(one.batches for one in devices if one.status == "used"),
        "accuracy": min(1.0, cycle / 20),
        "loss": 2.0 / cycle,
    }
    return RoundRecord(cycle=cycle, devices=tuple(devices), **{**known, **changes})


def small_feed(cycles: int = 3, names: Sequence[str] = ("pi-1", "pi-2")) -> Feed:
    """A feed of one run, in whose second cycle the first device fails."""
    feed = Feed()
    track = feed.open(About(name="run", label="first", cycles=cycles, seed=7))
    for cycle in range(1, cycles + 1):
        lost = device(names[0], "failed", reason="cannot be reached")
        first = lost if cycle == 2 else device(names[0])
        track.add(record(cycle, [first, *map(device, names[1:])]))
    track.stand("finished")
    return feed


def crowd(devices: int, cycles: int) -> Feed:
    """A feed of one large run, made of numbers at once: a file of it would be gigabytes."""
    feed, random = Feed(), np.random.default_rng(7)
    track = feed.open(About(name="crowd", label="crowd", cycles=cycles, seed=7))
    course = track.course
    for number in range(devices):
        course.rolls.devices.number(f"device-{number}")
    reasons = [course.rolls.reasons.number(text) for text in ("", "no answer by the deadline")]
    for cycle in range(1, cycles + 1):
        cells = np.zeros(devices, dtype=CELL)
        cells["device"] = np.arange(devices)
        dice = random.random(devices)
        cells["status"] = np.where(dice < 0.005, FAILED, np.where(dice < 0.01, LATE, USED))
        cells["reason"] = np.where(dice < 0.005, reasons[1], reasons[0])
        cells["planned"] = cells["shards"] = 10
        cells["samples"], cells["batches"] = 500, 20
        cells["fetched"] = cells["download"] = 0.05 + 0.05 * dice
        cells["train"] = 0.3 + 0.4 * random.random(devices)
        cells["answered"] = np.where(dice < 0.005, np.nan, cells["download"] + cells["train"] + 0.1)
        with feed.changing() as stamp:
            course.take(
                Facts(
                    cycle=cycle,
                    started_s=float(cycle - 1),
                    ended_s=float(cycle),
                    deadline_s=1.0,
                    batches=20 * devices,
                    accuracy=1 - 1 / (1 + cycle / 500),
                    loss=2.3 / (1 + cycle / 500),
                    cells=cells,
                ),
                stamp,
            )
    track.stand("finished")
    return feed


def got(url: str, **headers: str) -> Any:
    """The JSON behind an address."""
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return msgspec.json.decode(answer.read())
