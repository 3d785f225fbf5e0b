"""The papers' nets: counted by hand and compared layer by layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from axon.errors import ConfigurationError
from axon.learning.nets import initial
from axon.learning.parameters import layout, size
from axon.learning.tasks import build, default_spec

GREY = (1, 28, 28)
NETS = ("twonn", "threenn", "convnet", "fashionnet", "two-conv", "mohammad")


def net(name: str, shape: tuple[int, ...] = GREY, classes: int = 10) -> nn.Module:
    return build(default_spec(name, shape, classes))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("twonn", 39250 + 1020 + 210),
        ("threenn", 392500 + 150300 + 30100 + 1010),
        ("convnet", 60 + 880 + 80200 + 20100 + 1010),
        ("fashionnet", 160 + 4640 + 1569000 + 500500 + 5010),
        ("two-conv", 320 + 18496 + 1606144 + 5130),
        ("mohammad", 235500 + 37324 + 7500 + 610),
    ],
)
def test_parameters_as_counted_by_hand(name: str, count: int) -> None:
    assert size(layout(net(name))) == count


def test_mohammads_weights_have_the_bits_the_paper_gives() -> None:
    weights = sum(entry.numel() for entry in net("mohammad").parameters() if entry.dim() == 2)
    assert weights * 32 == 8_974_080


def layers(module: nn.Module) -> list[str]:
    told = []
    for layer in module.children():
        if isinstance(layer, nn.Conv2d):
            told.append(f"conv {layer.in_channels} {layer.out_channels} {layer.padding[0]}")
            assert layer.kernel_size == (3, 3)
        elif isinstance(layer, nn.Linear):
            told.append(f"linear {layer.in_features} {layer.out_features}")
        else:
            told.append(type(layer).__name__.lower())
    return told


def test_threenn_layer_by_layer() -> None:
    assert layers(net("threenn", (784,))) == [
        *("flatten", "linear 784 500", "relu", "linear 500 300", "relu"),
        *("linear 300 100", "relu", "linear 100 10"),
    ]


def test_convnet_layer_by_layer() -> None:
    assert layers(net("convnet")) == [
        *("conv 1 6 0", "maxpool2d", "relu", "conv 6 16 0", "maxpool2d", "relu", "flatten"),
        *("linear 400 200", "relu", "linear 200 100", "relu", "linear 100 10"),
    ]


def test_fashionnet_layer_by_layer() -> None:
    assert layers(net("fashionnet")) == [
        *("conv 1 16 1", "maxpool2d", "relu", "conv 16 32 1", "maxpool2d", "relu", "flatten"),
        *("linear 1568 1000", "relu", "linear 1000 500", "relu", "linear 500 10"),
    ]


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 10, 12)])
def test_nets_fit_other_shapes_and_classes(name: str, shape: tuple[int, ...]) -> None:
    assert net(name, shape, 7)(torch.zeros(5, *shape)).shape == (5, 7)


def test_nets_end_in_logits() -> None:
    outputs = net("twonn")(torch.ones(4, *GREY))
    assert not torch.allclose(outputs.sum(dim=1), torch.ones(4))


@pytest.mark.parametrize("shape", [(784,), (28, 28), (1, 3, 3)])
def test_a_convolutional_net_refuses_what_is_no_image(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigurationError, match="image"):
        net("two-conv", shape)


def test_the_same_seed_gives_the_same_bits_and_leaves_torch_alone() -> None:
    spec = default_spec("twonn", (64,), 10)
    before = torch.random.get_rng_state()
    first = initial(spec, 5)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.rand(3)
    assert initial(spec, 5).tobytes() == first.tobytes()
    assert not np.array_equal(initial(spec, 6), first)
