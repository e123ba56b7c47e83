"""Colours of distances and pressures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dexstack.plants.base import Patch

FAR = 0.02
"""Distance of contacts from which on the last colour is used [m]."""
_NEAR_RGB, _MIDDLE_RGB, _FAR_RGB = np.array([(220, 30, 30), (240, 190, 30), (40, 110, 220)], float)


def distance_colours(phi: np.ndarray) -> np.ndarray:
    """Return colours (n, 3) uint8 of contacts by distance (n,) [m]: red at contact, yellow halfway,
    blue from :data:`FAR` on."""
    x = np.clip(phi / FAR, 0.0, 1.0)[:, None]
    near = _NEAR_RGB + 2 * x * (_MIDDLE_RGB - _NEAR_RGB)
    far = _MIDDLE_RGB + (2 * x - 1) * (_FAR_RGB - _MIDDLE_RGB)
    return np.where(x < 0.5, near, far).astype(np.uint8)


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
        result.append((corners, np.repeat(_pressure_colours(patch.pressure[f], greatest), 3, axis=0)))
    return result


def _pressure_colours(pressure: np.ndarray, greatest: float) -> np.ndarray:
    """Return colours (n, 3), 0 to 1, of pressures (n,) [Pa] up to the greatest."""
    where = (len(PRESSURES) - 1) * np.clip(pressure / greatest if greatest > 0.0 else pressure, 0.0, 1.0)
    return np.stack([np.interp(where, range(len(PRESSURES)), c) for c in PRESSURES.T], axis=1)
