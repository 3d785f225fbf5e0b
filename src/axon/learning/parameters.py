"""A net's state as one flat vector of float32, in the order of its `state_dict`.

What travels is every floating-point entry: the parameters, and buffers such as BatchNorm's running
statistics, without which an averaged model cannot be evaluated. Counters stay where they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from axon.errors import ConfigurationError
from axon.values import Vector


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each entry of a net's state lies in its vector: one after the other."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]


def layout(module: nn.Module) -> Layout:
    """The layout of a net's floating-point state."""
    state = {name: entry for name, entry in module.state_dict().items() if _travels(entry)}
    shapes = tuple(tuple(entry.shape) for entry in state.values())
    return Layout(tuple(state), shapes, tuple(math.prod(shape) for shape in shapes))


def size(layout: Layout) -> int:
    """How many numbers the vector has."""
    return sum(layout.sizes)


def entries(module: nn.Module, layout: Layout) -> list[Tensor]:
    """The net's own tensors in the order of the layout, not copies of them."""
    state = module.state_dict()
    return [state[name] for name in layout.names]


def read(module: nn.Module, layout: Layout) -> Vector:
    """The net's state as a fresh vector."""
    return join(entries(module, layout))


def split(vector: Tensor, layout: Layout) -> dict[str, Tensor]:
    """Views of a vector, or of a stack of vectors along its last dimension, by name."""
    lead = vector.shape[:-1]
    parts = torch.split(vector, list(layout.sizes), dim=-1)
    return {
        name: part.view((*lead, *shape))
        for name, shape, part in zip(layout.names, layout.shapes, parts, strict=True)
    }


def join(tensors: list[Tensor]) -> Vector:
    """Tensors one after the other as a fresh vector."""
    # In memory of numpy's, which asks for huge pages: of a large model the first touch costs most.
    joined = np.empty(sum(tensor.numel() for tensor in tensors), np.float32)
    at = 0
    for tensor in tensors:
        joined[at : at + tensor.numel()] = tensor.detach().reshape(-1).cpu().numpy()
        at += tensor.numel()
    return joined


def pour(vector: Vector, layout: Layout, tensors: list[Tensor]) -> None:
    """Overwrite tensors that lie as the layout says."""
    check_size(vector, layout)
    at = 0
    for tensor in tensors:
        # Through numpy: what arrives may be read-only, and torch warns of that.
        part = vector[at : at + tensor.numel()].reshape(tensor.shape)
        if tensor.is_cpu:
            tensor.detach().numpy()[...] = part
        else:
            tensor.detach().copy_(torch.from_numpy(part.copy()))
        at += tensor.numel()


def check_size(vector: Vector, layout: Layout) -> None:
    """Raise unless the vector is as long as the net wants it."""
    if vector.shape != (size(layout),):
        raise ConfigurationError(
            f"the net has {size(layout)} numbers in {len(layout.names)} entries, "
            f"got a vector of shape {vector.shape}",
            hint="were both made for the same net, inputs and classes?",
        )


def _travels(entry: object) -> bool:
    return isinstance(entry, Tensor) and entry.is_floating_point()
