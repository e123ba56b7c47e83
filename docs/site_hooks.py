"""MkDocs hooks that add pages which live next to the code to the site."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = (
    "hardware/*.md",
    "docker/README.md",
    "src/dexengines/**/README.md",
    "experiments/README.md",
    "experiments/*/README.md",
)
"""Pages outside docs/. They keep their path in the site, without src/."""
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def _pages() -> dict[Path, str]:
    """Return the path in the site of every page and picture by its path in the repository."""
    outside = [path for pattern in OUTSIDE for path in ROOT.glob(pattern)]
    paths = (path.relative_to(ROOT) for path in (*(ROOT / "docs").rglob("*.*"), *outside))
    return {path: path.as_posix().removeprefix("docs/").removeprefix("src/") for path in paths}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages outside docs/."""
    for path, uri in _pages().items():
        if path.parts[0] != "docs":
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links that are valid in the repository into links of the site.

    A link to a file that the site lacks becomes plain text. A link to a missing file stays, so that the
    strict build rejects it.
    """
    pages = _pages()
    here = next(path for path, uri in pages.items() if uri == page.file.src_uri)

    def moved(match: re.Match[str]) -> str:
        target = match["target"]
        if re.match(r"[a-z]+:", target):
            return match[0]
        path = Path(os.path.normpath(here.parent / target))
        if path in pages:
            uri = os.path.relpath(pages[path], Path(page.file.src_uri).parent)
            return f"[{match['text']}]({uri}{match['anchor'] or ''})"
        return match["text"] if (ROOT / path).exists() else match[0]

    return _LINK.sub(moved, markdown)
