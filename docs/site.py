"""What the site adds to the pages: the examples as pages, and a place for pages nobody placed."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_config(config: Any) -> Any:
    """Put pages that no entry names under Systems, and every example under Examples."""
    named = set(_pages(config.nav))
    left = sorted(page.name for page in Path(config.docs_dir).glob("*.md"))
    systems = next(entry["Systems"] for entry in config.nav if "Systems" in entry)
    systems += [page for page in left if page not in named]
    examples = [{name: f"examples/{name}.md"} for name in _examples()]
    config.nav.insert(-1, {"Examples": examples})
    return config


def on_files(files: Files, config: Any) -> Files:
    """A page for each example: what it says of itself, then its files."""
    for name in _examples():
        page = f"examples/{name}.md"
        files.append(File.generated(config, page, content=_page(ROOT / "examples" / name)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead from the folder of an example, which is not part of the site, to its page."""
    for name in _examples():
        markdown = markdown.replace(f"](../examples/{name})", f"](examples/{name}.md)")
    return markdown.replace("](../../docs/", "](../")


def _examples() -> list[str]:
    return sorted(main.parent.name for main in (ROOT / "examples").glob("*/main.py"))


def _page(folder: Path) -> str:
    told = folder / "README.md"
    main = (folder / "main.py").read_text()
    start = told.read_text() if told.exists() else f"# {folder.name}\n\n{_docstring(main)}"
    parts = [start]
    for file in sorted(folder.rglob("*")):
        if file.suffix in {".py", ".toml"} and "__pycache__" not in file.parts:
            path = file.relative_to(ROOT)
            parts.append(f"## {path}\n\n```{file.suffix[1:]}\n{file.read_text()}```")
    return "\n\n".join(parts) + "\n"


def _docstring(code: str) -> str:
    """The docstring of a program, its commands as code."""
    first, _, rest = (ast.get_docstring(ast.parse(code)) or "").partition("\n")
    return f"{first}\n\n```\n{rest.strip()}\n```" if rest.strip() else first


def _pages(entries: Any) -> list[str]:
    """The files that a part of the navigation names."""
    if isinstance(entries, str):
        return [entries]
    inner = entries.values() if isinstance(entries, dict) else entries
    return [page for entry in inner for page in _pages(entry)]
