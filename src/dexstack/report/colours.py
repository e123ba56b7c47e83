"""Colours of distances and pressures, and arrows of contact forces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from dexstack.plants.base import Contact, Patch

FAR = 0.02
"""Distance of contacts from which on the last colour is used [m]."""
_DISTANCES = np.array([(220, 30, 30), (240, 190, 30), (40, 110, 220)], float)
"""Colours at contact, half of FAR, and FAR."""


def distance_colours(phi: np.ndarray) -> np.ndarray:
    """Return colours (n, 3) uint8 of contacts by distance (n,) [m]: red at contact, yellow halfway,
    blue from :data:`FAR` on."""
    return _ramp(phi / FAR, _DISTANCES).astype(np.uint8)


PRESSURES = np.array(
    [[0.27, 0.0, 0.33], [0.23, 0.32, 0.55], [0.13, 0.57, 0.55], [0.37, 0.79, 0.38], [0.99, 0.91, 0.14]]
)
"""Colours from zero to the greatest pressure."""


class Patches(NamedTuple):
    """Surfaces on which bodies press on each other, and the forces there."""

    corners_W: np.ndarray
    """(3 n, 3) corners of the triangles, one triangle after another [m]."""
    colours: np.ndarray
    """(3 n, 3) red, green, blue of each corner, 0 to 1."""
    arrows_W: np.ndarray
    """(m, 2, 3) from the point of application of a force to the tip of its arrow [m]."""


ARROW = 0.5
"""Length of an arrow of the weight of all bodies, relative to the scene's extent."""


def force_arrows(model: mujoco.MjModel, contacts: Sequence[Contact]) -> np.ndarray:
    """Return the arrows (n, 2, 3) of contact forces from point to tip [m]: the force on ``body_b``,
    or on the body that touches the world."""
    scale = ARROW * model.stat.extent / (model.body_mass.sum() * np.linalg.norm(model.opt.gravity) or 1.0)
    arrows = [
        (c.point_W, c.point_W + (-scale if c.body_b == "world" else scale) * c.force_W) for c in contacts
    ]
    return np.reshape(arrows, (-1, 2, 3))


def patch_triangles(patches: Sequence[Patch]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return corners (3 n, 3) and colours (3 n, 3) of the triangles of each patch.

    All pressures share one scale: the brightest colour is the greatest pressure of all patches.
    """
    greatest = max((float(p.pressure.max()) for p in patches if len(p.pressure)), default=0.0)
    result = []
    for patch in patches:
        triangles = [
            (f, first, k)
            for f, (first, last) in enumerate(zip(patch.start, patch.start[1:], strict=False))
            for k in range(first + 1, last - 1)
        ]
        f, first, k = np.array(triangles, int).reshape(-1, 3).T
        corners = patch.vertex_W[np.stack([first, k, k + 1], axis=1)].reshape(-1, 3)
        colours = _ramp(patch.pressure[f] / (greatest or 1.0), PRESSURES)
        result.append((corners, np.repeat(colours, 3, axis=0)))
    return result


def _ramp(x: np.ndarray, colours: np.ndarray) -> np.ndarray:
    """Interpolate evenly spaced colours (c, 3) at numbers (n,), clipped to 0 … 1; return (n, 3)."""
    at = np.linspace(0.0, 1.0, len(colours))
    return np.stack([np.interp(x, at, channel) for channel in colours.T], axis=1)
