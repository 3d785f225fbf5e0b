"""What a client holds in place of remote things: functions, services, and the thesis's stubs."""

from __future__ import annotations

import concurrent.futures
import secrets
from collections.abc import Callable
from types import FunctionType
from typing import Any, Protocol

from axon.errors import ConfigurationError, NotFound
from axon.rpc.address import Address
from axon.rpc.calling.background import background
from axon.rpc.calling.handles import Call, items, iterate_blocking, run, run_blocking
from axon.rpc.calling.options import Access, CallOptions
from axon.rpc.calling.profiles import Profile, Remote
from axon.rpc.calling.spec import CallSpec
from axon.rpc.paths import RPC_SERVICE


class StubType(Protocol):
    """How calling feels: takes a described call, gives back what the caller gets."""

    def __call__(self, spec: CallSpec) -> Any: ...


def GenericStub(spec: CallSpec) -> Call:  # noqa: N802 - reads as the type it stands for
    """Calls give a handle that can be awaited or joined."""
    return Call(spec)


def ThreadStub(spec: CallSpec) -> Call:  # noqa: N802
    """Calls start at once, whatever runs here, and give a handle to join."""
    return Call(spec, eager=True)


def SyncStub(spec: CallSpec) -> Any:  # noqa: N802
    """Calls block and give the value; a generator function gives a plain iterator."""
    if spec.streams:
        return iterate_blocking(items(spec.fixed()))
    return run_blocking(run(spec.fixed()))


def FutureStub(spec: CallSpec) -> concurrent.futures.Future[Any]:  # noqa: N802
    """Calls give a `concurrent.futures.Future`."""
    return background().submit(run(spec.fixed()))


_BY_NAME: dict[str, StubType] = {
    "generic": GenericStub,
    "thread": ThreadStub,
    "sync": SyncStub,
    "future": FutureStub,
}


def stub_type_of(chosen: StubType | str) -> StubType:
    """A stub type, given as itself or by name."""
    if isinstance(chosen, str):
        if chosen not in _BY_NAME:
            known = ", ".join(_BY_NAME)
            raise ConfigurationError(f"no stub type {chosen!r}", hint=f"one of {known}")
        return _BY_NAME[chosen]
    return chosen


class RemoteFunction:
    """A remote function here: call it like a local one, or choose how with `options()`.

    The stub's attributes are plain Python functions made from these, so that `help()`, signatures
    and completion work as for anything else.
    """

    def __init__(
        self,
        access: Access,
        origin: Address,
        function: Remote | str,
        stub_type: StubType,
        options: CallOptions,
    ) -> None:
        self._access = access
        self._origin = origin
        self._function = function
        self._stub_type = stub_type
        self._options = options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self._function
        if type(function) is Remote:
            function.check(args, kwargs)
        options = self._options
        if options.duplex and options.call_id is None:
            # Chosen now, so that the handle knows it before anything is sent.
            options = options.but(call_id=secrets.token_hex(16))
        return self._stub_type(
            CallSpec(self._access, self._origin, function, args, kwargs, options)
        )

    def options(self, **changes: Any) -> RemoteFunction:
        """The same function, called in another way: `deadline_s`, `duplex`, `progress`, …"""
        return RemoteFunction(
            self._access,
            self._origin,
            self._function,
            self._stub_type,
            self._options.but(**changes),
        )

    def __repr__(self) -> str:
        path = self._function if isinstance(self._function, str) else self._function.path
        return f"<remote function {path} on {self._origin}>"


def as_function(remote: RemoteFunction, name: str, described: Remote) -> Callable[..., Any]:
    """A plain function with the remote one's name, signature and docstring."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return remote(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "axon.remote"
    function.__doc__ = described.doc
    if described.signature is not None:
        # A function takes any attribute; its type does not say which.
        function.__signature__ = described.signature  # type: ignore[attr-defined]
    function.options = remote.options  # type: ignore[attr-defined]
    return function


class ServiceStub:
    """A remote service: its attributes are the remote functions and the services inside it."""

    _axon_path: str
    _axon_members: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        # Only reached for what is not there; say what is.
        if name.startswith("_"):
            raise AttributeError(name)
        known = ", ".join(sorted(self._axon_members)) or "nothing"
        raise AttributeError(f"{self!r} has no {name!r}; it offers {known}")

    def __dir__(self) -> list[str]:
        return sorted(self._axon_members)

    def __repr__(self) -> str:
        return f"<stub of {self._axon_path}>"


class CallableServiceStub(ServiceStub):
    """A remote object that can itself be called, as a model can."""

    _axon_call: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._axon_call(*args, **kwargs)

    @property
    def options(self) -> Callable[..., RemoteFunction]:
        """Call the object itself in another way."""
        # `as_function` gave it its options; a function's type does not say so.
        chosen: Callable[..., RemoteFunction] = self._axon_call.options  # type: ignore[attr-defined]
        return chosen


def build_stub(
    profile: Profile,
    address: Address,
    *,
    access: Access,
    stub_type: StubType,
    options: CallOptions,
) -> Any:
    """A stub for everything under the address's path: a service, or a single function."""
    origin = address.origin

    def leaf(remote: Remote, name: str) -> Callable[..., Any]:
        bound = RemoteFunction(access, origin, remote, stub_type, options)
        return as_function(bound, name, remote)

    prefix = address.path
    inside = {
        path[len(prefix) :].lstrip("/"): remote
        for path, remote in profile.functions.items()
        if not prefix or path == prefix or path.startswith(prefix + "/")
    }
    if not inside:
        offered = ", ".join(sorted(profile.functions)) or "nothing"
        raise NotFound(f"nothing at {address}", hint=f"the worker offers {offered[:300]}")
    if set(inside) == {""}:
        return leaf(inside[""], prefix.rpartition("/")[2])
    stub = _service(str(address), inside, leaf)
    if not prefix and RPC_SERVICE in stub._axon_members:
        # Functions registered one by one are at hand without their service's name.
        for name, member in stub._axon_members[RPC_SERVICE]._axon_members.items():
            if name not in stub._axon_members:
                _attach(stub, name, member)
    return stub


def _service(
    path: str, functions: dict[str, Remote], leaf: Callable[[Remote, str], Callable[..., Any]]
) -> ServiceStub:
    base = CallableServiceStub if "" in functions else ServiceStub
    # A class of its own, so that help() on the stub lists its functions.
    stub: ServiceStub = type("ServiceStub", (base,), {"__module__": "axon.remote"})()
    stub._axon_path = path
    stub._axon_members = {}
    below: dict[str, dict[str, Remote]] = {}
    for name, remote in functions.items():
        if name == "":
            # A `CallableServiceStub`, as it was made above where there is such a name.
            stub._axon_call = leaf(remote, "call")  # type: ignore[attr-defined]
        else:
            first, _, rest = name.partition("/")
            below.setdefault(first, {})[rest] = remote
    for name, members in below.items():
        single = set(members) == {""}
        member = leaf(members[""], name) if single else _service(f"{path}/{name}", members, leaf)
        _attach(stub, name, member)
    return stub


def _attach(stub: ServiceStub, name: str, member: Any) -> None:
    stub._axon_members[name] = member
    wrapped = staticmethod(member) if isinstance(member, FunctionType) else member
    setattr(type(stub), name, wrapped)
