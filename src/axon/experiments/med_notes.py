"""What a reader of the MED experiments must know to judge them."""

from __future__ import annotations

from axon.experiments.med_sweep import Found
from axon.experiments.med_trial import PAST_CYCLES, WAYS
from axon.experiments.med_world import FACTOR, SURE, slowdown

READING = (
    f"Devices are Nanos of the catalogue that train {FACTOR:g} times as fast: the least number of "
    f"quarters with which MMTT-Ideal has a plan within all deadlines in {100 * SURE:g} of 100 "
    "cycles of four learners. The thesis calls MMTT-Ideal near perfect there; no comparison of "
    "schemes had a say in it.",
    "How it was read: a task is satisfied in a cycle in which all of its learners did all of their "
    "shares in time; time, satisfaction, fulfilment and occupancy are means over tasks and cycles; "
    "occupancy is the part of its task's cycle in which a learner was at work. Learners halt so "
    "early that their updates arrive by the deadline, and no cycle is longer than that. All tasks "
    "begin their next cycle together. Prices have a variance of 0.5 and batches 32 samples.",
    "Where no plan keeps to the deadlines and the budget, the one deadline that has to grow least "
    "is longer for the plan; learners halt at the real one. The rows count such plans.",
    "Capabilities in each state are benchmarks of 20 shards in the simulated world; MMTT-Uncertain "
    "believes the state of one draw before the first cycle. Nothing is trained, as no metric hangs "
    "on it: batches and bytes are charged as if it were.",
    f"In the rows `MED, learnt`, states and probabilities are each learner's own estimates, from "
    f"{PAST_CYCLES} cycles that it spent on all tasks in turn before.",
)


def regime(found: Found) -> str:
    """How far the states are apart, and how often plans had to be relaxed."""
    least, worst = slowdown()
    most = {way: max(found.relaxed(place, way) for place in found.sweep.places) for way in WAYS}
    told = ", ".join(f"{way} {percent:.3g} %" for way, percent in most.items())
    return (
        f"An owner who trains makes a learner {least:.2g} to {worst:.2g} times slower, "
        "by the catalogue's rates; one who downloads costs it a tenth of a second on a gigabit "
        "wire, which is next to nothing. Plans that had to be relaxed, with the number of "
        f"{found.sweep.across} for which they were most: {told}."
    )
