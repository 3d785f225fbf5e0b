"""A node at a time over HTTP, and the examples' own loops in place of a topology's."""

from __future__ import annotations

import asyncio
import runpy
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from axon import client
from axon.aggregation import Mean, Median
from axon.attacks import Random, Reversed
from axon.byzantine.board import MODEL
from axon.byzantine.outcomes import counted_in
from axon.byzantine.running import serving, train
from axon.byzantine.wire import RemoteBoard
from axon.errors import ConfigurationError, RemoteError, Unauthorised
from axon.rounds.remote import Hosting
from axon.rpc.security.keys import Key
from axon.topology import decentralised, replicated_servers, single_server
from tests.byzantine.worlds import Faulty, cluster, failures, run
from tests.rpc.scripts import free_port

EXAMPLES = Path(__file__).parents[2] / "examples" / "byzantine"


@pytest.mark.system
def test_a_cluster_over_http_with_a_key() -> None:
    topology = replicated_servers(4, 4, faulty_servers=1, faulty_workers=1)
    chosen = cluster(topology, Median(1), steps=10, hostile={"server-2": Random()})
    addresses = {name: f"http://127.0.0.1:{free_port()}" for name in topology.nodes}
    hosting = Hosting(key=Key.new())

    async def main() -> None:
        async with AsyncExitStack() as stack:
            nodes = {
                name: await stack.enter_async_context(
                    serving(chosen, name, addresses, hosting=hosting)
                )
                for name in topology.nodes
            }
            ended = await asyncio.gather(*(train(nodes[name]) for name in topology.servers))
            for name, trained in zip(topology.servers, ended, strict=True):
                assert trained.failure == "", name
                assert len(trained.records) == 10
                assert trained.accuracy is not None
                assert trained.accuracy > 0.4
            honest = dict(zip(topology.servers, ended, strict=True))
            records = [record for name in chosen.honest_servers for record in honest[name].records]
            # Two of three others are waited for: about two thirds, by the clock of this machine.
            assert counted_in(records, ["server-2"])["server-2"] > 6, "the attack took place"
            stranger = RemoteBoard(addresses["server-0"], client.access(), chosen.size)
            with pytest.raises(Unauthorised):
                await stranger.read(MODEL, 9)
            peer = RemoteBoard(addresses["server-0"], hosting.access, chosen.size)
            with pytest.raises(RemoteError, match="only model") as refused:
                await peer.read("secrets", 9)
            assert refused.value.remote_traceback == "", "it may lie, and is told no more"
            with pytest.raises(ConfigurationError, match="worker-0 is no server"):
                await train(nodes["worker-0"])

    asyncio.run(main())


@pytest.mark.system
def test_a_mistake_in_an_attack_ends_the_node_over_http_too() -> None:
    topology = single_server(3, faulty=1, synchronous=True)
    chosen = cluster(topology, Median(1), steps=5, hostile={"worker-1": Faulty()})
    addresses = {name: f"http://127.0.0.1:{free_port()}" for name in topology.nodes}

    async def live(name: str) -> None:
        async with serving(chosen, name, addresses) as node:
            if node.server is not None:
                await train(node)
            await asyncio.Event().wait()

    async def main() -> None:
        others = [
            asyncio.ensure_future(live(name)) for name in topology.nodes if name != "worker-1"
        ]
        with pytest.raises(ZeroDivisionError, match="in step 2"):
            await asyncio.wait_for(live("worker-1"), 30.0)
        for other in others:
            other.cancel()
        assert await asyncio.gather(*others, return_exceptions=True)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("listing", "loop"),
    [("single_server", "ssmw"), ("replicated", "msmw"), ("decentralised", "peer")],
)
def test_the_listings_train(listing: str, loop: str) -> None:
    written = runpy.run_path(str(EXAMPLES / f"{listing}.py"))
    topology, liars = {
        "single_server": (single_server(6, faulty=1), ["worker-5"]),
        "replicated": (
            replicated_servers(4, 6, faulty_servers=1, faulty_workers=1),
            ["worker-5", "server-3"],
        ),
        "decentralised": (decentralised(4, faulty=1), ["peer-3"]),
    }[listing]
    hostile = dict.fromkeys(liars, Reversed())
    outcome = run(cluster(topology, Mean(), steps=8, loop=written[loop], hostile=hostile))
    assert not failures(outcome)
    assert outcome.counted == dict.fromkeys(liars, outcome.steps)
    assert outcome.accuracy > 0.2, "measured in the end, whether or not the listing does"
    for trained in outcome.servers.values():
        assert [record.step for record in trained.records] == list(range(8))


@pytest.mark.slow
def test_the_example_tells_both_accuracies(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["main.py", "--steps", "40"])
    runpy.run_path(str(EXAMPLES / "main.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    rows = {
        cells[1].strip().split(":")[0]: cells[2:5]
        for line in lines
        if len(cells := line.split("│")) == 6
    }
    (_, ruined, _), (honest, borne, counted) = rows["vanilla"], rows["MSMW"]
    assert float(ruined.split()[0]) < 0.2
    assert float(borne) > 0.3
    assert float(honest) > 0.3
    assert counted.strip() == "120 of 120"
