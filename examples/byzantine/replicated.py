"""Servers that need not be trusted either: GARFIELD's listing 3.2.

    python examples/byzantine/replicated.py

Every worker computes at the median of the fastest three models, and every server takes the median
of the fastest three models after each step: one lying server of four cannot lead anybody astray.
"""

from __future__ import annotations

import axon.testbed.virtual
from axon.aggregation import Median, MultiKrum
from axon.attacks import Reversed
from axon.byzantine import Cluster, Server, Training, in_memory
from axon.data import load
from axon.learning import default_spec
from axon.topology import Topology, replicated_servers

rule, model_rule = MultiKrum(f=1), Median(f=1)


async def msmw(server: Server, topology: Topology, training: Training) -> None:
    """What each server does."""
    for step in range(training.steps):
        gradients = await server.get_gradients(step, topology.gradients)
        gradient = await server.aggregate(rule, gradients)
        await server.update_model(gradient)
        models = await server.get_models(topology.models)
        server.write_model(await server.aggregate(model_rule, models))
        if step % 20 == 19 and server.name == topology.servers[0]:
            accuracy = await server.compute_accuracy()
            print(f"{server.name}  step {step + 1:3}  accuracy {accuracy:.3f}")


def main() -> None:
    """Train digits with four servers and seven workers, one of each turning its vectors round."""
    digits = load("digits")
    cluster = Cluster(
        topology=replicated_servers(4, 7, faulty_servers=1, faulty_workers=1),
        spec=default_spec("twonn", digits.shape, digits.classes, learning_rate=0.3, batch_size=100),
        dataset=digits,
        training=Training(steps=100, rule=rule, model_rule=model_rule),
        hostile={"worker-3": Reversed(-100.0), "server-2": Reversed(-100.0)},
        loop=msmw,
    )
    outcome = axon.testbed.virtual.run(in_memory(cluster))
    for liar, counted in outcome.counted.items():
        print(f"{liar} lied, and was counted in {counted} of {outcome.steps} steps")


if __name__ == "__main__":
    main()
