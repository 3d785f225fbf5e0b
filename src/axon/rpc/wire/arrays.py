"""Arrays and tensors on the wire: described in the head, their memory sent and used as it is.

Contiguous memory is never copied, neither on leaving (the piece is a view of the array's own
memory) nor on arrival (the array is a view of the body, writable when the body is).

Arrays of a subclass arrive as plain arrays. A tensor arrives detached and on the CPU, whatever
device and gradient it had; an `nn.Parameter` arrives as a tensor; of a non-contiguous one a
contiguous copy is sent.
"""

from __future__ import annotations

import math
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from axon.errors import ProtocolError
from axon.rpc.messages import Buffer
from axon.rpc.wire.refusals import Stuck

# numpy and torch are imported inside the functions that need them: an idle worker has neither.
if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

_DTYPE = re.compile(r"[<>|][biufcmMSUV]\d{1,10}(\[\d{0,9}[A-Za-z]{1,7}\])?")
_LONG_DTYPE = re.compile(r"([<>][fc]\d{1,2}):(\d{1,3})")
_STRUCTURE = {"names", "formats", "offsets", "titles", "itemsize", "aligned"}

TENSOR_DTYPES = {
    "bool": "|b1",
    "uint8": "|u1",
    "int8": "|i1",
    "uint16": "<u2",
    "int16": "<i2",
    "uint32": "<u4",
    "int32": "<i4",
    "uint64": "<u8",
    "int64": "<i8",
    "float16": "<f2",
    "float32": "<f4",
    "float64": "<f8",
    "complex64": "<c8",
    "complex128": "<c16",
    "complex32": None,
    "bfloat16": None,
    "float8_e4m3fn": None,
    "float8_e4m3fnuz": None,
    "float8_e5m2": None,
    "float8_e5m2fnuz": None,
    "float8_e8m0fnu": None,
}
"""Tensor dtypes that travel, with numpy's name where numpy has them."""


def loaded_numpy() -> ModuleType | None:
    """numpy, if it is imported to the end; before that nobody here holds an array."""
    numpy = sys.modules.get("numpy")
    return numpy if hasattr(numpy, "ndarray") and hasattr(numpy, "dtype") else None


def loaded_torch() -> ModuleType | None:
    """torch, likewise."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "Tensor") and hasattr(torch, "nn") else None


def describe_dtype(dtype: np.dtype[Any]) -> object:
    """A dtype as plain data; raises `Stuck` for one whose elements are not bytes in place."""
    import numpy as np

    if dtype.hasobject:
        raise Stuck(f"an array of dtype {dtype} cannot travel", "send a list, or a numeric dtype")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [describe_dtype(base), list(shape)]
    if dtype.names is not None:
        # A type with names has fields.
        fields = [dtype.fields[name] for name in dtype.names]  # type: ignore[index]
        return {
            "names": list(dtype.names),
            "formats": [describe_dtype(field[0]) for field in fields],
            "offsets": [field[1] for field in fields],
            "titles": [_title(field) for field in fields],
            "itemsize": dtype.itemsize,
            "aligned": dtype.isalignedstruct,
        }
    if np.dtype(dtype.str) != dtype:
        raise Stuck(f"an array of dtype {dtype} cannot travel", "view it as uint8 or uint16")
    if dtype.char in "gG":
        return f"{dtype.str}:{np.finfo(dtype).nmant}"
    return dtype.str


def _title(field: tuple[Any, ...]) -> str | None:
    title = field[2] if len(field) > 2 else None
    if not isinstance(title, str | None):
        raise Stuck(f"a field titled {title!r} cannot travel", "give it a str for a title")
    return title


def read_dtype(described: object) -> np.dtype[Any]:
    """The dtype again; nothing but the forms of `describe_dtype` is read."""
    import numpy as np

    if isinstance(described, str):
        return _read_dtype_name(described)
    if isinstance(described, list):
        base, shape = described
        return np.dtype((read_dtype(base), _read_shape(shape)))
    if not isinstance(described, dict) or described.keys() != _STRUCTURE:
        raise ProtocolError(f"not an array's dtype: {described!r}")
    fields = {**described, "formats": [read_dtype(part) for part in described["formats"]]}
    # Numpy checks what arrived, and raises; its stubs want the keys to be known here.
    return np.dtype(fields)  # type: ignore[call-overload, no-any-return]


def _read_dtype_name(name: str) -> np.dtype[Any]:
    import numpy as np

    long = _LONG_DTYPE.fullmatch(name)
    if long is None:
        if not _DTYPE.fullmatch(name):
            raise ProtocolError(f"not an array's dtype: {name!r}")
        return np.dtype(name)
    if int(long[2]) != np.finfo(np.longdouble).nmant:
        raise ProtocolError(
            f"long doubles with {long[2]} bits of mantissa do not exist on this machine",
            hint="send float64",
        )
    return np.dtype(long[1])


def _read_shape(shape: object) -> tuple[int, ...]:
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ProtocolError(f"not a shape: {shape!r}")
    return tuple(shape)


def take_array(array: Array) -> tuple[object, list[int], str, Buffer]:
    """An array's dtype, shape and order, and its memory as it lies."""
    import numpy as np

    if is_masked(array):
        raise Stuck("a masked array cannot travel", "send array.data and array.mask, or filled()")
    array = np.asarray(array)
    dtype, shape, order = describe_dtype(array.dtype), list(array.shape), "C"
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        array, order = array.T, "F"
    if not array.nbytes:
        return dtype, shape, order, b""
    # Copies only where the memory has gaps.
    return dtype, shape, order, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def build_array(dtype: object, shape: object, order: object, memory: memoryview) -> Array:
    """The array over its memory; raises `ProtocolError` unless they fit exactly."""
    import numpy as np

    kind, sizes = read_dtype(dtype), _read_shape(shape)
    wanted = math.prod(sizes) * kind.itemsize
    if wanted != memory.nbytes:
        raise ProtocolError(f"an array of {wanted} bytes came with {memory.nbytes}")
    return np.ndarray(sizes, kind, memory, order="F" if order == "F" else "C")


def is_masked(array: object) -> bool:
    """Whether it is a masked array, without loading numpy's code for them just to ask."""
    return isinstance(array, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ()))


def take_scalar(value: np.generic) -> list[object]:
    """A numpy scalar's dtype and bytes."""
    import numpy as np

    if isinstance(value, np.bytes_):
        return ["S", bytes(value)]
    if isinstance(value, np.str_):
        # Its own str() drops final zeros, as arrays do.
        return ["U", str.__str__(value)]
    return [describe_dtype(value.dtype), value.tobytes()]


def build_scalar(dtype: object, data: object) -> object:
    """The numpy scalar again. Byte and text scalars go by value: arrays would drop final zeros."""
    import numpy as np

    if dtype == "S" and isinstance(data, bytes):
        return np.bytes_(data)
    if dtype == "U" and isinstance(data, str):
        return np.str_(data)
    if not isinstance(data, bytes):
        raise ProtocolError("an array scalar came without its bytes")
    # A structured scalar is a view; its own memory lets it be written like any other.
    return build_array(dtype, [], "C", memoryview(bytearray(data)))[()]


def take_tensor(tensor: Any) -> tuple[str, list[int], Buffer]:
    """A tensor's dtype and shape, and its memory as it lies."""
    import torch

    _check_tensor(tensor)
    name = tensor_dtype_name(tensor.dtype)
    shape = list(tensor.shape)
    if not tensor.numel():
        return name, shape, b""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return name, shape, plain.reshape(-1).view(torch.uint8).numpy().data


def _check_tensor(tensor: Any) -> None:
    import torch

    if tensor.is_nested:
        raise Stuck("a nested tensor cannot travel", "send list(tensor.unbind())")
    if tensor.is_quantized:
        raise Stuck("a quantised tensor cannot travel", "send tensor.dequantize()")
    if tensor.layout is not torch.strided:
        raise Stuck(f"a tensor of layout {tensor.layout} cannot travel", "send tensor.to_dense()")
    if tensor.is_meta:
        raise Stuck("a tensor on the meta device has no numbers to send", "make it with real data")


def tensor_dtype_name(dtype: Any) -> str:
    """`bfloat16` for `torch.bfloat16`; raises `Stuck` for a dtype that does not travel."""
    name = str(dtype).removeprefix("torch.")
    if name not in TENSOR_DTYPES:
        raise Stuck(f"{dtype} cannot travel", "send it as uint8")
    return name


def build_tensor(name: object, shape: object, memory: memoryview) -> object:
    """The tensor over its memory, or over a copy where the body may not be written.

    Without torch on this side it is a numpy array, where numpy has the dtype.
    """
    try:
        import torch
    except ImportError:
        return build_array(_array_dtype(name), shape, "C", memory)
    dtype, sizes = build_tensor_dtype(name), _read_shape(shape)
    wanted = math.prod(sizes) * dtype.itemsize
    if wanted != memory.nbytes:
        raise ProtocolError(f"a tensor of {wanted} bytes came with {memory.nbytes}")
    try:
        if not wanted:
            return torch.empty(0, dtype=torch.uint8).view(dtype).reshape(sizes)
        usable = memory if _is_usable(memory, dtype.itemsize) else bytearray(memory)
        return torch.frombuffer(usable, dtype=torch.uint8).view(dtype).reshape(sizes)
    except (RuntimeError, TypeError) as error:
        # torch's own words hold addresses of this process, which are no business of the peer's.
        raise ProtocolError(f"torch cannot build a tensor of shape {sizes}") from error


def _is_usable(memory: memoryview, itemsize: int) -> bool:
    """Whether a tensor may live there: torch has no read-only tensors, and wants whole steps."""
    import numpy as np

    address: int = np.frombuffer(memory, np.uint8).ctypes.data
    return not memory.readonly and address % itemsize == 0


def build_tensor_dtype(name: object) -> Any:
    """The `torch.dtype` of that name."""
    try:
        import torch
    except ImportError as error:
        raise _torch_missing(f"torch.{name}") from error
    dtype = getattr(torch, name, None) if isinstance(name, str) and name in TENSOR_DTYPES else None
    if dtype is None:
        raise ProtocolError(f"torch on this side has no dtype {name!r}")
    return dtype


def _array_dtype(name: object) -> str:
    dtype = TENSOR_DTYPES.get(name) if isinstance(name, str) else None
    if dtype is None:
        raise _torch_missing(f"a tensor of dtype {name}")
    return dtype


def _torch_missing(what: str) -> ProtocolError:
    return ProtocolError(
        f"{what} arrived, and this side has no torch", hint="pip install axon-edge[learn]"
    )


def is_array_kind(kind: type) -> bool:
    """Whether the class is numpy's own and has a form here."""
    numpy = loaded_numpy()
    return numpy is not None and issubclass(kind, numpy.ndarray | numpy.generic | numpy.dtype)


def is_tensor_kind(kind: type) -> bool:
    """Whether the class is torch's own and has a form here."""
    torch = loaded_torch()
    return torch is not None and issubclass(kind, torch.Tensor | torch.dtype)
