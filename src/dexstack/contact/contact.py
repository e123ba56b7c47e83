"""The contact set, shared by detectors, models, plants and nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int

GROUND = -1
"""Link index of the environment (floor); 0 is the palm, 1..16 the link moved by joint 0..15."""


class Contacts(NamedTuple):
    """Contacts between one object O and the robot or ground, at fixed capacity C; a pytree.

    ``nhat_W`` is the object's outward normal (from the object to the robot) and ``phi`` is positive
    when the bodies are apart, so that d(phi)/dt = nhat_W · (v_robot − v_object) at the contact point.
    Unused slots have ``active`` False, ``phi`` = 1 m and a unit normal, so that no entry is NaN.
    """

    p_W: Float[Array | np.ndarray, "C 3"]
    """Closest point on the object's surface, world frame [m]."""
    nhat_W: Float[Array | np.ndarray, "C 3"]
    """Unit outward normal of the object at ``p_W``, world frame."""
    phi: Float[Array | np.ndarray, " C"]
    """Signed distance [m]; negative when penetrating."""
    link: Int[Array | np.ndarray, " C"]
    """Robot link of the other point; see :data:`GROUND`."""
    active: Bool[Array | np.ndarray, " C"]


def empty_contacts(capacity: int) -> Contacts:
    """Return a contact set without active slots."""
    nhat = np.zeros((capacity, 3), np.float32)
    nhat[:, 2] = 1.0
    return Contacts(
        p_W=np.zeros((capacity, 3), np.float32),
        nhat_W=nhat,
        phi=np.ones(capacity, np.float32),
        link=np.full(capacity, GROUND, np.int32),
        active=np.zeros(capacity, bool),
    )


def nearest_contacts(
    capacity: int, p_W: np.ndarray, nhat_W: np.ndarray, phi: np.ndarray, link: np.ndarray
) -> Contacts:
    """Return a contact set of the ``capacity`` nearest of any number of contacts, nearest first."""
    contacts, keep = empty_contacts(capacity), np.argsort(phi, kind="stable")[:capacity]
    n = len(keep)
    for slots, values in zip(contacts[:4], (p_W, nhat_W, phi, link), strict=True):
        slots[:n] = values[keep]
    contacts.active[:n] = True
    return contacts
