"""What a device can do.

subset      how quick it is at a task, from what small parts of it took
flops       a number for its arithmetic: the baseline that subset benchmarking is compared with
states      in which states it is found, and how quick it is in each
memory      how many bytes it can still take
"""

from axon.devices.flops import measure_flops, predict_s
from axon.devices.memory import available_bytes
from axon.devices.states import Observation, StateEstimate, States
from axon.devices.subset import Line, fit, nested

__all__ = [
    "Line",
    "Observation",
    "StateEstimate",
    "States",
    "available_bytes",
    "fit",
    "measure_flops",
    "nested",
    "predict_s",
]
