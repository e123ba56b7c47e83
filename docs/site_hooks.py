"""What MkDocs needs to show pages that live beside the code they describe: those outside docs/ are
given a place in the site."""

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
    "src/dexengines/*/README.md",
    "experiments/README.md",
    "experiments/*/README.md",
)
"""Pages outside docs/; they keep their path in the site, the folder src/dexstack left out."""
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def _uri(path: Path) -> str:
    """Where a page of the repository is in the site."""
    return path.as_posix().removeprefix("docs/").removeprefix("src/dexstack/")


def _pages() -> dict[Path, str]:
    inside = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.*")]
    outside = [path.relative_to(ROOT) for pattern in OUTSIDE for path in ROOT.glob(pattern)]
    return {path: _uri(path) for path in (*inside, *outside)}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages outside docs/."""
    for path, uri in _pages().items():
        if path.parts[0] != "docs":
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links, which are right in the repository, be right in the site; what the site does not
    have is named without a link.

    A link to what the repository does not have stays as it is: the strict build refuses it.
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
