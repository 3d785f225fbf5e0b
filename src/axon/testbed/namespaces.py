"""Devices behind links that the kernel shapes: network namespaces on a bridge, with token buckets.

    with Namespaces() as spaces:
        pi = spaces.add("pi-1", link)
        Popen(spaces.command("pi-1", ["axon", "worker", ...]))    # served at pi.address
        transport = ShapedTransport(HttpTransport(), remaining(link), random)

The kernel's part is bandwidth and partitions; latency, jitter and loss need a queue that many
kernels are built without, so `remaining` leaves them to `ShapedTransport`. It takes root, and the
programs `ip` and `tc`: `probe` finds out.

Names carry the process's id, so that what a killed process left behind is known and removed.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from itertools import chain
from types import TracebackType
from typing import Any

from axon.errors import ConfigurationError
from axon.rpc.link import Link

SUBNETS = tuple(
    chain.from_iterable(
        IPv4Network(pool).subnets(new_prefix=24) for pool in ("10.213.0.0/17", "172.29.0.0/17")
    )
)
"""Where bridges may live; no more than 256, whose number two digits of a name can hold."""
PACKET_BYTES = 1514
"""The largest packet on a link, its header included."""
BURSTS_PER_S = 250
"""A bucket holds what passes in one tick of the coarsest kernel clock still in use."""
QUEUE_S = 0.05
QUEUE_PACKETS = 16
"""The least that may wait: a slow link without it would drop what TCP sends in one go."""
COMMAND_S = 20.0
_HELD = re.compile(r"axon([0-9a-f]{1,6})-.+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_INSIDE = "eth0"


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether namespaces can be made here and, if not, why."""

    works: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Namespace:
    """One device's network: the name it was given and its host address on the bridge."""

    name: str
    address: str


def probe() -> Probe:
    """Make one namespace with a shaped link and remove it again."""
    try:
        with Namespaces() as spaces:
            spaces.add("probe", Link(up_bytes_per_s=1e6, down_bytes_per_s=1e6))
    except ConfigurationError as error:
        return Probe(works=False, reason=str(error))
    return Probe(works=True)


def remaining(link: Link) -> Link:
    """The part of a link that the kernel leaves to `ShapedTransport`."""
    return replace(link, up_bytes_per_s=math.inf, down_bytes_per_s=math.inf)


def bucket(bytes_per_s: float) -> list[str]:
    """The token bucket of one direction, as `tc` wants it written."""
    burst = max(math.ceil(bytes_per_s / BURSTS_PER_S), PACKET_BYTES)
    waiting = max(math.ceil(bytes_per_s * QUEUE_S), QUEUE_PACKETS * PACKET_BYTES)
    rate = max(8, round(8 * bytes_per_s))
    return ["tbf", "rate", f"{rate}bit", "burst", f"{burst}", "limit", f"{burst + waiting}"]


def free_subnet(taken: Iterable[IPv4Network]) -> tuple[int, IPv4Network]:
    """The first subnet that overlaps none of those, with its number."""
    others = list(taken)
    for number, subnet in enumerate(SUBNETS):
        if not any(subnet.overlaps(other) for other in others):
            return number, subnet
    raise ConfigurationError(
        f"all {len(SUBNETS)} private subnets for namespaces are in use here",
        hint="close other testbeds, or remove their bridges with `ip link delete`",
    )


class Namespaces:
    """A bridge and the namespaces on it, for as long as the block lasts.

    `address` is this machine's own on the bridge, where those inside reach it.
    """

    address: str

    def __init__(self) -> None:
        self._undo = ExitStack()
        self._prefix = ""
        self._subnet = SUBNETS[0]
        self._ends: dict[str, str] = {}

    def __enter__(self) -> Namespaces:
        with ExitStack() as undo, _alone():
            _sweep()
            number, self._subnet = free_subnet(_networks())
            # The kernel takes 15 characters: 4, 6 for any process id, 1, 2, and 2 for a device.
            self._prefix = f"axon{os.getpid():x}-{number:02x}"
            self.address = str(self._subnet[1])
            _make(undo, ["link", "add", self._prefix, "type", "bridge"], link=self._prefix)
            _ip("address", "add", f"{self.address}/24", "dev", self._prefix)
            _ip("link", "set", self._prefix, "up")
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def add(self, name: str, link: Link) -> Namespace:
        """A namespace behind the bandwidth of `link`; undone at once when it cannot be finished."""
        host = self._free_host(name)
        end, space = f"{self._prefix}{host:02x}", self._space(name)
        address = str(self._subnet[host])
        with ExitStack() as undo:
            _make(undo, ["netns", "add", space], space=space)
            peer = ["type", "veth", "peer", "name", _INSIDE, "netns", space]
            _make(undo, ["link", "add", end, *peer], link=end)
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "address", "add", f"{address}/24", "dev", _INSIDE)
            _ip("-n", space, "link", "set", _INSIDE, "up")
            _ip("link", "set", end, "master", self._prefix, "up")
            # A queue shapes what leaves by it: what goes down leaves by the end out here.
            if not math.isinf(link.down_bytes_per_s):
                _tc("qdisc", "add", "dev", end, "root", *bucket(link.down_bytes_per_s))
            if not math.isinf(link.up_bytes_per_s):
                rate = bucket(link.up_bytes_per_s)
                _tc("-n", space, "qdisc", "add", "dev", _INSIDE, "root", *rate)
            self._undo.push(undo.pop_all())
        self._ends[name] = end
        return Namespace(name, address)

    def command(self, name: str, argv: Sequence[str]) -> list[str]:
        """`argv` so that it runs inside."""
        self._end(name)
        return [_program("ip"), "netns", "exec", self._space(name), *argv]

    def partition(self, name: str) -> None:
        """Let nothing pass to or from it until it is healed."""
        _ip("link", "set", self._end(name), "down")

    def heal(self, name: str) -> None:
        """Let pass again."""
        _ip("link", "set", self._end(name), "up")

    def close(self) -> None:
        """Remove everything made here; processes still inside are cut off and go on."""
        self._prefix = ""
        self._ends.clear()
        self._undo.close()

    def _space(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def _end(self, name: str) -> str:
        if name not in self._ends:
            known = ", ".join(self._ends) or "none"
            raise ConfigurationError(f"no namespace {name!r} here", hint=f"known: {known}")
        return self._ends[name]

    def _free_host(self, name: str) -> int:
        if not self._prefix:
            raise ConfigurationError("namespaces are not open", hint="use `with Namespaces()`")
        if not _NAME.fullmatch(name) or name in self._ends:
            raise ConfigurationError(
                f"{name!r} cannot be a new namespace's name",
                hint="use 1 to 64 letters, digits and . _ -, each name once",
            )
        host = len(self._ends) + 2
        if host > 254:
            raise ConfigurationError("a bridge has room for 253 namespaces", hint="use two")
        return host


def _make(undo: ExitStack, command: Sequence[str], *, link: str = "", space: str = "") -> None:
    """Create, and have it removed with the rest: a link by its own name, for a namespace takes its
    end of one along only some time later."""
    _ip(*command)
    undo.callback(_ip, *(["link", "delete", link] if link else ["netns", "delete", space]))


def _sweep() -> None:
    """Remove what processes that are no more have left."""
    for link in _listed("link", "show"):
        if _is_stale(link["ifname"]):
            _ip("link", "delete", link["ifname"])
    for space in _listed("netns", "list"):
        if _is_stale(space["name"]):
            _ip("netns", "delete", space["name"])


def _is_stale(name: str) -> bool:
    held = _HELD.fullmatch(name)
    return held is not None and not os.path.exists(f"/proc/{int(held[1], 16)}")


def _networks() -> Iterator[IPv4Network]:
    """Those this machine has an address in or a route to, default routes aside."""
    for link in _listed("-4", "address", "show"):
        for entry in link.get("addr_info", ()):
            yield IPv4Network(f"{entry['local']}/{entry['prefixlen']}", strict=False)
    for route in _listed("-4", "route", "show"):
        network = IPv4Network("0.0.0.0/0" if route["dst"] == "default" else route["dst"])
        # A tunnel writes the default route as two halves; ours are narrower and come first.
        if network.prefixlen >= 8:
            yield network


def _listed(*arguments: str) -> list[dict[str, Any]]:
    # An empty list is printed as nothing at all, and an address family may print empty entries.
    return [entry for entry in json.loads(_ip("-j", *arguments) or "[]") if entry]


@contextmanager
def _alone() -> Iterator[None]:
    """One process at a time looks for a free subnet and takes it."""
    _program("ip")
    import fcntl  # Late: only where there is an `ip` there is this.

    # The folder of namespaces does not exist before the first one; the one above it does.
    folder = os.open("/run", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _ip(*arguments: str) -> str:
    return _run("ip", *arguments)


def _tc(*arguments: str) -> str:
    return _run("tc", *arguments)


def _run(program: str, *arguments: str) -> str:
    written = " ".join((program, *arguments))
    try:
        done = subprocess.run(  # noqa: S603  (arguments in a list, names checked)
            [_program(program), *arguments],
            capture_output=True, text=True, timeout=COMMAND_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"`{written}` did not end within {COMMAND_S:g} s") from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise ConfigurationError(
            f"`{written}` failed with {done.returncode}: {said}",
            hint="namespaces take root and a kernel with veth, bridge and tbf",
        )
    return done.stdout


def _program(name: str) -> str:
    # Where they live is on the path of root, but not of everybody who may become root.
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    found = shutil.which(name, path=path)
    if found is None:
        raise ConfigurationError(f"there is no program `{name}` here", hint="install iproute2")
    return found
