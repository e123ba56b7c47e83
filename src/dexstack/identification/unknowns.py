"""Quantities to identify as unbounded numbers, logarithms of positive ones, with their priors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dexstack.errors import check_names
from dexstack.tasks.base import OFFSETS, World


class Unknown(NamedTuple):
    """One quantity to identify, with its normal prior."""

    name: str
    unit: str
    positive: bool
    """True if its logarithm is fitted."""
    first: float
    """Mean of the prior, in ``unit``."""
    spread: float
    """Standard deviation of the prior: of the logarithm if positive, else in ``unit``."""
    says: str
    floor: float = 0.01
    """Least standard deviation of a result, as ``spread``: the rollouts' servo has no ticks."""
    least: float = 0.0
    """Least standard deviation of a positive quantity in ``unit``."""


DELAY = "delay"
MOST = 60
"""Default largest number of windows of a recording, with which intervals are close to their
floors."""
UNKNOWNS = (
    Unknown("mass", "", True, 1.0, 0.7, "factor on the object's mass"),
    Unknown("size", "", True, 1.0, 0.05, "factor on the object's size"),
    Unknown("friction", "", True, 1.0, 0.5, "factor on the sliding friction of object, palm and fingers"),
    Unknown("torque", "", True, 1.0, 0.3, "share of the requested torques that the motors apply"),
    Unknown("joint_damping", "", True, 1.0, 0.5, "factor on the joints' damping"),
    Unknown("joint_friction", "N m", True, 0.005, 1.5, "dry friction in every joint", least=3e-4),
    Unknown("joint_armature", "kg m²", True, 1e-4, 1.5, "inertia of the motor at every joint", least=1e-5),
    Unknown("contact_stiffness", "", True, 1.0, 1.0, "factor on the stiffness of contacts", 0.05),
    *(
        Unknown(name, "m", False, 0.0, 0.005, f"the object's centre of mass along its {name[-1]} axis", 5e-4)
        for name in OFFSETS
    ),
    Unknown(
        DELAY,
        "s",
        False,
        0.02,
        0.03,
        "from a command's stamp, or from its row without stamps, to its action; negative if the row is later",
        9e-4,  # uniform over a servo period of 3 ms: all rows of a recording may have the same phase
    ),
)
"""All quantities; all but the delay are fields of :class:`~dexstack.tasks.base.World`."""
USUAL = tuple(
    u.name for u in UNKNOWNS if u.name not in (*OFFSETS, "size", "joint_armature", "contact_stiffness")
)
"""Default quantities: most objects are measured and uniform, most motors' inertia is in their data
sheets, contacts show their stiffness only in impacts, and each further unknown takes a tenth of the
time in addition."""


def chosen(names: Sequence[str], also: Sequence[str] = ()) -> tuple[Unknown, ...]:
    """Return the unknowns of the given names, by default :data:`USUAL`, and of additional ones.

    Raises:
        ConfigError: an unknown name.
    """
    check_names("quantity to identify", (*names, *also), [u.name for u in UNKNOWNS])
    return tuple(u for u in UNKNOWNS if u.name in (*(names or USUAL), *also))


def first_guess(unknowns: Sequence[Unknown]) -> np.ndarray:
    """Return the prior means (P,) as fitted numbers."""
    return np.array([np.log(u.first) if u.positive else u.first for u in unknowns])


def values(unknowns: Sequence[Unknown], x: np.ndarray) -> np.ndarray:
    """Return fitted numbers x (P,) in the unknowns' units."""
    return np.array([np.exp(v) if u.positive else v for u, v in zip(unknowns, x, strict=True)])


def floors(unknowns: Sequence[Unknown], x: np.ndarray) -> np.ndarray:
    """Return the least standard deviations (P,) of results at x (P,), as fitted numbers."""
    return np.array(
        [
            np.hypot(u.floor, u.least / v) if u.positive else u.floor
            for u, v in zip(unknowns, values(unknowns, x), strict=True)
        ]
    )


def world_and_delay(unknowns: Sequence[Unknown], x: np.ndarray) -> tuple[World, float]:
    """Return the world and the delay [s] at x (P,); quantities that are not fitted are nominal, the
    delay its prior mean."""
    found = {u.name: u.first for u in UNKNOWNS if u.name == DELAY}
    found |= dict(zip((u.name for u in unknowns), values(unknowns, x).tolist(), strict=True))
    delay = found.pop(DELAY)
    return dataclasses.replace(World(), **found), delay
