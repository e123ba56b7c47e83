"""What a section of docs/results.md shows of a result. Expressions are those of :mod:`.values`."""

from __future__ import annotations

from typing import NamedTuple


class Figures(NamedTuple):
    """Single values: a label and an expression each."""

    rows: tuple[tuple[str, str], ...]


class Listing(NamedTuple):
    """One row per entry of a list or of a mapping, whose keys are then the entries' ``name``."""

    where: str
    columns: tuple[tuple[str, str], ...]
    """A heading and an expression within the entry; ``?`` before it where not every entry has
    it."""


class Whole(NamedTuple):
    """One row of the results themselves, with the columns of a listing."""

    columns: tuple[tuple[str, str], ...]


class Section(NamedTuple):
    """One result; without parts, whatever numbers stand on its top."""

    result: str
    """Name of the file, without its ending."""
    title: str
    parts: tuple[Figures | Listing | Whole, ...] = ()
    note: str = ""


TRIALS = (
    ("succeeded", "rate(success_rate, trials)"),
    ("dropped", "dropped"),
    ("stalls", "stalls"),
    ("goals reached", "goals_reached"),
    ("median time to a goal [s]", "goal_s.median:.2f"),
    ("orientation error, mean [rad]", "orientation_error_rad.mean:.3f"),
    ("std", "orientation_error_rad.std:.3f"),
    ("position error, mean [mm]", "position_error_m.mean*1e3:.1f"),
)


def trials(result: str, title: str, note: str = "") -> Section:
    """What ``dexstack eval`` wrote: by kind of goal, and all together."""
    return Section(
        result, title, (Listing("results.kinds", (("goal", "name"), *TRIALS)), Whole(TRIALS)), note
    )


def worlds(result: str, title: str, note: str = "") -> Section:
    """What ``dexstack eval --vary`` wrote, by world."""
    return Section(result, title, (Listing("results.cells", (("world", "cell"), *TRIALS)),), note)
