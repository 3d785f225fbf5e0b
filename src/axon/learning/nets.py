"""The nets of the papers, each fitted to the inputs and classes it is asked for.

The papers end their nets in a softmax and then take the cross-entropy. Cross-entropy in PyTorch
contains a logarithm of softmax already, and two in a row would flatten the gradients; the nets here
end in logits, so that it is applied once, in the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from torch import nn

from axon.errors import ConfigurationError
from axon.learning.parameters import layout, read
from axon.learning.tasks import build, define
from axon.seeds import derive
from axon.values import TaskSpec, Vector


def initial(spec: TaskSpec, seed: int) -> Vector:
    """The parameters a run starts from: the same for the same seed, to the bit."""
    module = build(spec, seed=derive(seed, "initial"))
    return read(module, layout(module))


@define("twonn")
def twonn(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """The thesis's net for its allocation experiments: [784, 50, 20, 10]."""
    return _dense(inputs, (50, 20, classes))


@define("threenn")
def threenn(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """The thesis's table 6.1: [784, 500, 300, 100, 10]."""
    return _dense(inputs, (500, 300, 100, classes))


@define("mohammad")
def mohammad(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """Mohammad and Sorour's net: [784, 300, 124, 60, 10]."""
    return _dense(inputs, (300, 124, 60, classes))


@define("convnet")
def convnet(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """The thesis's table 6.2; images under 10 pixels are padded by 1, or nothing would be left."""
    padding = 1 if min(inputs[1:], default=0) < 10 else 0
    return _convolutional(inputs, (6, 16), padding, (200, 100, classes))


@define("fashionnet")
def fashionnet(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """The thesis's table 6.3, with its 500 units where the text of chapter 4 has 50."""
    return _convolutional(inputs, (16, 32), 1, (1000, 500, classes))


@define("two-conv")
def two_conv(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """The thesis's net for its deadlines, section 3.4: filters 32 and 64, then 512 and 10 units.

    The filters' size is not given; 3 with a padding of 1 lets each pooling halve exactly.
    """
    return _convolutional(inputs, (32, 64), 1, (512, classes))


def _dense(inputs: tuple[int, ...], widths: Sequence[int]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), *_linear((prod(inputs), *widths)))


def _convolutional(
    inputs: tuple[int, ...], filters: Sequence[int], padding: int, widths: Sequence[int]
) -> nn.Module:
    if len(inputs) != 3:
        raise ConfigurationError(
            f"a convolutional net takes images of (channels, height, width), got {inputs}",
            hint="a grey image has one channel: (1, height, width)",
        )
    channels, *sides = inputs
    layers: list[nn.Module] = []
    for before, after in pairwise((channels, *filters)):
        layers += [nn.Conv2d(before, after, 3, padding=padding), nn.MaxPool2d(2, 2), nn.ReLU()]
        # A filter of 3 takes a pixel off each edge that is not padded; pooling rounds down.
        sides = [(side + 2 * padding - 2) // 2 for side in sides]
    if min(sides) < 1:
        raise ConfigurationError(f"images of {inputs} are too small to be halved twice")
    return nn.Sequential(*layers, nn.Flatten(), *_linear((filters[-1] * prod(sides), *widths)))


def _linear(widths: Sequence[int]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return layers[:-1]
