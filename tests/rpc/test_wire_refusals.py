"""What cannot be sent says so: where in the value it is, and what to do instead."""

from __future__ import annotations

import datetime
import io
import os
import pathlib
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from axon.errors import CannotTravel
from axon.rpc import wire
from tests.rpc.travels import travel


class Forgetful(datetime.datetime):
    """A datetime that may hold more than a datetime does, as those of data frames."""


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (threading.Lock, "_thread.lock cannot travel"),
        (lambda: lambda: None, "expose the function on the worker"),
        (lambda: (n for n in [1]), "send the list of what it yields"),
        (lambda: iter([1]), "send the list of its items"),
        (lambda: {}.keys(), "send the list of its items"),
        (lambda: os, "import the module on the other side"),
        (lambda: io.BytesIO(b""), "file.read()"),
        (lambda: pathlib.Path("x"), "str(path)"),
        (lambda: int, "send an instance"),
        (object, "expose the object as a service"),
        (lambda: Forgetful(2024, 1, 1), "Forgetful cannot travel"),
        (lambda: "\ud800", "lone surrogate at 0"),
        (lambda: "x" * 5000 + "\udfff", "lone surrogate at 5000"),
        (lambda: 1 << (8 << 20), "an int of 1048577 bytes"),
    ],
)
def test_a_value_that_cannot_travel_says_what_to_do(make: Callable[[], object], says: str) -> None:
    with pytest.raises(CannotTravel) as caught:
        wire.encode(make())
    assert says in str(caught.value)
    assert str(caught.value).startswith("value: ")


@dataclass
class Model:
    weights: list[float]
    lock: object


@dataclass
class Job:
    model: Model


def test_a_refusal_names_the_place() -> None:
    job = Job(Model([1.0], threading.Lock()))
    with pytest.raises(CannotTravel) as caught:
        wire.encode([[job], {}])
    assert str(caught.value) == (
        "args[0].model.lock: _thread.lock cannot travel (send its data (numbers, arrays, "
        "dataclasses) or expose the object as a service)"
    )


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([[], {"x": [1, {("k", 2): object()}]}], "kwargs['x'][1][('k', 2)]: "),
        ([(1, object()), {}], "args[1]: "),
        ([[1], {"x": "\ud800"}], "kwargs['x']: "),
        (({1, 2}, {object()}), "value[1]{...}: "),
        ({"a": slice(0, object())}, "value['a'].stop: "),
        ({frozenset([len]): 1}, "value[frozenset({<built-in function len>})]{...}: "),
        ([0, [2**64, "ok", "\udc00"]], "value[1][2]: "),
    ],
)
def test_paths_of_refusals(value: object, path: str) -> None:
    with pytest.raises(CannotTravel) as caught:
        wire.encode(value)
    assert str(caught.value).startswith(path)


def nested(depth: int, wrap: Callable[[object], object]) -> object:
    value: object = wrap(1)
    for _ in range(depth - 1):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "wrap", [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: frozenset([v])]
)
def test_sender_and_receiver_agree_on_how_deep_values_nest(
    wrap: Callable[[object], object],
) -> None:
    deepest = nested(64, wrap)
    assert travel(deepest) == deepest
    for depth in (65, 66, 10_000):
        with pytest.raises(CannotTravel, match="nested more than 64 deep") as caught:
            wire.encode(nested(depth, wrap))
        assert len(str(caught.value)) < 200


def test_a_tagged_value_at_the_greatest_depth_arrives() -> None:
    value = nested(63, lambda inner: (inner, datetime.date(2024, 1, 1)))
    assert travel(value) == value


def test_structures_that_contain_themselves_are_refused() -> None:
    ring: list[object] = [1]
    ring.append([ring, ring])
    knot: dict[str, object] = {}
    knot["me"] = (knot,)
    for value, path in ((ring, "value[1][0]"), (knot, "value['me'][0]")):
        with pytest.raises(CannotTravel) as caught:
            wire.encode(value)
        assert str(caught.value).startswith(f"{path}: contains itself")


def at_the_end_of_the_stack(run: Callable[[], object]) -> object:
    try:
        return at_the_end_of_the_stack(run)
    except RecursionError:
        return run()


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,)])
def test_a_stack_that_is_full_is_a_clean_error(wrap: Callable[[object], object]) -> None:
    value = nested(60, wrap)
    with pytest.raises(CannotTravel, match="too deep for the stack"):
        at_the_end_of_the_stack(lambda: wire.encode(value))
