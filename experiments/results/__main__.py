"""``python -m experiments.results``: pages from the committed results.

Writes docs/results.md, the list of experiments in experiments/README.md, and every marked number in
README.md and docs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dexstack.errors import ConfigError
from experiments.results import report
from experiments.results.catalogue import listed
from experiments.results.marks import pages, rewritten
from experiments.results.values import load_results

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!--experiments-->", "<!--/experiments-->"


def outdated(root: Path = ROOT) -> dict[Path, str]:
    """Pages that are not what they would be, and what they would be.

    Raises:
        ConfigError: a mark or a table names what no result has.
    """
    documents = load_results(root / "experiments" / "results")
    wanted = {root / "docs" / "results.md": report.page(documents)}
    readme = root / "experiments" / "README.md"
    if readme.is_file():
        head, begin, rest = readme.read_text().partition(BEGIN)
        _, end, tail = rest.partition(END)
        if not (begin and end):
            raise ConfigError(f"{readme} has no place for the list of experiments, {BEGIN} … {END}")
        wanted[readme] = f"{head}{BEGIN}\n\n{listed()}\n{END}{tail}"
    for page in pages(root):
        if page.is_file() and page not in wanted:
            wanted[page] = rewritten(page.read_text(), documents, str(page.relative_to(root)))
    return {page: text for page, text in wanted.items() if not page.is_file() or page.read_text() != text}


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check.

    Returns:
        0 when every page is current (now), 1 when ``--check`` found one that is not, 2 when a mark
        or a table names no result.
    """
    parser = argparse.ArgumentParser(prog="python -m experiments.results", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 if a page is not what it would be"
    )
    args = parser.parse_args(argv)
    try:
        stale = outdated()
    except ConfigError as error:
        print(f"experiments.results: {error}", file=sys.stderr)
        return 2
    for page, text in stale.items():
        if not args.check:
            page.write_text(text)
        print(f"{page.relative_to(ROOT)} {'is not current' if args.check else 'was written'}")
    return int(args.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
