"""Arrays of a step's contact problem, which :mod:`~dexengines.hydroelastic.convex` solves."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

SAP, LAGGED = 0, 1

FACE_COLUMNS = 14
RX, RY, RZ, NX, NY, NZ, CN, VHAT, CT, MU, N0, QX, QY, QZ = range(FACE_COLUMNS)
"""Columns of ``faces``: centroid from the pair's reference point [m], normal from A into B, 1/R_n
[kg], v̂_n [m/s], 1/R_t [kg], μ, n₀ [N s], q: part of r × n̂ that the normal force leaves out [m]."""


class SolveStatus(IntEnum):
    """Result of a solve."""

    SOLVED = 0
    """The relative residual is at most :data:`~dexengines.hydroelastic.convex.TOLERANCE`."""
    NOT_CONVERGED = 1
    """Iterations ran out, or the cost could not be lowered further, above the tolerance."""
    NOT_FINITE = 2
    """The problem holds NaN or infinity, or A is not positive definite."""


class Problem(NamedTuple):
    """Arrays of one step's problem; the first ``counts`` entries of each are in use."""

    A: np.ndarray
    """(nv, nv) symmetric; only the lower triangle is read."""
    v_star: np.ndarray
    """(nv,) velocity without contact."""
    counts: np.ndarray
    """(3,) pairs, faces, limits."""
    pair_start: np.ndarray
    """(P + 1,) first face of each pair."""
    pair_J: np.ndarray
    """(P, 6, nv) twist [linear at the reference point; angular] of B relative to A, world axes, per
    listed velocity."""
    pair_dof: np.ndarray
    """(P, nv) ascending indices of those velocities."""
    pair_ndof: np.ndarray
    """(P,)"""
    pair_turns: np.ndarray
    """(P,) 1 if q of a face may differ from zero."""
    faces: np.ndarray
    """(F, FACE_COLUMNS)"""
    limit_dof: np.ndarray
    """(K,) velocity that a stop acts on"""
    limit_sign: np.ndarray
    """(K,) ±1, direction of the impulse"""
    limit_row: np.ndarray
    """(K, 2) 1/R_n and v̂_n, as of a face."""
    first: np.ndarray
    """(nv,) first nonzero column of each row of A."""
    impulse: np.ndarray
    """(P, 6) result: impulse on B [N s] and its moment about the reference point [N m s]."""
    limit_impulse: np.ndarray
    """(K,) result"""


class Workspace(NamedTuple):
    """Scratch arrays of :func:`solve` and of the setup of its problem."""

    V: np.ndarray
    dV: np.ndarray
    twist: np.ndarray
    G: np.ndarray
    GJ: np.ndarray
    Y: np.ndarray
    W: np.ndarray
    H: np.ndarray
    envelope: np.ndarray
    gradient: np.ndarray
    net: np.ndarray
    dv: np.ndarray
    trial: np.ndarray
    info: np.ndarray
    """(4,) result: Newton iterations, line search evaluations, relative residual, lag of n₀ (see
    :data:`LAG`)."""
    unsettled: np.ndarray
    """(1,) int64: number of problems whose n₀ did not settle."""


def make_problem(nv: int, pairs: int, faces: int, limits: int) -> Problem:
    """Return an empty problem with room for this many of each."""
    return Problem(
        A=np.zeros((nv, nv)),
        v_star=np.zeros(nv),
        counts=np.zeros(3, np.int64),
        pair_start=np.zeros(pairs + 1, np.int64),
        pair_J=np.zeros((pairs, 6, nv)),
        pair_dof=np.zeros((pairs, nv), np.int64),
        pair_ndof=np.zeros(pairs, np.int64),
        pair_turns=np.zeros(pairs, np.int64),
        faces=np.zeros((faces, FACE_COLUMNS)),
        limit_dof=np.zeros(limits, np.int64),
        limit_sign=np.zeros(limits),
        limit_row=np.zeros((limits, 2)),
        first=np.zeros(nv, np.int64),
        impulse=np.zeros((pairs, 6)),
        limit_impulse=np.zeros(limits),
    )


def make_workspace(nv: int, pairs: int) -> Workspace:
    """Return scratch arrays for problems of this size."""
    return Workspace(
        V=np.zeros((pairs, 6)),
        dV=np.zeros((pairs, 6)),
        twist=np.zeros(6),
        G=np.zeros((pairs, 6, 6)),
        GJ=np.zeros((6, nv)),
        Y=np.zeros((6, nv)),
        W=np.zeros((6, 6)),
        H=np.zeros((nv, nv)),
        envelope=np.zeros(nv, np.int64),
        gradient=np.zeros(nv),
        net=np.zeros(nv),
        dv=np.zeros(nv),
        trial=np.zeros(nv),
        info=np.zeros(4),
        unsettled=np.zeros(1, np.int64),
    )
