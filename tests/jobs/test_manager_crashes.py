"""A manager that dies at any time and is started again: the same bytes, nothing paid twice."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from axon.errors import ConfigurationError
from axon.jobs.ledger import money
from axon.jobs.submission import Prepared, Submission
from tests.jobs import scenes
from tests.jobs.scenes import Played, Scene, at, make, submission, submits

pytestmark = pytest.mark.slow  # All together they take seconds.

SCRIPT = at(
    (0.0, submits(submission("a"))),
    (0.1, submits(submission("b", cycles=6))),
    (0.5, submits(submission("c", shards=8, cycles=9))),
    (0.62, lambda manager, _: manager.cancel("c")),
    (0.7, submits(submission("e", shards=20, cycles=4))),
)
moments = st.floats(0.001, 1.4).filter(lambda at_s: at_s not in (0.1, 0.5, 0.62, 0.7))
"""Until all of it is done, about; at the times of the script it is open whether that was done."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Played:
    played = scene(tmp_path_factory.mktemp("whole")).play(SCRIPT)
    assert played is not None
    assert played.states() == {"a": "done", "b": "done", "c": "cancelled", "e": "done"}
    return played


def scene(folder: Path) -> Scene:
    return Scene(folder / "jobs.sqlite", 5, replan_every=2)


@pytest.mark.parametrize("crashes", [(0.05, 0.3), (0.55, 0.7, 0.9), (0.615, 1.1)])
def test_it_goes_on_as_if_nothing_had_happened(
    undisturbed: Played, tmp_path: Path, crashes: tuple[float, ...]
) -> None:
    disturbed = scene(tmp_path)
    for crash_s in crashes:
        assert disturbed.play(SCRIPT, crash_s=crash_s) is None
    played = disturbed.play(SCRIPT)
    assert played is not None
    assert played.lines == undisturbed.lines


@pytest.mark.slow
@settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(crashes=st.lists(moments, min_size=1, max_size=3).map(sorted))
def test_whenever_it_dies(undisturbed: Played, crashes: list[float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        disturbed = scene(Path(folder))
        for crash_s in crashes:
            disturbed.play(SCRIPT, crash_s=crash_s)
        played = disturbed.play(SCRIPT)
        assert played is not None
        assert played.lines == undisturbed.lines


def test_what_is_done_is_told_after_a_restart(tmp_path: Path) -> None:
    first = scene(tmp_path).play(SCRIPT)
    again = scene(tmp_path).play(at())
    assert first is not None
    assert again is not None
    assert again.views == first.views
    assert again.lines == first.lines


def test_less_money_after_a_restart_is_kept_to(tmp_path: Path) -> None:
    script = at(*((0.0, submits(submission(name, cycles=9))) for name in "ab"))
    disturbed = Scene(tmp_path / "jobs.sqlite", 4, budget=money(24))
    disturbed.play(script, crash_s=1.0)
    poorer = Scene(tmp_path / "jobs.sqlite", 4, budget=money(12))
    poorer.most = money(24)
    played = poorer.play(at())
    assert played is not None
    assert set(played.states().values()) == {"done"}
    assert played.ledger.spent() == 2 * 9 * 12
    spans = {name: [played.span(one) for one in played.records[name]] for name in "ab"}
    first_s = min(spans["b"][-1][0], spans["a"][-1][0])
    later = sorted(span for each in spans.values() for span in each if span[0] >= first_s)
    assert len(later) > 1
    assert all(one[1] <= other[0] + 1e-5 for one, other in pairwise(later)), "one after the other"


def test_one_whose_data_are_gone_fails_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = at(*((0.0, submits(submission(name, cycles=9))) for name in "ab"))
    scene(tmp_path).play(script, crash_s=1.0)

    def forgetful(asked: Submission) -> Prepared:
        if asked.name == "a":
            raise ConfigurationError("there is no data set any more")
        return make(asked)

    monkeypatch.setattr(scenes, "make", forgetful)
    played = scene(tmp_path).play(at())
    assert played is not None
    assert played.states() == {"a": "failed", "b": "done"}
    assert played.views["a"].reason == "there is no data set any more"


tasks = st.lists(
    st.fixed_dictionaries(
        {
            "at_s": st.floats(0.0, 2.0),
            "shards": st.integers(1, 30),
            "cycles": st.integers(1, 4),
            "passes": st.integers(1, 2),
            "deadline_s": st.floats(0.2, 2.0),
        }
    ),
    min_size=1,
    max_size=5,
)
faults = st.lists(
    st.tuples(
        st.floats(0.0, 3.0),
        st.sampled_from(["leave", "join", "crash", "start"]),
        st.sampled_from(["d1", "d2", "d3", "d4"]),
    ),
    max_size=5,
)


@pytest.mark.slow
# Without shrinking: one that never ended would not be shrunk before the end of time either.
@settings(max_examples=30, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(tasks, faults, st.integers(0, 60), st.lists(st.floats(0.0, 2.0), min_size=4, max_size=4))
def test_money_and_learners_in_any_scenario(
    asked: list[dict[str, Any]],
    happened: list[tuple[float, str, str]],
    budget: int,
    prices: list[float],
) -> None:
    steps: list[Any] = []
    for number, one in enumerate(asked):
        wanted = dict(one)
        steps.append((wanted.pop("at_s"), submits(submission(f"t{number}", **wanted))))
    for when_s, fault, name in happened:
        steps.append((when_s, lambda _, fleet, f=fault, n=name: getattr(fleet, f)(n)))
    with tempfile.TemporaryDirectory() as folder:
        named = {f"d{at + 1}": money(round(price, 3)) for at, price in enumerate(prices)}
        played = Scene(
            Path(folder) / "jobs.sqlite", 4, budget=money(budget), prices=named, time_limit_s=0.05
        ).play(at(*sorted(steps, key=lambda step: step[0])))
    assert played is not None  # What must hold is checked in `scenes.check`.
    for view in played.views.values():
        assert view.state in ("done", "failed", "waiting")
