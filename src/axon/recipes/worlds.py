"""The world a recipe asks for."""

from __future__ import annotations

from dataclasses import replace

from axon.attacks.labels import LabelFlip
from axon.attacks.names import attack_of
from axon.attacks.seam import Attack
from axon.data.datasets import load
from axon.data.partitions import partition_of
from axon.errors import ConfigurationError
from axon.learning.lying import check_bearable
from axon.recipes.settings import DEFAULT_DEVICES, Recipe
from axon.rounds.remote import Hosting
from axon.seeds import stream
from axon.testbed.activity import Activity, heated
from axon.testbed.catalogue import Device, device_from, fleet
from axon.testbed.deployment import Deployed, deployed
from axon.testbed.device import deal
from axon.testbed.emulation import Emulated, Emulation, emulated
from axon.testbed.simulation import Simulated, simulated

AnyWorld = Simulated | Emulated | Deployed


def devices_of(recipe: Recipe) -> dict[str, Device]:
    """The devices by name: all of the recipe's own, or those it chooses, also of the catalogue."""
    own = {name: replace(device_from(table), kind=name) for name, table in recipe.device.items()}
    if own and recipe.devices == DEFAULT_DEVICES:
        return own
    return fleet(recipe.devices, own)


def world_of(recipe: Recipe, hosting: Hosting | None = None) -> AnyWorld:
    """Build the world; nothing is started before it is entered."""
    if recipe.world == "deployed":
        _check_deployed(recipe)
        return deployed(recipe.hosts, hosting=hosting, discover=recipe.discover)
    devices = devices_of(recipe)
    activity = _activity(recipe, tuple(devices))
    liars, attack = liars_of(recipe), _attack(recipe)
    if recipe.world == "simulated":
        data = None
        if recipe.partition:
            data = deal(recipe.dataset, recipe.partition, tuple(sorted(devices)), recipe.seed)
        return simulated(
            devices,
            seed=recipe.seed,
            data=data,
            activity=activity,
            dynamic=recipe.dynamic,
            private=recipe.private,
        ).lying({name: attack for name in liars if attack is not None})
    emulation = Emulation(
        cpu=recipe.cpu,
        links=recipe.links,
        activity=activity,
        dataset=recipe.dataset,
        partition=recipe.partition,
        tasks=(recipe.task,) if is_own_task(recipe.task) else (),
        dynamic=recipe.dynamic,
        private=recipe.private,
        attacks=dict.fromkeys(liars, recipe.attack),
    )
    if recipe.partition:
        partition_of(recipe.partition)  # Known to be right before a process is started.
        load(recipe.dataset, seed=recipe.seed)
    return emulated(devices, seed=recipe.seed, emulation=emulation)


def _check_deployed(recipe: Recipe) -> None:
    """Raise for what only the devices themselves can be told."""
    if recipe.partition:
        raise ConfigurationError(
            "real devices bring their own data",
            hint="leave out the partition, and start `axon worker --data FILE` on them",
        )
    if recipe.private:
        raise ConfigurationError(
            "real devices decide for themselves what they tell",
            hint="leave out private, and start `axon worker --private` on them",
        )
    if recipe.dynamic:
        raise ConfigurationError(
            "real devices keep their own margins",
            hint="leave out dynamic, and start `axon worker --dynamic` on them",
        )
    if recipe.attack or recipe.liars:
        raise ConfigurationError(
            "real devices lie for themselves",
            hint="leave out attack and liars, and start `axon worker --attack NAME` on some",
        )


def liars_of(recipe: Recipe) -> tuple[str, ...]:
    """Who wears the recipe's attack: the last devices in the order of names.

    Raises `ConfigurationError` for an attack that is none, or that no learner can wear.
    """
    if bool(recipe.attack) != bool(recipe.liars):
        raise ConfigurationError(
            f"an attack needs liars to wear it, and liars an attack, got attack {recipe.attack!r} "
            f"and {recipe.liars} liars",
            hint="give both, as in --attack reversed --liars 2",
        )
    if recipe.attack:
        check_bearable(attack_of(recipe.attack))
    names = sorted(devices_of(recipe))
    if recipe.liars > len(names):
        raise ConfigurationError(f"{recipe.liars} of {len(names)} devices cannot lie")
    return tuple(names[len(names) - recipe.liars :])


def _attack(recipe: Recipe) -> Attack | None:
    if not recipe.attack:
        return None
    attack = attack_of(recipe.attack)
    if isinstance(attack, LabelFlip) and attack.classes is None and recipe.partition:
        # Of what each device owns nobody else could tell how many there are.
        return replace(attack, classes=load(recipe.dataset, seed=recipe.seed).classes)
    return attack


def is_own_task(task: str) -> bool:
    """Whether a task names a user's file or module, not a net of the catalogue."""
    return ":" in task or "/" in task or task.endswith(".py") or "." in task


def _activity(recipe: Recipe, names: tuple[str, ...]) -> dict[str, Activity]:
    kind, _, heat = recipe.activity.partition(":")
    if kind == "idle" and not heat:
        return {}
    if kind != "heated":
        raise ConfigurationError(
            f"no activity is called {recipe.activity!r}", hint="idle, or heated:0.5"
        )
    try:
        degree = float(heat or 0.5)
    except ValueError as error:
        raise ConfigurationError(f"heated takes a number, got {heat!r}") from error
    return {name: heated(stream(recipe.seed, "habits", name), degree) for name in names}
