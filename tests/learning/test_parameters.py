"""A net's state as a vector, and optimisers in their two forms."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from axon.errors import ConfigurationError
from axon.learning.optimisers import ADAM_BETAS, ADAM_EPSILON, functional
from axon.learning.parameters import Layout, entries, layout, pour, read, size, split
from axon.values import TaskSpec, Vector


def write(module: nn.Module, layout: Layout, vector: Vector) -> None:
    pour(vector, layout, entries(module, layout))


def torch_optimiser(spec: TaskSpec, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    """The task's optimiser as PyTorch has it."""
    if spec.optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=spec.learning_rate, momentum=spec.momentum)
    return torch.optim.Adam(parameters, lr=spec.learning_rate, betas=ADAM_BETAS, eps=ADAM_EPSILON)


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


def test_floats_travel_and_counters_do_not() -> None:
    plan = layout(normed())
    parameters = ("0.weight", "0.bias", "1.weight", "1.bias")
    assert plan.names == (*parameters, "1.running_mean", "1.running_var")
    assert plan.shapes == ((3, 2), (3,), (3,), (3,), (3,), (3,))
    assert plan.sizes == (6, 3, 3, 3, 3, 3)
    assert size(plan) == 21


def test_what_is_written_is_read() -> None:
    module, vector = normed(), np.arange(21, dtype=np.float32)
    vector.flags.writeable = False
    write(module, layout(module), vector)
    assert module.state_dict()["0.weight"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert module.state_dict()["1.running_var"].tolist() == [18, 19, 20]
    assert read(module, layout(module)).tolist() == list(range(21))
    assert all(entry.grad_fn is None and entry.requires_grad for entry in module.parameters())


def test_what_is_read_is_a_copy() -> None:
    module = normed()
    vector = read(module, layout(module))
    vector[:] = 9
    assert read(module, layout(module))[0] != 9


def test_halves_and_doubles_travel_as_floats() -> None:
    module = nn.Linear(1, 1).half()
    write(module, layout(module), np.array([0.5, 0.25], np.float32))
    assert module.weight.dtype == torch.float16
    assert read(module, layout(module)).dtype == np.float32
    assert read(module, layout(module)).tolist() == [0.5, 0.25]


@pytest.mark.parametrize("shape", [(20,), (22,), (1, 21)])
def test_a_vector_of_another_size_is_refused(shape: tuple[int, ...]) -> None:
    module = normed()
    with pytest.raises(ConfigurationError, match=r"21 numbers in 6 entries, got .*shape \("):
        write(module, layout(module), np.zeros(shape, np.float32))


def test_a_net_without_parameters() -> None:
    module = nn.Flatten()
    write(module, layout(module), read(module, layout(module)))
    assert size(layout(module)) == 0


def test_split_gives_views() -> None:
    plan = Layout(("a", "b", "c"), ((2, 2), (), (1,)), (4, 1, 1))
    vector = torch.arange(6.0)
    parts = split(vector, plan)
    assert parts["a"].tolist() == [[0, 1], [2, 3]]
    assert parts["b"].item() == 4
    parts["a"][1, 1] = 7
    assert vector[3] == 7


def test_split_of_a_stack() -> None:
    plan = Layout(("a", "b"), ((2, 2), ()), (4, 1))
    stack = torch.arange(10.0).reshape(2, 5)
    parts = split(stack, plan)
    assert parts["a"].tolist() == [[[0, 1], [2, 3]], [[5, 6], [7, 8]]]
    assert parts["b"].tolist() == [4, 9]
    assert parts["a"].data_ptr() == stack.data_ptr()


def spec(optimiser: str, **changes: float) -> TaskSpec:
    return TaskSpec(
        net="any",
        inputs=(1,),
        classes=1,
        optimiser=optimiser,
        learning_rate=changes.get("learning_rate", 0.05),
        momentum=changes.get("momentum", 0.0),
    )


@pytest.mark.parametrize("task", [spec("sgd"), spec("sgd", momentum=0.9), spec("adam")])
def test_both_forms_agree(task: TaskSpec) -> None:
    random = torch.Generator().manual_seed(1)
    shapes = {"weight": (2, 4, 3), "bias": (2, 3)}
    params = {name: torch.randn(shape, generator=random) for name, shape in shapes.items()}
    # One optimiser for each of the two stacked clients.
    alone = [{n: p[client].clone() for n, p in params.items()} for client in range(2)]
    theirs = [torch_optimiser(task, each.values()) for each in alone]
    ours = functional(task)
    state = ours.init(params)
    for _ in range(20):
        grads = {name: torch.randn(shape, generator=random) for name, shape in shapes.items()}
        ours.step(params, grads, state)
        for client, optimiser in enumerate(theirs):
            for name, param in alone[client].items():
                param.grad = grads[name][client]
            optimiser.step()
    for name, stacked in params.items():
        expected = torch.stack([each[name] for each in alone])
        torch.testing.assert_close(stacked, expected, rtol=1e-6, atol=1e-6)


def stepped(task: TaskSpec, grads: list[float]) -> float:
    params: dict[str, Tensor] = {"p": torch.tensor([1.0])}
    optimiser = functional(task)
    state = optimiser.init(params)
    for grad in grads:
        optimiser.step(params, {"p": torch.tensor([grad])}, state)
    return params["p"].item()


def test_steps_by_hand() -> None:
    # 1 - 0.1·2, then velocity 0.5·2 + 1 = 2: - 0.1·2.
    assert stepped(spec("sgd", learning_rate=0.1, momentum=0.5), [2.0, 1.0]) == pytest.approx(0.6)
    # Adam's first step is the learning rate, whatever the gradient.
    assert stepped(spec("adam", learning_rate=0.1), [123.0]) == pytest.approx(0.9)


def test_an_unknown_optimiser_lists_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="'lion'; known are sgd, adam"):
        functional(spec("lion"))


def test_adam_refuses_a_momentum() -> None:
    with pytest.raises(ConfigurationError, match=r"got 0\.9"):
        functional(spec("adam", momentum=0.9))
