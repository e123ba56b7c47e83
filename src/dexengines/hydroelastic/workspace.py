"""Arrays of a contact surface query, and the view of its result from Python."""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from dexengines.hydroelastic.clip import COLUMNS, ROWS
from dexengines.kernels import Stored

DROP_ANGLE = 5 * math.pi / 8
"""A face whose normal turns further than this from a pressure gradient is dropped, since its
pressure falls as the bodies approach (Drake's rule) [rad]."""
LOAD_ANGLE = math.radians(85.0)
"""Drop angle of faces that bear load in a step [rad]. A face at angle θ between normal and pressure
gradient has the stiffness k = A ‖∇p‖ cos θ and stores (p A)²/2k: the energy and the way over which it
pushes grow without bound as θ → 90°, while the pressure at the face comes from a depth p/‖∇p‖. At this
angle they are 11 times those of a face that the pressure bears squarely."""
FULL = -1
"""Returned by kernels when an array of the workspace is too small."""
DEEP_A, DEEP_B, PAIRS, PEAKS = 0, 1, 2, 3
"""Entries of :attr:`Surface.status`."""


class Surface(NamedTuple):
    """Faces of a contact surface, in world, and scratch arrays of the query; made by
    :func:`workspace`."""

    centroid_W: np.ndarray
    """(F, 3) [m]"""
    nhat_W: np.ndarray
    """(F, 3) unit, from B into A"""
    area: np.ndarray
    """(F,) [m²]"""
    pressure: np.ndarray
    """(F,) at the centroid [Pa]"""
    grad_a: np.ndarray
    """(F,) ∇p_A·n̂ [Pa/m]"""
    grad_b: np.ndarray
    """(F,) ∇p_B·n̂ [Pa/m]; zero for a rigid B"""
    slope_W: np.ndarray
    """(F, 3) gradient of the pressure within the face [Pa/m]"""
    tet_a: np.ndarray
    """(F,) int32"""
    elem_b: np.ndarray
    """(F,) int32 tet or triangle of B"""
    vertex_W: np.ndarray
    """(P, 3) corners of all polygons, counter-clockwise about n̂"""
    start: np.ndarray
    """(F + 1,) int32: corners of face i are start[i] … start[i + 1] − 1"""
    status: np.ndarray
    """(8,) int32: overrun counts of A and of B, pairs clipped, peaks of either body inside the
    other"""
    queue: np.ndarray
    """(Q, 2) int32 visited pairs"""
    table: np.ndarray
    """(T,) int64 hash table of the pairs, −1 where empty; T a power of two; empty between
    queries"""
    stack: np.ndarray
    """(S, 2) int32 pairs of tree nodes"""
    cos_drop: np.ndarray
    """(1,) cosine of the drop angle; below −1 no face is dropped"""
    frame: np.ndarray
    """(4, 3) rotation and position of B in A"""
    poly: np.ndarray
    """scratch of ``clip.py``"""
    label: np.ndarray


def workspace(faces: int = 1024, drop_angle: float = DROP_ANGLE) -> Surface:
    """Return arrays for a surface of up to ``faces`` faces.

    Args:
        drop_angle: see :data:`DROP_ANGLE`; with π no face is dropped, which a conservative,
            continuous force needs.
    """
    pairs = 4 * faces + 64
    stack = faces + 512
    table = 1 << math.ceil(math.log2(2 * pairs))
    return Surface(
        np.zeros((faces, 3)),
        np.zeros((faces, 3)),
        np.zeros(faces),
        np.zeros(faces),
        np.zeros(faces),
        np.zeros(faces),
        np.zeros((faces, 3)),
        np.zeros(faces, np.int32),
        np.zeros(faces, np.int32),
        np.zeros((8 * faces, 3)),
        np.zeros(faces + 1, np.int32),
        np.zeros(8, np.int32),
        np.zeros((pairs, 2), np.int32),
        np.full(table, -1, np.int64),
        np.zeros((stack, 2), np.int32),
        np.array([math.cos(drop_angle) if drop_angle < math.pi else -2.0]),
        np.zeros((4, 3)),
        np.zeros((ROWS, COLUMNS)),
        np.zeros(ROWS, np.int64),
    )


SURFACE = numba.typeof(workspace(1))


class ContactSurface:
    """Faces found by one query, as views into the workspace: valid until its next use."""

    __slots__ = ("faces", "n", "rigid")

    def __init__(self, faces: Surface, n: int, rigid: bool) -> None:
        self.faces = faces
        self.n = n
        self.rigid = rigid
        """B is rigid"""

    def __getattr__(self, name: str) -> np.ndarray:
        if name in (
            "centroid_W",
            "nhat_W",
            "area",
            "pressure",
            "grad_a",
            "grad_b",
            "slope_W",
            "tet_a",
            "elem_b",
        ):
            return getattr(self.faces, name)[: self.n]
        raise AttributeError(name)

    @property
    def start(self) -> np.ndarray:
        """(n + 1,) first corner of each face."""
        return self.faces.start[: self.n + 1]

    @property
    def vertex_W(self) -> np.ndarray:
        """(P, 3) corners [m]."""
        return self.faces.vertex_W[: self.faces.start[self.n] if self.n else 0]

    @property
    def overrun(self) -> tuple[int, int]:
        """Overrun counts of A and of B: peaks of the body (of a plateau: its vertices) inside the
        other body at a lower pressure than its own, and faces just beyond a ridge. No surface of
        equal pressure surrounds such a peak: the body is pressed past its medial axis."""
        return int(self.faces.status[DEEP_A]), int(self.faces.status[DEEP_B])


class Workspace:
    """Arrays for queries from Python; grows when a surface needs more."""

    def __init__(self, faces: int = 1024, drop_angle: float = DROP_ANGLE) -> None:
        self.drop_angle = drop_angle
        self._allocate(faces)

    def _allocate(self, faces: int) -> None:
        self.arrays = workspace(faces, self.drop_angle)
        self._stored = Stored(self.arrays, SURFACE)
        self.address = self._stored.address

    def grow(self) -> None:
        """Double the number of faces."""
        self._allocate(2 * len(self.arrays.area))
