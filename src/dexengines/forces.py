"""Generalised forces that MuJoCo computes for other engines: actuators, springs, tendons, coupled
joints, dry friction, gravity compensation, drag."""

from __future__ import annotations

import copy

import mujoco
import numpy as np

from dexengines.couplings import directions, errors, inertance, proportional, read_couplings

CREEP = 1e-3
"""Speed below which dry joint friction is viscous [m/s or rad/s]: a held joint creeps slower."""


class Forces:
    """Forces on a model's joints other than contact, stops, gravity and linear joint damping, which
    engines compute.

    Springs and position servos are linearly implicit: τ − (δt k + d)(v⁺ − v) with their stiffness k
    and damping d at the joint, so that stiff ones stay stable and lose no energy. :func:`bare` adds
    δt k + d to the joints' damping, :meth:`at` compensates for it at v. Dry friction F is a damping
    F/|v| on each step's end velocity: it stops a joint and never reverses it.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = contactless(model)
        self._data = mujoco.MjData(model)
        self._damping = np.reshape(model.dof_damping, -1) + slopes(model)
        self._loss = np.reshape(model.dof_frictionloss, -1).copy()
        self.dry = bool(self._loss.any())
        """True if :meth:`damping` depends on the velocities."""
        self._couplings = read_couplings(model)
        self._pull = directions(model, self._couplings)
        self.inertance = inertance(model)
        """(nv, nv) part of the mass matrix of coupled joints."""
        passive = any(np.any(numbers) for numbers in (*_springs(model), model.dof_dampingpoly))
        self.any = bool(model.nu or passive or len(self._pull) or model.opt.density or model.opt.viscosity)

    def at(
        self, q: np.ndarray, v: np.ndarray, control: np.ndarray, activation: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the forces (nv,) [N or N m] and the rates (na,) of the actuators' activations."""
        if not self.any:
            return np.zeros(self._model.nv), np.zeros(0)
        model, data = self._model, self._data
        data.qpos[:], data.qvel[:], data.ctrl[:], data.act[:] = q, v, control, activation
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        mujoco.mj_fwdActuation(model, data)
        tau = data.qfrc_actuator + data.qfrc_passive + self._damping * v
        if len(self._pull):
            c = self._couplings
            tau -= (c.stiffness * errors(model, c, q) + c.damping * (self._pull @ v)) @ self._pull
        return tau, data.act_dot.copy()

    def damping(self, v: np.ndarray) -> np.ndarray:
        """Return the damping (nv,) [N s/m or N m s/rad] on the end velocities of a step that begins
        at ``v`` (nv,)."""
        return self._damping + self._loss / np.maximum(np.abs(v), CREEP)


def slopes(model: mujoco.MjModel) -> np.ndarray:
    """Return δt k + d (nv,) of springs and of servos that act on one joint [N s/m or N m s/rad]."""
    dt, result = model.opt.timestep, np.zeros(model.nv)
    single = [int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)]
    for j in np.flatnonzero(np.isin(model.jnt_type, single)):
        result[model.jnt_dofadr[j]] += dt * np.ravel(model.jnt_stiffness)[j]
    if model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_ACTUATION:
        return result
    for k in range(model.nu):
        joint = int(model.actuator_trnid[k, 0])
        servo = (
            model.actuator_trntype[k] == mujoco.mjtTrn.mjTRN_JOINT
            and model.actuator_biastype[k] == mujoco.mjtBias.mjBIAS_AFFINE
        )
        if servo and model.jnt_type[joint] in single:
            stiffness, damping = -model.actuator_biasprm[k, 1:3]
            result[model.jnt_dofadr[joint]] += model.actuator_gear[k, 0] ** 2 * max(
                0.0, dt * stiffness + damping
            )
    return result


def contactless(model: mujoco.MjModel) -> mujoco.MjModel:
    """Return a copy without MuJoCo's contacts and constraints."""
    model = copy.copy(model)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    return model


def bare(model: mujoco.MjModel) -> mujoco.MjModel:
    """Return a copy without the forces of :class:`Forces`, with their implicit part as joint
    damping."""
    extra, coupled = slopes(model) + np.reshape(model.dof_frictionloss, -1) / CREEP, proportional(model)
    model = copy.copy(model)
    model.dof_damping[:] += np.reshape(extra, model.dof_damping.shape)
    for numbers in (*_springs(model), model.dof_dampingpoly, model.dof_frictionloss):
        numbers[:] = 0.0
    model.eq_active0[coupled] = 0
    return model


def _springs(model: mujoco.MjModel) -> tuple[np.ndarray, ...]:
    m = model
    tendons = m.tendon_stiffness, m.tendon_stiffnesspoly, m.tendon_damping, m.tendon_dampingpoly
    return m.jnt_stiffness, m.jnt_stiffnesspoly, *tendons, m.body_gravcomp
