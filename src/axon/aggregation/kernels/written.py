"""Kernels that are written out for one number of rows, and compiled by Triton when first launched.

With the number of rows fixed, every value of a coordinate has a name, and so a register of its own.
Triton reads a function's source when it compiles it; `linecache` is where it finds text that was
never in a file.
"""

from __future__ import annotations

import importlib
import linecache
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

THREADS = 128
"""Threads in a block: four warps, small enough that a few blocks share a multiprocessor."""

WARPS = THREADS // 32


def kernel(
    name: str, arguments: Sequence[str], lines: Iterable[str], varying: Sequence[str]
) -> Any:
    """A kernel of the given body; for other values of the `varying` numbers it is not made again.

    Numbers that do not vary from call to call are left to Triton, which makes wide loads of strides
    that are multiples of 16.
    """
    given = ", ".join([*arguments, *varying, "BLOCK: tl.constexpr"])
    text = f"def {name}({given}):\n" + "".join(f"    {line}\n" for line in lines)
    return _compiled(name, text, tuple(varying))


@lru_cache(maxsize=512)
def _compiled(name: str, text: str, varying: tuple[str, ...]) -> Any:
    triton = importlib.import_module("triton")
    file = f"<axon kernel {name}>"
    # No time of change marks an entry that is not to be compared with a file.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"tl": importlib.import_module("triton.language"), "__name__": __name__}
    exec(compile(text, file, "exec"), names)  # noqa: S102  (the text is ours, made of whole numbers)
    return triton.jit(names[name], do_not_specialize=list(varying))


def per_thread(values: int, element_bytes: int) -> int:
    """Coordinates a thread takes on: as wide a load as the registers for so many values allow."""
    widest = 16 // element_bytes
    registers = 64 if element_bytes == 4 else 128
    fitting = max(1, registers // values)
    return min(widest, 1 << (fitting.bit_length() - 1))


def blocks(size: int, block: int) -> tuple[int]:
    """The grid over so many coordinates."""
    return (-(-size // block),)


def on_device_of(stack: Tensor) -> AbstractContextManager[Any]:
    """Launches inside go to the stack's own device, where a machine has several."""
    import torch

    # PyTorch does not say what this takes.
    guard: AbstractContextManager[Any] = torch.cuda.device_of(stack)  # type: ignore[no-untyped-call]
    return guard
