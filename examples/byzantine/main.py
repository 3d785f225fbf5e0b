"""One worker and one server lie: what becomes of plain averaging, and of replicated servers.

    python examples/byzantine/main.py [--steps N] [--attack NAME]

Eleven workers train handwritten digits. In the vanilla cluster one server averages their gradients;
in the other one four servers each take a robust aggregate and then the median of their models. Both
are run twice: with everybody honest, and with a worker (and, where there are four, a server) that
reverses its vectors and multiplies them by a hundred. All of it in this process, over the in-memory
transport; a node over HTTP is the same object.
"""

from __future__ import annotations

import argparse
import time

from rich.console import Console
from rich.table import Table

import axon.testbed.virtual
from axon.aggregation import Mean, Median, MultiKrum
from axon.attacks import attack_of
from axon.byzantine import Cluster, Outcome, Training, in_memory
from axon.data import load
from axon.learning import default_spec
from axon.policies import Aggregator
from axon.topology import Topology, replicated_servers, vanilla

WORKERS = 11
console = Console()


def run(topology: Topology, rule: Aggregator, steps: int, liars: dict[str, str]) -> Outcome:
    """Train one cluster in virtual time."""
    digits = load("digits")
    cluster = Cluster(
        topology=topology,
        spec=default_spec("twonn", digits.shape, digits.classes, learning_rate=0.3, batch_size=100),
        dataset=digits,
        training=Training(
            steps=steps, rule=rule, model_rule=Median(f=topology.faulty_servers), accuracy_every=25
        ),
        hostile={name: attack_of(attack) for name, attack in liars.items()},
        seed=1,
    )
    return axon.testbed.virtual.run(in_memory(cluster))


def told(outcome: Outcome) -> str:
    """The accuracy of the worst honest server, and whether it gave up on the way."""
    gave_up = any(trained.failure for trained in outcome.servers.values())
    return f"{outcome.accuracy:.3f}" + (" (gave up)" if gave_up else "")


def main() -> None:
    """Run all four and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--attack", default="reversed", help="random, reversed:-10, drop, …")
    given = parser.parse_args()
    began_s = time.monotonic()
    replicated = replicated_servers(4, WORKERS, faulty_servers=1, faulty_workers=1)
    clusters: dict[str, tuple[Topology, Aggregator, list[str]]] = {
        "vanilla: one server, mean": (vanilla(WORKERS), Mean(), ["worker-03"]),
        "MSMW: four servers, Multi-Krum": (replicated, MultiKrum(f=1), ["worker-03", "server-2"]),
    }
    table = Table(title=f"accuracy on digits after {given.steps} steps")
    table.add_column("cluster", no_wrap=True)
    table.add_column("all honest", justify="right", no_wrap=True)
    table.add_column(f"under {given.attack}", justify="right", no_wrap=True)
    table.add_column("lies counted", justify="right", no_wrap=True)
    for name, (topology, rule, liars) in clusters.items():
        console.print(f"training {name} …", highlight=False)
        honest = run(topology, rule, given.steps, {})
        attacked = run(topology, rule, given.steps, dict.fromkeys(liars, given.attack))
        counted = f"{min(attacked.counted.values())} of {attacked.steps}"
        table.add_row(name, told(honest), told(attacked), counted)
    console.print(table)
    console.print(f"Done in {time.monotonic() - began_s:.0f} s.", highlight=False)


if __name__ == "__main__":
    main()
