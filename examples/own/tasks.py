"""A task of your own: a net under a name, and its loss.

axon train --task examples/own/tasks.py:tanh
"""

from torch import nn

from axon.learning import define


@define("tanh")  # Cross-entropy, unless you say loss=...
def build(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """One hidden layer of tanh units; the shape of an input and the number of classes are given."""
    width = inputs[0] * inputs[1] * inputs[2]
    return nn.Sequential(nn.Flatten(), nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, classes))
