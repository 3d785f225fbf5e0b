"""Who reads from whom, and how many answers each waits for.

arrangements    one server, replicated servers, peers: values that check their numbers
"""

from axon.topology.arrangements import (
    Topology,
    crash_tolerant,
    decentralised,
    replicated_servers,
    single_server,
    vanilla,
)

__all__ = [
    "Topology",
    "crash_tolerant",
    "decentralised",
    "replicated_servers",
    "single_server",
    "vanilla",
]
