"""What every experiment can be told, and what it trains on."""

from __future__ import annotations

from pathlib import Path

import pytest

from axon.data import datasets, locate
from axon.data.datasets import Dataset
from axon.errors import ConfigurationError
from axon.experiments.settings import Settings, load_dataset


@pytest.fixture
def no_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, *, seed: int = 0) -> Dataset:
        if name == "mnist":
            raise ConfigurationError("mnist is not on this device")
        return digits

    digits = datasets.load("digits")
    monkeypatch.setattr(datasets, "load", load)


def test_repeats_are_the_experiments_own_unless_somebody_says() -> None:
    assert Settings().repeated(30, 3) == 30
    assert Settings(quick=True).repeated(30, 3) == 3
    assert Settings(quick=True, repeats=7).repeated(30, 3) == 7


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("seed", -1, "seed must be at least 0, got -1"), ("repeats", 0, "from 1 to 10000, got 0")],
)
def test_numbers_that_cannot_be_meant(field: str, value: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Settings(**{field: value})  # type: ignore[arg-type]  # a field by its name


def test_a_named_data_set_needs_no_note() -> None:
    found, note = load_dataset(Settings(dataset="synthetic"))
    assert (found.name.partition(":")[0], note) == ("synthetic", "")


def test_a_quick_look_says_that_it_trains_on_digits() -> None:
    found, note = load_dataset(Settings(quick=True))
    assert found.name == "digits"
    assert "digits" in note


@pytest.mark.usefixtures("no_mnist")
def test_without_mnist_digits_take_its_place_and_the_note_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(locate, "find", lambda source, file: None)
    found, note = load_dataset(Settings())
    assert found.name == "digits"
    assert "not to be had on this machine" in note


@pytest.mark.usefixtures("no_mnist")
def test_files_that_are_there_and_wrong_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "find", lambda source, file: Path(file))
    with pytest.raises(ConfigurationError, match="mnist is not on this device"):
        load_dataset(Settings())
