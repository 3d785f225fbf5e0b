"""Tasks: a net under a name, so that a device which has the name can be told to train it.

A user's own task, whole:

    from torch import nn
    from axon.learning import define

    @define("pixels")
    def pixels(inputs, classes):
        return nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))

`load_tasks("my_tasks.py")` makes it known in another process, and `default_spec` or `TaskSpec` says
what to train it on. The wire carries the name and some numbers, never the code.

A loss gives one number per sample, or one number in all. Clients can be trained together only when
it is one per sample: of a number in all, nobody can say which part belongs to whom.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from axon.errors import ConfigurationError
from axon.values import TaskSpec

Build: TypeAlias = Callable[[tuple[int, ...], int], nn.Module]
Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
BuildT = TypeVar("BuildT", bound=Build)


@dataclass(frozen=True, slots=True)
class Blueprint:
    """How a net is made for a shape of input and a number of classes, and what it is to lessen."""

    name: str
    build: Build
    loss: Loss


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """One loss per sample, from logits: the logarithm of softmax is part of it."""
    return nn.functional.cross_entropy(outputs, labels, reduction="none")


_blueprints: dict[str, Blueprint] = {}
_randomness = threading.RLock()


def define(name: str, *, loss: Loss = cross_entropy) -> Callable[[BuildT], BuildT]:
    """Make a function (or a class) that builds a net known by a name.

    The same function may come again, as it does when its file is run and imported as well. Another
    one under the same name raises `ConfigurationError`, except at a prompt or in a notebook, where
    a person who defines again means to replace.
    """

    def register(build: BuildT) -> BuildT:
        known = _known().get(name)
        if known is not None and not (_same(known.build, build) or _interactive(build)):
            raise ConfigurationError(
                f"the net {name!r} is already defined by {_place(known.build)}, "
                f"and {_place(build)} defines it again",
                hint="give one of them another name",
            )
        _blueprints[name] = Blueprint(name, build, loss)
        return build

    return register


def net_names() -> list[str]:
    """The names of all nets that are defined by now."""
    return sorted(_known())


def blueprint(name: str) -> Blueprint:
    """The net of that name."""
    known = _known()
    if name not in known:
        raise ConfigurationError(
            f"no net is called {name!r}; known are {', '.join(sorted(known))}",
            hint="load_tasks() imports the file or module that defines it",
        )
    return known[name]


def build(spec: TaskSpec, *, seed: int = 0) -> nn.Module:
    """The net a task names, with parameters drawn from that seed and nobody else's randomness.

    Raises `ConfigurationError` unless it gives one output per class for one input.
    """
    with own_randomness(seed):
        module = blueprint(spec.net).build(spec.inputs, spec.classes)
        if not isinstance(module, nn.Module):
            raise ConfigurationError(
                f"the net {spec.net!r} must be built as a torch.nn.Module, "
                f"got {type(module).__name__}"
            )
        _check_output(module, spec)
    return module


def default_spec(
    net: str, dataset_shape: tuple[int, ...], classes: int, **changes: Any
) -> TaskSpec:
    """A task with the settings its paper gives, and changes to them.

    A change of optimiser alone also changes the learning rate to what goes with that optimiser.
    """
    settings: dict[str, Any] = {"net": blueprint(net).name, "inputs": dataset_shape}
    settings["classes"] = classes
    settings["optimiser"] = changes.get("optimiser", _OPTIMISERS.get(net, "sgd"))
    settings["learning_rate"] = _LEARNING_RATES.get(settings["optimiser"], 0.1)
    return TaskSpec(**(settings | changes))


# The thesis gives SGD at 0.1 for TwoNN (section 3.4) and Adam at 1e-4 for the three of its
# appendix A. It is silent on `two-conv`, and Mohammad and Sorour are on theirs: SGD is estimated.
_OPTIMISERS = {"threenn": "adam", "convnet": "adam", "fashionnet": "adam"}
_LEARNING_RATES = {"sgd": 0.1, "adam": 1e-4}


def load_tasks(reference: str) -> str:
    """Import what `package.module` or `path/to/file.py` defines, and name the net to train.

    That is the one after a colon, as in `tasks.py:pixels`, or the only one defined there.
    """
    place, name = _split_reference(reference)
    if not place.endswith(".py") and not all(map(str.isidentifier, place.split("."))):
        raise ConfigurationError(
            f"{reference!r} names no module and no file that ends in .py",
            hint="write module, module:NAME, FILE.py or FILE.py:NAME",
        )
    module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    if name:
        return blueprint(name).name
    defined = sorted(known.name for known in _known().values() if _defined_in(module, known.build))
    if len(defined) != 1:
        raise ConfigurationError(
            f"{place!r} must define one net for it to be chosen without a name, "
            f"got {len(defined)}: {', '.join(defined) or 'none'}",
            hint=f"write {place}:NAME, and @define(NAME) above what builds it",
        )
    return defined[0]


@contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """Let what draws from torch's global stream draw from a seed instead, and put it back after.

    There is one such stream in a process, so that one thread at a time can have it.
    """
    with _randomness, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _known() -> dict[str, Blueprint]:
    # Late: the nets that come with Axon are defined with the decorator of this module.
    importlib.import_module("axon.learning.nets")
    return _blueprints


def _check_output(module: nn.Module, spec: TaskSpec) -> None:
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            shape = tuple(module(torch.zeros(1, *spec.inputs)).shape)
    except RuntimeError as error:
        raise ConfigurationError(
            f"the net {spec.net!r} cannot take one input of shape {spec.inputs}: {error}"
        ) from error
    module.train(training)
    if shape != (1, spec.classes):
        raise ConfigurationError(
            f"the net {spec.net!r} must answer one input with shape (1, {spec.classes}), "
            f"one number per class, got {shape}",
            hint="its last layer must have as many outputs as it is told there are classes",
        )


def _source(build: Build) -> tuple[str, str, int] | None:
    code = getattr(build, "__code__", None) or getattr(build.__init__, "__code__", None)
    if code is None:
        return None
    return str(Path(code.co_filename).resolve()), code.co_qualname, code.co_firstlineno


def _same(one: Build, other: Build) -> bool:
    return one is other or (_source(one) is not None and _source(one) == _source(other))


def _defined_in(module: ModuleType, build: Build) -> bool:
    source = _source(build)
    # By file: under `__main__` and under its own name a module is the same file.
    return source is not None and source[0] == str(_file(module).resolve())


def _file(module: ModuleType) -> Path:
    return Path(getattr(module, "__dict__", {}).get("__file__") or "")


def _interactive(build: Build) -> bool:
    return build.__module__ == "__main__" and not hasattr(sys.modules["__main__"], "__file__")


def _place(build: Build) -> str:
    return f"{build.__module__}.{getattr(build, '__qualname__', type(build).__qualname__)}"


def _split_reference(reference: str) -> tuple[str, str]:
    place, colon, name = reference.rpartition(":")
    # The colon of a Windows drive is followed by a path.
    if not colon or "/" in name or "\\" in name:
        return reference, ""
    return place, name


@contextmanager
def _importing(what: str) -> Iterator[None]:
    """Say what is wrong with a user's code, whatever it raises; an error of ours says it itself."""
    try:
        yield
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"cannot import {what}: {type(error).__name__}: {error}"
        ) from error


def _import_module(name: str) -> ModuleType:
    with _importing(repr(name)):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"cannot import {name!r}: {error}",
                hint="name a module that Python finds, or a file that ends in .py",
            ) from error


def _import_file(path: Path) -> ModuleType:
    path = _existing(path)
    for module in list(sys.modules.values()):
        # A file that is here already, as the program itself or as a module, is not run twice.
        if _file(module).name == path.name and _file(module).resolve() == path:
            return module
    # The stem alone could hide a module of the standard library.
    name = f"{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _importing(str(path)):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _existing(path: Path) -> Path:
    try:
        found = path.resolve()
        if found.is_file():
            return found
    except (OSError, ValueError, RuntimeError) as error:
        # Too long a name, a NUL in it, a loop of links.
        raise ConfigurationError(f"{str(path)!r} cannot be a file: {error}") from error
    raise ConfigurationError(f"there is no file {found}")
