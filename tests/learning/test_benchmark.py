"""Subset benchmarking: what it measures, and what it leaves alone."""

from __future__ import annotations

import itertools

import pytest
import torch

from axon.data.datasets import load
from axon.errors import ConfigurationError
from axon.learning.benchmark import Benchmark, benchmark
from axon.learning.tasks import default_spec
from axon.values import Samples, TaskSpec


@pytest.fixture(scope="module")
def samples() -> Samples:
    return load("digits").train


@pytest.fixture(scope="module")
def spec() -> TaskSpec:
    return default_spec("twonn", (1, 8, 8), 10)


def test_rates_are_samples_over_the_clock(spec: TaskSpec, samples: Samples) -> None:
    found = benchmark(
        spec, samples, shard_samples=50, shards=4, clock=itertools.count(0.0, 0.5).__next__
    )
    assert (found.shards, found.shard_samples) == (4, 50)
    assert found.samples_per_s == 200 / 0.5
    assert found.shards_per_s == 8.0
    assert found.shard_s == 0.125
    assert (found.model_bytes, found.shard_bytes) == (17_920, 3_250)


def test_shards_within_a_deadline_are_those_of_the_papers_bound() -> None:
    found = Benchmark(
        shards=1, shard_samples=50, samples_per_s=500.0, model_bytes=1000, shard_bytes=100
    )
    # Both models take 2 s of 5; a shard takes 0.1 s to train and 0.1 s to fetch: fewer than 15.
    assert found.shards_within(5.0, 1000.0) == 14
    assert found.shards_within(2.0, 1000.0) == 0


def test_the_global_stream_of_random_numbers_is_left_alone(
    spec: TaskSpec, samples: Samples
) -> None:
    before = torch.random.get_rng_state()
    benchmark(spec, samples, shard_samples=50, shards=1)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(("shards", "message"), [(0, "at least 1"), (31, "there are 30 of 50")])
def test_shards_must_exist(spec: TaskSpec, samples: Samples, shards: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        benchmark(spec, samples, shard_samples=50, shards=shards)


def test_a_clock_that_stands_still_is_an_error(spec: TaskSpec, samples: Samples) -> None:
    with pytest.raises(ConfigurationError, match="moved by 0"):
        benchmark(spec, samples, shard_samples=50, shards=1, clock=lambda: 0.0)
