"""The world that a recipe asks for, built and not yet entered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from axon.attacks import Reversed
from axon.data.datasets import load
from axon.errors import ConfigurationError
from axon.recipes.settings import Recipe
from axon.recipes.worlds import devices_of, is_own_task, liars_of, world_of
from axon.testbed.catalogue import device
from axon.testbed.deployment import Deployed
from axon.testbed.device import own_samples
from axon.testbed.emulation import Emulated
from axon.testbed.simulation import Simulated


def test_each_world_is_of_its_own_kind() -> None:
    assert isinstance(world_of(Recipe()), Simulated)
    assert isinstance(world_of(Recipe(world="emulated")), Emulated)
    assert isinstance(world_of(Recipe(world="deployed", hosts=("pi.local",))), Deployed)


def test_devices_come_from_the_catalogue_or_from_the_recipe() -> None:
    assert set(devices_of(Recipe(devices="pi-1*2,jetson-nano"))) == {
        "pi-1-1",
        "pi-1-2",
        "jetson-nano",
    }
    own = Recipe(device={"mine": {"like": "pi-1", "flops_per_s": 1e9}})
    assert list(devices_of(own)) == ["mine"]
    assert devices_of(own)["mine"].flops_per_s == 1e9
    assert devices_of(own)["mine"].link == device("pi-1").link


@pytest.mark.parametrize(
    ("recipe", "complaint"),
    [
        (Recipe(devices="nobody"), "no device or fleet is called 'nobody'"),
        (Recipe(device={"mine": {"like": "nobody"}}), "no device is called 'nobody'"),
        (Recipe(device={"mine": {"like": "pi-1", "flop": 1}}), "no field 'flop'"),
        (Recipe(world="deployed"), "at least one device"),
        (Recipe(activity="asleep"), "no activity is called 'asleep'.*heated:0.5"),
        (Recipe(activity="idle:1"), "no activity is called 'idle:1'"),
        (Recipe(activity="heated:very"), "heated takes a number, got 'very'"),
        (Recipe(activity="heated:0"), "heat .* got 0"),
        (
            Recipe(private=("pi-9",)),
            "'pi-9'.*there are jetson-nano, pi-1, pi-2, pi-3",
        ),
        (Recipe(world="emulated", private=("pi-9",)), "private names 'pi-9'"),
        (Recipe(attack="reversed"), r"attack 'reversed' and 0 liars \(give both"),
        (Recipe(liars=2), "attack '' and 2 liars"),
        (Recipe(attack="reversed", liars=5), "5 of 4 devices cannot lie"),
        (Recipe(attack="nobody", liars=1), "no attack is called 'nobody'"),
        (Recipe(world="emulated", attack="nobody", liars=1), "no attack is called 'nobody'"),
        (Recipe(attack="stale:x", liars=1), "stale takes a whole number, got 'x'"),
        (Recipe(attack="mimic", liars=1), "Mimic .*axon reproduce byz-attacks"),
        (Recipe(partition="unfair"), "unfair"),
        (Recipe(world="emulated", partition="unfair"), "unfair"),
        (Recipe(world="emulated", partition="iid", dataset="nothing"), "'nothing'"),
    ],
)
def test_what_cannot_be_built_is_named(recipe: Recipe, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        world_of(recipe)


def test_own_devices_are_chosen_among_those_of_the_catalogue() -> None:
    own: dict[str, dict[str, Any]] = {
        "lamp": {"like": "pi-1", "flops_per_s": 1e9},
        "desk": {"like": "pi-2"},
    }
    assert set(devices_of(Recipe(device=own))) == {"lamp", "desk"}
    mixed = devices_of(Recipe(device=own, devices="lamp*2, pi-3"))
    assert sorted(mixed) == ["lamp-1", "lamp-2", "pi-3"]
    assert mixed["lamp-2"].flops_per_s == 1e9
    with pytest.raises(ConfigurationError, match="whole number"):
        devices_of(Recipe(device=own, devices="lamp*many"))


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"partition": "iid"}, "bring their own data .*axon worker --data"),
        ({"private": ("pi",)}, "decide for themselves what they tell .*axon worker --private"),
        ({"dynamic": True}, "keep their own margins .*axon worker --dynamic"),
        ({"attack": "drop", "liars": 1}, "lie for themselves .*axon worker --attack"),
        ({"liars": 1}, "lie for themselves"),
    ],
)
def test_real_devices_are_told_where_they_are(setting: dict[str, Any], complaint: str) -> None:
    recipe = Recipe(world="deployed", hosts=("pi.local",), **setting)
    with pytest.raises(ConfigurationError, match=complaint):
        world_of(recipe)


@pytest.mark.parametrize("dynamic", [False, True])
def test_margins_and_secrets_reach_the_devices(dynamic: bool) -> None:
    recipe = Recipe(dynamic=dynamic, private=("pi-1", "pi-3"))
    world = world_of(recipe)
    assert isinstance(world, Simulated)
    own = {name: one.learner._own for name, one in world.fleet.learners.items()}
    assert {name for name, abilities in own.items() if not abilities.discloses} == {"pi-1", "pi-3"}
    assert {abilities.dynamic for abilities in own.values()} == {dynamic}
    emulated = world_of(replace(recipe, world="emulated"))
    assert isinstance(emulated, Emulated)
    told = {name: emulated._settings(name, None, "") for name in own}
    assert {name for name, settings in told.items() if not settings.discloses} == {"pi-1", "pi-3"}
    assert {settings.dynamic for settings in told.values()} == {dynamic}


@pytest.mark.parametrize(("liars", "names"), [(0, ()), (2, ("pi-2", "pi-3"))])
def test_the_last_devices_by_name_lie(liars: int, names: tuple[str, ...]) -> None:
    recipe = Recipe(attack="reversed:-3" if liars else "", liars=liars, seed=5)
    assert liars_of(recipe) == names
    world = world_of(recipe)
    assert isinstance(world, Simulated)
    worn = {name: one._liar for name, one in world.fleet.learners.items() if one._liar is not None}
    assert tuple(worn) == names
    assert {(liar._attack, liar._seed) for liar in worn.values()} <= {(Reversed(-3.0), 5)}
    emulated = world_of(replace(recipe, world="emulated"))
    assert isinstance(emulated, Emulated)
    told = {name: emulated._settings(name, None, "").attack for name in world.fleet.learners}
    assert told == {name: recipe.attack if name in names else "" for name in told}


def test_whoever_flips_labels_has_them_flipped_in_its_own_data_too() -> None:
    honest = Recipe(partition="dirichlet:0.3", seed=4)
    lying = replace(honest, attack="label-flip", liars=1)

    def labels(recipe: Recipe) -> dict[str, list[int]]:
        world = world_of(recipe)
        assert isinstance(world, Simulated)
        own = {name: one.learner._own.data for name, one in world.fleet.learners.items()}
        return {name: data.labels.tolist() for name, data in own.items() if data is not None}

    truth, lie = labels(honest), labels(lying)
    flipped = [9 - label for label in truth.pop("pi-3")]
    assert lie.pop("pi-3") == flipped
    assert truth == lie
    device = world_of(replace(lying, world="emulated"))
    assert isinstance(device, Emulated)
    own = own_samples(device._settings("pi-3", None, ""))
    assert own is not None
    assert own.labels.tolist() == flipped


def test_dealt_data_are_the_whole_set_and_the_same_whatever_the_order_of_devices() -> None:
    devices = ["jetson-nano", "pi-1", "pi-2"]

    def owned(order: list[str]) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.uint8]]]:
        world = world_of(Recipe(devices=",".join(order), partition="dirichlet:0.5", seed=4))
        assert isinstance(world, Simulated)
        learners = world.fleet.learners
        parts = {name: one.learner._own.data for name, one in learners.items()}
        return {name: part.inputs for name, part in parts.items() if part is not None}

    forwards, backwards = owned(devices), owned(devices[::-1])
    assert set(forwards) == set(devices)
    for name, inputs in forwards.items():
        np.testing.assert_array_equal(inputs, backwards[name])
    assert sum(map(len, forwards.values())) == len(load("digits").train)


def test_without_a_partition_nobody_owns_data() -> None:
    world = world_of(Recipe())
    assert isinstance(world, Simulated)
    assert {one.learner._own.data for one in world.fleet.learners.values()} == {None}


def test_habits_depend_on_the_seed_and_the_device_alone() -> None:
    def habits(seed: int, devices: str) -> dict[str, object]:
        world = world_of(Recipe(activity="heated:0.5", devices=devices, seed=seed))
        assert isinstance(world, Simulated)
        return {name: one._activity for name, one in world.fleet.learners.items()}

    first = habits(1, "pi-1,pi-2,pi-3")
    assert None not in first.values()
    assert habits(1, "pi-3,pi-1") == {name: first[name] for name in ("pi-1", "pi-3")}
    assert any(habits(seed, "pi-1,pi-2,pi-3") != first for seed in (2, 3, 4))


@pytest.mark.parametrize(
    ("task", "own"),
    [
        ("twonn", False),
        ("two-conv", False),
        ("tasks.py", True),
        ("tasks.py:pixels", True),
        ("package.module", True),
        ("package.module:pixels", True),
        ("folder/tasks.py", True),
    ],
)
def test_a_task_of_ones_own_is_known_by_its_spelling(task: str, own: bool) -> None:
    assert is_own_task(task) is own
