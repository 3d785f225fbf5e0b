"""Fig. 3.2 again: what a prediction is off by, virtual time, real processes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from axon.devices.subset import Line, Method
from axon.experiments import sb_runtime, sb_timing
from axon.experiments.result import to_json
from axon.experiments.sb_runtime import SHARES, SIZES
from axon.experiments.sb_runtime_claims import HOST, Errors
from axon.experiments.sb_timing import METHODS, Effort, Fleetful, Timed, images, time_simulated
from axon.experiments.settings import Settings
from axon.learning.evaluation import flops_per_sample
from axon.testbed.catalogue import Device, device

pytestmark = pytest.mark.slow  # All together they take seconds.

SAMPLE_S = 0.001
TIMED = Timed(
    # A second that is paid once is what a ratio takes for a part of each shard.
    lines={(2, "affine"): Line(1.0, SAMPLE_S), (2, "ratio"): Line(0.0, 2 * SAMPLE_S)},
    shards=10,
    actual_s=5.0,
    flops=1e9,
)


def test_an_error_is_a_part_of_the_actual_time() -> None:
    assert TIMED.error(2, "affine") == pytest.approx(20.0)
    assert TIMED.error(2, "ratio") == pytest.approx(100.0)


def test_flops_are_reckoned_from_every_reference_and_averaged() -> None:
    # Twice as fast on paper, and it took 6 s for 20 shards: 3 s for these, so 6 s here.
    double = replace(TIMED, flops=2e9, shards=20, actual_s=6.0)
    alike = replace(TIMED, actual_s=4.0)
    assert TIMED.flops_error([double]) == pytest.approx(20.0)
    assert TIMED.flops_error([double, alike]) == pytest.approx(20.0)
    assert TIMED.flops_error([replace(alike, actual_s=5.0), double]) == pytest.approx(10.0)


def test_a_fleet_is_as_far_off_as_its_members_on_average_and_nobody_refers_to_itself() -> None:
    timed = {"a": TIMED, "b": replace(TIMED, actual_s=10.0)}
    errors = Errors([timed, timed], ("a", "b"), ("a", "b"))
    assert errors.subset(2, "affine").value == pytest.approx((20.0 + 40.0) / 2)
    assert errors.flops == pytest.approx([(100.0 + 50.0) / 2] * 2)
    assert errors.averages("affine") == pytest.approx([30.0, 30.0])
    assert errors.sizes == [2]
    assert Errors([timed], ("b",), ("a",)).flops == pytest.approx([50.0])


def test_images_are_bytes_of_the_shape_of_mnist() -> None:
    found = images(2, seed=3)
    assert found.inputs.shape == (1000, 784)
    assert found.nbytes == 1000 * (784 + 1)


@pytest.fixture(scope="module")
def simulated() -> Fleetful:
    return time_simulated({"pi-2": device("pi-2")}, {"pi-2": 15}, SIZES, seed=0)


def test_in_virtual_time_a_run_takes_its_batches(simulated: Fleetful) -> None:
    (timed,) = simulated.values()
    # 7500 samples are 234 batches of 32 and one of 12.
    flops = flops_per_sample(sb_timing.SPEC)
    pi = device("pi-2")
    assert timed.actual_s == pytest.approx(
        234 * pi.batch_s(flops, 32) + pi.batch_s(flops, 12), abs=1e-5
    )
    assert timed.flops == pi.flops_per_s


def test_in_virtual_time_only_the_last_batch_makes_a_difference(simulated: Fleetful) -> None:
    (timed,) = simulated.values()
    assert set(timed.lines) == {(size, method) for size in SIZES for method in METHODS}
    # 1000 samples pay for 32 batches, 2.4 % more than their part of 235.
    assert timed.error(2, "ratio") == pytest.approx(2.1, abs=0.3)
    assert timed.error(8, "ratio") < 0.5
    assert timed.error(8, "affine") < 1.0


def fake_emulation(
    groups: Sequence[Mapping[str, Device]],
    shares: Mapping[str, int],
    effort: Effort,
    settings: Settings,
) -> list[Fleetful]:
    """Benchmarks that tell the more the larger they are, with hardly any noise."""
    lines: dict[tuple[int, Method], Line] = {
        (size, method): Line(0.0, SAMPLE_S * (1 + 0.1 / size))
        for size in effort.sizes
        for method in METHODS
    }
    return [
        {
            name: Timed(
                lines=lines,
                shards=shares[name],
                actual_s=shares[name] * 500 * SAMPLE_S * (1 + part),
                # Twice as many from one to the next, though all of them train as fast.
                flops=1e9 * 2**place,
            )
            for place, name in enumerate(name for group in groups for name in group)
        }
        for part in (0.0, 0.0001)[: effort.repeats]
    ]


def test_the_quick_look_has_every_claim_in_both_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(quick=True)
    monkeypatch.setattr(sb_runtime, "time_emulated", fake_emulation)
    result = sb_runtime.run(settings)
    found = json.loads(json.dumps(to_json(result, settings), allow_nan=False))
    claims = {claim["claim"]: claim for claim in found["claims"]}
    assert len(claims) == 2 * 6 + 2
    for world in ("simulated", "emulated"):
        assert claims[f"SB cuts the error of FLOPS by 83 %, {world}"]["holds"]
        assert claims[f"the error of SB falls with the size of the benchmark, ratio, {world}"][
            "holds"
        ]
    # 10 % over the size, so 1.25 % with 8 shards.
    assert not claims["SB with 8 shards is within 1 %, ratio, emulated"]["holds"]
    host = claims[f"SB with 8 shards is within 5 %, ratio, {HOST}"]
    assert host["holds"]
    assert "the load of" in host["why"]
    assert any("without it their error would be" in note for note in result.notes)
    assert [row["world"] for row in result.rows].count("simulated") == len(SIZES)
    assert [row["shards"] for row in result.rows if row["world"] == HOST] == [2, 8]
    assert result.figure is not None
    assert [panel.title for panel in result.figure.panels] == ["simulated", "emulated", HOST]
    assert result.repeats == 2


def test_the_thesis_trains_the_same_shards() -> None:
    assert SHARES == {
        "rtx-2070-super": 120, "jetson-nano": 120, "pi-1": 15, "pi-2": 15, "pi-3": 15,
    }  # fmt: skip


@pytest.mark.alone
@pytest.mark.system
def test_real_processes_are_timed_at_the_pace_of_their_devices() -> None:
    pi = replace(device("pi-2"), flops_per_s=4e9, batch_overhead_s=0.02)
    (timed,) = sb_timing.time_emulated(
        ({"slow": pi},), {"slow": 4}, Effort(sizes=(2,), repeats=1, products=20), Settings()
    )
    # A product of 512 by 512 takes 67 ms at that rate; this machine makes several in that time.
    assert 2e9 < timed["slow"].flops < 4.4e9
    flops = flops_per_sample(sb_timing.SPEC)
    assert timed["slow"].actual_s == pytest.approx(63 * pi.batch_s(flops, 32), rel=0.1)
    assert timed["slow"].error(2, "ratio") < 20.0
