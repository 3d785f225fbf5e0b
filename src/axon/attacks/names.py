"""Names to attacks, as a command line, a recipe or a device's settings give them: `reversed:-10`.

The table lives here and not beside those of the other policies because a device's process, which
knows no recipes, is told its attack by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from axon.attacks.blind import Drop, Random, Reversed, SignFlip, Stale
from axon.attacks.labels import LabelFlip
from axon.attacks.omniscient import InnerProduct, LittleIsEnough, Mimic
from axon.attacks.seam import Attack
from axon.named import Maker, choose, number, whole, without

ATTACKS: Mapping[str, Maker[Attack]] = MappingProxyType(
    {
        "random": lambda given: Random(number("random", given)) if given else Random(),
        "reversed": lambda given: Reversed(number("reversed", given)) if given else Reversed(),
        "drop": lambda given: without("drop", given, Drop),
        "stale": lambda given: Stale(whole("stale", given)) if given else Stale(),
        "sign-flip": lambda given: without("sign-flip", given, SignFlip),
        "inner-product": lambda given: (
            InnerProduct(number("inner-product", given)) if given else InnerProduct()
        ),
        "little-is-enough": lambda given: LittleIsEnough(
            number("little-is-enough", given) if given else None
        ),
        "mimic": lambda given: Mimic(whole("mimic", given)) if given else Mimic(),
        "label-flip": lambda given: LabelFlip(whole("label-flip", given) if given else None),
    }
)
"""Every attack there is, by its name."""


def attack_of(text: str) -> Attack:
    """The attack that `name` or `name:number` stands for."""
    return choose("attack", ATTACKS, text)
