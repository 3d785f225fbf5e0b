"""Calling functions on other devices.

    stub = axon.client.get_stub("pi.local")     # asks the worker what it offers
    stub.hello("Ada").join()                    # or: await stub.hello("Ada")

`get_stub(…, stub_type=SyncStub)` makes calls that block; `FutureStub` gives futures. The thesis's
`SyncSimplexStub`, `CoroSimplexStub` and `AsyncSimplexStub`, and their `Duplex` twins, name one
function and choose the concurrency model and the communication pattern by their class.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

from axon.errors import ConfigurationError
from axon.rpc.address import DEFAULT_PORT, Address
from axon.rpc.calling.callers import caller_for
from axon.rpc.calling.gather import Answers, Gathering, gather
from axon.rpc.calling.handles import Call, run_blocking
from axon.rpc.calling.options import (
    DEFAULT_DEADLINE_S,
    UNSET,
    Access,
    CallOptions,
    Unset,
    check_call_id,
    deadline,
)
from axon.rpc.calling.profiles import Remote
from axon.rpc.calling.spec import CallSpec
from axon.rpc.calling.stubs import (
    FutureStub,
    GenericStub,
    RemoteFunction,
    StubType,
    SyncStub,
    ThreadStub,
    build_stub,
    stub_type_of,
)
from axon.rpc.discovery.mdns import Announcement, Directory
from axon.rpc.discovery.probe import discover, find_workers, probe, watch
from axon.rpc.limits import Limits
from axon.rpc.messages import Transport
from axon.rpc.security.keys import Key, Keyring

__all__ = [
    "Access", "Announcement", "Answers", "AsyncDuplexStub", "AsyncSimplexStub", "Call",
    "CallOptions", "CoroDuplexStub", "CoroSimplexStub", "Directory", "FutureStub", "Gathering",
    "GenericStub", "SyncDuplexStub", "SyncSimplexStub", "SyncStub", "ThreadStub", "access",
    "attach", "call", "connect", "deadline", "discover", "find_workers", "gather", "get_stub",
    "probe", "watch",
]  # fmt: skip

KeyLike = str | PathLike[str] | Key | Keyring | None


_WAYS = ("key", "tls", "pickling", "reconnect_s", "limits", "transport")


def _check_ways(options: dict[str, Any], others: tuple[str, ...]) -> None:
    unknown = sorted(set(options) - set(_WAYS))
    if unknown:
        known = ", ".join(sorted((*others, *_WAYS)))
        raise ConfigurationError(f"unknown option {', '.join(unknown)}", hint=f"known are {known}")


def access(
    *,
    key: KeyLike = None,
    tls: str | PathLike[str] | None = None,
    pickling: bool = False,
    reconnect_s: float = 5.0,
    limits: Limits | None = None,
    transport: Transport | None = None,
) -> Access:
    """How workers are reached: the key calls are signed with, the folder of certificates, …"""
    return Access(
        key=None if key is None else Keyring.of(key),
        tls=None if tls is None else str(tls),
        pickling=pickling,
        reconnect_s=reconnect_s,
        limits=limits or Limits(),
        transport=transport,
    )


async def connect(
    address: str | Address,
    *,
    stub_type: StubType | str = GenericStub,
    deadline_s: float | Unset | None = UNSET,
    duplex: bool = False,
    way: Access | None = None,
    **access_options: Any,
) -> Any:
    """A stub of what is at `host[:port][/path]`; asks the worker once.

    Further keywords say how it is reached: `key`, `tls`, `pickling`, `reconnect_s`, `limits`; or
    `way` does, made once by `access`.
    """
    _check_ways(access_options, ("stub_type", "deadline_s", "duplex", "way"))
    if way is None:
        way = access(**access_options)
    elif access_options:
        raise ConfigurationError(f"way= already says {', '.join(sorted(access_options))}")
    where = Address.parse(address, tls=way.tls is not None)
    options = CallOptions(deadline_s=deadline_s, duplex=duplex)
    profile = await (await caller_for(way)).ask(where.origin, options)
    return build_stub(
        profile, where, access=way, stub_type=stub_type_of(stub_type), options=options
    )


def get_stub(address: str | Address, **options: Any) -> Any:
    """`connect` for code without a loop: blocks until the worker has said what it offers."""
    with_limit = options.get("deadline_s", UNSET)
    seconds = (
        DEFAULT_DEADLINE_S if with_limit is None or isinstance(with_limit, Unset) else with_limit
    )

    async def ask() -> Any:
        with deadline(seconds):
            return await connect(address, **options)

    return run_blocking(ask())


def call(
    address: str | Address,
    *args: Any,
    deadline_s: float | Unset | None = UNSET,
    key: KeyLike = None,
    tls: str | PathLike[str] | None = None,
    **kwargs: Any,
) -> Any:
    """Call the function at `host[:port]/path` once, blocking; a generator gives an iterator."""
    way = access(key=key, tls=tls)
    where = Address.parse(address, tls=tls is not None)
    if not where.path:
        raise ConfigurationError(f"{address} names no function", hint="write host[:port]/rpc/NAME")
    options = CallOptions(deadline_s=deadline_s)

    async def find() -> Remote:
        return await (await caller_for(way)).find(where.origin, where.path, options)

    remote = run_blocking(find())
    remote.check(args, kwargs)
    return SyncStub(CallSpec(way, where.origin, remote, args, kwargs, options))


def attach(
    address: str | Address,
    call_id: str,
    *,
    deadline_s: float | Unset | None = UNSET,
    **access_options: Any,
) -> Any:
    """The result of a duplex call made earlier under that id, blocking until it is there."""
    way = access(**access_options)
    where = Address.parse(address, tls=way.tls is not None)
    check_call_id(call_id)

    async def collect() -> Any:
        caller = await caller_for(way)
        return await caller.attach(where.origin, call_id, CallOptions(deadline_s=deadline_s))

    return run_blocking(collect())


class _NamedStub(RemoteFunction):
    """A stub of one function, named when it is made and looked up when it is first called."""

    _kind: StubType = staticmethod(GenericStub)
    _duplex = False

    def __init__(
        self,
        *,
        worker_ip: str,
        rpc_name: str,
        port: int = DEFAULT_PORT,
        deadline_s: float | Unset | None = UNSET,
        **access_options: Any,
    ) -> None:
        way = access(**access_options)
        where = Address.parse(worker_ip, port=port, tls=way.tls is not None)
        options = CallOptions(deadline_s=deadline_s, duplex=self._duplex)
        super().__init__(way, where.origin, rpc_name, type(self)._kind, options)


class CoroSimplexStub(_NamedStub):
    """Await the call; one request carries it and its answer."""


class CoroDuplexStub(_NamedStub):
    """Await the call; its answer comes by a request of its own."""

    _duplex = True


class AsyncSimplexStub(_NamedStub):
    """The call starts at once; `.join()` its handle for the answer."""

    _kind = staticmethod(ThreadStub)


class AsyncDuplexStub(AsyncSimplexStub):
    """The call starts at once; its answer comes by a request of its own."""

    _duplex = True


class SyncSimplexStub(_NamedStub):
    """The call blocks until the answer is there."""

    _kind = staticmethod(SyncStub)


class SyncDuplexStub(SyncSimplexStub):
    """The call blocks; its answer comes by a request of its own."""

    _duplex = True
