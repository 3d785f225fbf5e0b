"""Finding workers on the local network by multicast DNS, and keeping the list true.

An `Announcer` tells the network that a worker is there. A `Directory` listens, and asks each worker
it hears of (the probe) before listing it, because what is announced may be stale, forged or out of
reach. Both travel over IPv4 multicast; the addresses announced may be IPv6.
"""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from enum import Enum
from hashlib import blake2s
from socket import AF_INET, AF_INET6, SOCK_DGRAM, SOCK_STREAM, socket
from typing import TYPE_CHECKING, Self, TypeAlias

from axon.errors import AxonError, ConfigurationError, DeadlineExceeded
from axon.printable import printable
from axon.rpc.address import Address

if TYPE_CHECKING:
    from zeroconf import Zeroconf
    from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

SERVICE_TYPE = "_axon._tcp.local."
PROBE_DEADLINE_S = 2.0
FAILED_PROBES = 2
"""As many in a row take a worker off the list; one may be a lost packet."""
MAX_FOLLOWED = 1024
"""A flood of forged announcements costs this many probes a turn and no more."""
MAX_ADDRESSES = 8
_TXT_BYTES = 255
_NAME_CHARACTERS = 60  # At four bytes each they still fit a TXT string beside `name=`.
_LABEL_BYTES = 50  # A DNS label holds 63; the rest is for what makes it unique.
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared with, never bound

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What a worker tells the network about itself, and never anything about its capability.

    Texts are made printable here, so that no reader has to remember that a stranger wrote them.
    """

    name: str
    address: Address
    functions: tuple[str, ...]
    version: str
    scheme: str

    def __post_init__(self) -> None:
        if self.scheme not in ("http", "https"):
            raise ConfigurationError(f"a worker speaks http or https, not {self.scheme!r}")
        name = printable(self.name, limit=_NAME_CHARACTERS) or "unnamed"
        functions = tuple(filter(None, map(printable, self.functions)))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "functions", functions)
        object.__setattr__(self, "version", printable(self.version, limit=_NAME_CHARACTERS))


Probe: TypeAlias = Callable[[Address], Awaitable[Announcement | None]]
"""Asks the worker at an address who it is; None when it does not answer."""


def text_record(announcement: Announcement) -> dict[str, bytes]:
    """The TXT record: as many function names as fit one string, and `more` when some do not.

    The functions are for other people's browsers; a `Directory` has them from the probe.
    """
    joined, complete = b"", True
    for name in announcement.functions:
        longer = joined + b"," + name.encode() if joined else name.encode()
        # A comma within a name would read as two names.
        fits = "," not in name and len(b"functions=" + longer) <= _TXT_BYTES
        joined, complete = (longer if fits else joined), complete and fits
    record = {"name": announcement.name, "version": announcement.version}
    record |= {"scheme": announcement.scheme} | ({} if complete else {"more": "1"})
    return {key: text.encode() for key, text in record.items()} | {"functions": joined}


class Announcer:
    """Makes a worker findable, from `start` (once it listens) to `stop` (which says goodbye).

    Where the network does not let it, it logs a warning: a worker must not die because nobody can
    find it by itself.
    """

    def __init__(
        self, announcement: Announcement, *, interfaces: Sequence[str] | None = None
    ) -> None:
        if announcement.address.scheme not in ("http", "https"):
            raise ConfigurationError(f"{announcement.address} cannot be announced on a network")
        chosen = _interfaces_for(announcement.address) if interfaces is None else interfaces
        self._announcement = announcement
        self._interfaces = _checked(chosen)
        self._zeroconf: AsyncZeroconf | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; the announcement itself goes out in the background, a second or two later."""
        if self._task is None:
            self._task = asyncio.create_task(self._announce())

    async def stop(self) -> None:
        """Say goodbye, so that nobody has to find out by a failed call."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        zeroconf, self._zeroconf = self._zeroconf, None
        if zeroconf is not None:
            await zeroconf.async_close()

    async def _announce(self) -> None:
        await _load_zeroconf()
        from zeroconf import Error

        try:
            self._zeroconf = _open_zeroconf(self._interfaces)
            service = await self._service()
            # Returns when the name is ours; what it returns ends when it was told three times.
            await (await self._zeroconf.async_register_service(service, allow_name_change=True))
        except (OSError, RuntimeError, Error) as error:
            log.warning("%s is not announced on the network: %r", self._announcement.name, error)

    async def _service(self) -> AsyncServiceInfo:
        from zeroconf.asyncio import AsyncServiceInfo

        announcement = self._announcement
        addresses = await _reachable_at(announcement.address, self._interfaces)
        # Zeroconf only notices a taken name when its owner answers in time. The place where the
        # worker is makes the name its own even when two namesakes are switched on together, and
        # leaves it the same after a restart.
        place = f"{sorted(addresses)} {announcement.address.port}"
        digest = blake2s(place.encode(), digest_size=4).hexdigest()
        label = announcement.name.replace(".", "-").encode()[:_LABEL_BYTES].decode(errors="ignore")
        return AsyncServiceInfo(
            SERVICE_TYPE,
            f"{label}-{digest[:4]}.{SERVICE_TYPE}",
            parsed_addresses=addresses,
            port=announcement.address.port,
            properties=text_record(announcement),
            server=f"axon-{digest}.local.",
        )


class Directory:
    """A live list of the workers that answer, for as long as its `async with` lasts.

    A worker comes when it is announced, or given in `static`, and its probe answers. It goes when
    it says goodbye, or when its probe fails twice running. With no interfaces at all (`()`) only
    the static ones are watched. Raises `ConfigurationError` for interfaces that cannot be used;
    where none were asked for and the machine has no multicast, a warning is logged instead.
    """

    def __init__(
        self,
        *,
        static: Sequence[str | Address] = (),
        interfaces: Sequence[str] | None = None,
        probe: Probe,
        probe_every_s: float = 2.0,
    ) -> None:
        if not probe_every_s > 0:
            raise ConfigurationError(f"probe_every_s must be above 0, got {probe_every_s}")
        self._static = tuple(Address.parse(text).origin for text in static)
        self._interfaces = _checked(interfaces)
        self._probe = probe
        self._probe_every_s = probe_every_s
        self._listed: dict[str, Announcement] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._defect: BaseException | None = None
        self._zeroconf: AsyncZeroconf | None = None
        self._browser: AsyncServiceBrowser | None = None

    async def __aenter__(self) -> Self:
        if self._interfaces != ():
            await self._browse()
        for address in self._static:
            key = f"static {address}"
            self._follow(key, self._watch(key, (address,), ""))
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._browser is not None:
            await self._browser.async_cancel()
        followers = list(self._followers.values())
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
        if self._zeroconf is not None:
            await self._zeroconf.async_close()
        if error is None and self._defect is not None:
            raise self._defect

    @property
    def workers(self) -> tuple[Announcement, ...]:
        """Who answers, by name and then address, each place once however often it is announced."""
        if self._defect is not None:
            raise self._defect
        places = {found.address: found for found in self._listed.values()}
        return tuple(sorted(places.values(), key=lambda it: (it.name, astuple(it.address))))

    async def wait_for(self, count: int, *, deadline_s: float) -> tuple[Announcement, ...]:
        """The list, once it has `count` workers; raises `DeadlineExceeded` when it does not."""
        try:
            async with asyncio.timeout(deadline_s):
                while len(self.workers) < count:
                    await self._changed.wait()
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"wanted {count} workers within {deadline_s:g} s, found {len(self.workers)}",
                hint="are they running? where the network has no multicast, name their hosts",
            ) from error
        return self.workers

    async def _browse(self) -> None:
        await _load_zeroconf()
        from zeroconf import DNSQuestionType, Error
        from zeroconf.asyncio import AsyncServiceBrowser

        try:
            self._zeroconf = _open_zeroconf(self._interfaces)
        except (OSError, RuntimeError, Error) as error:
            if self._interfaces is not None:
                chosen = ", ".join(self._interfaces)
                raise ConfigurationError(f"cannot listen on {chosen}: {error!r}") from error
            log.warning("only named hosts can be found, not announced ones: %r", error)
            return
        self._browser = AsyncServiceBrowser(
            self._zeroconf.zeroconf,
            SERVICE_TYPE,
            handlers=[self._heard],
            # Answers by unicast reach only one of the sockets that share the port on a machine, so
            # a client beside a worker would wait for the second question, a second later.
            question_type=DNSQuestionType.QM,
        )

    def _heard(self, zeroconf: Zeroconf, name: str, state_change: Enum, **_: object) -> None:
        if state_change.name == "Removed":
            if (follower := self._followers.pop(name, None)) is not None:
                follower.cancel()
            self._note(name, None)
        elif name in self._followers or len(self._followers) < MAX_FOLLOWED:
            self._follow(name, self._look_up_and_watch(name, zeroconf))

    def _follow(self, key: str, following: Coroutine[None, None, None]) -> None:
        if (earlier := self._followers.get(key)) is not None:
            earlier.cancel()
        follower = self._followers[key] = asyncio.create_task(following)
        follower.add_done_callback(self._ended)

    def _ended(self, follower: asyncio.Task[None]) -> None:
        """Keep a defect for the user to meet: a list that nobody tends must not look alive."""
        if not follower.cancelled() and follower.exception() is not None:
            self._defect = follower.exception()
            self._wake()

    async def _look_up_and_watch(self, service: str, zeroconf: Zeroconf) -> None:
        from zeroconf import DNSQuestionType, Error

        found: AsyncServiceInfo | None = None
        while found is None:
            try:
                found = await zeroconf.async_get_service_info(
                    SERVICE_TYPE, service, question_type=DNSQuestionType.QM
                )
            except Error as error:
                log.debug("cannot look up %r: %r", service, error)
            if found is None:
                self._note(service, None)
                await asyncio.sleep(self._probe_every_s)
        place = _place(found.parsed_scoped_addresses(), found.port or 0, found.properties)
        await self._watch(service, *place)

    async def _watch(self, key: str, addresses: tuple[Address, ...], name: str) -> None:
        failed, asked = 0, addresses
        while True:
            answer = await self._ask(asked, name)
            failed = failed + 1 if answer is None else 0
            if answer is not None or failed >= FAILED_PROBES:
                self._note(key, answer)
            # The one that answered is enough from now on, until it no longer does.
            asked = addresses if answer is None else (answer.address,)
            await asyncio.sleep(self._probe_every_s)

    async def _ask(self, addresses: Sequence[Address], name: str) -> Announcement | None:
        answers = await asyncio.gather(*map(self._ask_one, addresses))
        present = [answer for answer in answers if answer is not None]
        # An address such as a container bridge's exists on many machines, and on ours another
        # worker may answer there; the one with the announced name is preferred.
        namesakes = [answer for answer in present if answer.name == name]
        return next(iter(namesakes or present), None)

    async def _ask_one(self, address: Address) -> Announcement | None:
        try:
            async with asyncio.timeout(PROBE_DEADLINE_S):
                answer = await self._probe(address)
        except (AxonError, OSError) as error:
            log.debug("%s does not answer: %r", address, error)
            return None
        # A worker may know itself by an address that leads nowhere from here.
        return None if answer is None else replace(answer, address=address)

    def _note(self, key: str, answer: Announcement | None) -> None:
        self._listed.pop(key, None)
        if answer is not None:
            self._listed[key] = answer
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


async def discover(
    *,
    wait_s: float = 1.0,
    static: Sequence[str | Address] = (),
    interfaces: Sequence[str] | None = None,
    probe: Probe,
) -> tuple[Announcement, ...]:
    """Who answers within `wait_s`; the whole time is waited, as nobody knows how many there are."""
    async with Directory(static=static, interfaces=interfaces, probe=probe) as directory:
        await asyncio.sleep(wait_s)
        return directory.workers


def _place(
    hosts: Sequence[str], port: int, record: Mapping[bytes, bytes | None]
) -> tuple[tuple[Address, ...], str]:
    """Where an announced worker may be and its name there; nothing in the record is trusted."""
    name = (record.get(b"name") or b"").decode(errors="replace")
    scheme = "https" if record.get(b"scheme") == b"https" else "http"
    addresses = tuple(Address(host, port, scheme) for host in hosts[:MAX_ADDRESSES])
    return addresses, printable(name, limit=_NAME_CHARACTERS)


def _checked(interfaces: Sequence[str] | None) -> tuple[str, ...] | None:
    for text in interfaces or ():
        try:
            ipaddress.ip_address(text)
        except ValueError as error:
            raise ConfigurationError(
                f"{text!r} is not an interface", hint="give its IP address, such as 192.168.1.5"
            ) from error
    return None if interfaces is None else tuple(interfaces)


def _interfaces_for(address: Address) -> Sequence[str] | None:
    """The interfaces on which the address makes sense; None for all of them."""
    if address.is_loopback:
        # Also for ::1, since multicast from one process to another is rarely possible there.
        return ("127.0.0.1",)
    literal = address.host.replace(".", "").isdecimal()
    return (address.host,) if literal and address.host != _EVERYWHERE[0] else None


async def _reachable_at(address: Address, interfaces: Sequence[str] | None) -> list[str]:
    """The IP addresses others may try: those of this machine where the worker listens on all."""
    if address.host not in _EVERYWHERE:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(address.host, None, type=SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))
    import ifaddr  # Comes with zeroconf, and late for the same reason.

    found_here = [ip.ip for adapter in ifaddr.get_adapters() for ip in adapter.ips]
    texts = interfaces or [ip if isinstance(ip, str) else ip[0] for ip in found_here]
    # A link-local IPv6 address means nothing without the interface, which every machine names anew.
    own = [ip for ip in map(ipaddress.ip_address, texts) if ip.version == 4 or not ip.is_link_local]
    fit = [ip for ip in own if ip.version == 4 or ":" in address.host]
    return [str(ip) for ip in fit if not ip.is_loopback] or [str(ip) for ip in fit]


async def _load_zeroconf() -> None:
    # Late so that `import axon` stays cheap; in a thread so that a new worker answers meanwhile.
    await asyncio.to_thread(importlib.import_module, "zeroconf.asyncio")


def _open_zeroconf(interfaces: Sequence[str] | None) -> AsyncZeroconf:
    from zeroconf import InterfaceChoice
    from zeroconf.asyncio import AsyncZeroconf

    for text in interfaces or ():
        # Tried first, because zeroconf leaves sockets open behind it when one cannot be had.
        with socket(AF_INET6 if ":" in text else AF_INET, SOCK_DGRAM) as trial:
            trial.bind((text, 0))
    return AsyncZeroconf(InterfaceChoice.All if interfaces is None else list(interfaces))
