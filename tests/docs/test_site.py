"""The documentation as a site: built without a warning, whole, and asking nobody else."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.found import ROOT

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        importlib.util.find_spec("material") is None,
        reason="mkdocs-material is not installed: pip install 'axon-edge[docs]'",
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    built = subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=ROOT,
        # A word on a later major version, which is none of ours.
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


def test_every_page_is_there_and_in_the_navigation(site: Path) -> None:
    front = (site / "index.html").read_text()
    pages = sorted((ROOT / "docs").rglob("*.md"))
    wanted = [page.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for page in pages]
    wanted += [f"examples/{main.parent.name}.html" for main in ROOT.glob("examples/*/main.py")]
    for page in wanted:
        assert (site / page).exists(), page
        assert f'href="{page}"' in front, f"{page} is not in the navigation"


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert (
            re.findall(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="?(?:https?:)?//', text) == []
        )
        assert "fonts.g" not in text
        assert "unpkg" not in text


def test_pages_include_files_that_are_tested(site: Path) -> None:
    page = (site / "write-your-own.html").read_text()
    assert "--8&lt;--" not in page
    for name in ("allocator.py", "aggregator.py", "tasks.py"):
        code = (ROOT / "examples/own" / name).read_text()
        assert len(code.splitlines()) < 30, name
    for word in ("QuickOnesFirst", "Middle", "Tanh"):
        assert word in page
    assert "NoNewPrivileges" in (site / "devices.html").read_text()


def test_public_names_are_in_the_reference(site: Path) -> None:
    import axon.aggregation
    import axon.attacks
    import axon.byzantine
    import axon.client
    import axon.data
    import axon.learning
    import axon.testbed
    import axon.topology
    import axon.worker

    rooms = (axon.aggregation, axon.attacks, axon.byzantine, axon.client, axon.data, axon.learning,
             axon.testbed, axon.topology, axon.worker)  # fmt: skip
    for module in rooms:
        page = site / "api" / f"{module.__name__.rpartition('.')[2]}.html"
        named = set(re.findall(rf'id="{module.__name__}\.(\w+)"', page.read_text()))
        told = {name for name in module.__all__ if getattr(module, name).__doc__}
        assert told - named == set(), page.name


def test_every_page_has_its_place_and_none_is_left_over() -> None:
    """What `docs/site.py` does for a page that nobody placed is for the day on which it is new."""
    placed = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.relative_to(ROOT / "docs").as_posix() in placed, page.name


def test_columns_of_a_docstring_stay_columns(site: Path) -> None:
    assert re.search(
        r"<code>[^<]*simulation  +one process", (site / "api/testbed.html").read_text()
    )


def test_it_can_be_searched_and_read_in_the_dark(site: Path) -> None:
    index = (site / "search/search_index.json").read_text()
    assert "shard_bound" in index
    assert "QuorumNotReached" in index
    assert 'data-md-color-scheme="slate"' in (site / "index.html").read_text()
