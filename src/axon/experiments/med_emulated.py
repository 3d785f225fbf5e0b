"""A spot check of the simulated world: one MED plan again in real processes, over real HTTP.

Three devices and two tasks that are small, so that it takes half a minute. The devices are slower
than those of the experiment, because the machine has to train for all of them at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from axon.experiments.med_sweep import LABELS
from axon.experiments.med_trial import Outcome, Planner, outcome, side_by_side, tried
from axon.experiments.med_world import Request, Trial, nano
from axon.experiments.result import Claim, Row
from axon.experiments.settings import Settings
from axon.report.tables import Cell
from axon.seeds import derive
from axon.testbed.emulation import Emulation, emulated

REQUESTS = (
    Request("MNIST_FFN", "threenn", 2, 8.0, 6),
    Request("MNIST_CNN", "convnet", 1, 8.0, 6),
)
LEARNERS, CYCLES = 3, 2
SLOW = 0.25
"""Times as fast as the catalogue's Nano."""
WITHIN = 10.0
"""In per cent: emulated times are those of a busy machine."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check adds to a result."""

    rows: tuple[Row, ...]
    claim: Claim


def check(settings: Settings) -> Checked:
    """The same plan, states and shares in both worlds."""
    trial = Trial(
        seed=derive(settings.seed, "spot check"),
        requests=REQUESTS,
        learners=LEARNERS,
        budget=300.0,
        cycles=CYCLES,
        device=nano(SLOW),
    )
    settings.progress("a spot check in the emulated world")
    return compared(tried(trial, "MED"), in_processes(trial))


def in_processes(trial: Trial) -> Outcome:
    """One trial in the emulated world; for real, so updates are averaged."""
    planner = Planner(trial, "MED")
    habits = {name: trial.habit(name) for name in trial.names}
    world = emulated(trial.devices, seed=trial.seed, emulation=Emulation(activity=habits))
    records = world.run(lambda fleet: side_by_side(trial, planner, fleet.part, averages=True))
    return outcome(trial, records, planner)


def compared(simulated: Outcome, emulated: Outcome) -> Checked:
    """Two rows, and by how much the emulated time is the longer."""
    longer = 100.0 * (emulated.time_s / simulated.time_s - 1.0)
    claim = Claim(
        claim=f"a spot check in real processes takes within {WITHIN:g} % of the simulated time",
        paper=None,
        measured=longer,
        unit="% longer",
        holds=abs(longer) <= WITHIN,
        why=f"{CYCLES} cycles of {len(REQUESTS)} small tasks on {LEARNERS} slow devices, once, on "
        "whatever else this machine was doing",
    )
    return Checked((_row("simulated", simulated), _row("emulated", emulated)), claim)


def _row(world: str, found: Outcome) -> Row:
    cells: dict[str, Cell] = {"learners": LEARNERS, "scheme": f"MED, spot check, {world}"}
    for metric, label in LABELS.items():
        cells[label] = float(getattr(found, metric))
    return cells | {"plans relaxed [%]": found.relaxed}
