"""Several results as one page of HTML, which needs no server, no other file and no network.

Figures are pictures inside the page, so that the names of their parts cannot meet.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass

from axon.experiments.registry import find
from axon.experiments.result import Claim, Result, measured, published, verdict
from axon.experiments.settings import Settings
from axon.report.tables import html_table
from axon.version import __version__

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --faint: #666; --line: #ddd;
  --good: #00694d; --bad: #a84300; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e4e4; --paper: #161616; --faint: #a0a0a0; --line: #3a3a3a;
    --good: #3fc79b; --bad: #ff9152; }
  img { filter: invert(0.91) hue-rotate(180deg); }
}
body { margin: 0 auto; max-width: 46rem; padding: 1rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
img { width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.8rem; }
th, td { padding: 0.15rem 0.6rem 0.15rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.faint { color: var(--faint); font-size: 0.85rem; }
.holds, .fails { font-weight: 600; white-space: nowrap; }
.holds { color: var(--good); }
.fails { color: var(--bad); }
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A result, and its figure as SVG where it could be drawn."""

    result: Result
    drawing: str | None


def page(sections: Sequence[Section], settings: Settings) -> str:
    """The whole page."""
    claims = [claim for each in sections for claim in each.result.claims]
    held = sum(claim.holds for claim in claims)
    how = "a quick look: fewer repeats, smaller data" if settings.quick else "in full"
    contents = "\n".join(
        f'<li><a href="#{each.result.name}">{html.escape(each.result.title)}</a>: '
        f"{_count(each.result.claims)}</li>"
        for each in sections
    )
    body = "\n".join(_section(each, settings) for each in sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Published results, measured again</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Published results, measured again</h1>
<p>{held} of {len(claims)} claims hold. What does not hold says why.</p>
<p class="faint">Axon {__version__}, seed {settings.seed}, run {how}.
Numbers behind ± are 95 % intervals over the repeats.</p>
<ul>
{contents}
</ul>
{body}
</body>
</html>
"""


def _section(section: Section, settings: Settings) -> str:
    result = section.result
    picture = "" if section.drawing is None else _picture(section.drawing, result.title)
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in result.notes)
    return f"""<h2 id="{result.name}">{html.escape(result.title)}</h2>
<p class="faint">{html.escape(find(result.name).source)}.
{_what_was_run(result, settings)}</p>
{picture}
<div class="scroll">
<table>
<thead><tr><th>claim</th><th>paper</th><th>measured</th><th>verdict</th></tr></thead>
<tbody>
{"".join(map(_claim_row, result.claims))}</tbody>
</table>
</div>
{f"<ul>{notes}</ul>" if notes else ""}
<details><summary>{len(result.rows)} rows of numbers</summary>
<div class="scroll">
{html_table(result.rows)}
</div>
</details>"""


def _what_was_run(result: Result, settings: Settings) -> str:
    command = f"axon reproduce {result.name} --seed {settings.seed} --repeats {result.repeats}"
    command += f" --dataset {result.dataset}" if result.dataset else ""
    command += " --quick" if settings.quick else ""
    return f"Run again with <code>{html.escape(command)}</code>."


def _picture(drawing: str, title: str) -> str:
    data = base64.b64encode(drawing.encode()).decode()
    return f'<img alt="{html.escape(title)}" src="data:image/svg+xml;base64,{data}">'


def _claim_row(claim: Claim) -> str:
    why = f'<br><span class="faint">{html.escape(claim.why)}</span>' if claim.why else ""
    return (
        f"<tr><td>{html.escape(claim.claim)}{why}</td>"
        f"<td>{html.escape(published(claim))}</td><td>{html.escape(measured(claim))}</td>"
        f'<td class="{"holds" if claim.holds else "fails"}">{verdict(claim)}</td></tr>\n'
    )


def _count(claims: Sequence[Claim]) -> str:
    return f"{sum(claim.holds for claim in claims)} of {len(claims)} claims hold"
