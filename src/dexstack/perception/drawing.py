"""OpenSCAD drawings [mm] of carriers for tags: a plate for tags in one plane, a cap for a
fingertip."""

from __future__ import annotations

import numpy as np

from dexstack.errors import ConfigError
from dexstack.perception.bundle import Tag, TagBundle
from dexstack.perception.hand_eye import HEIGHT
from dexstack.perception.sheet import whole

THICK, RIM, RECESS, WALL, PLAY = 4.0, 4.0, 0.3, 1.6, 0.25
"""Thickness of a plate, its rim around the tags, depth of a print's recess, wall of a cap, gap between
cap and finger [mm]."""
FLAT = 1e-6
"""Tolerance for tags in one plane [m, -]."""


def plate(bundle: TagBundle) -> str:
    """Draw a plate with a recess for every tag of a bundle, in the frame of the first tag.

    Raises:
        ConfigError: the tags do not lie in one plane.
    """
    first, *_ = tags = list(bundle.tags.values())
    places = [(first.X_OT.inverse.compose(tag.X_OT), tag) for tag in tags]
    if any(abs(X.p[2]) > FLAT or abs(X.R[2, 2] - 1.0) > FLAT for X, _ in places):
        raise ConfigError(f"the tags of '{bundle.name}' do not lie in one plane, as a plate needs")
    corners = np.concatenate([X.apply(_card(tag)) for X, tag in places])[:, :2] * 1e3
    low, high = corners.min(axis=0) - RIM, corners.max(axis=0) + RIM
    lines = [
        f"// Plate for the tags of '{bundle.name}' [mm]: print it flat, glue every tag into its recess, the "
        "notch up.",
        f"// Its origin, the centre of tag {first.tag}, lies at {_numbers(first.X_OT.p * 1e3)} in the "
        "body's frame.",
        "holes = [];  // centres of your base's screw holes [x, y]",
        "difference() {",
        f"  translate({_numbers([*low, -THICK])}) cube({_numbers([*(high - low), THICK])});",
    ]
    for X, tag in places:
        angle, side = np.degrees(np.arctan2(X.R[1, 0], X.R[0, 0])), whole(tag)
        lines += [
            f"  translate({_numbers([*X.p[:2] * 1e3, -RECESS])}) rotate({angle:.3f}) {{  // tag {tag.tag}",
            f"    translate([-{side / 2:.3f}, -{side / 2:.3f}, 0]) cube([{side:.3f}, {side:.3f}, 1]);",
            f"    translate([-1, {side / 2 - 0.01:.3f}, 0]) cube([2, 1.5, 1]);",
            "  }",
        ]
    lines += [
        f"  for (h = holes) translate([h[0], h[1], -{THICK + 1:g}]) cylinder(d = 3.4, h = {THICK + 2:g}, "
        "$fn = 32);",
        "}",
        "",
    ]
    return "\n".join(lines)


def cap(tag: Tag, radius: float) -> str:
    """Draw a cap for a fingertip, a sphere of ``radius`` [m] on a cylinder: z out of the print, y
    outwards, origin in the fingertip's centre."""
    side, bore = whole(tag), 1e3 * radius + PLAY
    top, half = 1e3 * HEIGHT + RECESS, side / 2 + WALL
    return "\n".join(
        [
            "// Cap for a fingertip [mm], four of them, for index, middle, ring and thumb: glue each tag "
            "in, the notch outwards.",
            "difference() {",
            "  hull() {",
            f"    for (y = [-14, 0]) translate([0, y, 0]) sphere(r = {bore + WALL:.3f}, $fn = 96);",
            f"    translate([-{half:.3f}, -{half:.3f}, {top - 2:.3f}]) cube([{2 * half:.3f}, "
            f"{2 * half:.3f}, 2]);",
            "  }",
            f"  hull() for (y = [-40, 0]) translate([0, y, 0]) sphere(r = {bore:.3f}, $fn = 96);",
            f"  translate([-50, -64, -50]) cube([100, 50, {50 + top - 3:.3f}]);",
            f"  translate([-{side / 2:.3f}, -{side / 2:.3f}, {1e3 * HEIGHT:.3f}]) cube([{side:.3f}, "
            f"{side:.3f}, 2]);",
            f"  translate([-1, {side / 2 - 0.01:.3f}, {1e3 * HEIGHT:.3f}]) cube([2, {WALL + 1:.3f}, 2]);",
            "}",
            "",
        ]
    )


def _card(tag: Tag) -> np.ndarray:
    """Return the corners (4, 3) of a print with its border, tag frame [m]."""
    half = whole(tag) / 2e3
    return np.array([[-half, -half, 0.0], [half, -half, 0.0], [half, half, 0.0], [-half, half, 0.0]])


def _numbers(values: object) -> str:
    return "[" + ", ".join(f"{x + 0.0:.3f}" for x in values) + "]"  # type: ignore[attr-defined]
