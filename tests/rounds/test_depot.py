"""The depot: what it draws, whom it serves, and what it remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from axon.data.shards import Shards, draw_uniform
from axon.policies import Sampler
from axon.rounds.depot import Depot
from axon.testbed import virtual
from axon.values import Samples, Vector
from tests.rounds.worlds import DATASET, PARAMETERS, SHARD_SAMPLES, SHARDS

MODEL: Vector = np.zeros(PARAMETERS, np.float32)


def depot_of(*, run: str = "run", seed: int = 7, cycle: int = 1) -> Depot:
    stock = Shards(DATASET.train, SHARD_SAMPLES, seed=seed)
    depot = Depot(run, stock, draw_uniform, seed)
    depot.publish(cycle, MODEL.copy(), {"pi-1": "pi-1", "pi-2": "pi-2"})
    return depot


def on_loop(function: Callable[[], Any]) -> Any:
    """The depot reads the loop's clock."""

    async def main() -> Any:
        return function()

    return virtual.run(main())


def draw(depot: Depot, device: str = "pi-1", count: int = 3, cycle: int = 1) -> bytes:
    samples: Samples = on_loop(lambda: depot.shards("run", cycle, device, count))
    assert len(samples) == count * SHARD_SAMPLES
    return samples.inputs.tobytes()


def test_asking_twice_gives_the_same_shards() -> None:
    depot = depot_of()
    first = draw(depot)
    draw(depot, "pi-2")
    assert draw(depot) == first == draw(depot_of())


def test_another_device_cycle_or_seed_draws_others() -> None:
    draws = {
        draw(depot_of()),
        draw(depot_of(), "pi-2"),
        draw(depot_of(cycle=2), cycle=2),
        draw(depot_of(seed=8)),
    }
    assert len(draws) == 4


def test_fewer_shards_are_the_first_of_more() -> None:
    depot = depot_of()
    assert draw(depot, count=5).startswith(draw(depot, count=2))


def test_no_shard_comes_twice() -> None:
    samples = on_loop(lambda: depot_of().shards("run", 1, "pi-1", SHARDS))
    assert len(np.unique(samples.inputs, axis=0)) == len(samples) == SHARDS * SHARD_SAMPLES


@pytest.mark.parametrize(
    ("run", "cycle", "message"),
    [
        ("other", 1, "this is run run, not other"),
        ("run", 0, "cycle 0 is not under way, 1 is"),
        ("run", 2, "cycle 2 is not under way, 1 is"),
    ],
)
def test_other_runs_and_cycles_are_refused(run: str, cycle: int, message: str) -> None:
    depot = depot_of()
    with pytest.raises(ValueError, match=message):
        depot.model(run, cycle)
    with pytest.raises(ValueError, match=message):
        depot.shards(run, cycle, "pi-1", 1)
    assert depot.served == {}


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (0, "at least 1, got 0"),
        (-1, "at least 1, got -1"),
        (True, "at least 1, got True"),
        (2.0, "at least 1, got 2.0"),
        ("2", "at least 1, got '2'"),
        (SHARDS + 1, f"{SHARDS + 1} shards were asked for, there are {SHARDS}"),
    ],
)
def test_other_counts_are_refused(count: Any, message: str) -> None:
    depot = depot_of()
    with pytest.raises(ValueError, match=message):
        depot.shards("run", 1, "pi-1", count)
    assert depot.served == {}


def test_the_ticket_names_the_device_and_the_name_is_no_ticket() -> None:
    depot = depot_of()
    by_name = draw(depot)
    depot.publish(1, MODEL.copy(), {"secret": "pi-1"})
    assert draw(depot, "secret") == by_name
    assert depot.served == {"pi-1": 3}
    with pytest.raises(ValueError, match="pi-1 is no ticket"):
        depot.shards("run", 1, "pi-1", 1)


def test_a_device_without_a_share_is_refused() -> None:
    depot = depot_of()
    with pytest.raises(ValueError, match="pi-3 is no ticket of cycle 1"):
        depot.shards("run", 1, "pi-3", 1)
    depot.publish(2, MODEL.copy(), {"pi-3": "pi-3"})
    with pytest.raises(ValueError, match="pi-1 is no ticket of cycle 2"):
        depot.shards("run", 2, "pi-1", 1)


def test_it_remembers_the_most_it_served_and_when_until_the_next_cycle() -> None:
    depot = depot_of()

    async def main() -> None:
        depot.shards("run", 1, "pi-1", 4)
        await asyncio.sleep(2)
        depot.shards("run", 1, "pi-1", 3)
        depot.shards("run", 1, "pi-2", 1)

    virtual.run(main(), start=10.0)
    assert depot.served == {"pi-1": 4, "pi-2": 1}
    assert depot.handed_s == {"pi-1": 12.0, "pi-2": 12.0}
    depot.publish(2, MODEL.copy(), {"pi-1": "pi-1"})
    assert (depot.served, depot.handed_s) == ({}, {})


# --- shares that all were told -------------------------------------------------------------------


def rows(samples: Samples) -> list[bytes]:
    return [sample.tobytes() for sample in samples.inputs]


def dealt(
    told: Mapping[str, int | None], *, cycle: int = 1, sampler: Sampler = draw_uniform
) -> Depot:
    depot = Depot("run", depot_of().stock, sampler, 7)
    depot.publish(cycle, MODEL.copy(), {name: name for name in told}, told)
    return depot


def parts(depot: Depot, cycle: int = 1, **counts: int) -> dict[str, list[bytes]]:
    return {
        name: rows(on_loop(partial(depot.shards, "run", cycle, name, count)))
        for name, count in counts.items()
    }


def test_told_shares_that_fit_the_stock_are_disjoint_and_the_cycles_own() -> None:
    counts: dict[str, Any] = {"b": 9, "a": 4, "c": SHARDS - 13}
    drawn = parts(dealt(counts), **counts)
    assert len(set().union(*drawn.values())) == SHARDS * SHARD_SAMPLES
    again = dict(sorted(counts.items()))
    assert parts(dealt(again), **again) == drawn
    other = parts(dealt(counts, cycle=2), cycle=2, **counts)
    assert {name for name in counts if other[name] == drawn[name]} == set()


def test_of_a_part_fewer_are_the_first_and_more_are_not_to_be_had() -> None:
    depot = dealt({"a": 5, "b": 3})
    (whole,) = parts(depot, a=5).values()
    assert parts(depot, a=2) == {"a": whole[: 2 * SHARD_SAMPLES]}
    assert parts(depot, a=5) == {"a": whole}
    with pytest.raises(ValueError, match="6 shards were asked for, there are 5 for a in cycle 1"):
        depot.shards("run", 1, "a", 6)
    assert depot.served == {"a": 5}
    depot.publish(2, MODEL.copy(), {"a": "a"})
    assert len(parts(depot, cycle=2, a=SHARDS)["a"]) == SHARDS * SHARD_SAMPLES


def backwards(shards: int, count: int, random: np.random.Generator) -> NDArray[np.intp]:
    return np.arange(shards - 1, shards - 1 - count, -1)


@pytest.mark.parametrize(
    ("sampler", "told"),
    [
        (draw_uniform, {"a": 4, "b": None}),
        (draw_uniform, {"a": 4, "b": SHARDS - 3}),
        (backwards, {"a": 4, "b": 4}),
    ],
)
def test_otherwise_everybody_draws_for_himself(sampler: Sampler, told: Any) -> None:
    alone = Depot("run", depot_of().stock, sampler, 7)
    alone.publish(1, MODEL.copy(), {"a": "a"})
    assert parts(dealt(told, sampler=sampler), a=4) == parts(alone, a=4)


def test_what_is_handed_out_cannot_be_written_to() -> None:
    depot = depot_of()
    model = depot.model("run", 1)
    one: Samples = on_loop(lambda: depot.shards("run", 1, "pi-1", 1))
    for array in (model, one.inputs, one.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_learner_that_writes_to_its_shards_spoils_nobody_elses() -> None:
    depot = depot_of()
    before = draw(depot, count=2)
    two: Samples = on_loop(lambda: depot.shards("run", 1, "pi-1", 2))
    two.inputs[...] = 0  # A copy, because the two are not beside one another.
    assert draw(depot, count=2) == before
