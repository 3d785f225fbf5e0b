"""All of it in one file: the page's own assets with the facts put in, for no network at all.

The modules of the page become one script: lines that import are left out, and so is the word
`export`. That is all, so they are written for it: every name of theirs is told once in all modules.
Facts are JSON in which nothing can end the element they stand in.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import msgspec
import numpy as np

from axon.dashboard.feed import Feed
from axon.dashboard.views import cycle_view, fixed_view, reasons_in, run_view, runs_view
from axon.dashboard.web import asset

MODULES = (
    "dom.js", "format.js", "place.js", "theme.js", "source.js", "canvas.js", "chart.js", "table.js",
    "run.js", "bars.js", "timeline.js", "overview.js", "sections.js", "main.js",
)  # fmt: skip
"""Each after those that it imports from."""

MOST_CELLS = 20_000
"""Of the timeline, in the whole file: about a megabyte."""

_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def page(feed: Feed) -> bytes:
    """The report of everything in the feed, as one file of HTML."""
    script, style, data = bundled(), asset("style.css").decode(), embedded(_facts(feed))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        f"script-src 'sha256-{digest}'"
    )
    html = asset("index.html").decode()
    for tag, instead in (
        (
            '<meta charset="utf-8">\n',
            '<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        ),
        ('<link rel="icon" href="assets/icon.svg">\n', ""),
        ('<link rel="stylesheet" href="assets/style.css">\n', f"<style>\n{style}</style>\n"),
        (
            '<script type="module" src="assets/main.js"></script>\n',
            f'<script type="application/json" id="axon-data">{data}</script>\n'
            f'<script type="module">{script}</script>\n',
        ),
    ):
        assert html.count(tag) == 1, f"the page has {tag!r} once"
        html = html.replace(tag, instead)
    return html.encode()


def bundled() -> str:
    """All modules as one script."""
    texts = [asset(name).decode() for name in MODULES]
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts)


def embedded(value: Any) -> str:
    """JSON that may stand in a `<script>`, whatever texts are in it."""
    text = msgspec.json.encode(value).decode()
    # Within JSON these stand in texts only, where an escape means the same.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _facts(feed: Feed) -> dict[str, Any]:
    with feed.reading():
        numbers = range(len(feed.courses))
        room = MOST_CELLS // max(1, len(feed.courses))
        timelines = {number: _timeline(feed, number, room) for number in numbers}
        left_out = any(
            len(told["cycles"]) < len(feed.courses[number].curves)
            for number, told in timelines.items()
        )
        return {
            "runs": runs_view(feed) | fixed_view() | {"token": None},
            "run": {number: run_view(feed, number) for number in numbers},
            "timeline": timelines,
            "note": "The timeline shows some of the cycles, evenly spread; the curves, all of them."
            if left_out
            else "",
        }


def _timeline(feed: Feed, number: int, room: int) -> dict[str, Any]:
    """As many cycles in detail as there is room for, evenly spread, the last one among them."""
    course = feed.courses[number]
    total = len(course.curves)
    count = min(total, max(1, room // max(1, len(course.members))))
    places = sorted({int(at) for at in np.linspace(total - 1, 0, count)}) if total else []
    cycles = [cycle_view(course, at) for at in places]
    return {"cycles": cycles, "reasons": reasons_in(course, cycles)}
