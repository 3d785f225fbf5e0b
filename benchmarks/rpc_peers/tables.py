"""Plain text tables, each with its ratio against the first row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rpc_peers.measures import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What one table shows: its title and its metrics with the head and format of each."""

    title: str
    columns: tuple[tuple[str, str, str], ...]
    """metric, head, format"""
    baseline: str | None = None
    """The row the first column is divided by."""


TABLES = {
    "echo": Table(
        title="1. Echo of 64 bytes, one caller (microseconds)",
        columns=(("p50_us", "p50", ".1f"), ("p99_us", "p99", ".1f")),
        baseline="raw, event loop",
    ),
    "in_flight": Table(
        title="2. Echo of 64 bytes, 64 in flight (calls a second)",
        columns=(("calls_per_s", "calls/s", ",.0f"),),
        baseline="raw, 64 connections",
    ),
    "bulk": Table(
        title="3. 64 MB float32 array there and back (MB/s, both directions counted)",
        columns=(("mb_per_s", "MB/s", ",.0f"),),
        baseline="raw, one buffer kept",
    ),
    "gather": Table(
        title="4. The fastest 40 of 50 workers (ms beyond the 40th work time)",
        columns=(("overhead_ms", "overhead", ".2f"),),
    ),
    "import": Table(
        title="5a. Importing (ms, a whole interpreter; and beyond a bare one)",
        columns=(("import_ms", "total", ".1f"), ("beyond_bare_ms", "beyond", ".1f")),
    ),
    "worker": Table(
        title="5b. A worker: start to first answer (ms), memory after a few calls (MB)",
        columns=(("first_answer_ms", "first", ".0f"), ("idle_rss_mb", "RSS", ".1f")),
    ),
}


def render(table: Table, rows: Mapping[str, Measured], failures: Mapping[str, str]) -> str:
    """The table as text; rows that failed say why."""
    heads = "".join(f"{head:>12}" for _, head, _ in table.columns)
    lines = [table.title, f"  {'':<34}{heads}" + (f"{'x first':>12}" if table.baseline else "")]
    for name, measured in rows.items():
        values = "".join(f"{measured[metric]:>12{shape}}" for metric, _, shape in table.columns)
        lines.append(f"  {name:<34}{values}{_ratio(table, rows, measured)}")
    lines.extend(f"  {name:<34}failed: {reason}" for name, reason in failures.items())
    return "\n".join(lines)


def _ratio(table: Table, rows: Mapping[str, Measured], measured: Measured) -> str:
    if table.baseline is None or table.baseline not in rows:
        return ""
    metric = table.columns[0][0]
    return f"{measured[metric] / rows[table.baseline][metric]:>12.2f}"
