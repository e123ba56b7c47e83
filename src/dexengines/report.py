"""Contacts as engines report them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Contact(NamedTuple):
    """Contact of two geoms."""

    body_a: str
    body_b: str
    geom_a: str
    geom_b: str
    point_W: np.ndarray
    """(3,) [m]"""
    normal_W: np.ndarray
    """(3,) unit vector from a to b."""
    gap: float
    """Distance of the two geoms; negative where they overlap [m]."""
    force_W: np.ndarray
    """(3,) on b [N]"""
    area: float
    """Area of the contact surface [m²]; NaN for engines with point contact."""
    pressure: float
    """Mean pressure over that surface [Pa], or NaN."""


class Patch(NamedTuple):
    """Surface on which two bodies touch, in the world frame, and the wrench it transmits."""

    a: str
    b: str
    vertex_W: np.ndarray
    """(P, 3) corners of all polygons [m]"""
    start: np.ndarray
    """(F + 1,) corners of polygon i are start[i] … start[i + 1] − 1"""
    pressure: np.ndarray
    """(F,) at the polygon's centroid [Pa]"""
    point_W: np.ndarray
    """(3,) [m]"""
    force_W: np.ndarray
    """(3,) on b [N]"""
    moment_W: np.ndarray
    """(3,) on b, about ``point_W`` [N m]"""
