"""The emulated world: a process for each device, real HTTP, throttled to look like the field.

    world = axon.testbed.emulated("thesis")
    records = world.run(lambda fleet: Orchestrator(run, dataset, fleet).run())

A processor is slowed by rests between batches, or by a quota where the system has one that bites; a
link by a token bucket and a delay in the transport, or by the kernel in a network namespace.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

from axon import client
from axon.attacks.names import attack_of
from axon.errors import ConfigurationError
from axon.learning.evaluation import flops_per_sample
from axon.learning.loop import LoopTrainer
from axon.learning.lying import check_bearable
from axon.learning.nets import initial
from axon.learning.tasks import default_spec
from axon.rounds.remote import Hosting, RemoteFleet
from axon.rpc.link import Link
from axon.seeds import stream
from axon.testbed import cgroups, namespaces
from axon.testbed.activity import Activity, random_matrix
from axon.testbed.catalogue import Device, check_members
from axon.testbed.catalogue import fleet as devices_of
from axon.testbed.device import LABORATORY, DeviceSettings
from axon.testbed.entering import World, run_for_real
from axon.testbed.processes import DeviceProcess
from axon.values import Job, Samples
from axon.worker import Worker

T = TypeVar("T")

Cpu = Literal["duty", "quota"]
Links = Literal["shaped", "namespaces", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """How devices are emulated."""

    cpu: Cpu = "duty"
    """Rests between batches, or the system's CPU quota."""
    links: Links = "shaped"
    """In the transport, in the kernel, or not at all."""
    activity: Mapping[str, Activity] = field(default_factory=dict)
    """What the owners do with their devices, by name."""
    dataset: str = ""
    partition: str = ""
    """How that data set is dealt out, for learners with data of their own."""
    tasks: tuple[str, ...] = ()
    """Modules or files that define the user's own tasks."""
    dynamic: bool = False
    """Whether learners keep a margin that they learn from their own misses."""
    private: Collection[str] = ()
    """Devices that do not tell their capability."""
    attacks: Mapping[str, str] = field(default_factory=dict)
    """The names of the attacks that devices wear, by device."""
    laboratory: bool = False
    """Whether experiments may ask devices what no learner tells."""


def emulated(
    devices: str | Sequence[str | Device] | Mapping[str, Device] = "thesis",
    *,
    seed: int = 0,
    emulation: Emulation | None = None,
) -> Emulated:
    """A world of devices from the catalogue, or of your own, each in a process."""
    named = dict(devices) if isinstance(devices, Mapping) else devices_of(devices)
    if not named:
        raise ConfigurationError("a fleet needs at least one device")
    how = emulation or Emulation()
    check_members("private", how.private, named)
    check_members("attacks", how.attacks, named)
    for text in how.attacks.values():
        check_bearable(attack_of(text))  # One mistake, not one of every process.
    return Emulated(named, seed, how)


class Emulated(World):
    """A world to run something in."""

    def __init__(self, devices: dict[str, Device], seed: int, emulation: Emulation) -> None:
        self._devices = devices
        self._seed = seed
        self._how = emulation
        self._stack = AsyncExitStack()

    @property
    def devices(self) -> dict[str, Device]:
        return self._devices

    def run(self, main: Callable[[EmulatedFleet], Awaitable[T]]) -> T:
        """Run `main` with the fleet on a loop of its own."""
        return run_for_real(self, main)

    async def __aenter__(self) -> EmulatedFleet:
        async with AsyncExitStack() as stack:
            spaces = None
            if self._how.links == "namespaces":
                spaces = stack.enter_context(namespaces.Namespaces())
            host = "127.0.0.1" if spaces is None else spaces.address
            stressor = await stack.enter_async_context(_stressor(host, self._seed))
            processes = {
                name: DeviceProcess(self._settings(name, spaces, stressor), spaces)
                for name in self._devices
            }
            for process in processes.values():
                stack.push_async_callback(process.end)
            await asyncio.gather(*(process.start() for process in processes.values()))
            if self._how.cpu == "quota":
                rate = await asyncio.to_thread(host_rate)
                for name, process in processes.items():
                    share = min(1.0, self._devices[name].flops_per_s / rate)
                    process.hold(stack.enter_context(cgroups.CpuQuota(share)))
            fleet = EmulatedFleet(processes, Hosting(host=host, insecure=spaces is not None))
            self._stack = stack.pop_all()
        return fleet

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    def _settings(
        self, name: str, spaces: namespaces.Namespaces | None, stressor: str
    ) -> DeviceSettings:
        how, device = self._how, self._devices[name]
        link = device.link
        if spaces is not None:
            link = namespaces.remaining(link)
        elif how.links == "none":
            link = Link()
        return DeviceSettings(
            name=name,
            device=device,
            seed=self._seed,
            host="127.0.0.1" if spaces is None else spaces.add(name, device.link).address,
            paced=how.cpu == "duty",
            link=link,
            activity=dict(how.activity[name].probabilities) if name in how.activity else None,
            stressor=stressor,
            dataset=how.dataset,
            partition=how.partition,
            members=tuple(sorted(self._devices)),
            tasks=how.tasks,
            dynamic=how.dynamic,
            discloses=name not in how.private,
            attack=how.attacks.get(name, ""),
            laboratory=how.laboratory,
        )


class EmulatedFleet(RemoteFleet):
    """The learners of an emulated world, and the faults one may inject."""

    def __init__(self, processes: Mapping[str, DeviceProcess], hosting: Hosting) -> None:
        self._processes = dict(processes)
        super().__init__(self._addresses(), hosting=hosting)

    def _addresses(self) -> dict[str, str]:
        return {name: process.address for name, process in self._processes.items()}

    def crash(self, name: str) -> None:
        """The device goes down, and what it was doing is lost."""
        self._processes[name].kill()

    async def start(self, name: str) -> None:
        """A device that went down comes back, at another port."""
        await self._processes[name].end()
        await self._processes[name].start()
        self.join(name, self._processes[name].address)

    def freeze(self, name: str) -> None:
        """The device stops where it is."""
        self._processes[name].freeze()

    def thaw(self, name: str) -> None:
        """The device goes on."""
        self._processes[name].thaw()

    def partition(self, name: str) -> None:
        """Nothing passes to or from the device any more."""
        self._processes[name].tell("partition")

    def heal(self, name: str) -> None:
        """Messages pass again."""
        self._processes[name].tell("heal")

    async def laboratory(self, name: str) -> Any:
        """A stub of the device's `Laboratory`, for experiments; its calls have no deadline.

        Raises `ConfigurationError` in a world without laboratories.
        """
        stub = await client.connect(
            self._processes[name].address, way=self._access, deadline_s=None
        )
        if not hasattr(stub, LABORATORY):
            raise ConfigurationError(
                f"{name} has no laboratory", hint="emulate with Emulation(laboratory=True)"
            )
        return getattr(stub, LABORATORY)


@asynccontextmanager
async def _stressor(host: str, seed: int) -> AsyncIterator[str]:
    """Where an owner downloads from: the orchestrator's side of every link."""
    matrix = random_matrix(stream(seed, "matrix"))
    worker = Worker("stressor")
    worker.rpc(name="matrix", executor="inline")(lambda: matrix)
    insecure = host != "127.0.0.1"
    async with worker.serving(host, 0, announce=False, insecure=insecure) as serving:
        yield str(serving.address)


def host_rate() -> float:
    """Floating-point operations a second that training sustains on this machine, on one core."""
    spec = default_spec("twonn", (784,), 10)
    random = stream(0, "host rate")
    inputs = random.standard_normal((32 * 40, 784), dtype=np.float32)
    samples = Samples(inputs, random.integers(10, size=len(inputs)))
    job = Job(spec=spec, start=initial(spec, 0), samples=samples)
    LoopTrainer()([job])
    began_s = time.thread_time()
    LoopTrainer()([job])
    return flops_per_sample(spec) * len(samples) / (time.thread_time() - began_s)
