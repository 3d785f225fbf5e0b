"""An emulated device: a process that serves a learner as a device of the catalogue would.

Started by the emulated world, which writes the settings as one line of JSON to its standard input,
and later words such as `partition`. It answers with one line, its address; what a task prints goes
to the log instead, beside the errors. When its input ends, its world is gone, and so is it: a
killed orchestrator leaves no process behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch

from axon import client
from axon.attacks.names import attack_of
from axon.data.datasets import load
from axon.data.partitions import partition_of
from axon.errors import ConfigurationError
from axon.learning.learner import Abilities
from axon.learning.lying import Lying, poisoned
from axon.learning.service import SERVICE, LearnerService, Learning
from axon.learning.tasks import load_tasks
from axon.rpc.http.transport import HttpTransport
from axon.rpc.link import Link
from axon.rpc.loops import new_event_loop
from axon.seeds import plain_stream, stream
from axon.testbed.activity import Activity, State
from axon.testbed.catalogue import Device
from axon.testbed.shaping import ShapedTransport
from axon.testbed.stressed import EmulatedLearner
from axon.values import Samples
from axon.worker import Worker

NO_LINK = Link(loss=1.0)

LABORATORY = "laboratory"
"""The name under which a device's process tells experiments what no learner tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSettings:
    """What the world tells a device's process."""

    name: str
    device: Device
    seed: int = 0
    host: str = "127.0.0.1"
    paced: bool = True
    """Whether batches are stretched to the device's pace here; a CPU quota does it otherwise."""
    link: Link = field(default_factory=Link)
    """What is put on messages here; a network namespace does the rest."""
    activity: dict[State, float] | None = None
    stressor: str = ""
    """Where a downloading owner fetches from."""
    dataset: str = ""
    partition: str = ""
    """How the data set is dealt out, for learners with data of their own."""
    members: tuple[str, ...] = ()
    """Among whom it is dealt out."""
    tasks: tuple[str, ...] = ()
    """Modules or files that define the user's own tasks."""
    dynamic: bool = False
    """Whether the learner keeps a margin that it learns from its own misses."""
    discloses: bool = True
    """Whether it tells its capability when it is asked."""
    attack: str = ""
    """The name of the attack that the learner wears; none if empty."""
    laboratory: bool = False
    """Whether it also tells experiments what no learner tells."""


def own_samples(settings: DeviceSettings) -> Samples | None:
    """This device's part of the data set, the same that a simulated one would have."""
    if not settings.partition:
        return None
    parts = deal(settings.dataset, settings.partition, settings.members, settings.seed)
    own = parts[settings.name]
    if not settings.attack:
        return own
    classes = load(settings.dataset, seed=settings.seed).classes
    return poisoned(own, attack_of(settings.attack), classes)


def deal(dataset: str, partition: str, members: tuple[str, ...], seed: int) -> dict[str, Samples]:
    """A data set dealt out among devices."""
    train = load(dataset, seed=seed).train
    parts = partition_of(partition)(train.labels, members, stream(seed, "partition"))
    return {name: train.take(indices) for name, indices in parts.items()}


class Laboratory:
    """What experiments ask an emulated device, and what a real one has not."""

    def __init__(self, learner: EmulatedLearner) -> None:
        self._learner = learner

    def flops(self, repeats: int) -> float:
        """The FLOPS baseline at the device's pace."""
        return self._learner.flops(repeats)

    def points(self) -> list[tuple[float, float]]:
        """The samples and seconds of its last jobs, the newest last."""
        return list(self._learner.stopwatch.points)


async def serve(settings: DeviceSettings, control: asyncio.StreamReader, answer: int) -> None:
    """Serve the learner until the world's end, and write where to that file descriptor."""
    random = plain_stream(settings.seed, "link", settings.name)
    transport = ShapedTransport(HttpTransport(), settings.link, random)
    access = client.access(transport=transport, reconnect_s=0.0)
    learner = EmulatedLearner(
        settings.name,
        settings.device,
        Abilities(
            data=own_samples(settings),
            memory_bytes=settings.device.memory_bytes,
            dynamic=settings.dynamic,
            discloses=settings.discloses,
        ),
        paced=settings.paced,
        activity=None if settings.activity is None else Activity(settings.activity),
        fetch=_fetching(settings.stressor, access),
    )
    worker = Worker(settings.name)
    worker.service(LearnerService(_wearing(learner, settings), access), SERVICE, executor="inline")
    if settings.laboratory:
        worker.service(Laboratory(learner), LABORATORY, executor="thread")
    try:
        async with worker.serving(
            settings.host,
            0,
            transport=transport,
            # Behind a bridge of this machine's own, which no other one can reach.
            insecure=True,
            announce=False,
            grace_s=0.0,
        ) as serving:
            os.write(answer, f"{serving.address}\n".encode())
            await _obey(control, transport, settings.link)
    finally:
        await transport.close()


def _wearing(learner: EmulatedLearner, settings: DeviceSettings) -> Learning:
    """The learner, with the attack that it was told to wear."""
    if not settings.attack:
        return learner
    return Lying(learner, attack_of(settings.attack), settings.seed)


async def _obey(control: asyncio.StreamReader, transport: ShapedTransport, link: Link) -> None:
    """Do what the world says, until it says nothing any more."""
    while word := (await control.readline()).decode().strip():
        if word == "partition":
            transport.link = NO_LINK
        elif word == "heal":
            transport.link = link
        else:
            raise ConfigurationError(f"the world said {word!r}, which no device understands")


def _fetching(address: str, access: client.Access) -> Callable[[], Awaitable[Any]] | None:
    if not address:
        return None

    async def fetch() -> Any:
        stub = await client.connect(address, way=access)
        return await stub.rpc.matrix()

    return fetch


def private_output() -> int:
    """Standard output for ourselves; from now on, what anybody else prints goes to the log.

    A line of a task's own would be taken for the address, and the pipe, of which nobody reads
    more than that, would fill up and hold the training.
    """
    # Open until the process ends: the world takes the end of this output for the end of it, and
    # then reads in the log why.
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # One buffer as well, so that an error stays the last line of the log.
    sys.stdout = sys.stderr
    return output


async def _main() -> None:
    loop = asyncio.get_running_loop()
    control = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(control), sys.stdin)
    settings = msgspec.convert(json.loads(await control.readline()), DeviceSettings)
    answer = private_output()
    for reference in settings.tasks:
        load_tasks(reference)
    torch.set_num_threads(1)  # A device is as fast as it is said to be, not as its host has cores.
    await serve(settings, control, answer)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_main())
