"""What runs on a device: tasks and their nets, training, evaluation.

    from axon.learning import define

Names are loaded when first used, since behind most of them stands torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from axon.lazy import lazily
from axon.values import TaskSpec

if TYPE_CHECKING:
    from axon.learning.evaluation import evaluate, flops_per_sample
    from axon.learning.loop import LoopTrainer
    from axon.learning.nets import initial
    from axon.learning.tasks import (
        Blueprint,
        blueprint,
        build,
        cross_entropy,
        default_spec,
        define,
        load_tasks,
    )

__all__ = [
    "Blueprint",
    "LoopTrainer",
    "TaskSpec",
    "blueprint",
    "build",
    "cross_entropy",
    "default_spec",
    "define",
    "evaluate",
    "flops_per_sample",
    "initial",
    "load_tasks",
]

_HOMES = {
    "LoopTrainer": "loop",
    "evaluate": "evaluation",
    "flops_per_sample": "evaluation",
    "initial": "nets",
}

__getattr__ = lazily(
    __name__, {name: f"axon.learning.{_HOMES.get(name, 'tasks')}:{name}" for name in __all__}
)


def __dir__() -> list[str]:
    return sorted(__all__)
