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
from typing import NamedTuple

import numba
import numpy as np
from numba import types

from dexengines.hydroelastic.convex import solve
from dexengines.hydroelastic.envelope import back_substitute, factorise
from dexengines.hydroelastic.placement import (
    AXIS,
    Contacts,
    State,
    Static,
    find_surface,
    leave_out,
    make_contacts,
    place_meshes,
)
from dexengines.hydroelastic.problem import Problem, SolveStatus, Workspace, make_problem, make_workspace
from dexengines.hydroelastic.surface import Surface
from dexengines.hydroelastic.vectors import cross, dot
from dexengines.hydroelastic.workspace import DEEP_A, DEEP_B, LOAD_ANGLE, SURFACE
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


FEW = 12
"""Polygons of a patch below which each is split; see :func:`_add_parts`."""
COS_OPPOSED = math.cos(LOAD_ANGLE)
"""Cosine of the angle between one body's pressure gradient and the opposite of the other's at which a
face bears no load; a rigid body's normal takes the place of its gradient in :data:`LOAD_ANGLE`. Where
the gradients are at right angles, as around a flat contact, moving one body along its own gradient
leaves the other's pressure as it is: nothing is squeezed. Such a face moves with the body's edge, and the
way of a step along it, not the depth, would set its pressure, which brakes bodies that slide."""


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
def _squeezes(out: Surface, f: int) -> bool:
    """Return whether the gradients of two compliant bodies at a face are opposed; within the face they
    have the same part."""
    g_a, g_b, along = out.grad_a[f], -out.grad_b[f], dot(out.slope_W[f], out.slope_W[f])
    return g_a * g_b - along > COS_OPPOSED * math.sqrt((g_a * g_a + along) * (g_b * g_b + along))


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
            if gb_n <= 0.0 or not _squeezes(out, f):
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
        leave_out(s, contacts, ga, push, p, pair, faces - first)
        leave_out(s, contacts, gb, push, p, pair, faces - first)
    _pair_jacobian(s, state, s.geom_body[ga], s.geom_body[gb], point, p, pair)
    return faces


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
    bundle = load(address, BUNDLE)
    s, state, p, w, contacts = (
        bundle.static, bundle.state, bundle.problem, bundle.workspace, bundle.contacts,
    )  # fmt: skip
    status = find_contacts(s, state, bundle.surface, p, contacts)
    if status < 0:
        return status
    if not _free_motion(s, state, dt, p, w):
        return NOT_FINITE
    _regularise(state, dt, p, w, contacts)
    _find_limits(s, state, dt, p)
    return solve(p, scheme, state.qvel, w)
