"""`axon worker`: this device's learner, offered to orchestrators."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axon.cli.options import NO_KEY_HINT, InsecureOption, KeyOption, TlsOption, require_torch, takes
from axon.errors import ConfigurationError

# Torch, and the worker with all that it brings, are imported in the functions that need them, so
# that `axon --help` is quick.
if TYPE_CHECKING:
    from axon.attacks.seam import Attack
    from axon.learning.learner import Abilities, Learner
    from axon.learning.service import Learning
    from axon.rpc.address import Address
    from axon.values import Samples
    from axon.worker import Worker


MOST_THREADS = 4096
LONGEST_NAME = 200
MOST_MEGABYTES = 1e12


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """What `axon worker` is told."""

    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What it is called; the host's if left out.")
    ] = None
    host: Annotated[str, typer.Option(metavar="H", help="Where to listen.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(metavar="N", help="Where to listen; 0 for any.")] = 8000
    key: KeyOption = None
    tls: TlsOption = None
    insecure: InsecureOption = False
    memory: Annotated[
        float | None,
        typer.Option(metavar="MB", help="What training may fill; what is free if left out."),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_THREADS, metavar="N", help="Threads to train with; all if left out."
        ),
    ] = None
    accelerator: Annotated[
        str, typer.Option(metavar="auto|cpu|cuda|mps", help="What it trains on.")
    ] = "auto"
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz", help="Samples of its own: arrays inputs and labels, maybe scale."
        ),
    ] = None
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="REF", help="A file or module of your own tasks. Repeatable."),
    ] = None
    dynamic: Annotated[
        bool, typer.Option("--dynamic", help="Keep a margin that is learnt from its own misses.")
    ] = False
    private: Annotated[
        bool, typer.Option("--private", help="Do not tell orchestrators how quick it is.")
    ] = False
    attack: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Lie, in a testbed: send reversed, random:0.1 and the like."
        ),
    ] = ""
    announce: Annotated[
        bool, typer.Option("--announce/--no-announce", help="Tell the local network.")
    ] = True


@takes(WorkerOptions)
def worker(_context: typer.Context, options: WorkerOptions) -> None:
    """Let orchestrators train on this device, until Ctrl-C.

    Example: axon worker --host 0.0.0.0 --key axon-keys/axon.key
    """
    require_torch()
    _check_name(options.name)
    _check_open(options)
    # Late, because it brings numpy.
    from axon.cli.samples import own_samples

    attack = _attack(options.attack)
    data = None if options.data is None else own_samples(options.data)
    if sys.stderr.isatty():
        typer.echo("axon: loading torch, which takes a moment", err=True)
    else:
        from axon.rpc.serving.logs import setup_logging

        setup_logging()
    _serve(options, data, attack)


def _check_name(name: str | None) -> None:
    """A name goes into tables and logs, on this machine and on others."""
    if name is None:
        return
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise ConfigurationError(
            f"--name must be 1 to {LONGEST_NAME} printable characters, "
            f"got {len(name)}: {name[:LONGEST_NAME]!r}"
        )


def _check_open(options: WorkerOptions) -> None:
    from axon.rpc.address import Address, check_host

    check_host(options.host)
    if options.key is None and not options.insecure and not Address(options.host).is_loopback:
        raise ConfigurationError(
            f"{options.host} can be reached from other machines and has no key", hint=NO_KEY_HINT
        )


def _attack(text: str) -> Attack | None:
    """What the learner here wears."""
    if not text:
        return None
    from axon.attacks.names import attack_of
    from axon.learning.lying import check_bearable

    attack = attack_of(text)
    check_bearable(attack)
    return attack


def _serve(options: WorkerOptions, data: Samples | None, attack: Attack | None) -> None:
    import torch

    from axon import client
    from axon.cli.probe import probe
    from axon.learning.compute import ThreadCompute
    from axon.learning.learner import Learner
    from axon.learning.loop import LoopTrainer
    from axon.learning.lying import poisoned
    from axon.learning.service import SERVICE, LearnerService
    from axon.learning.tasks import load_tasks

    for reference in options.task or ():
        load_tasks(reference)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    if data is not None and attack is not None:
        data = poisoned(data, attack)
    abilities = abilities_of(options, data)
    access = client.access(key=options.key, tls=options.tls, reconnect_s=0.0)
    device = _telling_worker(options.name)
    compute = ThreadCompute(LoopTrainer(_accelerator(options.accelerator)))
    learner = _wearing(Learner(device.name, compute, abilities), attack)
    device.service(LearnerService(learner, access), SERVICE, executor="inline")
    device.rpc(executor="inline")(probe)
    try:
        device.run(**_serve_options(options))
    finally:
        compute.close()


def _wearing(learner: Learner, attack: Attack | None) -> Learning:
    """The learner, with the attack it is to wear; everybody who reads the log is told."""
    if attack is None:
        return learner
    import logging

    from axon.learning.lying import Lying

    logging.getLogger("axon.worker").warning(
        "THIS WORKER LIES: what it sends is made wrong on purpose by %s; use it in testbeds only",
        attack,
    )
    # Each order's own seed and cycle tell the draws apart.
    return Lying(learner, attack, seed=0)


def abilities_of(options: WorkerOptions, data: Samples | None) -> Abilities:
    """What the learner here brings along."""
    from axon.devices.memory import available_bytes
    from axon.learning.learner import Abilities

    return Abilities(
        data=data,
        memory_bytes=available_bytes() if options.memory is None else _in_bytes(options.memory),
        dynamic=options.dynamic,
        discloses=not options.private,
    )


def _accelerator(chosen: str) -> str:
    """As torch names it; one that is not there is refused before anybody counts on it."""
    import torch

    from axon.learning.loop import best_accelerator

    if chosen == "auto":
        return best_accelerator()
    try:
        torch.zeros(1, device=chosen).item()  # `meta` has tensors, but no numbers in them.
    except (RuntimeError, AssertionError, ImportError) as error:
        # What torch raises depends on how it was built.
        reason = str(error).splitlines()[0]
        raise ConfigurationError(
            f"cannot train on {chosen!r}: {reason}", hint="choose auto, cpu, cuda or mps"
        ) from error
    return chosen


def _serve_options(options: WorkerOptions) -> dict[str, Any]:
    return {
        "host": options.host,
        "port": options.port,
        "key": options.key,
        "tls": options.tls,
        "insecure": options.insecure,
        # By default only where other machines could reach it.
        "announce": None if options.announce else False,
    }


def _telling_worker(name: str | None) -> Worker:
    """A worker that prints its address once it can be reached."""
    from collections.abc import AsyncIterator
    from contextlib import asynccontextmanager

    from axon.worker import Serving, Worker

    class Telling(Worker):
        @asynccontextmanager
        async def serving(self, *arguments: Any, **options: Any) -> AsyncIterator[Serving]:
            async with super().serving(*arguments, **options) as serving:
                typer.echo(f"{self.name} can be trained on at {_reachable(serving.address)}")
                yield serving

    return Telling(name)


def _reachable(address: Address) -> Address:
    """The address as others would type it: one that means all of this machine's is of no use."""
    import socket
    from dataclasses import replace

    if address.host not in ("0.0.0.0", "::"):  # noqa: S104  (a comparison)
        return address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Asks the routing table; nothing is sent.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return replace(address, host=socket.gethostname())
        return replace(address, host=probe.getsockname()[0])


def _in_bytes(megabytes: float) -> int:
    if not 0 < megabytes < MOST_MEGABYTES:
        raise ConfigurationError(
            f"--memory must be above 0 MB and below {MOST_MEGABYTES:g} MB, got {megabytes:g}"
        )
    return int(megabytes * 1e6)
