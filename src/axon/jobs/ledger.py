"""What tasks may cost, and what they have cost: exact to the last digit.

The budget of MED (Eq. 4.4d) bounds one plan, which is one cycle of every task. So it is read here:
the budget is for one cycle of all running tasks together. When a task's cycle begins, what its plan
promises is reserved, price times shards for each learner, and the reservations that are open at one
time never add up to more than the budget. When the cycle ends, each learner is paid for the whole
shards that it has trained and that are in the average, never for more than it was promised, and the
rest of the reservation is released. What a task costs in all is then at most the budget times its
cycles; what is open and paid of the cycles under way is never more than the budget.

    ledger = Ledger(money(300))
    ledger.reserve("a", 1, {"pi-1": Promise(shards=12, price=money(0.8))})
    ledger.settle("a", 1, {"pi-1": 10})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation

from axon.errors import AxonError, ConfigurationError
from axon.values import RoundRecord, check_amount, check_whole

# Nothing is ever rounded: with so many digits an inexact sum is a bug, and is raised as one.
_EXACT = Context(prec=120, traps=[Inexact, InvalidOperation])
_PLACES = 40
_MOST = 10**15

ZERO = Decimal(0)


def money(amount: float | Decimal) -> Decimal:
    """An amount as a person would write it: a number is taken at its shortest decimal."""
    if not isinstance(amount, Decimal):
        check_amount("an amount of money", amount)
        whole = int(amount)
        amount = Decimal(whole if whole == amount else repr(amount))
    exponent = amount.as_tuple().exponent
    fits = isinstance(exponent, int) and exponent >= -_PLACES and 0 <= amount <= _MOST
    if not fits:
        raise ConfigurationError(
            f"an amount of money must be from 0 to {_MOST:.0e} with at most {_PLACES} decimals, "
            f"got {amount}"
        )
    return amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What one learner is to train in a cycle, and what it asks for a shard."""

    shards: int
    price: Decimal

    def __post_init__(self) -> None:
        check_whole("shards", self.shards, least=0)
        object.__setattr__(self, "price", money(self.price))

    @property
    def amount(self) -> Decimal:
        """What it costs if it is kept."""
        return cost(self.price, self.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the ledger; of each learner's cycle, what is reserved is paid or released."""

    kind: str
    """reserved, paid or released"""
    task: str
    cycle: int
    learner: str
    shards: int
    price: Decimal

    @property
    def amount(self) -> Decimal:
        """Price times shards."""
        return cost(self.price, self.shards)


class Overspent(AxonError):
    """A reservation would go beyond the budget."""

    hint = "plan for what is left of the budget"


class Ledger:
    """Reservations of the cycles under way, and what became of those that have ended."""

    def __init__(self, budget: Decimal) -> None:
        self.budget = money(budget)
        self._open: dict[str, tuple[int, dict[str, Promise]]] = {}
        self._settled: dict[tuple[str, int], list[tuple[str, Promise, int]]] = {}
        self._spent: dict[str, Decimal] = {}

    def reserve(self, task: str, cycle: int, promises: Mapping[str, Promise]) -> None:
        """Set aside what a cycle may cost; raises `Overspent` where the budget has not as much."""
        if task in self._open:
            raise ConfigurationError(f"cycle {self._open[task][0]} of {task!r} is not settled yet")
        self._check_new(task, cycle)
        wanted, left = total(promises), self.left()
        if wanted > left:
            raise Overspent(f"cycle {cycle} of {task!r} may cost {wanted}, and {left} is left")
        self._open[task] = (cycle, dict(promises))

    def settle(self, task: str, cycle: int, trained: Mapping[str, int]) -> Decimal:
        """Pay for the shards that were trained, release the rest, and tell what was paid."""
        reserved, promises = self._open.get(task, (0, {}))
        if reserved != cycle:
            raise ConfigurationError(f"nothing is reserved for cycle {cycle} of {task!r}")
        del self._open[task]
        return self.recall(task, cycle, promises, trained)

    def recall(
        self, task: str, cycle: int, promises: Mapping[str, Promise], trained: Mapping[str, int]
    ) -> Decimal:
        """Enter a cycle that has ended long ago, as its plan and its record tell."""
        self._check_new(task, cycle)
        kept = [
            (learner, promise, min(max(0, trained.get(learner, 0)), promise.shards))
            for learner, promise in sorted(promises.items())
        ]
        paid = summed(cost(promise.price, shards) for _, promise, shards in kept)
        self._settled[task, cycle] = kept
        self._spent[task] = _EXACT.add(self.spent(task), paid)
        return paid

    def release(self, task: str) -> None:
        """Give back what is reserved for a cycle that will not end; no entry is left of it."""
        self._open.pop(task, None)

    def reserved(self) -> Decimal:
        """What is set aside for the cycles under way."""
        return summed(total(promises) for _, promises in self._open.values())

    def left(self) -> Decimal:
        """What may still be reserved."""
        return _EXACT.subtract(self.budget, self.reserved())

    def spent(self, task: str | None = None) -> Decimal:
        """What was paid, for one task or for all."""
        return summed(self._spent.values()) if task is None else self._spent.get(task, ZERO)

    def paid(self, task: str) -> int:
        """The shards of a task that were paid for, in all its cycles."""
        cycles = [kept for (name, _), kept in self._settled.items() if name == task]
        return sum(shards for kept in cycles for _, _, shards in kept)

    def entries(self) -> list[Entry]:
        """Every line, in the order of tasks, cycles and learners, never of who was first."""
        lines: list[Entry] = []
        for (task, cycle), kept in sorted(self._settled.items()):
            for learner, promise, paid in kept:
                for kind, shards in (
                    ("reserved", promise.shards),
                    ("paid", paid),
                    ("released", promise.shards - paid),
                ):
                    lines += _line(kind, task, cycle, learner, shards, promise.price)
        for task, (cycle, promises) in sorted(self._open.items()):
            for learner, promise in sorted(promises.items()):
                lines += _line("reserved", task, cycle, learner, promise.shards, promise.price)
        return lines

    def _check_new(self, task: str, cycle: int) -> None:
        if (task, cycle) in self._settled:
            raise ConfigurationError(f"cycle {cycle} of {task!r} is paid for already")


def _line(
    kind: str, task: str, cycle: int, learner: str, shards: int, price: Decimal
) -> list[Entry]:
    """A line, unless there is nothing to write."""
    if not shards:
        return []
    entry = Entry(kind=kind, task=task, cycle=cycle, learner=learner, shards=shards, price=price)
    return [entry]


def trained_shards(record: RoundRecord, *, shard_samples: int, passes: int) -> dict[str, int]:
    """The whole shards that each learner has trained in a cycle and that are in the average.

    An update that came late or was refused helps nobody, and is not paid for.
    """
    return {
        device.device: device.samples // (shard_samples * passes)
        for device in record.devices
        if device.status == "used"
    }


def cost(price: Decimal, shards: int) -> Decimal:
    """Price times shards, without rounding."""
    return _EXACT.multiply(price, Decimal(shards))


def total(promises: Mapping[str, Promise]) -> Decimal:
    """What all of them cost if they are kept."""
    return summed(promise.amount for promise in promises.values())


def summed(amounts: Iterable[Decimal]) -> Decimal:
    """Their sum, without rounding."""
    sum_of_all = ZERO
    for amount in amounts:
        sum_of_all = _EXACT.add(sum_of_all, amount)
    return sum_of_all


def difference(whole: Decimal, part: Decimal) -> Decimal:
    """What is left of a sum, without rounding."""
    return _EXACT.subtract(whole, part)
