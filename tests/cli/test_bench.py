"""`axon bench`: figures of this device, and how sure they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from axon.allocation.dab import shard_bound
from axon.allocation.margin import MARGIN
from axon.cli import probe
from axon.devices import flops
from axon.values import Capability, TaskCost
from tests.cli.scenes import Shell

pytestmark = pytest.mark.slow  # All together they take seconds.


@pytest.fixture(autouse=True)
def quick_flops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flops, "measure_flops", lambda: 5e9)


def within(figures: dict[str, Any], lost_s: float = 0.0) -> dict[str, int]:
    """Shards by deadline, from the other figures; a learner keeps a margin of each."""
    capability = Capability(
        shards_per_s=figures["shards_per_s"], bytes_per_s=figures["bytes_per_s"]
    )
    cost = TaskCost(model_bytes=figures["model_bytes"], shard_bytes=figures["shard_bytes"])
    lost_s += figures["fixed_s"]
    return {
        str(limit): shard_bound(capability, cost, limit * (1 - MARGIN) - lost_s)
        for limit in (5, 15, 60)
    }


def test_json_has_every_figure_and_they_agree(shell: Shell) -> None:
    ended = shell("bench", "--bandwidth", 1e6, "--json")
    assert (ended.code, ended.err) == (0, "")
    figures = json.loads(ended.out)
    assert [point["shards"] for point in figures["measured"]] == [2, 4, 8]
    assert figures["shards_per_s"] == pytest.approx(figures["samples_per_s"] / 50)
    assert figures["shard_s"] == pytest.approx(1 / figures["shards_per_s"])
    low, high = figures["shard_s_interval"]
    assert 0 <= low <= figures["shard_s"] <= high
    assert figures["ratio_shard_s"] == pytest.approx(figures["measured"][-1]["seconds"] / 8)
    predicted = figures["predicted"]
    assert predicted["seconds"] == pytest.approx(figures["fixed_s"] + 60 * figures["shard_s"])
    assert predicted["interval"][0] <= predicted["seconds"] <= predicted["interval"][1]
    # 64 inputs, 50 and 20 units, 10 classes; 50 images of 64 bytes and a byte of label each.
    assert figures["model_bytes"] == 4 * (65 * 50 + 51 * 20 + 21 * 10)
    assert figures["shard_bytes"] == 50 * 65
    assert (figures["flops_per_s"], figures["bytes_per_s"], figures["link"]) == (5e9, 1e6, None)
    assert figures["shards_within"] == within(figures)


def test_the_papers_ratio_has_nothing_paid_once_and_one_point_no_interval(shell: Shell) -> None:
    figures = json.loads(shell("bench", "--method", "ratio", "--shards", 1, "--json").out)
    assert (figures["method"], figures["fixed_s"]) == ("ratio", 0.0)
    assert figures["shard_s"] == pytest.approx(figures["measured"][0]["seconds"])
    assert figures["ratio_shard_s"] == pytest.approx(figures["shard_s"])
    assert figures["shard_s_interval"] is figures["predicted"]["interval"] is None


def test_a_measured_link_is_reckoned_with_and_its_latency_paid_for_each_request(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [(size, 0.1 + size / 2e6) for size in (1e5, 2e5, 4e5)]
    monkeypatch.setattr(probe, "measured", lambda where, way: points)
    figures = json.loads(shell("bench", "--shards", 2, "--link", "pi.local", "--json").out)
    assert figures["link"] == "pi.local"
    assert figures["bytes_per_s"] == pytest.approx(2e6)
    assert figures["latency_s"] == pytest.approx(0.1)
    assert figures["shards_within"] == within(figures, lost_s=3 * figures["latency_s"])


def test_a_person_reads_what_was_measured_and_what_follows(shell: Shell) -> None:
    ended = shell("bench", "--shards", 4, "--shard-samples", 20)
    measured, follows = ended.out.split("\n\n")
    assert [line.split()[0] for line in measured.splitlines()] == ["SHARDS", "1", "2", "4"]
    lines = dict(line.split("  ", 1) for line in follows.splitlines())
    assert list(lines) == [
        "task", "a shard has", "the model has", "paid once", "a shard takes", "by plain ratio",
        "60 shards", "samples/s", "shards/s", "the link", "latency", "within 5 s", "within 15 s",
        "within 60 s", "flops/s",
    ]  # fmt: skip
    assert lines["task"].strip() == "twonn on digits"
    assert "95 %" in lines["a shard takes"]
    assert lines["the link"].endswith("assumed")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--task", "nonn"], "no net is called 'nonn'"),
        (["--task", "."], "'.' names no module"),
        (["--dataset", "letters"], "no data set 'letters'"),
        (["--shards", "0"], "shards must be"),
        (["--shards", "31"], "31 shards were asked for, there are 30"),
        (["--bandwidth", "0"], "bandwidth must be"),
        (["--method", "guess"], "no method is called 'guess' (affine or ratio)"),
        (["--link", "127.0.0.1:1", "--bandwidth", "3"], "give --link or --bandwidth"),
        (["--link", "[::1"], "is no address"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_meant_is_one_line(words: list[str], part: str, shell: Shell) -> None:
    ended = shell("bench", *words)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert part in ended.err
