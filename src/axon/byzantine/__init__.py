"""Learning among servers, workers and peers that need not be trusted, after GARFIELD.

    cluster = Cluster(topology=replicated_servers(4, 11, faulty_servers=1, faulty_workers=1), ...)
    outcome = axon.testbed.virtual.run(in_memory(cluster))

board, quorum   what a node lets others read, and the fastest valid answers of many
server, worker  the two honest nodes; `sources` say where a worker's models come from
loops           what a server does, step by step
hostile         nodes that lie; `behaviours` those that misbehave on the wire; `roles` who is what
cluster         all of it as one value; `running` it in memory, or a node at a time over HTTP

Names are loaded when first used, since behind most of them stands torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from axon.lazy import lazily

if TYPE_CHECKING:
    from axon.byzantine.board import Board
    from axon.byzantine.cluster import Cluster, Node
    from axon.byzantine.hostile import ByzantineServer, ByzantineWorker
    from axon.byzantine.loops import Training
    from axon.byzantine.outcomes import Outcome, Trained
    from axon.byzantine.quorum import fastest
    from axon.byzantine.records import StepRecord
    from axon.byzantine.running import World, in_memory, serving, train
    from axon.byzantine.server import Server
    from axon.byzantine.worker import Worker

_HOMES = {
    "Board": "board",
    "ByzantineServer": "hostile",
    "ByzantineWorker": "hostile",
    "Cluster": "cluster",
    "Node": "cluster",
    "Outcome": "outcomes",
    "Server": "server",
    "StepRecord": "records",
    "Trained": "outcomes",
    "Training": "loops",
    "Worker": "worker",
    "World": "running",
    "fastest": "quorum",
    "in_memory": "running",
    "serving": "running",
    "train": "running",
}

__all__ = [
    "Board",
    "ByzantineServer",
    "ByzantineWorker",
    "Cluster",
    "Node",
    "Outcome",
    "Server",
    "StepRecord",
    "Trained",
    "Training",
    "Worker",
    "World",
    "fastest",
    "in_memory",
    "serving",
    "train",
]

__getattr__ = lazily(__name__, {name: f"axon.byzantine.{_HOMES[name]}:{name}" for name in __all__})


def __dir__() -> list[str]:
    return sorted(__all__)
