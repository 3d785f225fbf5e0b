"""`axon bench`: figures of this device."""

from __future__ import annotations

import json

import pytest

from axon.allocation.dab import shard_bound
from axon.devices import flops
from axon.values import Capability, TaskCost
from tests.cli.scenes import Shell


@pytest.fixture(autouse=True)
def quick_flops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flops, "measure_flops", lambda: 5e9)


def test_json_has_every_figure_and_they_agree(shell: Shell) -> None:
    ended = shell("bench", "--shards", 2, "--bandwidth", 1e6, "--json")
    assert (ended.code, ended.err) == (0, "")
    figures = json.loads(ended.out)
    assert figures["shards_per_s"] == pytest.approx(figures["samples_per_s"] / 50)
    assert figures["shard_s"] == pytest.approx(1 / figures["shards_per_s"])
    # 64 inputs, 50 and 20 units, 10 classes; 50 images of 64 bytes and a byte of label each.
    assert figures["model_bytes"] == 4 * (65 * 50 + 51 * 20 + 21 * 10)
    assert figures["shard_bytes"] == 50 * 65
    assert figures["flops_per_s"] == 5e9
    capability = Capability(shards_per_s=figures["shards_per_s"], bytes_per_s=1e6)
    cost = TaskCost(model_bytes=figures["model_bytes"], shard_bytes=figures["shard_bytes"])
    assert figures["shards_within"] == {
        str(limit): shard_bound(capability, cost, limit) for limit in (5, 15, 60)
    }


def test_a_person_reads_the_same_on_lines(shell: Shell) -> None:
    ended = shell("bench", "--shards", 1, "--shard-samples", 20)
    labels = [line.split("  ")[0] for line in ended.out.splitlines()]
    assert labels == [
        "task", "dataset", "shards", "shard samples", "samples/s", "shards/s", "shard in seconds",
        "model bytes", "shard bytes", "bytes/s", "shards within 5 s", "shards within 15 s",
        "shards within 60 s", "flops/s",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--task", "nonn"], "no net is called 'nonn'"),
        (["--task", "."], "'.' names no module"),
        (["--dataset", "letters"], "no data set 'letters'"),
        (["--shards", "0"], "shards must be"),
        (["--shards", "31"], "31 shards were asked for, there are 30"),
        (["--bandwidth", "0"], "bandwidth must be"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_meant_is_one_line(words: list[str], part: str, shell: Shell) -> None:
    ended = shell("bench", *words)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert part in ended.err
