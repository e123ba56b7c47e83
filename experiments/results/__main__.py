"""Write docs/results.md, docs/results/*.md and the generated blocks of other pages from kept results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dexstack.errors import ConfigError
from experiments.results import claims
from experiments.results.pages import load_pages, render
from experiments.results.values import load_results

ROOT = Path(__file__).parents[2]
WITH_BLOCKS = ("README.md", "experiments/README.md", "docs/*.md", "hardware/*.md")
HEAD = """# Results

How well the parts work, each figure with the condition it was measured under. The *plant* is the
simulated robot under control, the *model* is the planner's own. Rates have Wilson's 95 % interval in
brackets. No figure comes from a real hand.

"""
RULES = """
Each page lists command, commit, machine and load of every run, requirements that were not met included.
`python -m experiments.results` writes this page and those it links to from the files in
`experiments/results`; the [experiments' rules](../experiments/README.md) say what a figure has to satisfy.
"""


def wanted_pages(root: Path = ROOT) -> dict[Path, str]:
    """Return the text of every generated page and of every page with generated blocks.

    Raises:
        ConfigError: If a page or a block names something that no result has.
    """
    documents = load_results(root / "experiments" / "results")
    results = root / "docs" / "results"
    wanted = {results / f"{name}.md": render(name, page, documents) for name, page in load_pages().items()}
    wanted[results.with_suffix(".md")] = HEAD + claims.claims_table(documents, "results") + RULES
    for path in (path for pattern in WITH_BLOCKS for path in sorted(root.glob(pattern))):
        if path not in wanted:
            wanted[path] = claims.fill(path.read_text(), documents, str(path.relative_to(root)))
    return wanted


def outdated(root: Path = ROOT) -> dict[Path, str | None]:
    """Return the pages that differ from their wanted text, with that text; None for a page to delete."""
    wanted = wanted_pages(root)
    stale: dict[Path, str | None] = {
        path: text for path, text in wanted.items() if not path.is_file() or path.read_text() != text
    }
    return stale | {path: None for path in (root / "docs" / "results").glob("*.md") if path not in wanted}


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Write or check the pages.

    Returns:
        0 if every page is current, 1 if ``--check`` found one that is not, 2 if the input is wrong.
    """
    parser = argparse.ArgumentParser(prog="python -m experiments.results", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 if a page is not current"
    )
    args = parser.parse_args(argv)
    try:
        stale = outdated(root)
    except ConfigError as error:
        print(f"experiments.results: {error}", file=sys.stderr)
        return 2
    for path, text in stale.items():
        if not args.check and text is None:
            path.unlink()
        elif not args.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        print(path.relative_to(root), "is not current" if args.check else "written" if text else "deleted")
    return int(args.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
