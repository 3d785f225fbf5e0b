"""The nouns check themselves, and say which field is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import ConfigurationError
from axon.values import (
    Capability,
    DeviceRecord,
    Failure,
    Job,
    RoundRecord,
    Samples,
    Share,
    Status,
    TaskCost,
    TaskSpec,
    check_positive,
    check_whole,
)


def spec_of(**changes: Any) -> TaskSpec:
    fields: dict[str, Any] = {"net": "twonn", "inputs": (4,), "classes": 3}
    return TaskSpec(**(fields | changes))


def capability_of(**changes: Any) -> Capability:
    return Capability(**({"shards_per_s": 1.0, "bytes_per_s": 1.0} | changes))


def cost_of(**changes: Any) -> TaskCost:
    return TaskCost(**({"model_bytes": 1, "shard_bytes": 1} | changes))


def share_of(**changes: Any) -> Share:
    return Share(**({"shards": 1} | changes))


WHOLE: list[tuple[Callable[..., object], str, int]] = [
    (spec_of, "batch_size", 1),
    (spec_of, "classes", 1),
    (cost_of, "model_bytes", 0),
    (cost_of, "shard_bytes", 0),
    (cost_of, "passes", 1),
    (share_of, "shards", 0),
    (share_of, "passes", 1),
]
POSITIVE: list[tuple[Callable[..., object], str]] = [
    (spec_of, "learning_rate"),
    (capability_of, "shards_per_s"),
    (capability_of, "bytes_per_s"),
]


@pytest.mark.parametrize(("make", "name", "least"), WHOLE)
def test_a_number_that_must_be_whole_is_named_when_it_is_not(
    make: Callable[..., object], name: str, least: int
) -> None:
    make(**{name: least})
    make(**{name: 10**12})
    for wrong in (least - 1, 1.0, math.nan, "1", True, [1]):
        with pytest.raises(ConfigurationError) as caught:
            make(**{name: wrong})
        assert str(caught.value) == (
            f"{name} must be a whole number of at least {least}, got {wrong!r}"
        )


@pytest.mark.parametrize(("make", "name"), POSITIVE)
def test_a_number_that_must_be_positive_is_named_when_it_is_not(
    make: Callable[..., object], name: str
) -> None:
    make(**{name: 1})
    make(**{name: 1e-300})
    for wrong in (0, 0.0, -1.0, math.inf, math.nan, "1", True, None):
        with pytest.raises(ConfigurationError) as caught:
            make(**{name: wrong})
        assert str(caught.value) == f"{name} must be a finite number above 0, got {wrong!r}"


def test_an_open_share_has_no_number() -> None:
    assert Share(shards=None).shards is None


def test_checks_are_value_errors() -> None:
    with pytest.raises(ValueError, match="hops must be"):
        check_whole("hops", 0, least=1)
    with pytest.raises(ValueError, match="rate must be"):
        check_positive("rate", 0.0)


@pytest.mark.parametrize(("inputs", "labels"), [(3, 2), (2, 3), (0, 1), (1, 0)])
def test_samples_have_a_label_each(inputs: int, labels: int) -> None:
    with pytest.raises(ConfigurationError, match=f"got {inputs} inputs and {labels} labels"):
        Samples(np.zeros((inputs, 4)), np.zeros(labels))


def test_samples_are_counted_weighed_and_taken() -> None:
    samples = Samples(
        np.arange(12, dtype=np.uint8).reshape(3, 2, 2), np.arange(3, dtype=np.int16), 0.5
    )
    assert (len(samples), samples.nbytes) == (3, 12 + 6)
    some = samples.take(np.array([2, 0, 2]))
    assert (some.labels.tolist(), some.inputs[0].tolist(), some.scale) == (
        [2, 0, 2],
        [[8, 9], [10, 11]],
        0.5,
    )
    assert np.shares_memory(samples.take(slice(1, 3)).inputs, samples.inputs)
    assert len(samples.take(slice(0))) == 0


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 200), st.integers(1, 60), st.integers(1, 4), st.none() | st.integers(0, 50))
def test_batches_are_those_that_a_loop_would_make(
    count: int, batch_size: int, passes: int, limit: int | None
) -> None:
    spec = spec_of(batch_size=batch_size)
    wanted = passes * len(range(0, count, batch_size))
    assert spec.batches(count, passes) == wanted
    samples = Samples(np.zeros((count, 4)), np.zeros(count))
    job = Job(spec=spec, start=np.zeros(1, np.float32), samples=samples, passes=passes, limit=limit)
    assert job.batches == (wanted if limit is None else min(wanted, limit))


def test_a_task_that_travelled_is_the_same_task() -> None:
    spec = spec_of(inputs=[1, 8, 8])
    assert spec.inputs == (1, 8, 8)
    assert hash(spec) == hash(spec_of(inputs=(1, 8, 8)))
    assert msgspec.json.decode(msgspec.json.encode(spec), type=TaskSpec) == spec


def record_of(**changes: Any) -> RoundRecord:
    fields: dict[str, Any] = {
        "run": "run",
        "cycle": 1,
        "started_s": 10.0,
        "ended_s": 13.0,
        "deadline_s": 2.0,
        "devices": (),
        "batches": 0,
    }
    return RoundRecord(**(fields | changes))


def test_a_record_knows_by_how_much_it_overran() -> None:
    assert (record_of().duration_s, record_of().truancy) == (3.0, 0.5)
    assert record_of(ended_s=11.0).truancy == -0.5
    assert record_of(ended_s=12.0).truancy == 0.0


def test_a_record_finds_learners_by_what_became_of_them() -> None:
    statuses: dict[str, Status] = {"a": "used", "b": "late", "c": "used", "d": "failed"}
    devices = tuple(DeviceRecord(device=name, status=each) for name, each in statuses.items())
    record = record_of(devices=devices)
    assert [each.device for each in record.with_status("used", "failed")] == ["a", "c", "d"]
    assert record.with_status("declined") == []


def test_two_failures_are_the_same_by_device_and_reason() -> None:
    one = Failure(device="pi", reason="lost", error=ValueError("a"))
    assert one == Failure(device="pi", reason="lost", error=KeyError("b"))
    assert one != Failure(device="pi", reason="late")
    assert "ValueError" not in repr(one)
