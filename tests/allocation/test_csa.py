"""CSA as an allocator: what it is told becomes times, and the plan becomes shares."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from axon.allocation.csa import BEYOND, Method, StalenessAware, bounded, epoch_time
from axon.allocation.staleness import EpochTime
from axon.errors import ConfigurationError
from axon.policies import Situation
from axon.values import Capability, Share, TaskCost

COST = TaskCost(model_bytes=1000, shard_bytes=500)
QUICK = Capability(shards_per_s=4.0, bytes_per_s=1000.0)
SLOW = Capability(shards_per_s=1.0, bytes_per_s=1000.0)
HOPELESS = Capability(shards_per_s=0.01, bytes_per_s=1000.0)
EVERY: tuple[Method, ...] = ("exact", "relaxed", "sai", "synchronous", "eta")


def situation_of(deadline_s: float, shards: int = 12, **told: Capability) -> Situation:
    return Situation(cycle=1, deadline_s=deadline_s, cost=COST, shards=shards, capabilities=told)


def dealt(situation: Situation, **options: Any) -> dict[str, tuple[int, int]]:
    members = tuple(sorted({*situation.capabilities, "unknown"}))
    shares = StalenessAware(**{"slack": 0.0} | options)(members, situation)
    return {name: (share.shards or 0, share.passes) for name, share in shares.items()}


def took_s(capability: Capability, shards: int, passes: int) -> float:
    """By hand: two models and the shards over the link, the passes on the processor."""
    link_s = (2 * 1000 + 500 * shards) / capability.bytes_per_s
    return link_s + shards * passes / capability.shards_per_s


def test_what_a_learner_told_becomes_its_times() -> None:
    capability = Capability(shards_per_s=4.0, bytes_per_s=250.0)
    wanted = EpochTime(per_sample_epoch_s=0.25, per_sample_s=2.0, fixed_s=8.0)
    assert epoch_time(capability, COST) == wanted


def test_a_share_by_hand() -> None:
    # Alone with 4 shards: 2 s for the models, 2 s for the shards, and 6 s for passes of 1 s.
    assert dealt(situation_of(10.0, 4, a=QUICK)) == {"a": (4, 6)}


def test_the_slack_is_left_free() -> None:
    # A tenth of 10 s is one pass of the one above.
    assert dealt(situation_of(10.0, 4, a=QUICK), slack=0.1) == {"a": (4, 5)}


def staleness_of(shares: Mapping[str, tuple[int, int]]) -> int:
    passes = [passes for _, passes in shares.values()]
    return max(passes) - min(passes)


def brute_force(situation: Situation, total: int) -> int:
    """The least staleness of all ways to deal the total out, each with its most passes."""
    told = situation.capabilities
    found = []
    for counts in itertools.product(range(1, total), repeat=len(told)):
        if sum(counts) == total:
            passes = [
                max(
                    (n for n in range(200) if took_s(each, d, n) <= situation.deadline_s), default=0
                )
                for each, d in zip(told.values(), counts, strict=True)
            ]
            if min(passes) >= 1:
                found.append(max(passes) - min(passes))
    return min(found)


@pytest.mark.parametrize("deadline_s", [9.0, 11.3, 16.0, 23.7, 40.0])
def test_the_shares_are_as_little_stale_as_can_be_and_end_in_time(deadline_s: float) -> None:
    other = Capability(shards_per_s=2.3, bytes_per_s=3000.0)
    situation = situation_of(deadline_s, a=QUICK, b=SLOW, c=other)
    shares = dealt(situation)
    assert sum(shards for shards, _ in shares.values()) == 12
    assert staleness_of(shares) == brute_force(situation, 12)
    for name, (shards, passes) in shares.items():
        assert took_s(situation.capabilities[name], shards, passes) <= deadline_s
        assert took_s(situation.capabilities[name], shards, passes + 1) > deadline_s


def test_members_that_told_nothing_get_no_share() -> None:
    assert set(dealt(situation_of(20.0, a=QUICK, b=SLOW))) == {"a", "b"}
    assert dealt(situation_of(20.0)) == {}
    known = situation_of(20.0, a=QUICK, b=SLOW, c=SLOW)
    assert set(StalenessAware()(("b", "c"), known)) == {"b", "c"}


@pytest.mark.parametrize("method", EVERY)
def test_every_method_deals_out_the_total_within_the_deadline(method: Method) -> None:
    situation = situation_of(20.0, a=QUICK, b=SLOW, c=SLOW)
    shares = dealt(situation, method=method, total=9)
    assert sum(shards for shards, _ in shares.values()) == 9
    for name, (shards, passes) in shares.items():
        assert took_s(situation.capabilities[name], shards, passes) <= 20.0
    if method == "synchronous":
        assert staleness_of(shares) == 0
    if method == "eta":
        assert {shards for shards, _ in shares.values()} == {3}


@pytest.mark.parametrize("method", EVERY)
def test_a_total_that_takes_too_long_is_done_all_the_same(method: Method) -> None:
    # 12 shards take the two of them beyond 5 s however they are dealt out.
    situation = situation_of(5.0, a=QUICK, b=SLOW)
    shares = dealt(situation, method=method)
    assert sum(shards for shards, _ in shares.values()) == 12
    if method == "eta":
        assert shares == {"a": (6, 1), "b": (6, 1)}
        return
    assert {passes for _, passes in shares.values()} == {1}
    spans = [max(took_s(QUICK, shards, 1), took_s(SLOW, 12 - shards, 1)) for shards in range(1, 12)]
    assert max(took_s(situation.capabilities[n], d, 1) for n, (d, _) in shares.items()) == min(
        spans
    )


def test_an_equal_share_that_one_cannot_do_leaves_the_others_their_passes() -> None:
    shares = dealt(situation_of(8.0, a=QUICK, b=SLOW), method="eta")
    assert shares == {"a": (6, 2), "b": (6, 1)}


def test_whoever_cannot_do_the_least_in_time_sits_out_unless_nobody_can() -> None:
    assert set(dealt(situation_of(10.0, a=QUICK, h=HOPELESS))) == {"a"}
    assert dealt(situation_of(1.0, 4, h=HOPELESS)) == {"h": (4, 1)}


def test_too_few_for_everybody_go_to_the_quickest() -> None:
    situation = situation_of(60.0, a=SLOW, b=QUICK, c=SLOW, d=QUICK)
    assert set(dealt(situation, total=2)) == {"b", "d"}
    assert {name: shards for name, (shards, _) in dealt(situation, total=7, lower=3).items()} in (
        {"b": 3, "d": 4},
        {"b": 4, "d": 3},
    )
    # Fewer than the least share are one learner's.
    assert {n: d for n, (d, _) in dealt(situation, total=2, lower=5).items()} == {"b": 2}


def test_nobody_holds_a_shard_twice() -> None:
    shares = dealt(situation_of(60.0, 3, a=QUICK, b=SLOW), total=100)
    assert {name: shards for name, (shards, _) in shares.items()} == {"a": 3, "b": 3}
    bounded = dealt(situation_of(60.0, a=QUICK, b=SLOW), upper=2)
    assert {name: shards for name, (shards, _) in bounded.items()} == {"a": 2, "b": 2}
    assert dealt(situation_of(60.0, 0, a=QUICK)) == {}


# --- those who tell what is not so ---------------------------------------------------------------

LIAR = Capability(shards_per_s=1e15, bytes_per_s=1e15)


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("honest", [0, 1, 5])
def test_no_claim_brings_more_than_the_most_passes(method: Method, honest: int) -> None:
    told = {f"h{number}": QUICK for number in range(honest)} | {"liar": LIAR}
    long = replace(situation_of(1e6), capabilities=told)
    shares = dealt(long, method=method, most_passes=7)
    assert sum(shards for shards, _ in shares.values()) == 12
    assert {passes for _, passes in shares.values()} == {7}
    assert {passes for _, passes in dealt(long, method=method).values()} == {100}


def test_a_claim_that_is_too_fast_is_no_period_that_is_too_short() -> None:
    """Honest learners keep the passes that they have time for."""
    shares = dealt(situation_of(40.0, a=QUICK, b=QUICK, liar=LIAR))
    assert min(passes for _, passes in shares.values()) > 1
    for name in "ab":
        shards, passes = shares[name]
        assert took_s(QUICK, shards, passes) <= 40.0
        assert passes == 100 or took_s(QUICK, shards, passes + 1) > 40.0


def test_what_is_told_beyond_all_others_is_planned_as_a_bounded_amount() -> None:
    told = {"a": SLOW, "b": QUICK, "liar": LIAR}
    assert bounded(told) == {
        "a": SLOW,
        "b": QUICK,
        "liar": Capability(shards_per_s=4.0 * BEYOND, bytes_per_s=1000.0 * BEYOND),
    }
    # Of two, the slower one is the measure; of one, there is none.
    assert bounded({"a": SLOW, "liar": LIAR})["liar"].shards_per_s == 1.0 * BEYOND
    assert bounded({"liar": LIAR}) == {"liar": LIAR}
    assert bounded({}) == {}
    # Also those who do not take part in this cycle are compared with.
    both = situation_of(20.0, a=SLOW, b=SLOW, liar=LIAR)
    plain = situation_of(20.0, liar=bounded(both.capabilities)["liar"])
    chosen = StalenessAware(most_passes=10**9)
    assert chosen(("liar",), both) == chosen(("liar",), plain)
    assert chosen(("liar",), situation_of(20.0, liar=LIAR)) != chosen(("liar",), plain)


def test_shares_are_those_an_order_can_carry() -> None:
    share = StalenessAware()(("a",), situation_of(20.0, a=QUICK))["a"]
    assert isinstance(share, Share)
    assert type(share.shards) is type(share.passes) is int


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"total": 0}, "total"),
        ({"lower": 0}, "lower"),
        ({"slack": 1.0}, "slack"),
        ({"most_passes": 0}, "most_passes"),
        ({"lower": 3, "upper": 2}, "upper must be a whole number of at least 3"),
        ({"method": "best"}, "no method is called 'best' .known: exact, relaxed, sai"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        StalenessAware(**options)
