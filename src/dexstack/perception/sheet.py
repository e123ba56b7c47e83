"""Sheets of tags to print: PDF, true to scale, with cutting lines and a ruler to check the scale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dexstack.errors import ConfigError, writing
from dexstack.perception.bundle import Tag, TagBundle
from dexstack.perception.tags import MODULES, bitmap

PAPERS = {"a4": (210.0, 297.0), "letter": (215.9, 279.4)}
"""Width and height [mm]."""
MARGIN = 15.0
GAP = 8.0
"""Gap between two tags, for a line of text [mm]."""
RULER = 100.0
_BRIDGE = 0.05
"""Width of strips that join neighbouring white modules, against hairlines in viewers [mm]."""


def place(bundle: TagBundle, paper: str) -> list[list[tuple[Tag, float, float]]]:
    """Arrange tags on pages of (tag, left, bottom [mm] of its white border), row by row from the
    top.

    Raises:
        ConfigError: an unknown paper, or a tag that does not fit on it.
    """
    if paper not in PAPERS:
        raise ConfigError(f"the paper must be one of {', '.join(PAPERS)}, got '{paper}'")
    width, height = PAPERS[paper]
    bottom_edge = MARGIN + 20.0  # the ruler is below
    pages: list[list[tuple[Tag, float, float]]] = [[]]
    left, top, row = MARGIN, height - MARGIN, 0.0
    for tag in bundle.tags.values():
        side = whole(tag)
        if side > width - 2 * MARGIN or side > height - MARGIN - bottom_edge - GAP:
            raise ConfigError(
                f"the tag {tag.tag} with its border is {side:.0f} mm wide and does not fit on {paper}"
            )
        if left + side > width - MARGIN:
            left, top, row = MARGIN, top - row - GAP, 0.0
        if top - side - GAP < bottom_edge:
            pages.append([])
            left, top, row = MARGIN, height - MARGIN, 0.0
        pages[-1].append((tag, left, top - side))
        left += side + GAP
        row = max(row, side)
    return pages


def whole(tag: Tag) -> float:
    """Return the side of a tag with its white border [mm]."""
    return 1e3 * tag.edge * (MODULES + 2) / MODULES


def rectangles(tag: Tag) -> Iterator[tuple[bool, float, float, float, float]]:
    """Yield (white, left, bottom, width, height) [mm] in drawing order, from the lower left corner
    of the tag's white border."""
    m = 1e3 * tag.edge / MODULES
    yield False, m, m, MODULES * m, MODULES * m
    white = bitmap(tag.tag)[1:-1, 1:-1] > 0
    for i, j in zip(*np.nonzero(white), strict=True):
        left, bottom = (j + 1) * m, (MODULES - i) * m
        yield True, left, bottom, m, m
        if j + 1 < MODULES and white[i, j + 1]:
            yield True, left + m - _BRIDGE / 2, bottom, _BRIDGE, m
        if i + 1 < MODULES and white[i + 1, j]:
            yield True, left, bottom - _BRIDGE / 2, m, _BRIDGE


def write_sheet(path: str | Path, bundle: TagBundle, paper: str = "a4") -> int:
    """Write the tags of a bundle; return the number of pages.

    Raises:
        ConfigError: see :func:`place`, or the file cannot be written.
    """
    from matplotlib.backends.backend_pdf import PdfPages
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    pages = place(bundle, paper)
    width, height = PAPERS[paper]
    with writing(path), PdfPages(path, metadata={"Title": f"Tags of {bundle.name}"}) as pdf:
        for k, page in enumerate(pages):
            figure = Figure(figsize=(width / 25.4, height / 25.4))
            axes = figure.add_axes((0, 0, 1, 1))
            axes.set_xlim(0, width)
            axes.set_ylim(0, height)
            axes.axis("off")
            for tag, left, bottom in page:
                side, frame = whole(tag), {"fill": False, "edgecolor": "0.75", "linewidth": 0.2}
                axes.add_patch(Rectangle((left, bottom), side, side, **frame))
                for white, x, y, w, h in rectangles(tag):
                    colour = "white" if white else "black"
                    axes.add_patch(Rectangle((left + x, bottom + y), w, h, color=colour, linewidth=0))
                text = f"{bundle.name} {tag.tag}, {1e3 * tag.edge:g} mm, this way up"
                axes.text(left, bottom - 1.0, text, fontsize=6, va="top")
            text = (
                f"{bundle.name}, page {k + 1} of {len(pages)}: print at 100 %, matt; cut along the grey "
                "lines, glue flat"
            )
            _ruler(axes, text)
            pdf.savefig(figure)
    return len(pages)


def _ruler(axes, text: str) -> None:
    y = MARGIN
    axes.plot([MARGIN, MARGIN + RULER], [y, y], color="black", linewidth=0.4)
    for x in range(0, int(RULER) + 1, 10):
        axes.plot([MARGIN + x] * 2, [y, y + (4 if x % 50 == 0 else 2)], color="black", linewidth=0.4)
    axes.text(MARGIN, y - 1.5, f"{RULER:g} mm — measure it. {text}", fontsize=6, va="top")
