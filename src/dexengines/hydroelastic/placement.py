"""Where the meshes of a system are, which of them touch, and what the symmetry of a field means for
them.

A ball's field does not change as it turns, nor that of a body of revolution as it turns about its
axis, nor a half-space's as it moves along itself; their meshes do. Such meshes follow the field.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from dexengines.hydroelastic.fields import MESH
from dexengines.hydroelastic.problem import Problem
from dexengines.hydroelastic.surface import Surface, surface_kernel
from dexengines.hydroelastic.vectors import cross, dot, out_of, turn
from dexengines.kernels import KERNEL, inner, load


class Symmetry(IntEnum):
    """Motions in its body that leave a geometry's field as it is."""

    NONE = 0
    PLANE = 1
    """Translations along a plane."""
    AXIS = 2
    """Rotations about an axis."""
    BALL = 3
    """Rotations about a point."""


AXIS, BALL, PLANE = int(Symmetry.AXIS), int(Symmetry.BALL), int(Symmetry.PLANE)
UPRIGHT = 0.9
"""Cosine between axis and vertical above which the mesh of a body of revolution keeps one direction
to the east instead of up."""
ALONG = 0.01
"""Squared sine of the angle between an axis of revolution and the net normal force below which the
force is along the axis."""


class Static(NamedTuple):
    """Constants of a system. Body and velocity indices are those of the MuJoCo model."""

    geom_body: np.ndarray
    """(G,)"""
    geom_rigid: np.ndarray
    """(G,) 0 compliant, 1 rigid"""
    geom_mesh: np.ndarray
    """(G,) address of the stored mesh"""
    geom_symmetry: np.ndarray
    """(G,) of :class:`Symmetry`"""
    geom_frame: np.ndarray
    """(G, 4, 3) three orthonormal rows, the last along the axis of revolution or the normal of a
    plane, and a point on that axis, in the body's frame"""
    geom_box: np.ndarray
    """(G, 7) centre and half lengths of its bounding box, body frame, and radius of the bounding
    ball around that centre [m]"""
    pairs: np.ndarray
    """(K, 2) geometries that may touch; the first is compliant"""
    pair_friction: np.ndarray
    pair_relaxation: np.ndarray
    """(K,) [s]"""
    chain: np.ndarray
    """(B, longest) velocities that move a body, ascending"""
    chain_length: np.ndarray
    body_root: np.ndarray
    M_rownnz: np.ndarray
    M_rowadr: np.ndarray
    M_colind: np.ndarray
    damping: np.ndarray
    """(nv,) [N m s/rad], implicit in the step"""
    inertance: np.ndarray
    """(E,) of coupled joints [kg or kg m²], entries of the mass matrix in its lower triangle"""
    inertance_at: np.ndarray
    """(E, 2) their rows and columns"""
    limit_dof: np.ndarray
    limit_qpos: np.ndarray
    limit_range: np.ndarray
    """(L, 2) [rad]"""


class State(NamedTuple):
    """Views of MuJoCo's data at the start of a step; ``qvel`` is written."""

    qpos: np.ndarray
    qvel: np.ndarray
    xpos: np.ndarray
    xmat: np.ndarray
    cdof: np.ndarray
    subtree_com: np.ndarray
    M: np.ndarray
    bias: np.ndarray
    passive: np.ndarray
    applied: np.ndarray


class Contacts(NamedTuple):
    """Contacts at the start of the step."""

    pose: np.ndarray
    """(G, 4, 3) rotations and positions of the meshes in world, see :func:`place_meshes`"""
    centre_W: np.ndarray
    """(G, 3) centres of the geometries' bounding boxes [m]"""
    overrun: np.ndarray
    """(G, 2) overrun count of the last step (see ``ContactSurface.overrun``), and number of steps
    with one"""
    pair: np.ndarray
    """(P,) row of ``Static.pairs``"""
    pair_pose: np.ndarray
    """(P, 2, 4, 3) poses of its two meshes"""
    point_W: np.ndarray
    """(P, 3) reference point of the pair's wrench [m]"""
    pressure: np.ndarray
    """(F,) at the centroid [Pa]"""
    area: np.ndarray
    """(F,) [m²]"""
    stiffness: np.ndarray
    """(F, 3) k [N/m], φ₀ [m], τ [s]"""


def make_contacts(overrun: np.ndarray, pairs: int, faces: int) -> Contacts:
    """Return arrays for this many pairs and faces around an existing ``overrun``."""
    return Contacts(
        np.zeros((len(overrun), 4, 3)),
        np.zeros((len(overrun), 3)),
        overrun,
        np.zeros(pairs, np.int64),
        np.zeros((pairs, 2, 4, 3)),
        np.zeros((pairs, 3)),
        np.zeros(faces),
        np.zeros(faces),
        np.zeros((faces, 3)),
    )


@inner(**KERNEL)
def place_meshes(s: Static, state: State, contacts: Contacts) -> None:
    """Compute the poses of the meshes and the centres of their boxes.

    A field that is symmetric about an axis is the same however far its body has turned about it; its
    mesh is not. The mesh of a body of revolution therefore does not spin: it keeps one direction up,
    a ball's keeps all.
    """
    for g in range(s.geom_body.size):
        body, kind = s.geom_body[g], s.geom_symmetry[g]
        R, p = state.xmat[body].reshape(3, 3), state.xpos[body]
        pose, frame = contacts.pose[g], s.geom_frame[g]
        for i in range(3):
            for j in range(3):
                pose[i, j] = R[i, j] if kind != BALL else (1.0 if i == j else 0.0)
        if kind == AXIS:
            a = turn(R, (frame[2, 0], frame[2, 1], frame[2, 2]))
            up = (0.0, 0.0, 1.0) if abs(a[2]) < UPRIGHT else (1.0, 0.0, 0.0)
            along = dot(up, a)
            u = up[0] - along * a[0], up[1] - along * a[1], up[2] - along * a[2]
            size = math.sqrt(dot(u, u))
            u = u[0] / size, u[1] / size, u[2] / size
            w = cross(a, u)
            for i in range(3):
                for j in range(3):
                    pose[i, j] = u[i] * frame[0, j] + w[i] * frame[1, j] + a[i] * frame[2, j]
        for i in range(3):
            pose[3, i] = p[i]
            for j in range(3):
                pose[3, i] += (R[i, j] - pose[i, j]) * frame[3, j]
        _place_box(s, g, contacts)


@inner(forceinline=True, **KERNEL)
def _place_box(s: Static, g: int, contacts: Contacts) -> None:
    pose, box = contacts.pose[g], s.geom_box[g]
    centre = out_of(pose, pose[3], box)
    contacts.centre_W[g, 0], contacts.centre_W[g, 1], contacts.centre_W[g, 2] = centre


@inner(**KERNEL)
def _follow(s: Static, state: State, contacts: Contacts, g: int, other: int) -> None:
    """Move the mesh of a plane along the plane to another geometry: the plane has no end."""
    body, pose, frame = s.geom_body[g], contacts.pose[g], s.geom_frame[g]
    n = turn(pose, (frame[2, 0], frame[2, 1], frame[2, 2]))
    for i in range(3):
        pose[3, i] = state.xpos[body, i]
    _place_box(s, g, contacts)
    x, y = contacts.centre_W[other], contacts.centre_W[g]
    d = x[0] - y[0], x[1] - y[1], x[2] - y[2]
    depth = dot(n, d)
    for i in range(3):
        pose[3, i] += d[i] - depth * n[i]
    _place_box(s, g, contacts)


@inner(**KERNEL)
def _far_apart(s: Static, contacts: Contacts, a: int, b: int) -> bool:
    """Return whether the bounding balls of two geometries, or their boxes along a normal of either,
    are apart."""
    x, y = contacts.centre_W[a], contacts.centre_W[b]
    d = y[0] - x[0], y[1] - x[1], y[2] - x[2]
    reach = s.geom_box[a, 6] + s.geom_box[b, 6]
    if dot(d, d) > reach * reach:
        return True
    for _ in range(2):
        Ra, Rb = contacts.pose[a], contacts.pose[b]
        for i in range(3):
            reach = s.geom_box[a, 3 + i]
            for j in range(3):
                reach += s.geom_box[b, 3 + j] * abs(
                    Ra[0, i] * Rb[0, j] + Ra[1, i] * Rb[1, j] + Ra[2, i] * Rb[2, j]
                )
            if abs(Ra[0, i] * d[0] + Ra[1, i] * d[1] + Ra[2, i] * d[2]) > reach:
                return True
        a, b = b, a
    return False


@inner(**KERNEL)
def find_surface(s: Static, state: State, contacts: Contacts, k: int, out: Surface) -> int:
    """Compute the contact surface of pair k, after :func:`place_meshes`; return the number of faces,
    or FULL."""
    a, b = s.pairs[k, 0], s.pairs[k, 1]
    if s.geom_symmetry[a] == PLANE:
        _follow(s, state, contacts, a, b)
    if s.geom_symmetry[b] == PLANE:
        _follow(s, state, contacts, b, a)
    if _far_apart(s, contacts, a, b):
        out.status[:] = 0
        return 0
    A, B = contacts.pose[a], contacts.pose[b]
    mesh_a, mesh_b = load(s.geom_mesh[a], MESH), load(s.geom_mesh[b], MESH)
    return surface_kernel(mesh_a, mesh_b, A[:3], A[3], B[:3], B[3], out)


@inner(**KERNEL)
def leave_out(s: Static, contacts: Contacts, g: int, push: tuple, p: Problem, pair: int, n: int) -> None:
    """Make the n normal forces of a pair free of moment about the axis of a body of revolution, by
    their q, as far as those of the other body allow.

    The energy of the overlap does not depend on how far the body has turned about its axis, so they
    have none; and where it rolls about a point of its surface, no pressure changes. Both hold if they
    act at the point of the axis' perpendicular that is as far from the axis as the surface.

    Args:
        push: direction of the net normal force.
    """
    kind, pose, frame, point = s.geom_symmetry[g], contacts.pose[g], s.geom_frame[g], contacts.point_W[pair]
    if kind < AXIS:
        return
    c = out_of(pose, pose[3], frame[3])
    c = c[0] - point[0], c[1] - point[1], c[2] - point[2]
    a = turn(pose, (frame[2, 0], frame[2, 1], frame[2, 2]))
    along = dot(a, push) if kind == AXIS else 0.0
    m = push[0] - along * a[0], push[1] - along * a[1], push[2] - along * a[2]
    size = dot(m, m)
    h = -dot(c, m) / size if size > ALONG else 0.0
    c = c[0] + h * m[0], c[1] + h * m[1], c[2] + h * m[2]
    first = p.pair_start[pair]
    for f in range(first, first + n):
        row = p.faces[f]
        lever = cross((row[0] - c[0], row[1] - c[1], row[2] - c[2]), (row[3], row[4], row[5]))
        more = lever[0] - row[11], lever[1] - row[12], lever[2] - row[13]
        if kind == AXIS:
            along = dot(a, more)
            more = along * a[0], along * a[1], along * a[2]
        for i in range(3):
            row[11 + i] += more[i]
