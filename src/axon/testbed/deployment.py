"""The deployed world: real devices, each running `axon worker`, listed or found on the network.

world = axon.testbed.deployed(["pi-1.local", "pi-2.local"], hosting=Hosting(key="axon.key"))
records = world.run(lambda fleet: Orchestrator(run, dataset, fleet).run())
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from axon.errors import ConfigurationError
from axon.rounds.remote import Hosting, RemoteFleet
from axon.testbed.entering import run_for_real

T = TypeVar("T")


def deployed(
    hosts: Mapping[str, str] | Sequence[str] = (),
    *,
    hosting: Hosting | None = None,
    discover: bool = False,
) -> Deployed:
    """A world of the devices at those hosts, and of those that announce themselves if wanted."""
    if not hosts and not discover:
        raise ConfigurationError(
            "a fleet needs at least one device", hint="name hosts, or look for them with discover"
        )
    return Deployed(RemoteFleet(hosts, hosting=hosting, discover=discover))


class Deployed:
    """A world to run something in."""

    def __init__(self, fleet: RemoteFleet) -> None:
        self.fleet = fleet

    def __repr__(self) -> str:
        return f"<Deployed world of {self.fleet!r}>"

    def run(self, main: Callable[[RemoteFleet], Awaitable[T]]) -> T:
        """Run `main` with the fleet on a loop of its own."""
        return run_for_real(self, main)

    async def __aenter__(self) -> RemoteFleet:
        return self.fleet

    async def __aexit__(self, *exception: object) -> None:
        """Nothing is ended: the devices are not ours."""
