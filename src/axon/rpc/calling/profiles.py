"""What a worker said it offers, as values a client can check its arguments against."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from axon.errors import BadArguments, ProtocolError, VersionMismatch
from axon.rpc import wire
from axon.rpc.address import Address
from axon.rpc.paths import target_of
from axon.rpc.signatures import restore


@dataclass(frozen=True, slots=True)
class Remote:
    """A function of a worker, as its profile describes it."""

    path: str
    target: bytes
    kind: str
    doc: str
    signature: inspect.Signature | None
    positional: tuple[int, int]
    """How few and how many positional arguments alone certainly fit."""
    streams: bool
    """Whether its result is a stream of items."""

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse arguments that cannot fit, before anything is sent."""
        if self.signature is None:
            return
        if not kwargs and self.positional[0] <= len(args) <= self.positional[1]:
            return
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadArguments(f"{self.path}{self.signature}: {error}") from None


@dataclass(frozen=True, slots=True)
class Profile:
    """What a worker said of itself."""

    name: str
    boot: str
    version: str
    functions: dict[str, Remote]


def read_profile(data: Any, address: Address) -> Profile:
    """A worker's profile as values, refusing one we cannot speak to."""
    try:
        protocols = data["protocols"]
        if wire.VERSION not in protocols:
            raise VersionMismatch(
                f"{address} speaks protocol {protocols}, this client {wire.VERSION}",
                hint="install the same version of axon-edge on both",
            )
        functions = {path: _remote(path, entry) for path, entry in data["functions"].items()}
        name, boot, version = data["name"], data["boot"], data["version"]
        if not all(isinstance(text, str) for text in (name, boot, version)):
            raise TypeError("a worker's name, boot and version are texts")
        return Profile(name, boot, version, functions)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ProtocolError(f"{address} does not answer like an Axon worker") from error


def _remote(path: str, entry: dict[str, Any]) -> Remote:
    described = entry["signature"]
    signature = None if described is None else restore(described)
    least, most = (0, -1) if signature is None else _positional(signature)
    streams = entry["kind"] in ("generator", "async generator")
    return Remote(
        path, target_of(path), entry["kind"], entry["doc"], signature, (least, most), streams
    )


def _positional(signature: inspect.Signature) -> tuple[int, int]:
    least = most = 0
    for item in signature.parameters.values():
        required = item.default is item.empty
        if item.kind is item.VAR_POSITIONAL:
            most = 1 << 30
        elif item.kind is item.KEYWORD_ONLY and required:
            return 0, -1
        elif item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD):
            least += required
            most += 1
    return least, most
