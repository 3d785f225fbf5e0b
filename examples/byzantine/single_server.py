"""One trusted server, and workers of which one lies: GARFIELD's listing 3.1.

python examples/byzantine/single_server.py
"""

from __future__ import annotations

import axon.testbed.virtual
from axon.aggregation import Krum
from axon.attacks import Random
from axon.byzantine import Cluster, Server, Training, in_memory
from axon.data import load
from axon.learning import default_spec
from axon.topology import Topology, single_server

rule = Krum(f=1)


async def ssmw(server: Server, topology: Topology, training: Training) -> None:
    """What the server does; workers only answer."""
    for step in range(training.steps):
        gradients = await server.get_gradients(step, topology.gradients)
        gradient = await server.aggregate(rule, gradients)
        await server.update_model(gradient)
        if step % 20 == 19:
            print(f"step {step + 1:3}  accuracy {await server.compute_accuracy():.3f}")


def main() -> None:
    """Train digits with seven workers, one of which sends noise."""
    digits = load("digits")
    cluster = Cluster(
        topology=single_server(7, faulty=1),
        spec=default_spec("twonn", digits.shape, digits.classes, learning_rate=0.3, batch_size=100),
        dataset=digits,
        training=Training(steps=100, rule=rule, model_rule=rule),
        hostile={"worker-3": Random()},
        loop=ssmw,
    )
    outcome = axon.testbed.virtual.run(in_memory(cluster))
    for liar, counted in outcome.counted.items():
        print(f"{liar} lied, and was counted in {counted} of {outcome.steps} steps")


if __name__ == "__main__":
    main()
