"""One velocity-level step in one compiled call: contact surfaces, the convex problem that they
define, and its solution.

A polygon of area A with pressure p at its centroid acts as a point contact there (n̂ from A into
B):

    g_A = −∇p_A·n̂,  g_B = ∇p_B·n̂,  g = g_A g_B/(g_A + g_B)   (g = g_A against a rigid B)
    k = g A,   φ₀ = −p/g,   R_n = 1/(δt k (δt + τ)),   v̂_n = −φ₀/(δt + τ),   R_t = 10⁻³ w

with τ the sum of the two bodies' relaxation times and w the mean diagonal of the polygon's Delassus
block J A⁻¹ Jᵀ. Polygons with g_A ≤ 0 or g_B ≤ 0 lose pressure when pushed in and are omitted. n₀ of
the lagged scheme starts as δt p A.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import numba
import numpy as np
from numba import types

from dexengines.hydroelastic.convex import back_substitute, factorise, solve
from dexengines.hydroelastic.fields import MESH
from dexengines.hydroelastic.problem import Problem, SolveStatus, Workspace, make_problem, make_workspace
from dexengines.hydroelastic.surface import Surface, surface_kernel
from dexengines.hydroelastic.vectors import cross, dot, out_of, turn
from dexengines.hydroelastic.workspace import DEEP_A, DEEP_B, SURFACE
from dexengines.kernels import KERNEL, entry, inner, load, tuple_type

STICTION = 1e-3
"""R_t over the Delassus estimate: compliance of sticking."""
LIMIT_MARGIN = 0.05
"""Distance from a stop at which it enters the problem [rad]."""
LIMIT_STIFFNESS = 4e3
"""1/R of a stop over the joint's inertia."""
LIMIT_SPEED = 1.0
"""Largest speed at which a stop pushes back a joint beyond it [rad/s]."""

NOT_FINITE = int(SolveStatus.NOT_FINITE)
TOO_MANY_FACES, TOO_MANY_PAIRS = -1, -2
"""Returned instead of a solve's status if an array is too small; nothing has moved."""


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
FEW = 12
"""Polygons of a patch below which each is split; see :func:`_add_parts`."""
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
def _pair_jacobian(s: Static, state: State, a: int, b: int, c: np.ndarray, p: Problem, k: int) -> None:
    """Write the twist of body b relative to body a at the world point c per velocity, as pair k."""
    i = j = n = 0
    while i < s.chain_length[a] or j < s.chain_length[b]:
        da = s.chain[a, i] if i < s.chain_length[a] else 1 << 30
        db = s.chain[b, j] if j < s.chain_length[b] else 1 << 30
        dof = min(da, db)
        sign = 0.0
        root = 0
        if da == dof:
            sign -= 1.0
            root = s.body_root[a]
            i += 1
        if db == dof:
            sign += 1.0
            root = s.body_root[b]
            j += 1
        if sign == 0.0:
            continue
        for axis in range(3):
            u, v = (axis + 1) % 3, (axis + 2) % 3
            cu, cv = c[u] - state.subtree_com[root, u], c[v] - state.subtree_com[root, v]
            w = state.cdof[dof, u] * cv - state.cdof[dof, v] * cu
            p.pair_J[k, axis, n] = sign * (state.cdof[dof, 3 + axis] + w)
            p.pair_J[k, 3 + axis, n] = sign * state.cdof[dof, axis]
        p.pair_dof[k, n] = dof
        n += 1
    p.pair_ndof[k] = n


@inner(**KERNEL)
def _leave_out(s: Static, contacts: Contacts, g: int, push: tuple, p: Problem, pair: int, n: int) -> None:
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


@inner(**KERNEL)
def _add_face(
    p: Problem,
    contacts: Contacts,
    face: int,
    point: tuple,
    normal: np.ndarray,
    load: tuple,
    g: float,
) -> int:
    """Write a face with this pressure and area; return the number of the next."""
    pressure, area = load
    row = p.faces[face]
    for i in range(3):
        row[i], row[3 + i], row[11 + i] = point[i], -normal[i], 0.0
    contacts.pressure[face], contacts.area[face] = pressure, area
    contacts.stiffness[face, 0] = g * area
    contacts.stiffness[face, 1] = -pressure / g
    return face + 1


@inner(**KERNEL)
def _add_parts(out: Surface, f: int, p: Problem, contacts: Contacts, face: int, g: float) -> int:
    """Write the triangles between centroid and edges of polygon f, each at its centre of pressure, as
    faces from ``face`` on; return the number of the next.

    Polygons that are large within their patch need more points than one: the pressure's moment about
    the centroid and its change as the bodies turn would be missing, and edges would gain energy.
    """
    n, slope, start, end = out.nhat_W[f], out.slope_W[f], out.start[f], out.start[f + 1]
    c = out.centroid_W[f, 0], out.centroid_W[f, 1], out.centroid_W[f, 2]
    pc = out.pressure[f]
    for i in range(start, end):
        j = i + 1 if i + 1 < end else start
        a = out.vertex_W[i, 0] - c[0], out.vertex_W[i, 1] - c[1], out.vertex_W[i, 2] - c[2]
        b = out.vertex_W[j, 0] - c[0], out.vertex_W[j, 1] - c[1], out.vertex_W[j, 2] - c[2]
        area = 0.5 * dot(cross(a, b), (n[0], n[1], n[2]))
        pa, pb = max(pc + dot(slope, a), 0.0), max(pc + dot(slope, b), 0.0)
        total = pc + pa + pb
        if area <= 0.0 or total <= 0.0:
            continue
        wa, wb = (total + pa) / (4.0 * total), (total + pb) / (4.0 * total)
        x = c[0] + wa * a[0] + wb * b[0], c[1] + wa * a[1] + wb * b[1], c[2] + wa * a[2] + wb * b[2]
        face = _add_face(p, contacts, face, x, n, (total / 3.0, area), g)
    return face


@inner(**KERNEL)
def _add_pair(
    s: Static,
    state: State,
    k: int,
    out: Surface,
    n: int,
    p: Problem,
    contacts: Contacts,
    pair: int,
    first: int,
) -> int:
    """Write those of the n faces of a surface that carry load as faces of ``pair``, from ``first``
    on; return the new number of faces."""
    ga, gb = s.pairs[k, 0], s.pairs[k, 1]
    rigid = s.geom_rigid[gb]
    faces = first
    for f in range(n):
        pressure, area, g = out.pressure[f], out.area[f], out.grad_a[f]
        if not rigid:
            gb_n = -out.grad_b[f]
            if gb_n <= 0.0:
                continue
            g = g * gb_n / (g + gb_n)
        if g <= 0.0 or out.grad_a[f] <= 0.0 or pressure <= 0.0 or area <= 0.0:
            continue
        if n < FEW:
            faces = _add_parts(out, f, p, contacts, faces, g)
        else:
            x = out.centroid_W[f, 0], out.centroid_W[f, 1], out.centroid_W[f, 2]
            faces = _add_face(p, contacts, faces, x, out.nhat_W[f], (pressure, area), g)
    x = y = z = weight = 0.0
    push = 0.0, 0.0, 0.0
    for f in range(first, faces):
        row, area = p.faces[f], contacts.area[f]
        carried = contacts.pressure[f] * area
        push = push[0] + carried * row[3], push[1] + carried * row[4], push[2] + carried * row[5]
        x, y, z, weight = x + area * row[0], y + area * row[1], z + area * row[2], weight + area
        contacts.stiffness[f, 2] = s.pair_relaxation[k]
        row[9] = s.pair_friction[k]
    if faces == first:
        return first
    point = contacts.point_W[pair]
    point[0], point[1], point[2] = x / weight, y / weight, z / weight
    for f in range(first, faces):
        for i in range(3):
            p.faces[f, i] -= point[i]
    contacts.pair[pair] = k
    for i in range(4):
        for j in range(3):
            contacts.pair_pose[pair, 0, i, j] = contacts.pose[ga, i, j]
            contacts.pair_pose[pair, 1, i, j] = contacts.pose[gb, i, j]
    p.pair_start[pair] = first
    turns = max(s.geom_symmetry[ga], s.geom_symmetry[gb]) >= AXIS
    p.pair_turns[pair] = turns
    if turns:
        size = max(math.sqrt(dot(push, push)), 1e-300)
        push = push[0] / size, push[1] / size, push[2] / size
        _leave_out(s, contacts, ga, push, p, pair, faces - first)
        _leave_out(s, contacts, gb, push, p, pair, faces - first)
    _pair_jacobian(s, state, s.geom_body[ga], s.geom_body[gb], point, p, pair)
    return faces


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
def find_contacts(s: Static, state: State, out: Surface, p: Problem, contacts: Contacts) -> int:
    """Write pairs and faces (geometry, stiffness) of the problem.

    Returns:
        0, :data:`TOO_MANY_FACES` or :data:`TOO_MANY_PAIRS`.
    """
    place_meshes(s, state, contacts)
    overrun = contacts.overrun
    overrun[:, 0] = 0
    pairs = faces = 0
    for k in range(s.pairs.shape[0]):
        n = find_surface(s, state, contacts, k, out)
        if n < 0 or faces + (8 * n if n < FEW else n) > p.faces.shape[0]:
            return TOO_MANY_FACES
        overrun[s.pairs[k, 0], 0] += out.status[DEEP_A]
        overrun[s.pairs[k, 1], 0] += out.status[DEEP_B]
        if n == 0:
            continue
        if pairs == p.pair_ndof.size:
            return TOO_MANY_PAIRS
        more = _add_pair(s, state, k, out, n, p, contacts, pairs, faces)
        if more > faces:
            pairs, faces = pairs + 1, more
    for g in range(len(overrun)):
        overrun[g, 1] += overrun[g, 0] > 0
    p.pair_start[pairs] = faces
    p.counts[0], p.counts[1] = pairs, faces
    return 0


@inner(**KERNEL)
def _free_motion(s: Static, state: State, dt: float, p: Problem, w: Workspace) -> bool:
    """Compute A = M + δt D and v* of the problem, and A's factor in ``w.H``; return False if A is
    not positive definite."""
    nv = state.qvel.size
    for i in range(nv):
        adr, n = s.M_rowadr[i], s.M_rownnz[i]
        p.first[i] = i
        for j in range(i):
            p.A[i, j] = 0.0
        for e in range(adr, adr + n):
            p.A[i, s.M_colind[e]] = state.M[e]
            p.first[i] = min(p.first[i], s.M_colind[e])
        for e in range(s.inertance.size):
            if s.inertance_at[e, 0] == i:
                p.A[i, s.inertance_at[e, 1]] += s.inertance[e]
                p.first[i] = min(p.first[i], s.inertance_at[e, 1])
        p.A[i, i] += dt * s.damping[i]
        for j in range(p.first[i], i + 1):
            w.H[i, j] = p.A[i, j]
        w.dv[i] = dt * (state.passive[i] + state.applied[i] - state.bias[i])
    if not factorise(w.H, p.first):
        return False
    back_substitute(w.H, p.first, w.dv)
    for i in range(nv):
        p.v_star[i] = state.qvel[i] + w.dv[i]
    return True


@inner(**KERNEL)
def _regularise(state: State, dt: float, p: Problem, w: Workspace, contacts: Contacts) -> None:
    """Write the columns of ``faces`` that depend on the time step and the masses; ``w.H`` holds A's
    factor."""
    nv = state.qvel.size
    Y, W = w.Y, w.W
    for k in range(p.counts[0]):
        n = p.pair_ndof[k]
        lowest = p.pair_dof[k, 0] if n > 0 else nv
        for i in range(6):
            for j in range(lowest, nv):
                Y[i, j] = 0.0
            for j in range(n):
                dof = p.pair_dof[k, j]
                Y[i, dof] = p.pair_J[k, i, j]
            for r in range(lowest, nv):
                x = Y[i, r]
                for c in range(max(p.first[r], lowest), r):
                    x -= w.H[r, c] * Y[i, c]
                Y[i, r] = x / w.H[r, r]
            for j in range(i + 1):
                x = 0.0
                for r in range(lowest, nv):
                    x += Y[i, r] * Y[j, r]
                W[i, j] = x
        for f in range(p.pair_start[k], p.pair_start[k + 1]):
            row = p.faces[f]
            x, y, z = row[0], row[1], row[2]
            stiffness, phi, tau = contacts.stiffness[f, 0], contacts.stiffness[f, 1], contacts.stiffness[f, 2]
            # trace of S W Sᵀ with S = [1, −[r]×]
            w3 = W[0, 0] + W[1, 1] + W[2, 2]
            w3 += 2.0 * (x * (W[5, 1] - W[4, 2]) + y * (W[3, 2] - W[5, 0]) + z * (W[4, 0] - W[3, 1]))
            w3 += (y * y + z * z) * W[3, 3] + (x * x + z * z) * W[4, 4] + (x * x + y * y) * W[5, 5]
            w3 -= 2.0 * (x * y * W[4, 3] + x * z * W[5, 3] + y * z * W[5, 4])
            row[6] = dt * stiffness * (dt + tau)
            row[7] = -phi / (dt + tau)
            row[8] = 3.0 / (STICTION * w3) if w3 > 0.0 else 0.0
            row[10] = -dt * stiffness * phi


@inner(**KERNEL)
def _find_limits(s: Static, state: State, dt: float, p: Problem) -> None:
    n = 0
    for i in range(s.limit_dof.size):
        dof, q = s.limit_dof[i], state.qpos[s.limit_qpos[i]]
        for side in range(2):
            gap = q - s.limit_range[i, 0] if side == 0 else s.limit_range[i, 1] - q
            if gap < LIMIT_MARGIN:
                p.limit_dof[n] = dof
                p.limit_sign[n] = 1.0 if side == 0 else -1.0
                p.limit_row[n, 0] = LIMIT_STIFFNESS * p.A[dof, dof]
                p.limit_row[n, 1] = min(-gap / dt, LIMIT_SPEED)
                n += 1
    p.counts[2] = n


class Bundle(NamedTuple):
    """All arrays of a system."""

    static: Static
    state: State
    surface: Surface
    problem: Problem
    workspace: Workspace
    contacts: Contacts


STATIC = tuple_type(Static, "l1 l1 l1 l1 f3 f2 l2 f1 f1 l2 l1 l1 l1 l1 l1 f1 f1 l2 l1 l1 f2")
STATE = tuple_type(State, "f1 f1 f2 f2 f2 f2 f1 f1 f1 f1")
BUNDLE = types.NamedTuple(
    [
        STATIC,
        STATE,
        SURFACE,
        *(
            numba.typeof(x)
            for x in (
                make_problem(1, 1, 1, 1),
                make_workspace(1, 1),
                make_contacts(np.zeros((1, 2), np.int64), 1, 1),
            )
        ),
    ],
    Bundle,
)


@entry(**KERNEL, nogil=True)  # scenes step in parallel
def velocity_step(address: int, scheme: int, dt: float) -> int:
    """Replace ``state.qvel`` by the velocity at the end of the step.

    Args:
        address: of a stored :class:`Bundle`.
        scheme: ``problem.SAP`` or ``problem.LAGGED``.
        dt: length of the step [s].

    Returns:
        A :class:`~dexengines.hydroelastic.problem.SolveStatus`, or a negative number if an array is
        too small.
    """
    s, state, surface, p, w, contacts = load(address, BUNDLE)
    status = find_contacts(s, state, surface, p, contacts)
    if status < 0:
        return status
    if not _free_motion(s, state, dt, p, w):
        return NOT_FINITE
    _regularise(state, dt, p, w, contacts)
    _find_limits(s, state, dt, p)
    return solve(p, scheme, state.qvel, w)
