"""Four servers and five workers, a process each, over HTTP: killed, frozen and lying ones."""

from __future__ import annotations

import asyncio
import faulthandler
import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import numpy as np
import pytest
import torch

from axon import client
from axon.aggregation import Median
from axon.attacks import Attack, Reversed
from axon.byzantine.behaviours import Behaviour, Flooding
from axon.byzantine.board import FAR, MODEL, Absent
from axon.byzantine.cluster import Cluster
from axon.byzantine.loops import Training
from axon.byzantine.outcomes import Trained, counted_in
from axon.byzantine.records import StepRecord
from axon.byzantine.running import serving, train
from axon.byzantine.wire import RemoteBoard
from axon.errors import ConnectFailed
from axon.topology import replicated_servers
from tests.byzantine.worlds import DIGITS, SPEC
from tests.rpc.scripts import free_port

pytestmark = pytest.mark.system

STEPS = 70
TOPOLOGY = replicated_servers(4, 5, faulty_servers=1, faulty_workers=1)

# A new process costs an import of torch; a fork has it.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["axon.recipes.runner", "torch._dynamo", "axon.byzantine.running"])


def digits(hostile: Mapping[str, Attack | Behaviour] | None = None) -> Cluster:
    return Cluster(
        topology=TOPOLOGY,
        spec=SPEC,
        dataset=DIGITS,
        training=Training(steps=STEPS, rule=Median(1), model_rule=Median(1), accuracy_every=STEPS),
        hostile=hostile or {},
        patience_s=20.0,
    )


def live(cluster: Cluster, name: str, addresses: dict[str, str], telling: Connection) -> None:
    # It lives for seconds; one that hangs says where, and ends.
    faulthandler.dump_traceback_later(50, exit=True)
    torch.set_num_threads(1)
    asyncio.run(_live(cluster, name, addresses, telling))


async def _live(
    cluster: Cluster, name: str, addresses: dict[str, str], telling: Connection
) -> None:
    async with serving(cluster, name, addresses) as node:
        if node.server is not None:
            telling.send(await train(node))
        await asyncio.Event().wait()  # Others may still have to read.


@dataclass(frozen=True)
class Stage:
    """The processes of a cluster, what their servers tell, and where they are."""

    processes: dict[str, BaseProcess]
    told: dict[str, Connection]
    addresses: dict[str, str]
    size: int

    def send(self, name: str, number: signal.Signals) -> None:
        pid = self.processes[name].pid
        assert pid is not None
        os.kill(pid, number)

    def outcome(self, server: str) -> Trained:
        assert self.told[server].poll(30.0), f"{server} has not ended"
        ended: Trained = self.told[server].recv()
        return ended

    def await_step(self, server: str, step: int) -> None:
        """Wait until a server has come to a step: it is a node to be read like any other."""

        async def wait() -> None:
            access = client.access(reconnect_s=20.0)
            board = RemoteBoard(self.addresses[server], access, self.size)
            async with asyncio.timeout(30.0):
                while True:
                    with suppress(ConnectFailed):  # It is still starting.
                        # Nobody gets so far; the answer says how far it has got.
                        answer = await board.read(MODEL, FAR)
                        assert isinstance(answer, Absent)
                        if answer.newest >= step:
                            return
                    await asyncio.sleep(0.02)

        asyncio.run(wait())


@contextmanager
def staged(cluster: Cluster) -> Iterator[Stage]:
    addresses = {name: f"http://127.0.0.1:{free_port()}" for name in TOPOLOGY.nodes}
    stage = Stage({}, {}, addresses, cluster.size)
    try:
        for name in TOPOLOGY.nodes:
            stage.told[name], telling = _FORKS.Pipe(duplex=False)
            process: BaseProcess = _FORKS.Process(
                target=live, args=(cluster, name, addresses, telling), daemon=True
            )
            process.start()
            telling.close()
            stage.processes[name] = process
        yield stage
    finally:
        for started in stage.processes.values():
            started.kill()
            started.join()


def test_a_killed_worker_a_frozen_server_and_one_that_comes_back() -> None:
    with staged(digits()) as stage:
        stage.await_step("server-0", 10)
        stage.send("worker-1", signal.SIGKILL)
        stage.send("server-1", signal.SIGSTOP)
        ended = {name: stage.outcome(name) for name in ("server-0", "server-2", "server-3")}
        for trained in ended.values():
            assert trained.failure == ""
            assert trained.accuracy is not None
            assert trained.accuracy > 0.4
            last = trained.records[-1]
            assert last.step == STEPS - 1
            assert "worker-1" not in last.gradients_from
            assert last.models_from == ("server-0", "server-2", "server-3")
        # The one that slept finds itself left behind, and goes on from where the others are.
        stage.send("server-1", signal.SIGCONT)
        back = stage.outcome("server-1")
        assert back.failure == ""
        assert back.records[-1].step == STEPS - 1
        assert len(back.records) < STEPS
        np.testing.assert_allclose(back.model, ended["server-0"].model, atol=0.2)


def test_a_lying_worker_and_a_server_that_floods_everybody() -> None:
    hostile = digits({"worker-2": Reversed(), "server-3": Flooding(at_once=100, every_s=0.2)})
    with staged(hostile) as stage:
        records: list[StepRecord] = []
        for name in hostile.honest_servers:
            trained = stage.outcome(name)
            assert trained.failure == ""
            assert trained.accuracy is not None
            assert trained.accuracy > 0.4
            records += trained.records
        counted = counted_in(records, hostile.hostile)
        assert 2 * counted["worker-2"] > len(records), "most steps were attacked"
