"""Habits and states by hand, and stressors that do the work which contention charges."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from axon.errors import ConfigurationError
from axon.seeds import stream
from axon.testbed.activity import (
    STATES,
    Activity,
    Contention,
    State,
    contention,
    download_stressor,
    draw,
    heated,
    random_matrix,
    training_stressor,
)
from axon.testbed.catalogue import device


def test_habits_are_a_heated_softmax_of_a_one_hot_vector() -> None:
    # exp(1 / 0.5) = 7.389 of 7.389 + 1 + 1.
    probabilities = heated(stream(0, "habits")).probabilities
    assert sorted(probabilities.values()) == pytest.approx([0.10650698, 0.10650698, 0.78698604])


def test_every_state_is_the_favourite_as_often() -> None:
    random = stream(1, "habits")
    counts = Counter(
        max(STATES, key=lambda state: habits[state])
        for habits in (heated(random).probabilities for _ in range(600))
    )
    # Three standard deviations of a binomial with 600 trials at a third.
    assert all(abs(counts[state] - 200) < 35 for state in STATES)


@settings(max_examples=50)
@given(st.floats(min_value=1e-300, max_value=1e300), st.integers(0, 1000))
def test_habits_are_probabilities_whatever_the_heat(heat: float, seed: int) -> None:
    probabilities = heated(stream(seed, "habits"), heat).probabilities
    assert set(probabilities) == set(STATES)
    assert math.fsum(probabilities.values()) == pytest.approx(1.0)
    assert max(probabilities.values()) >= 1 / 3 - 1e-12


def test_heat_makes_states_alike() -> None:
    assert heated(stream(0, "a"), 1e9).probabilities["idle"] == pytest.approx(1 / 3)
    assert max(heated(stream(0, "a"), 0.01).probabilities.values()) == pytest.approx(1.0)
    with pytest.raises(ConfigurationError, match=r"heat .*above 0, got 0"):
        heated(stream(0, "a"), 0)


def test_states_are_drawn_as_often_as_they_are_likely() -> None:
    activity = Activity({"downloading": 0.3, "idle": 0.7})
    random = stream(2, "states")
    counts = Counter(draw(activity, random) for _ in range(1000))
    assert counts["training"] == 0
    assert abs(counts["idle"] - 700) < 44
    assert draw(Activity({"training": 1.0}), random) == "training"


def test_a_draw_depends_on_the_seed_and_not_on_the_order_of_the_table() -> None:
    forwards = Activity({"idle": 0.2, "training": 0.3, "downloading": 0.5})
    backwards = Activity({"downloading": 0.5, "training": 0.3, "idle": 0.2})
    first, second = stream(3, "states"), stream(3, "states")
    assert [draw(forwards, first) for _ in range(50)] == [
        draw(backwards, second) for _ in range(50)
    ]


@pytest.mark.parametrize(
    ("probabilities", "complaint"),
    [
        ({"idle": 0.5, "training": 0.4}, "add up to 1, got 0.9"),
        ({}, "got 0.0"),
        ({"idle": 1.5, "training": -0.5}, "'idle' is from 0 to 1, got 1.5"),
        ({"idle": math.nan}, "got nan"),
        ({"gaming": 1.0}, "'gaming'.*idle, training, downloading"),
    ],
)
def test_an_activity_that_cannot_be_is_refused(probabilities: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        Activity(probabilities)


def test_contention_is_the_work_of_the_stressors() -> None:
    assert contention("idle") == Contention()
    assert contention("training") == Contention(extra_flops_per_batch=1_458_000_000)
    assert contention("downloading") == Contention(extra_download_bytes=6_480_000)


def test_a_batch_under_contention_takes_longer_by_the_product() -> None:
    ideal, busy = device("ideal"), contention("training")
    assert busy.batch_s(ideal, 1e6, 542) == pytest.approx(0.002)
    assert contention("downloading").batch_s(ideal, 1e6, 542) == ideal.batch_s(1e6, 542)


def test_training_multiplies_and_the_other_states_do_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes: list[tuple[tuple[int, ...], np.dtype[Any]]] = []

    def matmul(left: NDArray[Any], right: NDArray[Any], out: NDArray[Any]) -> None:
        assert left.shape == right.shape == out.shape
        shapes.append((left.shape, left.dtype))

    monkeypatch.setattr(np, "matmul", matmul)
    for state in STATES:
        training_stressor(state, stream(4, "stress"))()
    assert shapes == [((900, 900), np.dtype(np.float32))]


def test_the_stressor_really_multiplies() -> None:
    multiply = training_stressor("training", stream(4, "stress"))
    multiply()
    multiply()


def test_downloading_fetches_the_matrix_and_the_other_states_do_nothing() -> None:
    fetched: list[NDArray[np.float64]] = []

    async def fetch() -> NDArray[np.float64]:
        fetched.append(random_matrix(stream(5, "matrix")))
        return fetched[-1]

    async def all_states() -> None:
        for state in STATES:
            await download_stressor(state, fetch)

    asyncio.run(all_states())
    assert [matrix.nbytes for matrix in fetched] == [6_480_000]
    assert fetched[0].shape == (900, 900)


def test_a_matrix_of_another_size_is_refused() -> None:
    async def fetch() -> NDArray[np.float32]:
        return np.zeros((900, 900), dtype=np.float32)

    with pytest.raises(ConfigurationError, match=r"6480000 bytes, got 3240000 .*random_matrix"):
        asyncio.run(download_stressor("downloading", fetch))


def test_an_unknown_state_is_refused_everywhere() -> None:
    gaming: State = "gaming"  # type: ignore[assignment]
    for ask in (contention, lambda state: training_stressor(state, stream(0, "a"))):
        with pytest.raises(ConfigurationError, match="'gaming'"):
            ask(gaming)
