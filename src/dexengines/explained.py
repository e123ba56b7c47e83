"""Contact forces told from motion alone, for engines whose own are impulses of sub-steps: the
smallest that explain a step."""

from __future__ import annotations

import copy
from typing import NamedTuple

import mujoco
import numpy as np

from dexengines.forces import Forces

MARGIN = 1e-4
"""Gap up to which geoms count as touching [m]."""
SIDES = 8
"""Of the pyramid that stands for the friction cone."""


SMALL = 1e-6
"""Weight of small forces against right ones."""


class Explained(NamedTuple):
    """One contact point of MuJoCo's collision detection."""

    a: int
    b: int
    """Geoms."""
    point_W: np.ndarray
    normal_W: np.ndarray
    """(3,) from a to b."""
    gap: float
    force_W: np.ndarray
    """(3,) on b, mean over the step [N]."""


def explained(
    model: mujoco.MjModel, forces: Forces, q: np.ndarray, v: np.ndarray, after: np.ndarray, tau: np.ndarray
) -> list[Explained]:
    """Forces f in the friction cones, and at joint stops, with  Jᵀ f = M (v⁺ − v)/δt + c + D v⁺ − τ
    as closely as can be.

    Where more contacts bear a body than it needs, many forces do; the smallest are given.

    Args:
        forces: of the model.
        q, v: (nq,), (nv,) state at the start of the step. after: (nv,) velocities at its end.
        tau: (nv,) of ``forces``.
    """
    from scipy.optimize import nnls

    model = copy.copy(model)
    model.geom_margin[:] = MARGIN
    model.pair_margin[:] = MARGIN
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_fwdPosition(model, data)
    mujoco.mj_fwdVelocity(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    M += forces.inertance
    asked = M @ (after - v) / model.opt.timestep + data.qfrc_bias + forces.damping(v) * after - tau
    columns, edges = [], []
    for contact in data.contact:
        edges.append(_pyramid(contact))
        jacobian = _jacobian(model, data, contact)
        columns += [jacobian.T @ edge for edge in edges[-1]]
    for j in np.flatnonzero(model.jnt_limited):
        if model.jnt_type[j] in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
            low, high = model.jnt_range[j]
            at = q[model.jnt_qposadr[j]]
            for near, sign in ((at - low < 1e-3, 1.0), (high - at < 1e-3, -1.0)):
                if near:
                    columns.append(sign * np.eye(model.nv)[model.jnt_dofadr[j]])
    if not edges:
        return []
    root = np.linalg.cholesky(M)
    effect = np.linalg.solve(root, np.array(columns).T)
    few = SMALL * np.abs(effect).max() * np.eye(len(columns))
    share, _ = nnls(
        np.vstack([effect, few]), np.concatenate([np.linalg.solve(root, asked), np.zeros(len(columns))])
    )
    result, k = [], 0
    for contact, directions in zip(data.contact, edges, strict=True):
        force = share[k : k + len(directions)] @ directions
        k += len(directions)
        a, b = (int(g) for g in contact.geom)
        result.append(
            Explained(a, b, contact.pos.copy(), contact.frame[:3].copy(), float(contact.dist), force)
        )
    return result


def _pyramid(contact: mujoco.MjContact) -> np.ndarray:
    """(SIDES, 3) edges of the friction cone, on the second geom, or (1, 3) without friction."""
    normal, t1, t2 = contact.frame.reshape(3, 3)
    if contact.dim == 1:
        return normal[None]
    angle = 2.0 * np.pi * np.arange(SIDES) / SIDES
    return normal + contact.friction[0] * (np.cos(angle)[:, None] * t1 + np.sin(angle)[:, None] * t2)


def _jacobian(model: mujoco.MjModel, data: mujoco.MjData, contact: mujoco.MjContact) -> np.ndarray:
    """(3, nv) of the second geom's velocity against the first's, where they touch."""
    parts = np.zeros((2, 3, model.nv))
    for part, geom in zip(parts, contact.geom, strict=True):
        mujoco.mj_jac(model, data, part, None, contact.pos, model.geom_bodyid[geom])
    return parts[1] - parts[0]
