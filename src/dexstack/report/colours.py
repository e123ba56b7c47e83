"""Colours that mean something."""

from __future__ import annotations

import numpy as np

FAR = 0.02
"""Contacts at this distance and beyond have the last colour [m]."""
_NEAR_RGB, _MIDDLE_RGB, _FAR_RGB = np.array([(220, 30, 30), (240, 190, 30), (40, 110, 220)], float)


def distance_colours(phi: np.ndarray) -> np.ndarray:
    """Colours (n, 3) uint8 of contacts by distance (n,) [m]: red at contact, yellow halfway, blue
    from :data:`FAR` on."""
    x = np.clip(phi / FAR, 0.0, 1.0)[:, None]
    near = _NEAR_RGB + 2 * x * (_MIDDLE_RGB - _NEAR_RGB)
    far = _MIDDLE_RGB + (2 * x - 1) * (_FAR_RGB - _MIDDLE_RGB)
    return np.where(x < 0.5, near, far).astype(np.uint8)


PRESSURES = np.array(
    [[0.27, 0.0, 0.33], [0.23, 0.32, 0.55], [0.13, 0.57, 0.55], [0.37, 0.79, 0.38], [0.99, 0.91, 0.14]]
)
"""From no pressure to the greatest."""


def pressure_colours(pressure: np.ndarray, greatest: float) -> np.ndarray:
    """Colours (n, 3), 0 to 1, of pressures (n,) [Pa] up to the greatest."""
    where = (len(PRESSURES) - 1) * np.clip(pressure / greatest if greatest > 0.0 else pressure, 0.0, 1.0)
    return np.stack([np.interp(where, range(len(PRESSURES)), c) for c in PRESSURES.T], axis=1)
