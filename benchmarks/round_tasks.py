"""Nets for `bench_round`, which workers load with `--task`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from axon.learning import define

BULK_FLOATS = 25_000_000
"""100 MB."""


@define("bulky")
class Bulky(nn.Module):
    """A model that is large to carry and quick to train: most of it is not trained at all.

    What it weighs travels both ways like any parameter; what it costs to train would only hide it.
    """

    def __init__(self, inputs: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(inputs[0], classes))
        self.register_buffer("bulk", torch.zeros(BULK_FLOATS))

    def forward(self, inputs: Tensor) -> Tensor:
        """Only the small part takes part."""
        logits: Tensor = self.layers(inputs)
        return logits
