"""What is looked for, in numbers that may be anything: logarithms of what is positive, with what is
known beforehand."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dexstack.errors import unknown_name
from dexstack.tasks.base import OFFSETS, World


class Unknown(NamedTuple):
    """One number that is looked for, with a normal distribution of what it may be before anything
    is measured."""

    name: str
    unit: str
    positive: bool
    """Looked for as its logarithm."""
    first: float
    """Middle of that distribution, in ``unit``."""
    spread: float
    """Its standard deviation: of the logarithm where positive, else in ``unit``."""
    says: str
    floor: float = 0.01
    """Standard deviation that no recording brings down, as ``spread``: the rollouts' servo has no
    ticks."""
    least: float = 0.0
    """The same in ``unit`` of what is positive: that of a small number is no smaller."""


DELAY = "delay"
MOST = 60
"""Most windows of a recording that are fitted, unless it is said: intervals are hardly wider than
their floors with as many."""
UNKNOWNS = (
    Unknown("mass", "", True, 1.0, 0.7, "factor on the object's mass"),
    Unknown("size", "", True, 1.0, 0.05, "factor on the object's size"),
    Unknown("friction", "", True, 1.0, 0.5, "factor on the sliding friction of object, palm and fingers"),
    Unknown("torque", "", True, 1.0, 0.3, "share of the torques asked for that the motors give"),
    Unknown("joint_damping", "", True, 1.0, 0.5, "factor on the joints' damping"),
    Unknown("joint_friction", "N m", True, 0.005, 1.5, "dry friction in every joint", least=3e-4),
    Unknown(
        "joint_armature",
        "kg m²",
        True,
        1e-4,
        1.5,
        "inertia of the motors as every joint feels it",
        least=1e-5,
    ),
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
        "from a command's stamp, or its row where a recording has no stamps, to its action; less than 0 where the row is later",
        9e-4,  # up to a servo's period of 3 ms, evenly spread: all rows of a recording may come at one phase of it
    ),
)
"""All but the delay are fields of :class:`~dexstack.tasks.base.World`."""
USUAL = tuple(
    u.name for u in UNKNOWNS if u.name not in (*OFFSETS, "size", "joint_armature", "contact_stiffness")
)
"""What is looked for unless it is said: most objects are measured and even inside, most motors'
inertia is in their data sheets, contacts tell of their stiffness only in impacts, and each further
unknown takes a tenth as long again."""


def chosen(names: Sequence[str], also: Sequence[str] = ()) -> tuple[Unknown, ...]:
    """The unknowns of these names, the usual ones if there are none, and others beside them.

    Raises:
        ConfigError: an unknown name.
    """
    known = {u.name: u for u in UNKNOWNS}
    for name in (*names, *also):
        if name not in known:
            raise unknown_name("quantity to identify", name, list(known))
    return tuple(u for u in UNKNOWNS if u.name in (*(names or USUAL), *also))


def first_guess(unknowns: Sequence[Unknown]) -> np.ndarray:
    """(P,) in the numbers that are looked for."""
    return np.array([np.log(u.first) if u.positive else u.first for u in unknowns])


def values(unknowns: Sequence[Unknown], x: np.ndarray) -> np.ndarray:
    """(P,) in their units."""
    return np.array([np.exp(v) if u.positive else v for u, v in zip(unknowns, x, strict=True)])


def floors(unknowns: Sequence[Unknown], x: np.ndarray) -> np.ndarray:
    """(P,) standard deviations at x (P,) that no recording brings down, in the numbers that are
    looked for."""
    return np.array(
        [
            np.hypot(u.floor, u.least / v) if u.positive else u.floor
            for u, v in zip(unknowns, values(unknowns, x), strict=True)
        ]
    )


def world_and_delay(unknowns: Sequence[Unknown], x: np.ndarray) -> tuple[World, float]:
    """The world of the numbers (P,), and the delay [s]; what is not looked for is as believed, or
    as its middle says."""
    found = {u.name: u.first for u in UNKNOWNS if u.name == DELAY}
    found |= dict(zip((u.name for u in unknowns), values(unknowns, x).tolist(), strict=True))
    delay = found.pop(DELAY)
    return dataclasses.replace(World(), **found), delay
