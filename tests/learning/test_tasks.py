"""Nets under names: defining, finding, importing and checking them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from axon.errors import ConfigurationError
from axon.learning import tasks
from axon.learning.tasks import (
    blueprint,
    build,
    cross_entropy,
    default_spec,
    define,
    load_tasks,
    own_randomness,
)
from axon.values import TaskSpec

USERS_TASK = """\
from torch import nn
from axon.learning import define

@define("pixels")
def pixels(inputs, classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))
"""


@pytest.fixture(autouse=True)
def _only_the_papers_nets(monkeypatch: pytest.MonkeyPatch) -> None:
    home = blueprint("twonn").build.__module__
    theirs = {n: b for n, b in tasks._blueprints.items() if b.build.__module__ == home}
    monkeypatch.setattr(tasks, "_blueprints", theirs)


def linear(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(inputs[0], classes)


def test_cross_entropy_by_hand() -> None:
    losses = cross_entropy(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    # ln 2, and ln(1 + e).
    assert losses.tolist() == pytest.approx([0.693147, 1.313262], abs=1e-6)


def test_a_users_task_in_under_ten_lines(tmp_path: Path) -> None:
    assert len(USERS_TASK.splitlines()) < 10
    file = tmp_path / "my_tasks.py"
    file.write_text(USERS_TASK)
    assert load_tasks(str(file)) == "pixels"
    spec = default_spec("pixels", (2, 3), 4)
    assert build(spec)(torch.zeros(5, 2, 3)).shape == (5, 4)
    assert (spec.optimiser, spec.learning_rate) == ("sgd", 0.1)


def test_a_file_is_run_once(tmp_path: Path) -> None:
    file = tmp_path / "counted.py"
    file.write_text(
        USERS_TASK + "with open(__file__ + '.runs', 'a') as runs:\n    runs.write('x')\n"
    )
    assert [load_tasks(str(file)), load_tasks(f"{file}:pixels")] == ["pixels", "pixels"]
    assert (tmp_path / "counted.py.runs").read_text() == "x"


def test_a_file_that_is_also_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "both_ways.py").write_text(USERS_TASK.replace("pixels", "ways"))
    monkeypatch.syspath_prepend(tmp_path)
    assert load_tasks(str(tmp_path / "both_ways.py")) == "ways"
    assert load_tasks("both_ways") == "ways"
    assert load_tasks("both_ways:ways") == "ways"


def test_a_file_with_two_nets_needs_a_name(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    body = USERS_TASK.split("\n", 3)[3]
    file.write_text(USERS_TASK.replace("pixels", "one") + body.replace("pixels", "other"))
    with pytest.raises(ConfigurationError, match="got 2: one, other"):
        load_tasks(str(file))
    assert load_tasks(f"{file}:other") == "other"
    with pytest.raises(ConfigurationError, match="no net is called 'third'"):
        load_tasks(f"{file}:third")


def test_a_file_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("raise OSError('not here')")
    for _ in range(2):
        with pytest.raises(
            ConfigurationError, match=r"cannot import .*broken\.py: OSError: not here"
        ):
            load_tasks(str(file))


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("def pixels(:", r"SyntaxError: .*line 1"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("class Own(Exception): ...\nraise Own('mine')", "Own: mine"),
    ],
)
@pytest.mark.parametrize("way", ["file", "module"])
def test_code_that_cannot_be_imported_is_said_to_be_so(
    code: str, complaint: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ill.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    if way == "module":
        complaint = complaint.removeprefix("ModuleNotFoundError: ")
    with pytest.raises(ConfigurationError, match=f"cannot import .*ill.*: {complaint}"):
        load_tasks(str(tmp_path / "ill.py") if way == "file" else "ill")


def test_an_error_of_ours_in_a_users_file_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "again.py"
    file.write_text(USERS_TASK.replace("pixels", "twonn"))
    with pytest.raises(ConfigurationError, match=r"^the net 'twonn' is already defined"):
        load_tasks(str(file))


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [
        ("no.such.module", "cannot import 'no.such.module'"),
        ("no_such_file.py", "there is no file"),
        ("a\0b.py", "cannot be a file"),
        ("x" * 5000 + ".py", "cannot be a file"),
        ("axon.seeds", "got 0: none"),
        *((text, "names no module") for text in (".", "..", ":", ":twonn", "..:x", "", "a b")),
    ],
)
def test_a_reference_that_leads_nowhere(reference: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        load_tasks(reference)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"convnet, .*fashionnet, .*mohammad, .*threenn, .*two-conv, .*twonn",
    ):
        blueprint("none")


def test_the_same_function_again_is_fine_and_another_is_not() -> None:
    define("line")(linear)
    define("line")(linear)

    def other(inputs: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Linear(inputs[0], classes, bias=False)

    with pytest.raises(ConfigurationError, match=r"linear.*other"):
        define("line")(other)
    with pytest.raises(ConfigurationError, match="'twonn'"):
        define("twonn")(other)
    assert blueprint("line").build is linear


def test_a_class_builds_as_well() -> None:
    @define("classy")
    class Classy(nn.Linear):
        def __init__(self, inputs: tuple[int, ...], classes: int) -> None:
            super().__init__(inputs[0], classes)

    module = build(TaskSpec(net="classy", inputs=(3,), classes=2))
    assert isinstance(module, Classy)
    assert module.training


def test_outputs_must_be_one_per_class() -> None:
    define("wide")(lambda inputs, classes: nn.Linear(inputs[0], classes + 1))
    with pytest.raises(ConfigurationError, match=r"\(1, 4\).*got \(1, 5\)"):
        build(TaskSpec(net="wide", inputs=(3,), classes=4))


def test_inputs_must_fit() -> None:
    define("fixed")(lambda inputs, classes: nn.Linear(7, classes))
    with pytest.raises(ConfigurationError, match=r"'fixed' cannot take one input of shape \(3,\)"):
        build(TaskSpec(net="fixed", inputs=(3,), classes=4))


def test_what_is_built_must_be_a_module() -> None:
    define("sum")(lambda inputs, classes: sum)  # type: ignore[type-var]
    with pytest.raises(ConfigurationError, match="got builtin_function_or_method"):
        build(TaskSpec(net="sum", inputs=(3,), classes=4))


def test_default_settings_are_the_papers() -> None:
    told = {
        name: (spec.optimiser, spec.learning_rate)
        for name in ("twonn", "threenn", "convnet", "fashionnet", "two-conv", "mohammad")
        for spec in [default_spec(name, (1, 28, 28), 10)]
    }
    sgd, adam = ("sgd", 0.1), ("adam", 1e-4)
    assert list(told.values()) == [sgd, adam, adam, adam, sgd, sgd]


def test_changes_to_the_defaults() -> None:
    spec = default_spec("threenn", (784,), 10, optimiser="sgd", momentum=0.9)
    assert (spec.optimiser, spec.learning_rate, spec.momentum) == ("sgd", 0.1, 0.9)
    assert default_spec("twonn", (784,), 10, learning_rate=0.5).learning_rate == 0.5


def test_own_randomness_repeats_and_is_put_back() -> None:
    before = torch.random.get_rng_state()
    drawn = []
    for _ in range(2):
        with own_randomness(3):
            drawn.append(torch.rand(2).tolist())
    assert drawn[0] == drawn[1]
    assert torch.equal(before, torch.random.get_rng_state())
