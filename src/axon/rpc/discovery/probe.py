"""Discovery, with workers asked over HTTP who they are before they are believed."""

from __future__ import annotations

import os
from collections.abc import Sequence

from axon.errors import CallError
from axon.rpc.address import Address
from axon.rpc.calling.callers import caller_for
from axon.rpc.calling.handles import run_blocking
from axon.rpc.calling.options import Access
from axon.rpc.discovery import mdns
from axon.rpc.discovery.mdns import Announcement, Directory, Probe

Where = str | Address


def probe(access: Access) -> Probe:
    """Asks a worker for its profile; `None` where nobody answers or we may not know."""

    async def ask(address: Address) -> Announcement | None:
        caller = await caller_for(access)
        try:
            profile = await caller.profile(address.origin, fresh=True)
        except CallError:
            return None
        return Announcement(
            name=profile.name,
            address=address.origin,
            functions=tuple(profile.functions),
            version=profile.version,
            scheme=address.scheme,
        )

    return ask


def known_hosts() -> tuple[str, ...]:
    """Workers named in the environment: `AXON_HOSTS=pi-1,pi-2:8100`."""
    return tuple(
        host.strip() for host in os.environ.get("AXON_HOSTS", "").split(",") if host.strip()
    )


def watch(
    *,
    static: Sequence[Where] = (),
    interfaces: Sequence[str] | None = None,
    probe_every_s: float = 2.0,
    access: Access | None = None,
) -> Directory:
    """A live list of workers, for an `async with`."""
    return Directory(
        static=(*static, *known_hosts()),
        interfaces=interfaces,
        probe=probe(access or Access(reconnect_s=0.0)),
        probe_every_s=probe_every_s,
    )


async def find_workers(
    *,
    wait_s: float = 1.0,
    static: Sequence[Where] = (),
    interfaces: Sequence[str] | None = None,
    access: Access | None = None,
) -> tuple[Announcement, ...]:
    """The workers that can be found within `wait_s` seconds."""
    return await mdns.discover(
        wait_s=wait_s,
        static=(*static, *known_hosts()),
        interfaces=interfaces,
        probe=probe(access or Access(reconnect_s=0.0)),
    )


def discover(
    *,
    wait_s: float = 1.0,
    static: Sequence[Where] = (),
    interfaces: Sequence[str] | None = None,
    access: Access | None = None,
) -> tuple[Announcement, ...]:
    """`find_workers` for code without a loop."""
    return run_blocking(
        find_workers(wait_s=wait_s, static=static, interfaces=interfaces, access=access)
    )
