"""What is fit to be averaged: every reason to refuse, and nothing that breaks the judge."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axon.compression.codecs import CODECS
from axon.report.records import from_line, to_line
from axon.rounds.judge import Verdict, judge, shortened
from axon.values import Declined, DeviceRecord, Order, RoundRecord, Timings, Update, Vector
from tests.rounds.worlds import PARAMETERS, SPEC, order_of, update_for

HUGE = 10**5000
"""A whole number that Python will not turn into text."""
REFERENCE: Vector = np.linspace(-1, 1, PARAMETERS, dtype=np.float32)
ORDER: Order = order_of()
FIT: Update = update_for(ORDER, REFERENCE + 1)


def judged(answer: object, *, codec: str = "plain", most: int | None = 8) -> Verdict:
    return judge(answer, ORDER, reference=REFERENCE, codec=CODECS[codec], most_batches=most)


def refused(answer: object, **options: Any) -> str:
    verdict = judged(answer, **options)
    assert (verdict.status, verdict.update, verdict.vector) == ("refused", None, None)
    return verdict.reason


def changed(**fields: Any) -> Update:
    return replace(FIT, **fields)


def carrying(vector: Any) -> Update:
    return changed(payload={"parameters": vector})


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_a_fit_update_is_used(codec: str) -> None:
    update = changed(payload=CODECS[codec].encode(REFERENCE + 1, REFERENCE), batches=8)
    verdict = judged(update, codec=codec)
    assert (verdict.status, verdict.reason, verdict.update) == ("used", "", update)
    assert verdict.vector is not None
    assert verdict.vector == pytest.approx(REFERENCE + 1, abs=1e-3)


@pytest.mark.parametrize(
    "fields",
    [
        {"loss": math.nan},
        {"loss": -math.inf},
        {"halted": True},
        {"timings": Timings(download_s=0.0, train_s=1e300)},
        {"shards": 0, "samples": 0},
    ],
)
def test_what_may_be_odd_about_a_fit_update(fields: dict[str, Any]) -> None:
    assert judged(changed(**fields)).status == "used"


def test_a_learner_may_decline() -> None:
    declined = Declined(run="run", cycle=3, device="pi-1", reason="busy")
    assert judged(declined) == Verdict("declined", "busy")
    assert judged(replace(declined, reason=HUGE)).reason == "a value of type int"  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [None, 3, "text", {"run": "run"}, [FIT], ORDER, Update])
def test_what_is_not_an_update(answer: object) -> None:
    assert refused(answer) == f"answered with {type(answer).__name__}, not an update"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"run": "other"}, "answered for run other, not run"),
        ({"run": None}, "answered for run a value of type NoneType, not run"),
        ({"run": np.array(["run", "run"])}, "answered for run a value of type ndarray, not run"),
        ({"cycle": 2}, "answered for cycle 2, not 3"),
        ({"cycle": 3.0}, "answered for cycle 3.0, not 3"),
        ({"cycle": HUGE}, "answered for cycle a value of type int, not 3"),
        ({"device": "pi-2"}, "answered as pi-2, not pi-1"),
        ({"device": "\x1b[2J\n\u202epi"}, "answered as  [2J  pi, not pi-1"),
    ],
)
def test_an_update_of_something_else(fields: dict[str, Any], reason: str) -> None:
    assert refused(changed(**fields)) == reason


@pytest.mark.parametrize("name", ["batches", "samples", "shards"])
@pytest.mark.parametrize(
    "value",
    [-1, True, 2.0, math.nan, "2", None, [2], np.int64(2), 2**53 + 1, HUGE, -HUGE],
    ids=shortened,
)
def test_a_count_that_is_none(name: str, value: Any) -> None:
    assert refused(changed(**{name: value}), most=None).startswith(
        f"{name} must be a whole number up to 2^53, got "
    )


def test_nobody_can_have_trained_more_than_he_was_given() -> None:
    assert judged(changed(batches=8)).status == "used"
    assert refused(changed(batches=9)) == "claims 9 batches, its share has 8"
    assert judged(changed(batches=9), most=None).status == "used"
    assert refused(changed(batches=0)) == "trained no batch"


@pytest.mark.parametrize(
    "fields", [{"loss": "0.5"}, {"loss": 1}, {"loss": None}, {"halted": 1}, {"halted": None}]
)
def test_a_loss_or_halt_of_another_kind(fields: dict[str, Any]) -> None:
    assert refused(changed(**fields)) == "loss must be a number and halted a truth value"


@pytest.mark.parametrize(
    "timings",
    [
        (0.1, 0.2),
        {"download_s": 0.1, "train_s": 0.2},
        Timings(download_s=-0.1, train_s=0.2),
        Timings(download_s=0.1, train_s=math.nan),
        Timings(download_s=math.inf, train_s=0.2),
        Timings(download_s="0.1", train_s=0.2),  # type: ignore[arg-type]
        Timings(download_s=True, train_s=0.2),
    ],
)
def test_timings_of_another_kind(timings: Any) -> None:
    assert refused(changed(timings=timings)) == "timings must be two numbers of seconds"


@pytest.mark.parametrize(
    "payload",
    [
        None,
        "parameters",
        [("parameters", REFERENCE)],
        {},
        {"parameters": REFERENCE, "more": REFERENCE},
        {"changes": REFERENCE},
        {"parameters": REFERENCE.tolist()},
        {"parameters": np.array([REFERENCE, None], dtype=object)},
        {"parameters": np.array([object()] * PARAMETERS)},
        {3: HUGE},
        CODECS["half"].encode(REFERENCE, REFERENCE),
    ],
)
def test_a_payload_that_the_codec_did_not_make(payload: Any) -> None:
    assert refused(changed(payload=payload)).startswith("its payload cannot be read: ")


@pytest.mark.parametrize(
    "vector",
    [
        REFERENCE[:-1],
        REFERENCE[:0],
        REFERENCE.reshape(2, -1),
        np.float32(1),
        REFERENCE.astype(np.float64),
        REFERENCE.astype(">f4"),
        REFERENCE.astype(np.int32),
        REFERENCE.astype(np.complex64),
    ],
)
def test_parameters_of_another_shape_or_type(vector: Any) -> None:
    assert refused(carrying(vector)).startswith("its payload cannot be read: parameters must be ")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_parameters_that_are_not_finite(value: float) -> None:
    vector = REFERENCE.copy()
    vector[[2, 5]] = value
    assert refused(carrying(vector)) == f"2 of {PARAMETERS} parameters are not finite"


def test_parameters_whose_squares_overflow_are_no_model() -> None:
    vector = np.zeros(PARAMETERS, np.float32)
    vector[3] = np.finfo(np.float32).max
    verdict = judged(carrying(vector))
    assert (verdict.status, "squares overflow" in verdict.reason) == ("refused", True)
    vector[3] = 1e18
    assert judged(carrying(vector)).status == "used"


def test_nobody_saw_more_samples_than_fit_in_his_batches() -> None:
    update = changed(batches=2, samples=2 * SPEC.batch_size)
    assert judged(update).status == "used"
    verdict = judged(replace(update, samples=2 * SPEC.batch_size + 1))
    assert (verdict.status, "samples in 2 batches" in verdict.reason) == ("refused", True)


def test_a_codec_that_decodes_to_anything_is_not_believed_either() -> None:
    class Odd:
        encode = CODECS["plain"].encode

        def decode(self, payload: Any, reference: Vector) -> Any:
            return payload["parameters"]

    for vector, reason in (
        (REFERENCE.tolist(), "parameters must be float32, got list"),
        (REFERENCE.astype(np.float64), "parameters must be float32, got float64"),
        (REFERENCE[:3], f"parameters have shape (3,), wanted ({PARAMETERS},)"),
    ):
        verdict = judge(
            carrying(vector), ORDER, reference=REFERENCE, codec=Odd(), most_batches=None
        )
        assert verdict == Verdict("refused", reason)


def test_what_a_learner_says_is_shortened_and_cleaned() -> None:
    assert shortened("a\x00\x07\x1b[31m\r\nb\ud800") == "a   [31m  b "
    assert shortened("x" * 201) == "x" * 200 + "…"
    assert shortened("x" * 200) == "x" * 200


# --- whatever may come -------------------------------------------------------------------------

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.booleans().map(lambda negative: -HUGE if negative else HUGE),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.sampled_from([REFERENCE, REFERENCE[:1], np.array([None, 1]), np.zeros(0), np.float64(1)]),
    st.sampled_from([FIT, ORDER, Update, Timings(download_s=0.0, train_s=1.0), 1j, ..., {1, 2}]),
)
junk = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(max_size=4), st.just("parameters")), inner, max_size=3),
    ),
    max_leaves=6,
)
names = st.sampled_from(list(Update.__slots__))


@given(st.dictionaries(names, junk, max_size=4), junk, st.sampled_from(sorted(CODECS)))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_that_a_learner_sends_raises(
    fields: dict[str, Any], other: object, codec: str
) -> None:
    answers = (other, changed(**fields), Declined(run="", cycle=0, device="", reason=other))  # type: ignore[arg-type]
    for answer in answers:
        verdict = judged(answer, codec=codec, most=None)
        assert verdict.status in ("used", "refused", "declined")
        assert len(verdict.reason) < 600
        assert verdict.reason.isprintable()
        if verdict.status == "used":
            assert verdict.update is not None
            _check_recordable(verdict.update)


def _check_recordable(update: Update) -> None:
    """What is used ends up in a record, and in a sum of floats."""
    device = DeviceRecord(
        device="pi-1",
        status="used",
        shards=update.shards,
        batches=update.batches,
        samples=update.samples,
        timings=update.timings,
    )
    record = RoundRecord(
        run="run",
        cycle=3,
        started_s=0.0,
        ended_s=1.0,
        deadline_s=1.0,
        devices=(device,),
        batches=int(float(update.batches)),
    )
    assert from_line(to_line(record)) == record
