"""Names to attacks, as a command line, a recipe or a device's settings give them: `reversed:-10`.

The table lives here and not beside those of the other policies because a device's process, which
knows no recipes, is told its attack by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from axon.attacks.blind import Drop, Random, Reversed, SignFlip, Stale
from axon.attacks.labels import LabelFlip
from axon.attacks.omniscient import InnerProduct, LittleIsEnough, Mimic
from axon.attacks.seam import Attack
from axon.errors import ConfigurationError

ATTACKS: Mapping[str, Callable[[str], Attack]] = MappingProxyType(
    {
        "random": lambda given: Random(_number("random", given)) if given else Random(),
        "reversed": lambda given: Reversed(_number("reversed", given)) if given else Reversed(),
        "drop": lambda given: _without("drop", given, Drop),
        "stale": lambda given: Stale(_whole("stale", given)) if given else Stale(),
        "sign-flip": lambda given: _without("sign-flip", given, SignFlip),
        "inner-product": lambda given: (
            InnerProduct(_number("inner-product", given)) if given else InnerProduct()
        ),
        "little-is-enough": lambda given: LittleIsEnough(
            _number("little-is-enough", given) if given else None
        ),
        "mimic": lambda given: Mimic(_whole("mimic", given)) if given else Mimic(),
        "label-flip": lambda given: LabelFlip(_whole("label-flip", given) if given else None),
    }
)
"""Every attack there is, by its name."""


def attack_of(text: str) -> Attack:
    """The attack that `name` or `name:number` stands for."""
    name, _, given = text.partition(":")
    if name not in ATTACKS:
        raise ConfigurationError(
            f"no attack is called {name!r}", hint=f"known are {', '.join(sorted(ATTACKS))}"
        )
    return ATTACKS[name](given)


def _without(name: str, given: str, make: Callable[[], Attack]) -> Attack:
    if given:
        raise ConfigurationError(f"{name} takes no setting, got {given!r}")
    return make()


def _whole(name: str, given: str) -> int:
    try:
        return int(given)
    except ValueError as error:
        raise ConfigurationError(f"{name} takes a whole number, got {given!r}") from error


def _number(name: str, given: str) -> float:
    try:
        return float(given)
    except ValueError as error:
        raise ConfigurationError(f"{name} takes a number, got {given!r}") from error
