"""Records of cycles that never were, for what is read from them."""

from __future__ import annotations

from axon.experiments.runs import Repeats
from axon.values import DeviceRecord, RoundRecord


def record(
    *,
    cycle: int = 1,
    took_s: float = 1.0,
    deadline_s: float = 2.0,
    accuracy: float | None = None,
    loss: float | None = None,
    samples: int = 0,
) -> RoundRecord:
    """A cycle of one device."""
    return RoundRecord(
        run="run",
        cycle=cycle,
        started_s=0.0,
        ended_s=took_s,
        deadline_s=deadline_s,
        devices=(DeviceRecord(device="nano", status="used", shards=3, samples=samples),),
        batches=1,
        accuracy=accuracy,
        loss=loss,
    )


def trained(*repeats: list[tuple[float, float]], samples: int = 0) -> Repeats:
    """Repeats of which each cycle's accuracy and loss are given."""
    return Repeats(
        tuple(
            tuple(
                record(cycle=at, accuracy=right, loss=wrong, samples=samples)
                for at, (right, wrong) in enumerate(each, start=1)
            )
            for each in repeats
        )
    )


def timed(deadline_s: float, *repeats: list[float], samples: int = 0) -> Repeats:
    """Repeats of which each cycle's duration is given."""
    return Repeats(
        tuple(
            tuple(record(took_s=took_s, deadline_s=deadline_s, samples=samples) for took_s in each)
            for each in repeats
        )
    )
