"""Who serves what: a local search over assignments, with kicks.

A learner moves to another task or two learners change places; every change is valued exactly on a
grid of delays, all of them at once. Changes between different pairs of tasks do not touch each
other, so the best of each pair are made together. Where nothing helps, a few learners are
scattered and the descent begins again from there; what it comes to is settled exactly. A budget
that binds has a price, learnt from what was settled. Limits may be broken on the way, at a penalty
above everything else, so that where no plan is known the search goes towards one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from axon.allocation.med.delays import Counts, Reals, Terms
from axon.allocation.med.grid import Grid
from axon.allocation.med.settled import Settled, settle
from axon.seeds import stream

KICKS = 400
_MOST_POINTS, _CELLS = 2048, 1_000_000
_PAIRS = 200
_PRICED_PAIRS = 40
_PRICED_MOVES = 120
_BETTER = 1e-9


class Search:
    """One search; `best` is the best plan so far, None until one keeps to every constraint."""

    def __init__(self, terms: Terms, seed: int) -> None:
        self._terms, self._seed = terms, seed
        self._random = stream(seed, "med", len(terms.tasks), len(terms.learners))
        self._tasks, self._learners = terms.fixed_s.shape
        self._everyone = terms.everyone
        self._lowest = [terms.quickest(task) for task in range(self._tasks)]
        self._points = min(_MOST_POINTS, max(64, _CELLS // self._learners))
        self._multiplier, self._kept_price, self._rescuing = 0.0, False, False
        self.best: Settled | None = None
        self._owner: Counts = _first_owners(terms)
        self._grids = self._make_grids(self._spans(4.0))
        self._hold(range(self._tasks))

    def rescue(self, kicks: int, late: Callable[[], bool]) -> None:
        """Look for any plan: nothing but the limits counts, the deadlines before the budget.

        Its way does not depend on the budget, nor on what was searched before: with the budget that
        the nearest assignment would take, it comes to that assignment again.
        """
        deadlines = self._terms.deadline_s
        self._random = stream(self._seed, "med", "rescue", self._tasks, self._learners)
        self._owner = _first_owners(self._terms)
        self._grids = [
            Grid(self._terms, task, deadlines[task : task + 1]) for task in range(self._tasks)
        ]
        self._multiplier, self._rescuing = 1.0, True
        self._hold(range(self._tasks))
        self.run(kicks, lambda: late() or self.best is not None)
        self._rescuing = False
        if self.best is not None:
            self._multiplier = self.best.multiplier
            self._grids = self._make_grids(self._spans(4.0))
            self._hold(range(self._tasks))

    def restart(self, usage: Reals, multiplier: float) -> None:
        """Go on from where each learner is used the most, with a price of the budget to keep."""
        self._owner = np.argmax(usage, axis=0)
        self._multiplier, self._kept_price = multiplier, multiplier > 0
        self._hold(range(self._tasks))

    def run(self, kicks: int, late: Callable[[], bool]) -> bool:
        """Descend, kick, descend; false where the time was up before all kicks were made."""
        self._descend(late)
        self._settle()
        if kicks:
            self._narrow()
        kept, owner = self._value(), self._owner.copy()
        for kick in range(kicks):
            if late():
                return False
            self._kick()
            self._descend(late)
            repriced = self._settle()
            value = self._value()
            # Early on a little worse will do, so that the search does not stay about one plan.
            leeway = 1 + 0.02 * (1 - kick / kicks) ** 2 * self._random.random()
            if repriced or value < kept * leeway:
                kept, owner = value, self._owner.copy()
            else:
                self._return_to(owner)
        return True

    def _value(self) -> float:
        return math.fsum(grid.value for grid in self._grids)

    @property
    def groups(self) -> list[Counts]:
        """The learners of each task."""
        return [np.flatnonzero(self._owner == task) for task in range(self._tasks)]

    def _hold(self, tasks: Sequence[int] | range) -> None:
        for task in tasks:
            grid = self._grids[task]
            grid.hold(np.flatnonzero(self._owner == task), self._multiplier)

    def _return_to(self, owner: Counts) -> None:
        changed = np.flatnonzero(owner != self._owner)
        tasks = np.unique(np.r_[owner[changed], self._owner[changed]])
        self._owner = owner.copy()
        self._hold(tasks.tolist())

    def _spans(self, reach: float) -> list[tuple[float, float]]:
        """Between which delays each task's will lie: about what its group takes now."""
        spans = []
        for task, group in enumerate(self.groups):
            deadline = float(self._terms.deadline_s[task])
            lowest = self._lowest[task]
            now = self._terms.least_delay(task, group)
            high = min(deadline, reach * now) if math.isfinite(now) else deadline
            spans.append((max(lowest, now / reach) if high > now else lowest, max(high, lowest)))
        return spans

    def _make_grids(self, spans: Sequence[tuple[float, float]]) -> list[Grid]:
        grids = []
        for task, (low, high) in enumerate(spans):
            points = self._terms.breakpoints(task, self._everyone, low, high, self._points)
            grids.append(Grid(self._terms, task, points))
        return grids

    def _narrow(self) -> None:
        """Where a grid leaves delays out, a narrower one leaves out fewer."""
        if any(len(grid.points) >= self._points for grid in self._grids) and self.best is not None:
            spans = [
                (delay / 1.5, min(float(deadline), 1.5 * delay))
                for delay, deadline in zip(self.best.delays, self._terms.deadline_s, strict=True)
            ]
            self._grids = self._make_grids(spans)
            self._hold(range(self._tasks))

    def _descend(self, late: Callable[[], bool]) -> None:
        """Make the best changes until none helps."""
        while not late() and (self._make(self._moves()) or self._make(self._swaps())):
            pass

    def _moves(self) -> list[tuple[float, int, int, int]]:
        """What the best moves to each task change: (change, task, learner, nobody)."""
        gone = np.full(self._learners, math.inf)
        joined = np.zeros((self._tasks, self._learners))
        drawn = self._drawn(_PRICED_MOVES if self._multiplier > 0 else self._learners)
        for task, grid in enumerate(self._grids):
            mine = drawn[self._owner[drawn] == task]
            others = drawn[self._owner[drawn] != task]
            nobody = np.full(self._learners, grid.nobody)
            outs, ins = np.r_[mine, nobody[: len(others)]], np.r_[nobody[: len(mine)], others]
            values = grid.values(outs, ins, self._multiplier) - grid.value
            gone[mine] = values[: len(mine)]
            joined[task, others] = values[len(mine) :]
        change = joined + gone
        change[self._owner, self._everyone] = math.inf
        found = []
        for task, row in enumerate(change):
            best = np.argsort(row, kind="stable")[:4].tolist()
            found += [(float(row[each]), task, each, self._learners) for each in best]
        return found

    def _swaps(self) -> list[tuple[float, int, int, int]]:
        """What the best exchanges change: (change, task, learner, the other, of that task)."""
        drawn = self._drawn(_PRICED_PAIRS if self._multiplier > 0 else _PAIRS)
        change = np.zeros((len(drawn), len(drawn)))
        owner = self._owner[drawn]
        for task, grid in enumerate(self._grids):
            mine, others = np.flatnonzero(owner == task), np.flatnonzero(owner != task)
            rows, columns = np.repeat(mine, len(others)), np.tile(others, len(mine))
            values = grid.values(drawn[rows], drawn[columns], self._multiplier) - grid.value
            change[rows, columns] = values
        change = np.where(owner[:, None] < owner[None, :], change + change.T, math.inf)
        flat = np.argsort(change, axis=None, kind="stable")[: 4 * self._tasks]
        found = []
        for place in flat:
            a, b = np.unravel_index(int(place), change.shape)
            value = float(change[a, b])
            found.append((value, int(owner[b]), int(drawn[a]), int(drawn[b])))
        return found

    def _drawn(self, most: int) -> Counts:
        """The learners for whom changes are tried: all, or as many as is quick."""
        if self._learners <= most:
            return self._everyone
        return np.sort(self._random.choice(self._learners, most, replace=False))

    def _make(self, changes: list[tuple[float, int, int, int]]) -> bool:
        """Make changes, the best first, no two of which touch the same task."""
        touched: set[int] = set()
        least = -_BETTER * max(1e-12, abs(self._value()))
        for change, task, learner, other in sorted(changes):
            if change >= least:
                break
            pair = {task, int(self._owner[learner])}
            if touched & pair:
                continue
            if other < self._learners:
                self._owner[other] = self._owner[learner]
            self._owner[learner] = task
            touched |= pair
        self._hold(sorted(touched))
        return bool(touched)

    def _kick(self) -> None:
        """Scatter a few learners."""
        count = int(self._random.integers(2, 3 + min(8, max(2, self._learners // 12))))
        moved = self._random.choice(self._learners, min(count, self._learners), replace=False)
        touched = set(self._owner[moved].tolist())
        self._owner[moved] = self._random.permutation(self._owner[moved])
        if self._random.random() < 0.5:
            one = moved[0]
            self._owner[one] = self._random.integers(self._tasks)
            touched.add(int(self._owner[one]))
        self._hold(sorted(touched))

    def _settle(self) -> bool:
        """Make a plan of the assignment; true where that changed the price of the budget."""
        if any(grid.short for grid in self._grids):
            return False
        value = self._value() - self._multiplier * self._terms.budget
        # No plan of this assignment is better than that, but for delays that a grid leaves out.
        if self.best is not None and value > self.best.objective * 1.0005:
            return False
        found = settle(self._terms, self.groups)
        before = self._multiplier
        if self._rescuing:
            self.best = found
            return False
        if found is None:
            # Too dear, whatever the delays: the budget weighs more.
            start = math.fsum(self._terms.deadline_s) / max(self._terms.budget, 1e-9)
            self._multiplier = min(max(4 * before, start / 256), 256 * start)
        else:
            if self.best is None or found.objective < self.best.objective:
                self.best = found
            if not self._kept_price:
                self._multiplier = (before + found.multiplier) / 2 if before else found.multiplier
        if abs(self._multiplier - before) <= 0.05 * before:
            self._multiplier = before
            return False
        self._hold(range(self._tasks))
        return True


def _first_owners(terms: Terms) -> Counts:
    """Each learner, the most particular first, to the task whose delay it shortens the most."""
    tasks, learners = terms.fixed_s.shape
    pace: Reals = 1 / terms.each_s
    work = np.array(terms.shards, float)
    # Each task begins as if it had a little of everybody.
    speed = pace.mean(axis=1) * 0.2
    owner = np.zeros(learners, np.int64)
    room = np.array(terms.room)
    empty = np.ones(tasks, bool)
    relative = pace / pace.mean(axis=1, keepdims=True)
    spread = relative.max(axis=0) - np.sort(relative, axis=0)[-2] if tasks > 1 else relative[0]
    for place, learner in enumerate(np.argsort(-spread, kind="stable")):
        before = work / speed
        after = (work + terms.fixed_s[:, learner] * pace[:, learner]) / (speed + pace[:, learner])
        # Each task needs somebody: the last few go where nobody is yet.
        open_to = empty if learners - place <= empty.sum() else room > 0
        task = int(np.argmin(np.where(open_to, after - before, math.inf)))
        owner[learner] = task
        room[task] -= 1
        empty[task] = False
        work[task] += terms.fixed_s[task, learner] * pace[task, learner]
        speed[task] += pace[task, learner]
    return owner
