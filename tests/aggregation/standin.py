"""Triton's language in plain PyTorch, for kernels to be run where there is neither Triton nor GPU.

It knows what Axon's kernels use of it. Whole numbers are 32 bits wide unless widened, as they are
on the device, and a load or store outside the memory it points into fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

current_program = 0


class Block(torch.Tensor):
    """A tensor whose `to` can also take the bits as they are."""

    def to(self, kind: torch.dtype, bitcast: bool = False) -> Any:  # type: ignore[override]
        return self.view(kind) if bitcast else super().to(kind)


class Pointer:
    """Places in a flat memory."""

    def __init__(self, memory: torch.Tensor, places: Any) -> None:
        self.memory = memory
        self.places = places

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.memory, self.places + offset)

    def checked(self, mask: Any) -> Any:
        places = self.places if mask is None else torch.where(mask, self.places, 0)
        assert bool(((places >= 0) & (places < len(self.memory))).all()), "outside of the memory"
        return places


def block(value: Any) -> Any:
    return torch.as_tensor(value).as_subclass(Block)


def load(pointer: Pointer, mask: Any, other: float) -> Any:
    found = block(pointer.memory[pointer.checked(mask)])
    return torch.where(mask, found, torch.tensor(other, dtype=found.dtype))


def store(pointer: Pointer, value: Any, mask: Any = None) -> None:
    places = pointer.checked(mask)
    if mask is None:
        pointer.memory[places] = value.to(pointer.memory.dtype)
    else:
        pointer.memory[places[mask]] = value[mask].to(pointer.memory.dtype)


def argument(value: Any) -> Any:
    """What a kernel sees of an argument of its launch."""
    if isinstance(value, torch.Tensor):
        length = sum((n - 1) * by for n, by in zip(value.shape, value.stride(), strict=True)) + 1
        # int64, as an address is.
        return Pointer(value.as_strided((length,), (1,)), block(torch.tensor(0)))
    if isinstance(value, int):
        return block(torch.tensor(value, dtype=torch.int32))
    return value


class Kernel:
    """A function that runs once for every program of a grid, one after another."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    def __getitem__(self, grid: Sequence[int]) -> Callable[..., None]:
        def launch(*arguments: Any, BLOCK: int, num_warps: int) -> None:
            global current_program
            assert num_warps & (num_warps - 1) == 0
            for program in range(grid[0]):
                current_program = program
                self.function(*map(argument, arguments), BLOCK=BLOCK)

        return launch


def modules() -> dict[str, ModuleType]:
    """The modules to be found under Triton's names."""
    triton, language = ModuleType("triton"), ModuleType("triton.language")
    of_torch = ["float16", "float32", "int16", "int64", "minimum", "maximum", "where", "sum"]
    language.__dict__.update({name: getattr(torch, name) for name in of_torch})
    language.__dict__.update(
        load=load,
        store=store,
        constexpr=int,
        program_id=lambda axis: block(torch.tensor(current_program, dtype=torch.int32)),
        arange=lambda first, last: block(torch.arange(first, last, dtype=torch.int32)),
        zeros=lambda shape, kind: block(torch.zeros(shape, dtype=kind)),
        full=lambda shape, value, kind: block(torch.full(shape, value, dtype=kind)),
        div_rn=torch.div,
    )
    triton.__dict__.update(jit=lambda function, do_not_specialize: Kernel(function))
    return {"triton": triton, "triton.language": language}
