"""A task's value for many groups of learners at once, on a grid of delays.

The value of a group is the least of delay + β · cost over the delays in which it can do the task,
all of its members having the least shards that they must have. Groups are given as changes of one:
somebody out, somebody in, or neither.
"""

from __future__ import annotations

import numpy as np

from axon.allocation.med.delays import Counts, Reals, Terms, fill_in_order

_TRIED = 32
_BLOCK = 2_000_000


class Grid:
    """One task: the delays that matter, and how much each learner can do in each of them.

    What cannot be done within the last delay is dearer than anything that can, and the more
    shards it is off by the dearer, so that a search is led towards what can be done.
    """

    def __init__(self, terms: Terms, task: int, points: Reals) -> None:
        learners = len(terms.learners)
        self.points = points
        self.nobody = learners
        self._shards, self._least = terms.shards[task], terms.least
        caps = terms.within(task, terms.everyone, points)
        # Nobody, the last column, can do nothing and does not have to.
        self._spare = np.zeros((len(points), learners + 1), np.int32)
        np.maximum(caps - self._least, 0, out=self._spare[:, :learners], casting="unsafe")
        self._lack = np.r_[np.maximum(self._least - caps[-1], 0), 0]
        self._able_at = np.r_[(caps < self._least).sum(axis=0), 0]
        self._price = np.r_[terms.price, 0.0]
        self._slowest = float(terms.fixed_s[task].max() + terms.each_s[task].max() * self._shards)
        self._dearest = float(terms.price.max()) * self._shards
        self._members = np.empty(0, np.int64)
        self._total = np.zeros(len(points), np.int64)
        self._from, self._from_without, self._latest = 0, 0, -1
        self.value = 0.0
        self.place = len(points) - 1
        """Where on the grid the group's own value lies."""
        self.short = True
        """Whether the group cannot do the task within the last delay."""

    def hold(self, members: Counts, multiplier: float) -> None:
        """Take a group as the one that changes start from."""
        self._members = members
        self._total = self._spare[:, members].sum(axis=1)
        late = members[np.argsort(-self._able_at[members], kind="stable")[:2]]
        self._latest = int(late[0]) if len(late) else -1
        self._from = int(self._able_at[late[0]]) if len(late) else 0
        self._from_without = int(self._able_at[late[1]]) if len(late) > 1 else 0
        nobody = np.array([self.nobody])
        last = len(self.points) - 1
        self.short = bool(self._violation(nobody, nobody)[0])
        self.place = min(int(self._first(nobody, nobody)[0]), last)
        if multiplier > 0:
            self._centre(multiplier)
        else:
            self.value = float(self.values(nobody, nobody, multiplier)[0])

    def values(self, outs: Counts, ins: Counts, multiplier: float) -> Reals:
        """The value of the group without each of `outs` and with each of `ins`, pair by pair."""
        if multiplier > 0:
            return self._priced(outs, ins, multiplier)
        violation = self._violation(outs, ins)
        first = np.minimum(self._first(outs, ins), len(self.points) - 1)
        off = self.points[-1] + violation * self._penalty(0.0)
        return np.where(violation > 0, off, self.points[first])

    def _penalty(self, multiplier: float) -> float:
        """For each shard that a group is off by; more than any delay or cost can make up for."""
        return 10.0 * (max(self._slowest, float(self.points[-1])) + multiplier * self._dearest)

    def _need(self, outs: Counts, ins: Counts) -> Counts:
        """The shards that are left over once every member has the least."""
        sizes = len(self._members) - (outs != self.nobody) + (ins != self.nobody)
        need: Counts = self._shards - self._least * sizes
        return need

    def _sum(self, places: Counts, outs: Counts, ins: Counts) -> Counts:
        total: Counts = self._total[places] - self._spare[places, outs] + self._spare[places, ins]
        return total

    def _starts(self, outs: Counts, ins: Counts) -> Counts:
        """The first place where every member of each changed group can do the least."""
        others = np.where(outs == self._latest, self._from_without, self._from)
        starts: Counts = np.maximum(others, self._able_at[ins])
        return starts

    def _violation(self, outs: Counts, ins: Counts) -> Counts:
        """By how many shards each changed group is off at the last place."""
        need = self._need(outs, ins)
        over = need - self._sum(np.full(len(outs), len(self.points) - 1), outs, ins)
        lacks = self._lack[self._members].sum() - self._lack[outs] + self._lack[ins]
        violation: Counts = np.maximum(over, 0) + np.maximum(-need, 0) + lacks
        return violation

    def _first(self, outs: Counts, ins: Counts) -> Counts:
        """The first place where each changed group can do the task, by halving."""
        need = self._need(outs, ins)
        low = np.minimum(self._starts(outs, ins), len(self.points))
        high = np.full(len(outs), len(self.points), np.int64)
        for _ in range(len(self.points).bit_length()):
            middle = np.minimum((low + high) >> 1, len(self.points) - 1)
            enough = (self._sum(middle, outs, ins) >= need) & (low < high)
            high = np.where(enough, np.minimum(high, middle), high)
            low = np.where(enough, low, np.minimum(middle + 1, high))
        return high

    def _priced(self, outs: Counts, ins: Counts, multiplier: float) -> Reals:
        """With a price on the budget: the best of some delays about the present one."""
        width = len(self._members) + 1
        many = max(1, _BLOCK // (width * _TRIED))
        parts = [
            self._priced_part(outs[at : at + many], ins[at : at + many], multiplier)
            for at in range(0, len(outs), many)
        ]
        return np.concatenate(parts) if parts else np.empty(0)

    def _priced_part(self, outs: Counts, ins: Counts, multiplier: float) -> Reals:
        groups = np.broadcast_to(self._members, (len(outs), len(self._members)))
        groups = np.where(groups == outs[:, None], self.nobody, groups)
        # Learners come cheapest first, so a sorted group fills in the order of price.
        groups = np.sort(np.column_stack((groups, ins)), axis=1)
        places, prices = self._places(), self._price[groups]
        spare = self._spare[places][:, groups]
        need = self._need(outs, ins)
        taken = np.clip(need[:, None] - np.cumsum(spare, axis=2) + spare, 0, spare)
        off = np.abs(need - taken.sum(axis=2))
        if self._least:
            off += self._lack[groups].sum(axis=1)
            off += places[:, None] < self._starts(outs, ins)
        cost = self._least * prices.sum(axis=1) + np.einsum("pgl,gl->pg", taken, prices)
        values = self.points[places][:, None] + multiplier * cost + off * self._penalty(multiplier)
        best: Reals = values.min(axis=0)
        return best

    def _places(self) -> Counts:
        """Places about the present one, closer to each other the nearer they are."""
        reach = len(self.points) - 1
        steps = np.unique(np.geomspace(1, max(2, reach), _TRIED // 2).astype(np.int64))
        places = np.r_[self.place - steps, self.place, self.place + steps]
        return np.unique(np.clip(places, 0, reach))

    def _centre(self, multiplier: float) -> None:
        """Move the present place to where the group's value is least."""
        members = self._members
        need = self._shards - self._least * len(members)
        taken = fill_in_order(self._spare[:, members].astype(np.int64), need)
        off = np.abs(need - taken.sum(axis=1)) + self._lack[members].sum()
        off += np.arange(len(self.points)) < self._from
        cost = self._least * self._price[members].sum() + taken @ self._price[members]
        values = self.points + multiplier * cost + off * self._penalty(multiplier)
        self.place = int(np.argmin(values))
        self.value = float(values[self.place])
