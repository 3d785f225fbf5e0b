"""The catalogue: its numbers by hand, devices from tables, fleets by name."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import ConfigurationError
from axon.rpc.link import Link
from axon.testbed.catalogue import DEVICES, FLEETS, Device, device, device_from, fleet

TWO_NN = 2 * 3 * (784 * 50 + 50 * 20 + 20 * 10)
"""Operations that a sample costs, forwards and twice as many backwards."""


def some_device(kind: str = "toaster", **changes: Any) -> Device:
    values: dict[str, Any] = {
        "flops_per_s": 2e6,
        "batch_overhead_s": 0.25,
        "memory_bytes": 1000,
        "link": Link(),
    }
    return Device(kind=kind, **(values | changes))


def test_a_batch_costs_its_work_and_its_overhead() -> None:
    assert some_device().batch_s(1e6, 3) == 1.75
    assert some_device().batch_s(1e6, 0) == 0.25
    assert device("ideal").batch_s(5e8, 2) == 1e-3


@pytest.mark.parametrize(
    ("name", "gflops"),
    [
        ("rtx-2070-super", 1.605 * 2560 * 2 * 0.06),
        ("jetson-nano", 0.920 * 128 * 2 * 0.06),
        ("ideapad", 1.2 * 128 * 2 * 0.06),
        ("jetson-tx1", 0.998 * 256 * 2 * 0.06),
        ("jetson-tx2", 1.3 * 256 * 2 * 0.06),
        ("pi-1", 1.4 * 4 * 8 * 0.075),
        ("pi-2", 1.8 * 4 * 8 * 0.15),
        ("pi-3", 1.5 * 4 * 8 * 0.15),
    ],
)
def test_rates_follow_from_clocks_and_cores(name: str, gflops: float) -> None:
    assert device(name).flops_per_s == pytest.approx(gflops * 1e9)


def test_fifteen_shards_on_a_pi_last_as_long_as_a_hundred_and_twenty_on_the_nano() -> None:
    batches_per_shard = 500 / 32
    pis = [device(name).batch_s(TWO_NN, 32) for name in ("pi-1", "pi-2", "pi-3")]
    nano_s = 120 * batches_per_shard * device("jetson-nano").batch_s(TWO_NN, 32)
    pi_s = 15 * batches_per_shard * sum(pis) / 3
    assert pi_s == pytest.approx(nano_s, rel=0.1)


def test_four_nanos_take_as_long_over_mnist_as_in_the_thesis() -> None:
    # Two 3 x 3 convolutions of 32 and 64 filters, each halved, then 512 and 10 units.
    forwards = 28**2 * 9 * 32 + 14**2 * 9 * 32 * 64 + 7**2 * 64 * 512 + 512 * 10
    batch_s = device("jetson-nano").batch_s(2 * 3 * forwards, 32)
    assert 5 * 15_000 / 32 * batch_s == pytest.approx(172, rel=0.1)


def test_every_device_is_called_by_its_kind_and_an_unknown_one_lists_them() -> None:
    assert all(name == one.kind for name, one in DEVICES.items())
    with pytest.raises(ConfigurationError, match=r"'pi-9'.*jetson-nano.*ideal"):
        device("pi-9")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"kind": " "}, "kind is a name"),
        ({"flops_per_s": 0.0}, "flops_per_s of 'toaster'.*above 0, got 0.0"),
        ({"batch_overhead_s": -1.0}, "batch_overhead_s of 'toaster'.*got -1.0"),
        ({"batch_overhead_s": math.inf}, "got inf"),
        ({"batch_overhead_s": "1"}, "got '1'"),
        ({"memory_bytes": 1.5}, "memory_bytes of 'toaster'.*got 1.5"),
        ({"link": 3}, "must be a Link, got 3"),
    ],
)
def test_a_device_that_cannot_be_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        some_device(**changes)


def test_a_table_changes_what_it_names_and_nothing_else() -> None:
    table = tomllib.loads("""
        like = "pi-1"
        flops_per_s = 3_000_000_000
        link = { latency_s = 0.5, up_bytes_per_s = inf }
    """)
    pi, changed = device("pi-1"), device_from(table)
    assert (changed.kind, changed.flops_per_s) == ("pi-1", 3e9)
    assert (changed.batch_overhead_s, changed.memory_bytes) == (0.06, 2**29)
    assert (changed.link.latency_s, changed.link.up_bytes_per_s) == (0.5, math.inf)
    assert changed.link.down_bytes_per_s == pi.link.down_bytes_per_s
    assert device_from({"like": "pi-1"}) == pi


def test_a_table_may_describe_the_whole_device() -> None:
    table = {"kind": "toaster", "flops_per_s": 2e6, "batch_overhead_s": 0.25, "memory_bytes": 1000}
    assert device_from(table) == some_device()
    assert device_from(table | {"link": Link(loss=0.5)}) == some_device(link=Link(loss=0.5))


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"like": "pi-9"}, "'pi-9'"),
        ({"like": ["pi-1"]}, "no device is called"),
        ({"like": "pi-1", "flops": 3}, r"no field 'flops' \(known are like, kind, flops_per_s"),
        ({"like": "pi-1", "link": {"speed": 3}}, r"a link has no field 'speed' .*latency_s"),
        ({"like": "pi-1", "link": {"loss": "much"}}, "link's loss must be a number, got 'much'"),
        ({"like": "pi-1", "link": {"loss": 2}}, "from 0 to 1, got 2"),
        ({"like": "pi-1", "link": "wifi"}, "link must be a table, got 'wifi'"),
        ({"kind": "x", "flops_per_s": 1.0}, "needs batch_overhead_s, memory_bytes .*like"),
        ({"like": "pi-1", "flops_per_s": "fast"}, "flops_per_s of 'pi-1'.*got 'fast'"),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused(table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        device_from(table)


def test_the_papers_fleets() -> None:
    assert list(fleet("thesis")) == ["pi-1", "pi-2", "pi-3", "jetson-nano"]
    assert list(fleet("pair")) == ["pi-1", "jetson-nano"]
    assert list(fleet("nanos")) == [f"jetson-nano-{number}" for number in (1, 2, 3, 4)]
    assert len(fleet("nanos-10")) == 10
    assert set(fleet("nanos-10").values()) == {device("jetson-nano")}


def test_fleets_from_text_and_lists() -> None:
    mixed = fleet(" jetson-nano * 3 , pi-1")
    assert list(mixed) == ["jetson-nano-1", "jetson-nano-2", "jetson-nano-3", "pi-1"]
    assert mixed["pi-1"] is device("pi-1")
    assert list(fleet(["pi-1", "pi-2", "pi-1*1"])) == ["pi-1-1", "pi-2", "pi-1-2"]
    assert list(fleet([some_device("pi"), "pi-1", some_device("pi")])) == ["pi-2", "pi-1", "pi-3"]


def test_a_great_many_of_a_kind_are_named_at_once() -> None:
    names = list(fleet("pi-1*100000"))
    assert (len(names), names[-1]) == (100_000, "pi-1-100000")


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        ("thesi", r"no device or fleet is called 'thesi'.*phone.*nanos-10"),
        ("", "called ''"),
        ("pi-1*0", r"'pi-1\*0' needs a whole number of at least 1 .* got '0'"),
        ("pi-1*two", "got 'two'"),
        ("pi-1*100001", "at most 100,000 after .* got '100001'"),
        ("pi-1*" + "9" * 5000, "at most 100,000 after"),
        ("pi-1*", "got ''"),
        ([], "at least 1 device, got 0"),
    ],
)
def test_a_fleet_that_cannot_be_meant_is_refused(members: str | list[str], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        fleet(members)


KINDS = st.sampled_from(["pi", "pi-1", "pi-1-1", "pi-2"])


@settings(max_examples=50, deadline=None)
@given(st.lists(KINDS, min_size=1, max_size=12))
def test_nobody_is_lost_and_names_keep_the_order(kinds: list[str]) -> None:
    named = fleet([some_device(kind) for kind in kinds])
    assert [one.kind for one in named.values()] == kinds


def test_every_fleet_can_be_made() -> None:
    assert all(fleet(name) for name in FLEETS)
