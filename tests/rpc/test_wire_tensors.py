"""Tensors arrive bit for bit, with torch on the other side or without."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import numpy as np
import pytest

from axon.errors import CannotTravel, ProtocolError
from axon.rpc import wire
from axon.rpc.messages import Buffer
from axon.rpc.wire import codes
from axon.rpc.wire.arrays import TENSOR_DTYPES


def joined(pieces: list[Buffer]) -> bytearray:
    return bytearray(b"".join(pieces))


def travel(value: object) -> Any:
    return wire.decode(joined(wire.encode(value)))


def crafted(code: int, payload: object, *buffers: bytes) -> bytes:
    head = msgspec.msgpack.encode(msgspec.msgpack.Ext(code, msgspec.msgpack.encode(payload)))
    return bytes(joined(wire._pack(head, buffers)))


def test_without_torch_a_tensor_arrives_as_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    body = crafted(codes.TENSOR, ["float32", [2, 3], 0], values.tobytes())
    arrived = wire.decode(body)
    assert type(arrived) is np.ndarray
    assert arrived.dtype == values.dtype
    assert arrived.tolist() == values.tolist()


@pytest.mark.parametrize(
    ("code", "payload"),
    [(codes.TENSOR, ["bfloat16", [1], 0]), (codes.TENSOR_DTYPE, "bfloat16")],
)
def test_without_torch_the_rest_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, code: int, payload: object
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    buffers = [b"ab"] if isinstance(payload, list) else []
    with pytest.raises(ProtocolError, match=r"pip install axon-edge\[learn\]"):
        wire.decode(crafted(code, payload, *buffers))


def bits(tensor: Any) -> bytes:
    import torch

    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return bytes(plain.reshape(-1).view(torch.uint8).numpy())


@pytest.mark.filterwarnings("ignore:ComplexHalf")  # torch says so of any copy of that dtype
@pytest.mark.parametrize("name", TENSOR_DTYPES)
def test_tensors_of_every_dtype_arrive(name: str) -> None:
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip("this torch is too old for it")
    raw = torch.arange(6 * dtype.itemsize, dtype=torch.uint8) % 2
    source = raw.view(dtype)
    for tensor in (source, source.reshape(2, 3), source[:0], source[0], source[::2]):
        arrived = travel([tensor])[0]
        assert arrived.dtype is dtype
        assert arrived.shape == tensor.shape
        assert not arrived.numel() or bits(arrived) == bits(tensor)
    assert travel(dtype) is dtype


def test_tensors_in_every_state_arrive_as_plain_ones() -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(12.0).reshape(3, 4)
    wave = torch.tensor([1 + 2j, 3 - 1j])
    for tensor in (
        base.t(),
        base[:, ::2],
        base[0].expand(5, 4),
        base.clone().requires_grad_(),
        torch.nn.Parameter(base),
        wave.conj(),
        wave.conj().imag,
        base.reshape(1, 3, 2, 2).to(memory_format=torch.channels_last),
    ):
        arrived = travel(tensor)
        assert type(arrived) is torch.Tensor
        assert torch.equal(arrived, tensor.detach())
        assert not arrived.requires_grad
        assert arrived.device.type == "cpu"


def test_tensors_are_not_copied() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(1000.0)
    pieces = wire.encode(tensor)
    addresses = [np.frombuffer(piece, np.uint8).ctypes.data for piece in pieces]
    assert tensor.data_ptr() in addresses
    body = joined(pieces)
    arrived = wire.decode(body)
    start = np.frombuffer(body, np.uint8).ctypes.data
    assert start <= arrived.data_ptr() < start + len(body)


def test_a_tensor_can_always_be_written() -> None:
    torch = pytest.importorskip("torch")
    body = bytes(joined(wire.encode(torch.zeros(3))))
    arrived = wire.decode(body)
    arrived += 1
    assert arrived.tolist() == [1, 1, 1]
    assert wire.decode(body).tolist() == [0, 0, 0]


def test_a_tensor_in_an_odd_place_is_moved() -> None:
    torch = pytest.importorskip("torch")
    shifted = bytearray(1) + joined(wire.encode(torch.arange(5.0, dtype=torch.float64)))
    arrived = wire.decode(memoryview(shifted)[1:])
    assert arrived.tolist() == [0, 1, 2, 3, 4]
    assert arrived.data_ptr() % 8 == 0


def test_a_models_state_arrives_in_order() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    state = model.state_dict()
    arrived = travel(state)
    assert type(arrived) is dict
    assert list(arrived) == list(state)
    assert all(torch.equal(arrived[name], state[name]) for name in state)
    assert travel(state["0.weight"].shape) == (2, 3)
    with pytest.raises(CannotTravel, match="state_dict"):
        wire.encode(model)


def test_tensors_that_cannot_travel_say_so() -> None:
    torch = pytest.importorskip("torch")
    cases = [
        (torch.eye(3).to_sparse(), r"to_dense\(\)"),
        (torch.empty(3, device="meta"), "no numbers"),
        (torch.zeros(8, dtype=torch.bits8), "torch.bits8 cannot travel"),
    ]
    for tensor, says in cases:
        with pytest.raises(CannotTravel, match=says):
            wire.encode([tensor])


@pytest.mark.filterwarnings("ignore")  # torch itself warns that quantisation is going away
def test_quantised_tensors_say_what_to_do() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    with pytest.raises(CannotTravel, match=r"dequantize\(\)"):
        wire.encode([tensor])


@pytest.mark.filterwarnings("ignore")  # torch itself warns that these are a prototype
def test_nested_tensors_say_what_to_do() -> None:
    torch = pytest.importorskip("torch")
    for layout in (torch.strided, torch.jagged):
        tensor = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
        with pytest.raises(CannotTravel, match=r"unbind\(\)"):
            wire.encode([tensor])
        assert wire.to_json(tensor) == b"[[1.0,1.0],[1.0,1.0,1.0]]"


@pytest.mark.parametrize(
    "parts",
    [
        ["float32", [3], 0],
        ["float32", [-2], 0],
        ["qint8", [8], 0],
        ["Tensor", [8], 0],
        [["float32"], [2], 0],
        ["float32", None, 0],
    ],
    ids=str,
)
def test_tensors_that_lie_are_malformed(parts: list[object]) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ProtocolError):
        wire.decode(crafted(codes.TENSOR, parts, bytes(8)))


def test_a_tensor_torch_itself_refuses_is_malformed() -> None:
    pytest.importorskip("torch")
    with pytest.raises(ProtocolError, match="torch cannot build"):
        wire.decode(crafted(codes.TENSOR, ["float32", [0, 2**63], 0], b""))
    with pytest.raises(ProtocolError, match="no dtype 'Tensor'"):
        wire.decode(crafted(codes.TENSOR_DTYPE, "Tensor"))


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int64", "bool", "float8_e4m3fn"])
def test_a_tensor_on_a_gpu_arrives_on_the_cpu(name: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    tensor = torch.arange(12, device="cuda").reshape(3, 4).to(getattr(torch, name))
    for sent in (tensor, tensor.T, tensor[:, ::2], tensor[0, 0], tensor[:0]):
        back = travel(sent)
        assert back.device.type == "cpu"
        assert back.dtype == sent.dtype
        assert back.tolist() == sent.cpu().tolist()
