"""The states of devices of the catalogue, found again from seeded cycles, and what may go wrong."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pytest

from axon.devices.states import Observation, StateEstimate, States
from axon.errors import ConfigurationError
from axon.seeds import stream
from axon.testbed.activity import STATES, Activity, State, contention, draw, heated
from axon.testbed.catalogue import Device, device

KINDS = ("pi-1", "pi-2", "jetson-nano", "jetson-tx2", "ideapad", "phone")
# FLOPs to train a sample, and bytes that a cycle downloads; a shard is four batches of 32.
TASKS = {"ffn": (3.3e6, 2.7e6), "cnn": (2.0e7, 3.0e6), "fashion": (1.5e8, 8.0e6)}


@dataclass(frozen=True)
class Watched:
    """A device that was watched for some cycles, and what it truly is."""

    device: Device
    activity: Activity
    found: tuple[State, ...]
    """In the order of the cycles."""
    tasks: tuple[str, ...]
    states: States

    def shard_s(self, task: str, state: State) -> float:
        return 4.0 * contention(state).batch_s(self.device, TASKS[task][0], 32)

    def byte_s(self, task: str, state: State) -> float:
        size = TASKS[task][1]
        link = self.device.link
        carried_s = (size + contention(state).extra_download_bytes) / link.down_bytes_per_s
        return (carried_s + 2 * link.latency_s) / size

    def expected_s(self, task: str) -> float:
        """The mean time of a shard, by the device's true habits."""
        habits = self.activity.probabilities
        return math.fsum(habits[state] * self.shard_s(task, state) for state in STATES)

    def counted_s(self, task: str) -> float:
        """The same by how often each state came: what one would say who saw the states."""
        return statistics.fmean(self.shard_s(task, state) for state in self.found)


def watch(kind: str, seed: int, cycles: int, tasks: Sequence[str], noise: float = 0.1) -> Watched:
    """So many cycles of a device with heated habits, its tasks in turn."""
    random = stream(seed, "watched", kind)
    activity = heated(random)
    found = tuple(draw(activity, random) for _ in range(cycles))
    watched = Watched(device(kind), activity, found, tuple(tasks), States())
    # The mean of the noise on times is 1, so that the truth is the mean of what is seen.
    noises = np.exp(noise * random.standard_normal((cycles, 2)) - noise**2 / 2)
    seen = tuple(
        Observation(
            task=task,
            shards_per_s=1.0 / (watched.shard_s(task, state) * by[0]),
            bytes_per_s=1.0 / (watched.byte_s(task, state) * by[1]),
        )
        for task, state, by in zip(itertools.cycle(tasks), found, noises.tolist(), strict=False)
    )
    return replace(watched, states=States(observations=seen))


def expected_s(estimates: Iterable[StateEstimate], task: str) -> float:
    return math.fsum(one.probability / one.shards_per_s[task] for one in estimates)


@dataclass(frozen=True)
class Errors:
    """How far off an estimate was."""

    states: int
    variation: float
    """Total variation from the true distribution, states that were not told apart taken as one."""
    rate: float
    """Of the median (task, state): relative."""
    expected: list[float]
    """Of the expected time by task: relative, signed."""
    counted: list[float]
    """The same for one who saw the states."""


def errors(watched: Watched) -> Errors:
    estimates = watched.states.usual()
    true = np.zeros(len(estimates))
    rates = []
    for state in STATES:
        nearest = min(range(len(true)), key=lambda n: _distance(watched, state, estimates[n]))
        true[nearest] += watched.activity.probabilities[state]
        told = estimates[nearest].shards_per_s
        rates += [abs(told[task] * watched.shard_s(task, state) - 1.0) for task in watched.tasks]
    return Errors(
        states=len(estimates),
        variation=sum(abs(one.probability - p) for one, p in zip(estimates, true, strict=True)) / 2,
        rate=statistics.median(rates),
        expected=[
            expected_s(estimates, task) / watched.expected_s(task) - 1.0 for task in watched.tasks
        ],
        counted=[
            watched.counted_s(task) / watched.expected_s(task) - 1.0 for task in watched.tasks
        ],
    )


def _distance(watched: Watched, state: State, estimate: StateEstimate) -> float:
    assert estimate.bytes_per_s is not None
    byte_s = statistics.fmean(watched.byte_s(task, state) for task in watched.tasks)
    training = (
        abs(math.log(estimate.shards_per_s[task] * watched.shard_s(task, state)))
        for task in watched.tasks
    )
    return statistics.fmean(training) + abs(math.log(estimate.bytes_per_s * byte_s))


def surveyed(cycles: int, tasks: Sequence[str], kinds: Sequence[str] = KINDS) -> list[Errors]:
    return [errors(watch(kind, seed, cycles, tasks)) for seed in range(20) for kind in kinds]


def median_size(values: Iterable[float]) -> float:
    return statistics.median(abs(value) for value in values)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks", "cycles", "variation", "rate", "apart"),
    [
        (("ffn",), 20, 0.10, 0.05, 0.5),
        (("ffn",), 50, 0.08, 0.03, 0.9),
        (("ffn",), 200, 0.05, 0.03, 0.97),
        (tuple(TASKS), 20, 0.10, 0.12, 0.2),
        (tuple(TASKS), 50, 0.08, 0.06, 0.5),
        (tuple(TASKS), 200, 0.05, 0.03, 0.9),
    ],
)
def test_heated_habits_are_found_again(
    tasks: tuple[str, ...], cycles: int, variation: float, rate: float, apart: float
) -> None:
    found = surveyed(cycles, tasks)
    assert statistics.median(one.variation for one in found) < variation
    assert statistics.median(one.rate for one in found) < rate
    assert statistics.fmean(one.states == 3 for one in found) >= apart
    print(_row(tasks, cycles, found))


def _row(tasks: Sequence[str], cycles: int, found: Sequence[Errors]) -> str:
    expected = [error for one in found for error in one.expected]
    counted = [error for one in found for error in one.counted]
    return (
        f"{len(tasks)} tasks, {cycles} cycles: three states in "
        f"{statistics.fmean(one.states == 3 for one in found):.0%}, "
        f"total variation {statistics.median(one.variation for one in found):.3f}, "
        f"rate {statistics.median(one.rate for one in found):.1%}, "
        f"expected time {statistics.median(expected):+.1%} (size {median_size(expected):.1%}, "
        f"knowing the states {median_size(counted):.1%})"
    )


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [("ffn",), tuple(TASKS)], ids=["one task", "three"])
def test_the_expected_time_is_right_after_100_cycles(tasks: tuple[str, ...]) -> None:
    found = surveyed(100, tasks)
    expected = [error for one in found for error in one.expected]
    counted = [error for one in found for error in one.counted]
    assert abs(statistics.median(expected)) < 0.05
    # A state that is rare and slow comes more or less often by chance; nobody can know better.
    assert median_size(expected) < median_size(counted) + 0.025
    print(_row(tasks, 100, found))


def test_a_device_is_found_again_in_100_cycles() -> None:
    watched = watch("jetson-nano", 3, 100, ["ffn"])
    error = errors(watched)
    assert error.states == 3
    assert error.variation < 0.1
    assert error.rate < 0.05
    assert expected_s(watched.states.usual(), "ffn") == pytest.approx(
        watched.counted_s("ffn"), rel=0.08
    )


def plain(*rates: float, task: str = "task", half_life: float | None = None) -> States:
    """Cycles at these training rates, on a link that never changes."""
    seen = (Observation(task=task, shards_per_s=rate, bytes_per_s=1e6) for rate in rates)
    return States(observations=tuple(seen), half_life=half_life)


def rates_of(estimates: Iterable[StateEstimate], task: str = "task") -> list[float]:
    return [one.shards_per_s[task] for one in estimates]


def test_before_the_first_cycle_nothing_is_told() -> None:
    assert States().usual() == States().predict() == ()


@pytest.mark.parametrize("rates", [(2.0,), (2.0, 20.0), (2.0, 2.0, 2.0, 2.0, 0.2)])
def test_few_cycles_are_one_state_with_their_mean_time(rates: tuple[float, ...]) -> None:
    (only,) = plain(*rates).usual()
    assert only.probability == 1.0
    assert only.bytes_per_s == pytest.approx(1e6)
    assert only.shards_per_s["task"] == pytest.approx(statistics.harmonic_mean(rates))


def test_the_sum_over_states_is_the_mean_time_seen() -> None:
    random = stream(1, "mean")
    rates = np.where(random.random(90) < 0.3, 0.1, 2.0) * np.exp(0.3 * random.standard_normal(90))
    estimates = plain(*rates.tolist()).usual()
    assert len(estimates) == 2
    assert expected_s(estimates, "task") == pytest.approx((1.0 / rates).mean(), rel=0.01)


def test_equal_cycles_are_one_state() -> None:
    (only,) = plain(*[2.0] * 200).usual()
    assert only.shards_per_s["task"] == pytest.approx(2.0)


def test_noise_alone_makes_no_states() -> None:
    random = stream(2, "noise")
    for noise in (0.02, 0.1, 0.4):
        assert len(plain(*np.exp(noise * random.standard_normal(150)).tolist()).usual()) == 1


def test_one_slow_cycle_is_an_accident_among_many_and_counts_among_few() -> None:
    random = stream(3, "accident")
    usual = (2.0 * np.exp(0.05 * random.standard_normal(99))).tolist()
    (only,) = plain(*usual[:50], 0.2, *usual[50:]).usual()
    assert only.shards_per_s["task"] == pytest.approx(2.0, rel=0.02)
    usually, rarely = plain(*usual[:18], 0.2, usual[18]).usual()
    assert rarely.probability == pytest.approx(1 / 20)
    assert rarely.shards_per_s["task"] == pytest.approx(0.2, rel=1e-4)
    assert usually.shards_per_s["task"] == pytest.approx(2.0, rel=0.05)


def test_an_accident_hides_no_state() -> None:
    rates = [2.0] * 60 + [0.8] * 20
    seen = plain(*rates)
    odd = Observation(task="task", shards_per_s=2.0, bytes_per_s=1e4)
    estimates = seen.seen(odd).usual()
    assert rates_of(estimates) == pytest.approx([2.0, 0.8], rel=0.01)
    assert [one.bytes_per_s for one in estimates] == pytest.approx([1e6, 1e6], rel=0.01)


def test_rates_may_differ_by_any_factor() -> None:
    for fast, slow in ((1e3, 1e-3), (1e300, 1e-300)):
        estimates = plain(*[fast, slow] * 20).usual()
        assert rates_of(estimates) == pytest.approx([fast, slow], rel=1e-4)
        assert [one.probability for one in estimates] == pytest.approx([0.5, 0.5])


def test_rates_all_over_the_place_stay_finite() -> None:
    random = stream(4, "wild")
    estimates = plain(*np.exp(random.uniform(-600, 600, size=100)).tolist()).usual()
    assert math.fsum(one.probability for one in estimates) == pytest.approx(1.0)
    assert all(0.0 < rate < math.inf for rate in rates_of(estimates))


def test_what_was_never_seen_is_not_told() -> None:
    own = States(observations=(Observation(task="a", shards_per_s=2.0, bytes_per_s=None),) * 8)
    assert own.usual()[0].bytes_per_s is None
    link = own.seen(Observation(task="b", shards_per_s=None, bytes_per_s=1e6)).usual()
    assert link[0].bytes_per_s == pytest.approx(1e6)
    assert set(link[0].shards_per_s) == {"a"}


def alternating(task: str, *rates: tuple[float, float]) -> tuple[Observation, ...]:
    return tuple(
        Observation(task=task, shards_per_s=shards, bytes_per_s=size) for shards, size in rates
    )


def test_a_task_borrows_the_slowdown_of_a_state_it_was_never_seen_in() -> None:
    known = alternating("task", (2.0, 1e6), (2.0, 1e6), (2.0, 1e6), (0.5, 2e5)) * 10
    # The link tells the state in which the new task was seen.
    fast = States(observations=known + alternating("new", (60.0, 1e6)), half_life=None).usual()
    assert rates_of(fast, "new") == pytest.approx([60.0, 15.0], rel=0.05)
    # Once it was seen in both, its own rates count, however different.
    own = States(observations=known + alternating("new", (60.0, 1e6), (50.0, 2e5)), half_life=None)
    assert rates_of(own.usual(), "new") == pytest.approx([60.0, 50.0], rel=0.05)
    assert rates_of(own.usual()) == pytest.approx([2.0, 0.5], rel=0.05)


def test_a_task_whose_state_nobody_knows_keeps_its_mean_time() -> None:
    known = alternating("task", (2.0, 1e6), (2.0, 1e6), (2.0, 1e6), (0.5, 1e6)) * 10
    estimates = States(observations=known + alternating("new", (60.0, 1e6)), half_life=None).usual()
    assert len(estimates) == 2
    assert expected_s(estimates, "new") == pytest.approx(1.0 / 60.0, rel=0.05)


def test_the_order_of_cycles_changes_nothing_that_is_usual() -> None:
    watched = watch("phone", 1, 60, list(TASKS))
    seen = watched.states.observations
    shuffled = [seen[n] for n in stream(5, "order").permutation(len(seen))]
    first, second = (
        States(observations=tuple(o), half_life=None).usual() for o in (seen, shuffled)
    )
    assert len(first) == len(second) > 1
    for one, other in zip(first, second, strict=True):
        assert other.probability == pytest.approx(one.probability)
        assert other.bytes_per_s == pytest.approx(one.bytes_per_s)
        assert other.shards_per_s == pytest.approx(one.shards_per_s)


def test_what_comes_next_depends_on_the_last_cycle_where_owners_stay() -> None:
    stays = plain(*([2.0] * 10 + [0.5] * 10) * 4)
    assert [one.probability for one in stays.usual()] == pytest.approx([0.5, 0.5])
    assert stays.predict()[1].probability > 0.8
    assert rates_of(stays.predict()) == rates_of(stays.usual())
    turns = plain(*[2.0, 0.5] * 40)
    assert turns.predict()[0].probability > 0.9


def test_what_comes_next_is_what_is_usual_where_states_are_drawn_each_time() -> None:
    watched = watch("jetson-nano", 0, 150, ["ffn"])
    assert watched.states.predict() == watched.states.usual()


def test_older_cycles_count_less() -> None:
    throttled = [2.0] * 150 + [1.0] * 150
    alike = plain(*throttled).usual()
    newer = plain(*throttled, half_life=20.0).usual()
    assert alike[1].probability == pytest.approx(0.75, rel=1e-4)
    assert newer[-1].probability > 0.95
    assert newer[-1].shards_per_s["task"] == pytest.approx(1.0, rel=0.01)


def test_only_the_window_is_remembered() -> None:
    states = States(window=3)
    for rate in (1.0, 2.0, 3.0, 4.0):
        states = states.seen(Observation(task="a", shards_per_s=rate, bytes_per_s=None))
    assert [one.shards_per_s for one in states.observations] == [2.0, 3.0, 4.0]


def test_it_goes_on_from_json_as_if_nothing_had_been() -> None:
    watched = watch("pi-1", 2, 40, list(TASKS))
    body = msgspec.json.encode(watched.states)
    back = msgspec.json.decode(body, type=States)
    assert back == watched.states
    more = Observation(task="ffn", shards_per_s=3.0, bytes_per_s=None)
    assert back.seen(more).predict() == watched.states.seen(more).predict()


def test_an_estimate_from_200_cycles_takes_milliseconds() -> None:
    watched = watch("jetson-nano", 0, 200, ["ffn"])
    more = Observation(task="ffn", shards_per_s=3.0, bytes_per_s=1e6)
    took_s = []
    for _ in range(10):
        began_s = time.process_time()
        watched.states.seen(more).predict()
        took_s.append(time.process_time() - began_s)
    # About 2.5 of them; twice the bound of 5, since this machine may be busy or slow.
    assert min(took_s) < 0.010


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ((0.0, 1.0), "shards_per_s must be a finite number above 0"),
        ((1.0, math.inf), "bytes_per_s must be a finite number above 0"),
        ((math.nan, 1.0), "shards_per_s must be a finite number above 0"),
        ((None, None), "at least one of its two rates"),
    ],
)
def test_an_observation_is_checked(rates: tuple[float | None, float | None], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Observation(task="a", shards_per_s=rates[0], bytes_per_s=rates[1])


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="short text"):
        Observation(task="", shards_per_s=1.0, bytes_per_s=1.0)
    with pytest.raises(ConfigurationError, match="window must be a whole number"):
        States(window=0)
    with pytest.raises(ConfigurationError, match="half_life must be a finite number"):
        States(half_life=0.0)
