"""The ledger: nothing rounded, nothing paid twice, never more than the budget."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axon.errors import ConfigurationError
from axon.jobs.ledger import Ledger, Overspent, Promise, money, summed, trained_shards
from axon.values import DeviceRecord, RoundRecord, Status

Step = tuple[str, dict[str, Promise], dict[str, int], bool]

prices = st.floats(min_value=0.0, max_value=2.0).filter(lambda x: x == 0 or x > 1e-9).map(money)
promises = st.dictionaries(
    st.sampled_from(["d1", "d2", "d3", "d4"]),
    st.builds(
        lambda shards, price: Promise(shards=shards, price=price), st.integers(0, 90), prices
    ),
    max_size=4,
)
cycles = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        promises,
        st.dictionaries(st.sampled_from(["d1", "d2", "d3", "d4", "d5"]), st.integers(-3, 200)),
        st.booleans(),
    ),
    max_size=12,
)


@given(cycles, st.integers(1, 400))
def test_money_adds_up_whatever_is_trained(steps: list[Step], budget: int) -> None:
    ledger, ended, paid = Ledger(money(budget)), dict.fromkeys("abc", 0), Decimal(0)
    opened: dict[str, dict[str, int]] = {}
    for task, promised, trained, stays_open in steps:
        if task in opened:
            paid += ledger.settle(task, ended[task], opened.pop(task))
        left = ledger.left()
        wanted = summed(promise.amount for promise in promised.values())
        if wanted > left:
            with pytest.raises(Overspent, match="is left"):
                ledger.reserve(task, ended[task] + 1, promised)
            continue
        ended[task] += 1
        ledger.reserve(task, ended[task], promised)
        if stays_open:
            opened[task] = trained
        else:
            paid += ledger.settle(task, ended[task], trained)
        assert ledger.reserved() <= ledger.budget
    for task, trained in opened.items():
        paid += ledger.settle(task, ended[task], trained)
    entries = ledger.entries()
    sums = {
        kind: summed(entry.amount for entry in entries if entry.kind == kind)
        for kind in ("reserved", "paid", "released")
    }
    assert sums["reserved"] == sums["paid"] + sums["released"]
    assert sums["paid"] == paid == ledger.spent() == summed(map(ledger.spent, "abc"))
    assert paid <= ledger.budget * sum(ended.values())


def test_a_cycle_by_hand() -> None:
    ledger = Ledger(money(10))
    promised = {
        "pi": Promise(shards=5, price=money(0.1)),
        "nano": Promise(shards=3, price=money(1.1)),
    }
    ledger.reserve("a", 1, promised)
    assert ledger.reserved() == Decimal("3.8")
    assert ledger.settle("a", 1, {"pi": 9, "nano": 2, "stranger": 4}) == Decimal("2.7")
    assert ledger.left() == 10
    told = [(one.kind, one.learner, one.shards, str(one.amount)) for one in ledger.entries()]
    assert told == [
        ("reserved", "nano", 3, "3.3"),
        ("paid", "nano", 2, "2.2"),
        ("released", "nano", 1, "1.1"),
        ("reserved", "pi", 5, "0.5"),
        ("paid", "pi", 5, "0.5"),
    ]


def test_a_float_is_taken_as_it_is_written() -> None:
    assert str(money(0.1)) == "0.1"
    assert str(money(300.0)) == "300"
    ledger = Ledger(money(0.3))
    ledger.reserve("a", 1, {"pi": Promise(shards=3, price=money(0.1))})
    assert ledger.left() == 0


def test_nothing_is_paid_twice_or_unreserved() -> None:
    ledger = Ledger(money(10))
    promised = {"pi": Promise(shards=5, price=money(1))}
    ledger.reserve("a", 1, promised)
    with pytest.raises(ConfigurationError, match="not settled yet"):
        ledger.reserve("a", 2, promised)
    ledger.settle("a", 1, {"pi": 5})
    for again in (1, 2):
        with pytest.raises(ConfigurationError, match="nothing is reserved"):
            ledger.settle("a", again, {"pi": 5})
    with pytest.raises(ConfigurationError, match="paid for already"):
        ledger.recall("a", 1, promised, {"pi": 5})
    with pytest.raises(ConfigurationError, match="paid for already"):
        ledger.reserve("a", 1, promised)
    assert ledger.spent("a") == 5


def test_a_cycle_that_does_not_end_leaves_nothing() -> None:
    ledger = Ledger(money(10))
    ledger.reserve("a", 1, {"pi": Promise(shards=5, price=money(1))})
    ledger.release("a")
    assert ledger.left() == 10
    assert ledger.entries() == []


@pytest.mark.parametrize("amount", [-0.1, float("nan"), float("inf"), True, 1e300, 1e-300, "3"])
def test_what_is_no_amount_of_money(amount: float) -> None:
    with pytest.raises(ConfigurationError, match="amount of money"):
        money(amount)


def test_only_whole_shards_in_the_average_count() -> None:
    def device(name: str, status: Status, samples: int) -> DeviceRecord:
        return DeviceRecord(device=name, status=status, samples=samples)

    record = RoundRecord(
        run="a",
        cycle=1,
        started_s=0.0,
        ended_s=1.0,
        deadline_s=1.0,
        devices=(
            device("d1", "used", 99),
            device("d2", "used", 100),
            device("d3", "late", 100),
            device("d4", "refused", 100),
            device("d5", "used", 19),
        ),
        batches=1,
    )
    assert trained_shards(record, shard_samples=10, passes=2) == {"d1": 4, "d2": 5, "d5": 0}
