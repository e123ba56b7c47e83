"""Report of a judged controller: one self-contained HTML page."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dexstack.files import write_text

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em}
table{border-collapse:collapse;margin:1em 0}
th,td{padding:.3em .7em;border-bottom:1px solid #ddd;text-align:right}
th:first-child,td:first-child{text-align:left}
figure{display:inline-block;margin:.5em}
figcaption{font-size:13px}"""
COLUMNS = (
    *("cell", "n", "success [%]", "95 % interval", "goals/min", "in a row"),
    *("drop", "servo trip", "plant failure", "stuck", "timeout"),
    *("at goals' ends [mm]", "at goals' ends [rad]"),
    *("deepest [mm]", "deeper than 2 mm [%]", "processor time p50/p99 [ms]"),
)


def cells_of(row: Mapping[str, Any]) -> list[str]:
    """Return the texts of :data:`COLUMNS` for the row of a cell."""
    low, high = row["success_interval"]
    depth, solve, ends = row["depth_m"], row["solve_s"], row["at_goal_ends"]
    return [
        " · ".join(row[name] for name in ("task", "plant", "world", "perception")),
        str(row["trials"]),
        f"{100 * row['success_rate']:.0f}",
        f"{100 * low:.0f}–{100 * high:.0f}",
        f"{row['goals_per_minute']:.1f}",
        f"{row['goals_in_a_row']['mean']:.1f}",
        *(str(row["ends"][end]) for end in COLUMNS[6:11]),
        f"{1e3 * ends['position_m']:.1f}",
        f"{ends['orientation_rad']:.2f}",
        f"{1e3 * depth['deepest']:.1f}",
        f"{100 * depth['share_deeper_than_2_mm']:.1f}",
        f"{1e3 * solve['p50']:.2f} / {1e3 * solve['p99']:.2f}",
    ]


def write_judgement(path: Path, results: Mapping[str, Any], films: Sequence[tuple[str, Path]]) -> Path:
    """Write the page.

    Args:
        results: ``controller``, ``object``, ``hand``, ``hash`` and the rows ``cells``.
        films: captions with GIF files, which are embedded.

    Raises:
        ConfigError: the file cannot be written.
    """
    head = "".join(f"<th>{html.escape(name)}</th>" for name in COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in cells_of(row)) + "</tr>"
        for row in results["cells"]
    )
    shown = "".join(
        f'<figure><img src="data:image/gif;base64,{base64.b64encode(film.read_bytes()).decode()}" '
        f'alt="{html.escape(caption)}"><figcaption>{html.escape(caption)}</figcaption></figure>'
        for caption, film in films
    )
    title = f"{results['controller']}: {results['object']}, {results['hand']} hand"
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1><table><tr>{head}</tr>{rows}</table>"
        f"<p>Protocol and code: <code>{results['hash']}</code></p>"
        f"{'<h2>Failures</h2>' if shown else ''}{shown}</html>"
    )
    write_text(path, page)
    return path
