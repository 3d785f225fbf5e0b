"""What a device can do.

flops       a number for its arithmetic: the baseline that subset benchmarking is compared with
memory      how many bytes it can still take
"""

from axon.devices.flops import measure_flops, predict_s
from axon.devices.memory import available_bytes

__all__ = ["available_bytes", "measure_flops", "predict_s"]
