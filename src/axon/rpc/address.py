"""Where a worker is: `host[:port][/path]`, with a scheme where plain HTTP is not meant."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field, replace
from urllib.parse import unquote, urlsplit

from axon.errors import ConfigurationError

DEFAULT_PORT = 8000
SCHEMES = ("http", "https", "unix", "memory")

_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class Address:
    """A place calls can be sent to. For `unix` the host is the socket's path."""

    host: str
    port: int = DEFAULT_PORT
    scheme: str = "http"
    path: str = ""
    key: str = field(init=False, repr=False, compare=False)
    """The worker alone, as text: what connections are kept under, at no cost of hashing."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.scheme} {self.host} {self.port}")

    @classmethod
    def parse(cls, text: str | Address, *, port: int | None = None, tls: bool = False) -> Address:
        """Read `host`, `host:port`, `[v6]:port`, `scheme://…`, each with an optional `/path`.

        A Unix socket is `unix:///run/axon.sock`, and its service path follows a `#`. With `tls` an
        address without a scheme is an https one, and a plain http one is refused.
        """
        if isinstance(text, Address):
            return text
        if tls and text.startswith("http://"):
            raise ConfigurationError(
                f"{text} speaks no TLS", hint="write https://, or leave out tls="
            )
        if _is_bare_ipv6(text):
            text = f"[{text}]"
        scheme = "https" if tls else "http"
        try:
            parts = urlsplit(text if "://" in text else f"{scheme}://{text}")
        except ValueError as error:
            raise ConfigurationError(
                f"{text!r} is no address: {error}", hint="write host[:port][/path]"
            ) from error
        if parts.scheme not in SCHEMES:
            raise ConfigurationError(
                f"unknown scheme {parts.scheme!r} in {text!r}",
                hint=f"use one of {', '.join(SCHEMES)}",
            )
        if parts.scheme == "unix":
            return cls(unquote(parts.path), 0, "unix", parts.fragment.strip("/"))
        try:
            number = parts.port
        except ValueError as error:
            raise ConfigurationError(f"bad port in {text!r}: {error}") from error
        if not parts.hostname:
            raise ConfigurationError(f"no host in {text!r}", hint="write host[:port][/path]")
        if parts.scheme != "memory":
            check_host(parts.hostname)
        if number is None:
            number = DEFAULT_PORT if port is None else port
        return cls(parts.hostname, number, parts.scheme, unquote(parts.path).strip("/"))

    def at(self, path: str) -> Address:
        """The same worker, another path."""
        return replace(self, path=path)

    @property
    def origin(self) -> Address:
        """The worker alone, without a path."""
        return self if not self.path else replace(self, path="")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.scheme in ("unix", "memory") or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def netloc(self) -> str:
        """What an HTTP Host header says."""
        if self.scheme == "unix":
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix://{self.host}" + (f"#{self.path}" if self.path else "")
        return f"{self.scheme}://{self.netloc}" + (f"/{self.path}" if self.path else "")


def check_host(host: str) -> None:
    """Raise `ConfigurationError` for what can be neither an IP address nor a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        # Digits and dots alone are an address that went wrong; nobody is called so.
        if not _NAME.fullmatch(host) or re.fullmatch(r"[\d.]+", host):
            raise ConfigurationError(
                f"{host!r} is no host",
                hint="give an IP address, or a name of letters, digits, dots and dashes",
            ) from error


def _is_bare_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False
