"""How a worker is served: where, to whom, and within which bounds."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any

from axon.errors import ConfigurationError
from axon.rpc.address import DEFAULT_PORT, Address
from axon.rpc.limits import Limits
from axon.rpc.messages import Transport
from axon.rpc.security.keys import Key, Keyring


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The choices of `axon.worker.init`; checked together, because openness needs a lock."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0 takes a free one."""
    unix: str | None = None
    """A socket's path, in place of host and port."""
    key: str | PathLike[str] | Key | Keyring | None = None
    """A key file, a key, or several: who may call, each within its allow-list."""
    tls: str | PathLike[str] | None = None
    """The folder that `axon keys new` made."""
    mutual: bool = False
    """Let in only clients that present a certificate of that folder's authority."""
    insecure: bool = False
    """Serve other machines without any key: say it to mean it."""
    pickling: bool = False
    """Take and send pickles from and to holders of the key."""
    tracebacks: bool = True
    """Tell callers where in the code an error was raised; strangers need not know."""
    limits: Limits = field(default_factory=Limits)
    announce: bool | None = None
    """Tell the local network; by default whenever it could reach us."""
    max_threads: int = 64
    max_processes: int | None = None
    grace_s: float = 10.0
    """How long calls under way may go on after the worker is told to stop."""
    transport: Transport | None = None
    """In place of HTTP of our own: in memory, or shaped; it brings its certificates itself."""

    @classmethod
    def of(cls, **options: Any) -> ServeOptions:
        """From keywords, with an error that lists the known ones."""
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise ConfigurationError(
                f"unknown option {', '.join(unknown)}", hint=f"known are {', '.join(sorted(known))}"
            )
        return cls(**options)

    def __post_init__(self) -> None:
        if not isinstance(self.port, int) or not 0 <= self.port < 1 << 16:
            raise ConfigurationError(f"port must be a number from 0 to 65535, got {self.port!r}")
        if self.pickling and self.key is None:
            raise ConfigurationError(
                "pickling without a key would run anyone's code", hint="pass key= as well"
            )
        if self.mutual and self.tls is None:
            raise ConfigurationError("mutual TLS needs certificates", hint="pass tls= their folder")
        if self.tls is not None and self.transport is not None:
            raise ConfigurationError(
                "tls= has no effect on a transport that is passed in",
                hint="make that one with HttpTransport(worker_tls=worker_context(folder, ...))",
            )
        if self.address.is_loopback or self.key is not None or self.mutual or self.insecure:
            return
        raise ConfigurationError(
            f"{self.address} can be reached from other machines and has no key",
            hint="make one with `axon keys new` and pass key=, or write insecure=True",
        )

    @property
    def keyring(self) -> Keyring | None:
        """The keys, read from their file where they were given so."""
        return None if self.key is None else Keyring.of(self.key)

    @property
    def address(self) -> Address:
        """Where to listen."""
        if self.unix is not None:
            return Address(self.unix, 0, "unix")
        if self.transport is not None:
            return Address(self.host, self.port, self.transport.scheme)
        return Address(self.host, self.port, "http" if self.tls is None else "https")

    def tls_context(self) -> ssl.SSLContext | None:
        """The worker's certificates, ready for use."""
        if self.tls is None:
            return None
        from axon.rpc.security.tls import worker_context  # Late: certificates are the exception.

        return worker_context(self.tls, mutual=self.mutual)
