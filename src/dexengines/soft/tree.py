"""Articulated dynamics in JAX: hinges, slides, balls and free bases, one link for each velocity
coordinate; then free bodies without descendants.

    M(q) v̇ + c(q, v) = τ + Jᵀ w

With world twists about the world's origin (linear part first), a link's twist is the sum of the
columns S_j of its ancestors, so that velocities, biases and composite inertias are products with
one constant 0/1 matrix; only poses are computed level by level. A ball is three links at one pose,
each moved by all three of its coordinates; a free base is three slides and a ball. A free body at
the end of the state without descendants has its own 6 × 6 block, in MuJoCo's coordinates (linear
velocity in the world, angular in the body) about its centre of mass. The state is laid out as in
MuJoCo.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array
from scipy.sparse.csgraph import connected_components

from dexengines.rotations import rotation_matrix
from dexengines.soft.vectors import cross, kept, turn

SEVERAL = (int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_BALL))
"""Joint types with several coordinates."""


def quaternion_matrix(quat: Array) -> Array:
    """Return the rotation matrix (3, 3) of a quaternion wxyz of any length; NaN only for NaN."""
    w, x, y, z = quat / jnp.sqrt(jnp.maximum(jnp.sum(quat * quat), 1e-20))
    return jnp.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


class Numbers(NamedTuple):
    """Numbers that may differ within a batch, of the N velocity coordinates of joints, in the
    state's order."""

    p_PL: np.ndarray
    """(N, 3) origin of each coordinate's link in its parent [m]."""
    R_PL: np.ndarray
    """(N, 3, 3) its orientation there at q = 0."""
    p_LJ: np.ndarray
    """(N, 3) anchor of the joint in the link [m]."""
    axis: np.ndarray
    """(N, 3) unit axis in the link."""
    zero: np.ndarray
    """(N,) position at which a joint leaves its link in place [rad or m]."""
    damping: np.ndarray
    """(N,) [N s/m or N m s/rad]"""
    armature: np.ndarray
    """(N, N) [kg or kg m²], off the diagonal between coupled joints."""
    mass: np.ndarray
    """(N + F,) [kg], joint links then free bodies."""
    com: np.ndarray
    """(N, 3) in the link [m]."""
    inertia: np.ndarray
    """(N + F, 3, 3) about the centre of mass, link axes [kg m²]."""
    gravity: np.ndarray
    """(3,) [m/s²]"""


class Motion(NamedTuple):
    """Poses and twists of the links, world axes."""

    R: Array
    """(L, 3, 3) joint links, free bodies, then the world."""
    p: Array
    """(L, 3)"""
    columns: Array
    """(nv, 6) twist about the world's origin per unit of each velocity coordinate."""
    twist: Array
    """(L, 6) about the world's origin."""


class Tree:
    """The constant kinematic structure of a MuJoCo model and its :class:`Numbers`.

    The model must have no feature of :data:`dexengines.soft.system.JOINTS`; springs and other
    forces are not read.

    Args:
        model: compiled.
        inertance: (nv, nv) added to the mass matrix of the joints; see :mod:`dexengines.couplings`.
    """

    def __init__(self, model: mujoco.MjModel, inertance: np.ndarray | None = None) -> None:
        self.nq, self.nv = model.nq, model.nv
        alone = _alone(model)
        joints = model.njnt - alone
        of, kind = np.asarray(model.dof_jntid), model.jnt_type
        n = self.num_joints = int((of < joints).sum())
        self.num_free = alone
        place = np.arange(n) - model.jnt_dofadr[of[:n]]
        free = kind[of[:n]] == mujoco.mjtJoint.mjJNT_FREE
        turns = (kind[of[:n]] == mujoco.mjtJoint.mjJNT_BALL) | (free & (place >= 3))
        self._at = model.jnt_qposadr[of[:n]] + np.where(turns, 0, place)
        """(N,) index in q of a coordinate's position, if it has one."""
        self._balls = [
            (int(j), int(model.jnt_qposadr[of[j]] + place[j]))
            for j in np.flatnonzero(turns & (place - 3 * free == 0))
        ]
        """First coordinate of every ball, and index of its quaternion in q."""
        self.single = ~turns
        """(N,) True for coordinates with a position."""
        self._first_free = int(model.jnt_qposadr[joints]) if alone else model.nq
        self.is_hinge = turns | (kind[of[:n]] == mujoco.mjtJoint.mjJNT_HINGE)
        parent, where = self._links(model, n)
        self.link_of_body = where
        """(B,) link of each body of the model; the last one is the world."""
        self._parent = parent
        moves = np.zeros((n + self.num_free + 1, model.nv))
        depth = np.zeros(n, int)
        for j in range(n):
            if parent[j] < n:
                moves[j], depth[j] = moves[parent[j]], depth[parent[j]] + 1
            moves[j, j] = 1.0
        for j, _ in self._balls:
            moves[j : j + 3, j : j + 3] = 1.0
            moves[:n] = np.maximum(moves[:n], (moves[:n, j + 2 : j + 3] > 0) * moves[j])
        for f in range(self.num_free):
            moves[n + f, n + 6 * f : n + 6 * f + 6] = 1.0
        self.moves = moves
        """(L, nv) whether a velocity coordinate moves a link."""
        self._levels = [np.flatnonzero(depth == d) for d in range(depth.max() + 1 if n else 0)]
        self._order = np.argsort(np.concatenate(self._levels)) if n else np.zeros(0, int)
        extra = np.zeros((n, n)) if inertance is None else inertance[:n, :n]
        self.blocks = _blocks(moves[:n, :n], extra)
        """(K, m) joints of the independent mechanisms, where they are equally large; else one
        block."""
        self.numbers = self._numbers(model, n, np.diag(np.reshape(model.dof_armature, -1)[:n]) + extra)

    def _links(self, model: mujoco.MjModel, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the parent link of every joint's link, and the link of every body."""
        world = n + self.num_free
        where = np.full(model.nbody, world)
        parent = np.full(n, world)
        self._fixed = [(np.eye(3), np.zeros(3))] * model.nbody  # pose of a body in its link
        self._chain: list[tuple[int, tuple[np.ndarray, np.ndarray]]] = [(0, (np.eye(3), np.zeros(3)))] * n
        for b in range(1, model.nbody):
            at = where[model.body_parentid[b]]
            R0, p0 = self._fixed[model.body_parentid[b]]
            R, p = R0 @ rotation_matrix(model.body_quat[b]), p0 + R0 @ model.body_pos[b]
            first, count = model.body_jntadr[b], model.body_jntnum[b]
            if count == 0:
                where[b], self._fixed[b] = at, (R, p)
                continue
            last = first + count < model.njnt
            start, end = model.jnt_dofadr[first], model.jnt_dofadr[first + count] if last else model.nv
            if start >= n:
                where[b] = n + (start - n) // 6
                continue
            if model.jnt_type[first] == mujoco.mjtJoint.mjJNT_FREE:
                R, p = np.eye(3), np.zeros(3)
            for j in range(start, end):
                parent[j] = at
                self._chain[j] = (b, (R, p))
                at, (R, p) = j, (np.eye(3), np.zeros(3))
            where[b] = at
        return parent, where

    def pose_in_link(self, body: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the pose (R, p) of a body of the model in the link that carries it."""
        return self._fixed[body]

    def _numbers(self, model: mujoco.MjModel, n: int, armature: np.ndarray) -> Numbers:
        links = n + self.num_free
        mass, com, inertia = np.zeros(links), np.zeros((links, 3)), np.zeros((links, 3, 3))
        for b in range(1, model.nbody):
            link = self.link_of_body[b]
            if link >= links:
                continue
            R, p = self._fixed[b]
            Ri = R @ rotation_matrix(model.body_iquat[b])
            m, c, i = (
                model.body_mass[b],
                p + R @ model.body_ipos[b],
                Ri @ np.diag(model.body_inertia[b]) @ Ri.T,
            )
            total = mass[link] + m
            if total > 0.0:  # two bodies rigidly joined become one
                r = c - com[link]
                inertia[link] += i + (mass[link] * m / total) * (r @ r * np.eye(3) - np.outer(r, r))
                com[link] += m / total * r
                mass[link] = total
        of = model.dof_jntid[:n]
        place = np.arange(n) - model.jnt_dofadr[of]
        axis = np.where(
            np.isin(model.jnt_type[of], SEVERAL)[:, None], np.eye(3)[place % 3], model.jnt_axis[of]
        )
        free = model.jnt_type[of] == mujoco.mjtJoint.mjJNT_FREE
        R_PL = np.array([self._chain[j][1][0] for j in range(n)]).reshape(n, 3, 3)
        p_PL = np.array([self._chain[j][1][1] for j in range(n)]).reshape(n, 3)
        return Numbers(
            p_PL,
            R_PL,
            np.where(free[:, None], 0.0, model.jnt_pos[of]),
            axis,
            np.where(np.isin(model.jnt_type[of], SEVERAL), 0.0, model.qpos0[self._at]),
            np.reshape(model.dof_damping, -1)[:n].copy(),
            armature,
            mass,
            com[:n],
            inertia,
            model.opt.gravity.copy(),
        )

    # --- kinematics ---

    def motion(self, x: Numbers, q: Array, v: Array) -> Motion:
        """Return poses, columns and twists at q (nq,), v (nv,)."""
        n, dtype = self.num_joints, q.dtype
        p_parts, R_parts, twists = [], [], []
        if n:
            R, p, axis = self._joint_links(x, q)
            hinge = jnp.asarray(self.is_hinge[:, None])
            if self.is_hinge.all():
                lin, ang = jnp.cross(p[1], axis), axis
            elif not self.is_hinge.any():
                lin, ang = axis, jnp.zeros_like(axis)
            else:
                lin, ang = jnp.where(hinge, jnp.cross(p[1], axis), axis), jnp.where(hinge, axis, 0.0)
            columns = [jnp.concatenate([lin, ang], axis=1)]
            twists.append(_summed(self.moves[:n, :n], columns[0] * v[:n, None]))
            R_parts.append(R)
            p_parts.append(p[0])
        else:
            columns = []
        if self.num_free:
            at, free_v = self._free_q(q), v[n:].reshape(-1, 6)
            R, lines, free_twists = jax.vmap(_free_motion)(at, free_v)
            R_parts.append(R)
            p_parts.append(at[:, :3])
            columns.append(lines.reshape(-1, 6))
            twists.append(free_twists)
        R_parts.append(jnp.eye(3, dtype=dtype)[None])
        p_parts.append(jnp.zeros((1, 3), dtype))
        twists.append(jnp.zeros((1, 6), dtype))
        return Motion(*(jnp.concatenate(parts) for parts in (R_parts, p_parts, columns, twists)))

    def positions(self, q: Array) -> Array:
        """Return the positions (N,) of coordinates, zero where there is none [rad or m]."""
        return jnp.where(jnp.asarray(self.single), q[self._at], 0.0) if self._balls else q[: self.num_joints]

    def _joint_links(self, x: Numbers, q: Array) -> tuple[Array, tuple[Array, Array], Array]:
        """Return orientations of the links, (their origins, points on their joint axes) and axes,
        in the order of the joints."""
        dtype = q.dtype
        move = self.positions(q) - jnp.asarray(x.zero, dtype)
        angle = jnp.where(jnp.asarray(self.is_hinge), move, 0.0)
        slide = jnp.where(jnp.asarray(self.is_hinge), 0.0, move)
        a = jnp.asarray(x.axis, dtype)
        outer = a[:, :, None] * a[:, None, :]
        cos, sin = jnp.cos(angle)[:, None, None], jnp.sin(angle)[:, None, None]
        # a hinge keeps its anchor in place; a slide moves along its axis, equal in both frames
        anchor, shift, R_PJ = jnp.asarray(x.p_LJ, dtype), slide[:, None] * a, jnp.asarray(x.R_PL, dtype)
        if self.is_hinge.any():
            R_J = outer + cos * (jnp.eye(3, dtype=dtype)[None] - outer) + sin * _skew(a)
            for j, at in self._balls:
                R_J = R_J.at[j].set(kept(quaternion_matrix(q[at : at + 4])))
            R_PJ, shift = R_PJ @ R_J, shift + anchor - jnp.einsum("jik,jk->ji", R_J, anchor)
        p_PJ = jnp.asarray(x.p_PL, dtype) + jnp.einsum("jik,jk->ji", jnp.asarray(x.R_PL, dtype), shift)
        Rs: list[Array] = []
        ps: list[Array] = []
        for k, level in enumerate(self._levels):
            if k == 0:
                Rs.append(R_PJ[level])
                ps.append(p_PJ[level])
                continue
            place = np.searchsorted(self._levels[k - 1], self._parent[level])
            R_P, p_P = Rs[-1][place], ps[-1][place]
            Rs.append(R_P @ R_PJ[level])
            ps.append(p_P + jnp.einsum("jik,jk->ji", R_P, p_PJ[level]))
        R, p = _ordered(jnp.concatenate(Rs), self._order), _ordered(jnp.concatenate(ps), self._order)
        return R, (p, p + jnp.einsum("jik,jk->ji", R, anchor)), jnp.einsum("jik,jk->ji", R, a)

    # --- dynamics ---

    def mass_and_bias(self, x: Numbers, m: Motion, v: Array) -> tuple[Array, Array]:
        """Return M of the joints (N, N), and c (nv,) with gravity, for M v̇ + c = τ; free bodies
        have the constant mass :meth:`free_mass`."""
        n, dtype = self.num_joints, v.dtype
        gravity = jnp.asarray(x.gravity, dtype)
        M, bias = jnp.zeros((0, 0), dtype), []
        if (
            n and not self.is_hinge.any()
        ):  # nothing turns: the mass is constant, the bias is weight and damping
            axis, anc = m.columns[:n, :3], self.moves[:n, :n]
            carried = jnp.sum(anc.T * jnp.asarray(x.mass, dtype)[None, :n], axis=1)
            half = (axis @ (carried[:, None] * axis).T) * np.triu(anc.T)
            M = half + half.T - jnp.diag(jnp.diag(half)) + jnp.asarray(x.armature, dtype)
            bias.append(jnp.asarray(x.damping, dtype) * v[:n] - carried * (axis @ gravity))
        elif n:
            S, V = m.columns[:n], m.twist[:n]
            R, mass = m.R[:n], jnp.asarray(x.mass, dtype)[:n]
            c = m.p[:n] + jnp.einsum("jik,jk->ji", R, jnp.asarray(x.com, dtype))
            I_c = R @ jnp.asarray(x.inertia, dtype)[:n] @ jnp.swapaxes(R, 1, 2)
            mc = _skew(mass[:, None] * c)
            I_o = I_c - mc @ _skew(c)
            eye = mass[:, None, None] * jnp.eye(3, dtype=dtype)[None]
            inertia = jnp.concatenate([jnp.concatenate([eye, -mc], 2), jnp.concatenate([mc, I_o], 2)], 1)
            anc = self.moves[:n, :n]
            composite = _summed(anc.T, inertia.reshape(n, 36)).reshape(n, 6, 6)
            F = jnp.einsum("jab,jb->ja", composite, S)
            half = (S @ F.T) * np.triu(anc.T)
            M = half + half.T - jnp.diag(jnp.diag(half)) + jnp.asarray(x.armature, dtype)
            rate = S * v[:n, None]
            w = V[:, 3:]
            rate = jnp.concatenate(
                [jnp.cross(w, rate[:, :3]) + jnp.cross(V[:, :3], rate[:, 3:]), jnp.cross(w, rate[:, 3:])], 1
            )
            A = _summed(anc, rate) - jnp.concatenate([gravity, jnp.zeros(3, dtype)])[None]
            h = jnp.einsum("jab,jb->ja", inertia, V)
            f = jnp.einsum("jab,jb->ja", inertia, A)
            f = f + jnp.concatenate(
                [jnp.cross(w, h[:, :3]), jnp.cross(w, h[:, 3:]) + jnp.cross(V[:, :3], h[:, :3])], 1
            )
            bias.append(jnp.sum(S * (_summed(anc.T, f)), axis=1) + jnp.asarray(x.damping, dtype) * v[:n])
        if self.num_free:
            omega = v[n:].reshape(-1, 6)[:, 3:]
            mass, inertia = self.free_mass(x, dtype)
            gyroscopic = jnp.cross(omega, jnp.einsum("fij,fj->fi", inertia, omega))
            bias.append(jnp.concatenate([-mass[:, None] * gravity, gyroscopic], axis=1).reshape(-1))
        return M, jnp.concatenate(bias)

    def _free_q(self, q: Array) -> Array:
        """Return position and quaternion (F, 7) of the free bodies."""
        return q[self._first_free :].reshape(-1, 7)

    def free_mass(self, x: Numbers, dtype: jnp.dtype) -> tuple[Array, Array]:
        """Return masses (F,) and inertias (F, 3, 3) of the free bodies."""
        n = self.num_joints
        return jnp.asarray(x.mass, dtype)[n:], jnp.asarray(x.inertia, dtype)[n:]

    def solve(self, x: Numbers, M: Array, force: Array) -> Array:
        """Return M⁻¹ force (nv,), mechanism by mechanism."""
        n = self.num_joints
        parts = []
        if n:
            i = self.blocks
            small = solve_spd(M[i[:, :, None], i[:, None, :]], force[i])
            parts.append(_ordered(small.reshape(-1), np.argsort(i.ravel())))
        if self.num_free:
            mass, inertia = self.free_mass(x, force.dtype)
            linear, angular = jnp.split(force[n:].reshape(-1, 6), 2, axis=1)
            moved = [linear / mass[:, None], solve_spd(inertia, angular)]
            parts.append(jnp.concatenate(moved, axis=1).reshape(-1))
        return jnp.concatenate(parts)

    def full_mass(self, x: Numbers, M: Array) -> Array:
        """Return the mass matrix (nv, nv) with the free bodies' blocks."""
        n, dtype = self.num_joints, M.dtype
        full = jnp.zeros((self.nv, self.nv), dtype).at[:n, :n].set(M)
        if self.num_free:
            mass, inertia = self.free_mass(x, dtype)
            at = n + 6 * np.arange(self.num_free)[:, None, None] + np.arange(3)
            rows, columns = np.swapaxes(at, 1, 2), at
            full = full.at[rows, columns].set(mass[:, None, None] * jnp.eye(3, dtype=dtype))
            full = full.at[rows + 3, columns + 3].set(inertia)
        return full

    def generalized(self, m: Motion, wrenches: Array) -> Array:
        """Return Jᵀw (nv,) of wrenches (L, 6) about the world's origin on the links."""
        n, parts = self.num_joints, []
        if n:
            parts.append(jnp.sum(m.columns[:n] * _summed(self.moves[:, :n].T, wrenches), axis=1))
        if self.num_free:
            at = slice(n, n + self.num_free)
            force, moment = jnp.split(wrenches[at], 2, axis=1)
            turned_back = jnp.einsum("fji,fj->fi", m.R[at], moment - jnp.cross(m.p[at], force))
            parts.append(jnp.concatenate([force, turned_back], axis=1).reshape(-1))
        return jnp.concatenate(parts)

    def integrate(self, q: Array, v: Array, dt: float | Array) -> Array:
        """Return q moved along v for ``dt``; quaternions are normalised."""
        n = self.num_joints
        parts = [q[: self._first_free]]
        if self._balls:
            parts[0] = parts[0].at[self._at[self.single]].add(dt * v[:n][self.single])
            for j, at in self._balls:
                parts[0] = parts[0].at[at : at + 4].set(turned(q[at : at + 4], dt * v[j : j + 3]))
        else:
            parts[0] += dt * v[:n]
        if self.num_free:
            at, moved = self._free_q(q), dt * v[n:].reshape(-1, 6)
            quat = jax.vmap(turned)(at[:, 3:], moved[:, 3:])
            parts.append(jnp.concatenate([at[:, :3] + moved[:, :3], quat], axis=1).reshape(-1))
        return jnp.concatenate(parts)


def _alone(model: mujoco.MjModel) -> int:
    """Return the number of free joints at the end whose bodies have no descendants, their centre of
    mass at the origin, and no armature, damping or friction."""
    resists = [np.reshape(x, -1) for x in (model.dof_armature, model.dof_damping, model.dof_frictionloss)]
    count = 0
    for j in reversed(range(model.njnt)):
        b, dof = int(model.jnt_bodyid[j]), int(model.jnt_dofadr[j])
        if (
            model.jnt_type[j] != mujoco.mjtJoint.mjJNT_FREE
            or (model.body_parentid == b).any()
            or np.abs(model.body_ipos[b]).max() > 1e-9
            or any(x[dof : dof + 6].any() for x in resists)
        ):
            break
        count += 1
    return count


def _free_motion(q: Array, v: Array) -> tuple[Array, Array, Array]:
    """Return orientation (3, 3), columns (6, 6) and twist (6,) of a free body at q (7,), v (6,)."""
    x, R = q[:3], kept(quaternion_matrix(q[3:]))
    eye, spin = jnp.eye(3, dtype=q.dtype), turn(R, v[3:])
    lines = [jnp.hstack([eye, jnp.zeros_like(eye)]), jnp.hstack([jnp.cross(x, R.T), R.T])]
    return R, jnp.vstack(lines), jnp.concatenate([v[:3] + cross(x, spin), spin])


def _summed(which: np.ndarray, x: Array) -> Array:
    """Return the sums (K, m) of the rows of x (J, m) selected by the constant 0/1 matrix ``which``
    (K, J), as one fused loop."""
    return jnp.sum(jnp.asarray(which, x.dtype)[:, :, None] * x[None], axis=1)


def turned(quat: Array, angle: Array) -> Array:
    """Return quat ⊗ exp(angle/2), normalised, ``angle`` (3,) in body axes; smooth at zero."""
    x2 = 0.25 * jnp.sum(angle * angle)
    small = x2 < 1e-4
    root = jnp.sqrt(jnp.where(small, 1.0, x2))
    cos = jnp.where(small, 1.0 - x2 / 2 + x2**2 / 24 - x2**3 / 720, jnp.cos(root))
    sinc = jnp.where(small, 1.0 - x2 / 6 + x2**2 / 120 - x2**3 / 5040, jnp.sin(root) / root)
    w, u = quat[0], quat[1:]
    s = 0.5 * sinc * angle
    new = jnp.concatenate([(w * cos - u @ s)[None], w * s + cos * u + cross(u, s)])
    return new * jax.lax.rsqrt(new @ new)


def solve_spd(A: Array, b: Array) -> Array:
    """Return x (K, m) with A x = b for symmetric positive definite A (K, m, m), by a Cholesky
    factorisation that is written out for small m."""
    m = A.shape[-1]
    if m > 6:
        return jnp.stack(
            [jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), y) for a, y in zip(A, b, strict=True)]
        )
    lower: list[list[Array]] = [[None] * m for _ in range(m)]  # type: ignore[list-item]
    inv: list[Array] = []
    y: list[Array] = []
    for i in range(m):
        for j in range(i):
            lower[i][j] = (A[:, i, j] - sum(lower[i][k] * lower[j][k] for k in range(j))) * inv[j]
        inv.append(jax.lax.rsqrt(A[:, i, i] - sum(lower[i][k] ** 2 for k in range(i))))
        y.append((b[:, i] - sum(lower[i][k] * y[k] for k in range(i))) * inv[i])
    for i in reversed(range(m)):
        y[i] = (y[i] - sum(lower[k][i] * y[k] for k in range(i + 1, m))) * inv[i]
    return jnp.stack(y, axis=1)


def _ordered(a: Array, order: np.ndarray) -> Array:
    return a if (order == np.arange(len(order))).all() else a[order]


def _skew(a: Array) -> Array:
    """Return the cross product matrices (…, 3, 3) of (…, 3)."""
    return jnp.cross(jnp.eye(3, dtype=a.dtype)[(None,) * (a.ndim - 1)], a[..., None, :])


def _blocks(ancestors: np.ndarray, inertance: np.ndarray) -> np.ndarray:
    """Return (K, m) groups of joints that move together; one group of all if their sizes differ."""
    n = len(ancestors)
    of = connected_components((ancestors != 0.0) | (inertance != 0.0), directed=False)[1]
    groups = [np.flatnonzero(of == k) for k in np.unique(of)]
    return np.array(groups) if len({len(g) for g in groups}) == 1 else np.arange(n)[None]
