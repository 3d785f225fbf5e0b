"""The devices of the papers, as far as training and the network can tell them apart.

A device is four numbers and a link. What the papers or the makers publish is cited; the rest says
"estimated" and why. Peak rates are clock x cores x operations per cycle. Training a small network
reaches a few per cent of that, and every batch pays for Python and the launching of kernels too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from typing import Any

from axon.errors import ConfigurationError
from axon.rpc.link import Link
from axon.shown import Shown
from axon.values import check_positive, check_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Device(Shown):
    """What one device is like to train on and to reach."""

    kind: str
    flops_per_s: float
    """What training sustains, forwards and backwards; not the peak."""
    batch_overhead_s: float
    """What a batch costs whatever its size: Python, the launching of kernels."""
    memory_bytes: int
    link: Link

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or not self.kind.strip():
            raise ConfigurationError(f"a device's kind is a name, got {self.kind!r}")
        check_positive(f"flops_per_s of {self.kind!r}", self.flops_per_s)
        if not _is_number(self.batch_overhead_s) or not 0.0 <= self.batch_overhead_s < math.inf:
            raise ConfigurationError(
                f"batch_overhead_s of {self.kind!r} must be a finite number of at least 0, "
                f"got {self.batch_overhead_s!r}"
            )
        check_whole(f"memory_bytes of {self.kind!r}", self.memory_bytes, least=1)
        if not isinstance(self.link, Link):
            raise ConfigurationError(f"link of {self.kind!r} must be a Link, got {self.link!r}")

    def batch_s(self, flops_per_sample: float, samples: int) -> float:
        """How long one batch takes to train."""
        return self.batch_overhead_s + flops_per_sample * samples / self.flops_per_s


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


GIB = 2**30

# Estimated from figure 3.6 of the DAB thesis: CSA took 172 s for five cycles on four Jetson Nanos.
# If it allots all of MNIST, each trains 15,000 samples of 32.6 MFLOP a cycle: 14.2 GFLOPS of 235.5.
_GPU_PART = 0.06

# 128-bit NEON units do four multiply-adds, so eight operations, per cycle (Arm). The parts that
# training reaches are estimated: more than on a GPU, since little is launched, and half as much on
# the in-order Cortex-A53 of a 512 MB, 1.4 GHz Pi as on the Cortex-A72 of the two 4 GB ones.
_NEON = 8
_A53_PART = 0.075
_A72_PART = 0.15

# Ethernet's headers leave 94 % of a gigabit to TCP; the latency of one switch is estimated.
_GIGABIT = Link(latency_s=0.0002, up_bytes_per_s=117.5e6, down_bytes_per_s=117.5e6)
# Estimated: 802.11ac with one small antenna, which hears an access point better than it is heard.
_PI_WIFI = Link(latency_s=0.003, up_bytes_per_s=8e6, down_bytes_per_s=10e6, jitter_s=0.002)
# Estimated: 802.11ac with two antennas.
_LAPTOP_WIFI = Link(latency_s=0.002, up_bytes_per_s=20e6, down_bytes_per_s=30e6, jitter_s=0.002)
# Distream's cameras: Fast Ethernet, set to 10 Mbit/s unless said otherwise; latency as above.
_CAMERA = Link(latency_s=0.0002, up_bytes_per_s=1.25e6, down_bytes_per_s=1.25e6)
# The medians of 19 users' mean speeds in FLASH (Yang et al., WWW 2021); latency is estimated.
_PHONE = Link(latency_s=0.03, up_bytes_per_s=3.286e6, down_bytes_per_s=4.318e6, jitter_s=0.02)


def _gpu(clock_hz: float, cores: int) -> float:
    return clock_hz * cores * 2 * _GPU_PART


def _known(*known: Device) -> dict[str, Device]:
    return {one.kind: one for one in known}


# Clocks, cores, memory and kinds of network: table 3.1 of the DAB thesis, unless cited otherwise.
# Overheads are estimated. Those of the Pis are spread by clock and core about a mean that makes 15
# shards of TwoNN last as long on a Pi as 120 on the Nano, as section 3.4.2.1 allots them.
DEVICES: dict[str, Device] = _known(
    Device(
        kind="rtx-2070-super",  # a peak of 8.2 TFLOPS at its base clock; NVIDIA: 9.1 at boost
        flops_per_s=_gpu(1605e6, 2560),
        batch_overhead_s=0.001,
        memory_bytes=8 * GIB,
        link=_GIGABIT,
    ),
    Device(
        kind="jetson-nano",  # a peak of 236 GFLOPS; NVIDIA: 472 in half precision
        flops_per_s=_gpu(920e6, 128),
        batch_overhead_s=0.005,
        memory_bytes=2 * GIB,
        link=_GIGABIT,
    ),
    Device(
        kind="ideapad",
        flops_per_s=_gpu(1200e6, 128),
        batch_overhead_s=0.002,
        memory_bytes=8 * GIB,
        link=_LAPTOP_WIFI,
    ),
    Device(
        kind="pi-1",
        flops_per_s=1.4e9 * 4 * _NEON * _A53_PART,
        batch_overhead_s=0.06,
        memory_bytes=GIB // 2,
        link=_PI_WIFI,
    ),
    Device(
        kind="pi-2",
        flops_per_s=1.8e9 * 4 * _NEON * _A72_PART,
        batch_overhead_s=0.03,
        memory_bytes=4 * GIB,
        link=_PI_WIFI,
    ),
    Device(
        kind="pi-3",
        flops_per_s=1.5e9 * 4 * _NEON * _A72_PART,
        batch_overhead_s=0.036,
        memory_bytes=4 * GIB,
        link=_PI_WIFI,
    ),
    Device(
        kind="jetson-tx1",  # NVIDIA: 256 Maxwell cores at 998 MHz, 4 GB
        flops_per_s=_gpu(998e6, 256),
        batch_overhead_s=0.004,
        memory_bytes=4 * GIB,
        link=_CAMERA,
    ),
    Device(
        kind="jetson-tx2",  # NVIDIA: 256 Pascal cores at 1300 MHz, 8 GB
        flops_per_s=_gpu(1300e6, 256),
        batch_overhead_s=0.003,
        memory_bytes=8 * GIB,
        link=_CAMERA,
    ),
    Device(
        kind="phone",  # estimated: four big cores at 2.4 GHz, a tenth of their peak
        flops_per_s=15e9,
        batch_overhead_s=0.006,
        memory_bytes=4 * GIB,
        link=_PHONE,
    ),
    Device(
        kind="ideal",  # for tests: round numbers and a link that costs nothing
        flops_per_s=1e12,
        batch_overhead_s=0.0,
        memory_bytes=1024 * GIB,
        link=Link(),
    ),
)

MOST_OF_A_KIND = 100_000
"""More of one kind than anybody simulates; a slip of the keyboard should not fill the memory."""

FLEETS: dict[str, str] = {
    "thesis": "pi-1,pi-2,pi-3,jetson-nano",  # section 3.4.2.2, the second cluster
    "pair": "pi-1,jetson-nano",  # the same section, the first
    "nanos": "jetson-nano*4",  # figures 3.6 to 3.8
    "nanos-10": "jetson-nano*10",  # section 4.3.1
}


def device(name: str) -> Device:
    """The device of that name in the catalogue."""
    if name not in DEVICES:
        raise ConfigurationError(
            f"no device is called {name!r}", hint=f"known are {', '.join(DEVICES)}"
        )
    return DEVICES[name]


def device_from(table: Mapping[str, Any]) -> Device:
    """A device as a TOML or JSON table describes it: whole, or `like` another but for some fields.

    A `link` is a table as well, and changes only what it names.
    """
    names = [field.name for field in fields(Device)]
    _refuse_unknown("device", table, ["like", *names])
    base = device(str(table["like"])) if "like" in table else None
    values = {name: getattr(base, name) for name in names} if base else {"link": Link()}
    values |= {name: value for name, value in table.items() if name not in ("like", "link")}
    values["link"] = _link_from(table.get("link", {}), values["link"])
    missing = [name for name in names if name not in values]
    if missing:
        raise ConfigurationError(
            f"a device needs {', '.join(missing)}", hint='or name one it is "like"'
        )
    return Device(**values)


def fleet(
    members: str | Sequence[str | Device], own: Mapping[str, Device] | None = None
) -> dict[str, Device]:
    """Devices by unique names, from a fleet's name, a list, or text: `jetson-nano*3,pi-1`.

    One of its kind is called by its kind; several of a kind are numbered from 1. `own` kinds stand
    beside the catalogue's, and before them.
    """
    if isinstance(members, str):
        members = FLEETS.get(members, members).split(",")
    known = DEVICES | dict(own or {})
    devices = [one for member in members for one in _several(member, known)]
    if not devices:
        raise ConfigurationError("a fleet needs at least 1 device, got 0")
    kinds = Counter(one.kind for one in devices)
    # A numbered name steps aside for a kind that is spelt like one: "pi" twice, beside "pi-1".
    taken = {kind for kind, number in kinds.items() if number == 1}
    numbers = {kind: count(1) for kind in kinds}
    named: dict[str, Device] = {}
    for one in devices:
        kind = one.kind
        name = kind if kinds[kind] == 1 else _numbered(kind, numbers[kind], taken)
        taken.add(name)
        named[name] = one
    return named


def check_members(what: str, names: Iterable[str], devices: Collection[str]) -> None:
    """Raise for a name that no device of the fleet has."""
    for name in names:
        if name not in devices:
            some = ", ".join(sorted(devices)[:8])
            more = f" and {len(devices) - 8} more" if len(devices) > 8 else ""
            raise ConfigurationError(
                f"{what} names {name!r}, which is no device of the fleet",
                hint=f"there are {some}{more}",
            )


def _several(member: str | Device, known: Mapping[str, Device]) -> Iterable[Device]:
    if isinstance(member, Device):
        return [member]
    name, star, number = (part.strip() for part in member.partition("*"))
    if name not in known:
        raise ConfigurationError(
            f"no device or fleet is called {name!r}",
            hint=f"known are {', '.join(known)} and the fleets {', '.join(FLEETS)}",
        )
    return [known[name]] * (_how_many(member, number) if star else 1)


def _how_many(member: str, number: str) -> int:
    # By its length first: Python refuses to read thousands of digits.
    if not number.isdecimal() or len(number) > 20 or not 1 <= int(number) <= MOST_OF_A_KIND:
        raise ConfigurationError(
            f"{member[:60].strip()!r} needs a whole number of at least 1 and at most "
            f"{MOST_OF_A_KIND:,} after the *, got {number[:40]!r}"
        )
    return int(number)


def _numbered(kind: str, numbers: Iterator[int], taken: Container[str]) -> str:
    return next(name for number in numbers if (name := f"{kind}-{number}") not in taken)


def _link_from(table: Any, base: Link) -> Link:
    if isinstance(table, Link):
        return table
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"a device's link must be a table, got {table!r}")
    _refuse_unknown("link", table, [field.name for field in fields(Link)])
    for name, value in table.items():
        if not _is_number(value):
            raise ConfigurationError(f"a link's {name} must be a number, got {value!r}")
    return replace(base, **table)


def _refuse_unknown(what: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    unknown = [repr(name) for name in table if name not in known]
    if unknown:
        raise ConfigurationError(
            f"a {what} has no field {', '.join(unknown)}", hint=f"known are {', '.join(known)}"
        )
