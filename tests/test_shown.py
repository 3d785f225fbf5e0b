"""Values in a notebook: tables in which nothing that others named is obeyed."""

from __future__ import annotations

import html
from dataclasses import dataclass

import pytest

from axon.rounds.settings import Run, Scheme, Survey
from axon.shown import MOST_ROWS, Shown, parts_table, table
from axon.values import Capability, DeviceRecord, Plan, RoundRecord, Share, TaskSpec

HOSTILE = "<script>alert('pi')</script>"


def test_a_value_is_a_table_of_its_fields() -> None:
    shown = Capability(shards_per_s=0.8, bytes_per_s=1e6)._repr_html_()
    assert shown == (
        "<table><tr><th></th><th>Capability</th></tr>"
        "<tr><td>shards_per_s</td><td>0.8</td></tr>"
        "<tr><td>bytes_per_s</td><td>1e+06</td></tr></table>"
    )


def test_a_plan_has_a_row_for_each_device() -> None:
    shares = {"pi-1": Share(shards=3), HOSTILE: Share(shards=None, passes=2)}
    shown = Plan(cycle=1, deadline_s=2.0, shares=shares)._repr_html_()
    assert "<tr><td>pi-1</td><td>3</td><td>1</td></tr>" in shown
    assert f"<tr><td>{html.escape(HOSTILE)}</td><td></td><td>2</td></tr>" in shown
    assert "<script" not in shown


@pytest.mark.parametrize("field", ["device", "reason"])
def test_what_others_named_is_escaped(field: str) -> None:
    words = {"device": "pi", "reason": ""} | {field: HOSTILE}
    device = DeviceRecord(status="failed", **words)  # type: ignore[arg-type]
    record = RoundRecord(
        run='"><img src=x onerror=alert(1)>',
        cycle=1,
        started_s=0.0,
        ended_s=1.0,
        deadline_s=2.0,
        devices=(device,),
        batches=0,
    )
    shown = record._repr_html_()
    assert html.escape(HOSTILE) in shown
    assert "<script" not in shown
    assert "<img" not in shown
    assert repr(record).startswith("RoundRecord(run=")


def test_headings_are_escaped_too() -> None:
    assert table([["<b>"], ["<i>"]]) == (
        "<table><tr><th>&lt;b&gt;</th></tr><tr><td>&lt;i&gt;</td></tr></table>"
    )


def test_a_long_text_and_many_rows_are_cut() -> None:
    assert table([[], ["x" * 1000]]).count("x") == 200
    shown = parts_table({f"pi-{each}": Share(shards=1) for each in range(MOST_ROWS + 7)})
    assert "and 7 more" in shown
    assert shown.count("<tr>") == MOST_ROWS + 2


def test_no_device_is_an_empty_table() -> None:
    assert parts_table({}) == "<table><tr><th></th></tr></table>"
    assert "<td>shares</td><td>{}</td>" in Plan(cycle=1, deadline_s=1.0, shares={})._repr_html_()


def test_only_what_has_fields_can_be_shown() -> None:
    @dataclass
    class Empty(Shown):
        pass

    class Bare(Shown):
        pass

    assert "Empty" in Empty()._repr_html_()
    with pytest.raises(AssertionError, match="Bare has no fields"):
        Bare()._repr_html_()


def test_a_run_and_a_scheme_are_tables_with_functions_by_name() -> None:
    spec = TaskSpec(net="twonn", inputs=(1, 8, 8), classes=10)
    run = Run(spec=spec, cycles=3, deadline_s=1.5, shard_samples=50, name=HOSTILE)
    assert "<tr><td>deadline_s</td><td>1.5</td></tr>" in run._repr_html_()
    assert "<td>net</td><td>twonn</td>" in run._repr_html_()
    assert "<script" not in run._repr_html_()
    scheme = Scheme(survey=Survey(shards=4))._repr_html_()
    assert "<tr><td>sample</td><td>draw_uniform</td></tr>" in scheme
    assert "<td>allocate</td><td>Open(" in scheme
    assert "<tr><td>shards</td><td>4</td></tr>" in scheme
