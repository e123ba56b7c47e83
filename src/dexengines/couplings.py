"""Coupled joints, q_f − q_f0 = a₀ + a₁ (q_l − q_l0): MuJoCo's ``equality/joint``, for engines
without constraints.

MuJoCo's soft constraint [Computation, eq. 6 and 11] at the impedance d of zero error applies the
force f = (−b ṙ − k r − r̈)/R to the error r of a coupling, with R = (1 − d)/d Â and Â its inverse
inertia at qpos0. The part −r̈/R is an inertance 1/R between the two joints and belongs to the mass
matrix; the rest is a spring and a damper.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import mujoco
import numpy as np


class Couplings(NamedTuple):
    """Parameters of K couplings, (K,) each."""

    follower: np.ndarray
    leader: np.ndarray
    """Joint, or −1 if the follower is held at a₀."""
    ratio: np.ndarray
    """a₁"""
    error: np.ndarray
    """r at q = 0, where r = q_f − a₁ q_l + ``error``."""
    inertance: np.ndarray
    """1/R [kg or kg m²]"""
    stiffness: np.ndarray
    """k/R"""
    damping: np.ndarray
    """b/R"""


def proportional(model: mujoco.MjModel) -> np.ndarray:
    """Return which equality constraints (neq,) are active and linear couplings of joints."""
    joint = np.asarray(model.eq_type) == mujoco.mjtEq.mjEQ_JOINT
    straight = ~np.any(np.reshape(model.eq_data, (model.neq, mujoco.mjNEQDATA))[:, 2:5], axis=1)
    return joint & straight & (np.asarray(model.eq_active0) > 0)


def read_couplings(model: mujoco.MjModel) -> Couplings:
    """Return the couplings among :func:`proportional` constraints."""
    rows = []
    for e in np.flatnonzero(proportional(model)):
        follower, leader = int(model.eq_obj1id[e]), int(model.eq_obj2id[e])
        a0, a1 = model.eq_data[e, :2]
        zero = -a0 - model.qpos0[model.jnt_qposadr[follower]]
        mobility = model.dof_invweight0[model.jnt_dofadr[follower]]
        if leader >= 0:
            zero += a1 * model.qpos0[model.jnt_qposadr[leader]]
            mobility += model.dof_invweight0[model.jnt_dofadr[leader]]
        d, most = np.clip(model.eq_solimp[e, :2], 1e-4, 1.0 - 1e-4)
        inertance = d / ((1.0 - d) * max(mobility, 1e-15))
        k, b = _reference(model.eq_solref[e], most, model.opt.timestep)
        rows.append(
            (follower, leader, a1 if leader >= 0 else 0.0, zero, inertance, k * inertance, b * inertance)
        )
    columns = np.array(rows).reshape(-1, 7).T
    return Couplings(columns[0].astype(int), columns[1].astype(int), *columns[2:])


def _reference(solref: np.ndarray, most: float, dt: float) -> tuple[float, float]:
    """Return stiffness [1/s²] and damping [1/s] of MuJoCo's reference acceleration, with a time
    constant of at least two steps."""
    if solref[0] <= 0.0:
        return -solref[0] / most**2, -solref[1] / most
    constant, ratio = max(solref[0], 2.0 * dt), max(solref[1], 1e-6)
    return 1.0 / (most * constant * ratio) ** 2, 2.0 / (most * constant)


def directions(model: mujoco.MjModel, c: Couplings) -> np.ndarray:
    """Return the rates (K, nv) of the errors per velocity."""
    rows = np.zeros((len(c.ratio), model.nv))
    for row, follower, leader, ratio in zip(rows, c.follower, c.leader, c.ratio, strict=True):
        row[model.jnt_dofadr[follower]] = 1.0
        if leader >= 0:
            row[model.jnt_dofadr[leader]] -= ratio
    return rows


def inertance(model: mujoco.MjModel) -> np.ndarray:
    """Return the part (nv, nv) of the mass matrix that the model's couplings add."""
    c = read_couplings(model)
    a = directions(model, c)
    return a.T @ (c.inertance[:, None] * a)


def reflected(model: mujoco.MjModel) -> np.ndarray:
    """Return the part (nv, nv) of MuJoCo's mass matrix that the inertia of tendons and actuators
    adds; it must not depend on the pose."""
    without = copy.copy(model)
    without.tendon_armature[:] = without.actuator_armature[:] = 0.0
    masses = np.zeros((2, model.nv, model.nv))
    for m, mass in zip((model, without), masses, strict=True):
        data = mujoco.MjData(m)
        mujoco.mj_fwdPosition(m, data)
        mujoco.mj_fullM(m, data, mass)
    return masses[0] - masses[1]


def changes_with_the_pose(model: mujoco.MjModel) -> list[str]:
    """Return the names of tendons and actuators whose reflected inertia depends on the pose."""
    bent = [
        t
        for t in np.flatnonzero(model.tendon_armature)
        if model.wrap_type[model.tendon_adr[t]] != mujoco.mjtWrap.mjWRAP_JOINT
    ]
    fixed = [int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_TENDON)]
    driven = [k for k in np.flatnonzero(model.actuator_armature) if model.actuator_trntype[k] not in fixed]
    return [model.tendon(int(t)).name or f"tendon {t}" for t in bent] + [
        model.actuator(int(k)).name or f"actuator {k}" for k in driven
    ]


def entries(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nonzero entries (E,) of a symmetric matrix's lower triangle, and their rows and
    columns (E, 2)."""
    at = np.ascontiguousarray(np.argwhere(np.tril(matrix)))
    return matrix[at[:, 0], at[:, 1]], at


def errors(model: mujoco.MjModel, c: Couplings, q: np.ndarray) -> np.ndarray:
    """Return the errors r (K,) [m or rad] at positions (nq,)."""
    led = np.where(c.leader >= 0, c.ratio * q[model.jnt_qposadr[c.leader]], 0.0)
    return q[model.jnt_qposadr[c.follower]] - led + c.error
