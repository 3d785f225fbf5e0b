"""Worlds for a run: simulated in virtual time, emulated on one machine, deployed on real devices.

    world = axon.testbed.simulated("thesis", seed=7)
    records = world.run(lambda fleet: Orchestrator(run, dataset, fleet).run())

simulation  one process, virtual time: learners with `charged` compute, `linked` by `reckoned`
            links, on the loop of `virtual`
emulation   a process for each device: `processes` start `device`s, `stressed` by their owners
deployment  real devices
catalogue   what devices are like; `activity` what their owners do
shaping, namespaces, throttle, cgroups    how a machine is made to look like another
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from axon.lazy import lazily

if TYPE_CHECKING:
    from axon.rounds.remote import Hosting
    from axon.testbed.catalogue import Device
    from axon.testbed.deployment import deployed
    from axon.testbed.emulation import Emulation, emulated
    from axon.testbed.simulation import simulated

__all__ = ["Device", "Emulation", "Hosting", "deployed", "emulated", "simulated"]

# Late: behind the worlds stands torch, and virtual time alone needs none of it.
__getattr__ = lazily(
    __name__,
    {
        "Device": "axon.testbed.catalogue:Device",
        "Emulation": "axon.testbed.emulation:Emulation",
        "Hosting": "axon.rounds.remote:Hosting",
        "deployed": "axon.testbed.deployment:deployed",
        "emulated": "axon.testbed.emulation:emulated",
        "simulated": "axon.testbed.simulation:simulated",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
