"""Who of a cluster is hostile, and whether what it is to do can be done at all.

An entry that cannot work would pass for an attack that was borne, so it is refused beforehand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

from axon.attacks import LabelFlip, Mimic
from axon.byzantine.behaviours import Behaviour
from axon.errors import ConfigurationError
from axon.topology import Topology

Party: TypeAlias = Literal["servers", "workers"]
PARTIES: tuple[Party, ...] = ("servers", "workers")


def members(topology: Topology, party: Party) -> tuple[str, ...]:
    """The names of a party."""
    return topology.servers if party == "servers" else topology.workers


def known_to(topology: Topology, hostile: Collection[str], party: Party) -> int:
    """How many honest vectors an omniscient liar of a party goes by.

    As many as will be aggregated beside the lies: whoever waited for more would come too late.
    """
    names = members(topology, party)
    liars = sum(name in hostile for name in names)
    waited = topology.gradients if party == "workers" else topology.models
    return min(len(names) - liars, max(1, (waited or len(names)) - liars))


def check_roles(topology: Topology, hostile: Mapping[str, object]) -> None:
    """Raise unless every hostile node is one of the cluster's, and can do what it is to."""
    strangers = sorted(set(hostile) - set(topology.nodes))
    if strangers:
        raise ConfigurationError(
            f"nobody is called {', '.join(strangers)}",
            hint=f"nodes are {', '.join(topology.nodes)}",
        )
    for party in PARTIES:
        _check_honest(members(topology, party), hostile)
    for name, role in hostile.items():
        _check_kind(name, role)
        if isinstance(role, LabelFlip) and name not in topology.workers:
            raise ConfigurationError(f"LabelFlip is an attack on data, and {name} has none")
        if isinstance(role, Mimic):
            _check_mimic(topology, hostile, name, role)


def _check_honest(names: tuple[str, ...], hostile: Mapping[str, object]) -> None:
    """Somebody is left to learn, and for the omniscient to know."""
    if set(names) <= set(hostile):
        raise ConfigurationError(
            f"at least one of {', '.join(names)} must be honest, got {len(names)} hostile"
        )


def _check_kind(name: str, role: object) -> None:
    is_attack = (
        callable(role)
        and isinstance(getattr(role, "omniscient", None), bool)
        and isinstance(getattr(role, "remembers", None), int)
    )
    if isinstance(role, type) or not (is_attack or isinstance(role, Behaviour)):
        raise ConfigurationError(
            f"what {name} does must be an attack or a behaviour, got {role!r}",
            hint="Reversed(-100.0), say, or attack_of('reversed:-100')",
        )


def _check_mimic(topology: Topology, hostile: Mapping[str, object], name: str, role: Mimic) -> None:
    for party in PARTIES:
        known = known_to(topology, hostile, party)
        if name in members(topology, party) and role.which >= known:
            raise ConfigurationError(
                f"{name} is to copy honest vector {role.which}, and knows {known}, from 0 on"
            )
