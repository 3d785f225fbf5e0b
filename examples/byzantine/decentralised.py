"""Peers without any server, each with data of its own kind: GARFIELD's listing 3.3.

python examples/byzantine/decentralised.py
"""

from __future__ import annotations

import axon.testbed.virtual
from axon.aggregation import Median
from axon.attacks import Random
from axon.byzantine import Cluster, Server, Training, in_memory
from axon.data import load, partition_of
from axon.learning import default_spec
from axon.topology import Topology, decentralised
from axon.values import Vector

rule = Median(f=1)


async def peer(server: Server, topology: Topology, training: Training) -> None:
    """What each peer does; it is a worker for the others as well."""
    for step in range(training.steps):
        gradients = await server.get_gradients(step, topology.gradients)
        gradient = await server.aggregate(rule, gradients)
        gradient = await contract(server, topology, gradient)
        await server.update_model(gradient)
        models = await server.get_models(topology.models)
        server.write_model(await server.aggregate(rule, models))
        if step % 40 == 39 and server.name == topology.servers[0]:
            accuracy = await server.compute_accuracy()
            print(f"{server.name}  step {step + 1:3}  accuracy {accuracy:.3f}")


async def contract(server: Server, topology: Topology, gradient: Vector) -> Vector:
    """Bring the peers' gradients together; their data differ, and so do what they aggregate."""
    for _ in range(2):
        server.latest_aggregated_gradient = gradient
        gradients = await server.get_aggregated_gradients(topology.models)
        gradient = await server.aggregate(rule, gradients)
    return gradient


def main() -> None:
    """Train digits among six peers with unlike data, one of which sends noise."""
    digits = load("digits")
    cluster = Cluster(
        topology=decentralised(6, faulty=1),
        spec=default_spec("twonn", digits.shape, digits.classes, learning_rate=0.3, batch_size=100),
        dataset=digits,
        partition=partition_of("dirichlet:1.0"),
        training=Training(steps=120, rule=rule, model_rule=rule),
        hostile={"peer-3": Random()},
        loop=peer,
    )
    outcome = axon.testbed.virtual.run(in_memory(cluster))
    for liar, counted in outcome.counted.items():
        print(f"{liar} lied, and was counted in {counted} of {outcome.steps} steps")


if __name__ == "__main__":
    main()
