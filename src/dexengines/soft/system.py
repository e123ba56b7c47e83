"""Rigid bodies with soft contact: forward and inverse dynamics, and steps of three integrators, as
pure functions in JAX.

    v̇ = M⁻¹ [τ − c(q, v) + Σ Λ_ab(q, v)],      τ = M v̇ + c − Σ Λ_ab      [24–25]

A :class:`SoftSystem` holds constants (the tree, the bodies that meet); :class:`SystemData` holds
every number, so that one compiled function serves systems of different geometry, masses and contact
parameters, and ``jax.vmap`` over stacked data a batch of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from dexengines.features import FORCES, refuse
from dexengines.soft.contact import Ground, GroundData, Meeting, SoftContact, Surface
from dexengines.soft.forces import Contact, MeetingData
from dexengines.soft.near import Room
from dexengines.soft.scm import Dissipation, paper_dissipation
from dexengines.soft.tree import Motion, Numbers, Tree

__all__ = ["Ground", "Meeting", "SoftSystem", "Surface", "SystemData"]

JOINTS = ("ball joint with a stop", "equality constraint", "tendon with a stop", "dry tendon friction")
LACKS = (*JOINTS, *FORCES)
"""Features of :data:`dexengines.features.FEATURES` that the system does not support."""
OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": ""}
"""``compiler_options`` of ``jax.jit`` for steps in float32: no library calls for sums of a few
thousand numbers, which cost 15 µs each."""
SMALLEST = Room(1, 1, 1)
"""Room of a search that only counts."""
STOP_RATE, STOP_ONSET, STOP_DAMPING = 4.0, 2e-4, 2.5
"""Of the joint limits: the rate √(k/I) times the time step, above what the linearly implicit step
resolves, so that it ends the joint's motion; smoothing over the joint's range; damping over the
time step."""
SLOWEST = 1e-6
"""Slip, far below stiction, under which sliding is not told from rest [m/s]."""


class SystemData(NamedTuple):
    """Every number of a system; a pytree to be traced, stacked or differentiated."""

    numbers: Numbers
    meetings: tuple[MeetingData, ...]
    grounds: tuple[GroundData, ...]
    joint_lower: np.ndarray
    """(N,) smooth limits of the joints; ∓inf where there are none."""
    joint_upper: np.ndarray
    stop_stiffness: np.ndarray
    """(N,) [N/m or N m/rad], from the joint's inertia at the reference and the time step."""
    stop_smoothing: np.ndarray
    """(N,) [m or rad]"""
    stop_damping: np.ndarray
    """() force per speed over force per distance [s]."""


class SoftSystem(SoftContact):
    """Dynamics of a compiled MuJoCo model (its bodies and joints) with soft surfaces on its bodies.

    Args:
        inertance: see :class:`~dexengines.soft.tree.Tree`.

    Raises:
        EngineError: a feature among :data:`LACKS`; see
            :class:`~dexengines.soft.contact.SoftContact`.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        meetings: Sequence[Meeting],
        grounds: Sequence[Ground] = (),
        dissipation: Dissipation = paper_dissipation,
        inertance: np.ndarray | None = None,
    ) -> None:
        refuse("soft", model, LACKS)
        super().__init__(model, Tree(model, inertance), meetings, grounds, dissipation)
        of = model.dof_jntid[: self.tree.num_joints]
        limited = model.jnt_limited[of].astype(bool) & self.tree.single
        self._stops = bool(limited.any())
        self.data = SystemData(
            self.tree.numbers,
            self.meetings,
            self.grounds,
            np.where(limited, model.jnt_range[of, 0], -np.inf),
            np.where(limited, model.jnt_range[of, 1], np.inf),
            np.where(limited, _inertia(model)[: len(of)] * (STOP_RATE / model.opt.timestep) ** 2, 0.0),
            np.where(limited, STOP_ONSET * np.ptp(model.jnt_range[of], axis=1), 1.0),
            np.asarray(STOP_DAMPING * model.opt.timestep),
        )

    def needs(self, data: SystemData, q: Array) -> tuple[Array, ...]:
        """Return the :class:`Room` (3,) int32 that a state needs, of every meeting that has one."""
        m = self.tree.motion(data.numbers, q, jnp.zeros(self.tree.nv, q.dtype))
        return tuple(
            self._near(k, d, m, self._pairs[k], SMALLEST).need
            for k, d in enumerate(data.meetings)
            if self.slots[k] is not None
        )

    def _forces(self, data: SystemData, q: Array, v: Array) -> tuple[Motion, Array, Array, Contact | None]:
        """Return the motion, the joints' mass matrix, Σ Λ − c (nv,) and the contacts."""
        m = self.tree.motion(data.numbers, q, v)
        M, bias = self.tree.mass_and_bias(data.numbers, m, v)
        force = -bias
        contact = self.contact(data, m)
        if contact is not None:
            force = force + self.tree.generalized(m, self.on_links(contact))
        if self._stops:
            force = force + self._stop_force(data, q, v)[0]
        return m, M, force, contact

    def on_links(self, contact: Contact) -> Array:
        """Return the sum of the contact wrenches (L, 6) on every link."""
        links, dtype = len(self.tree.moves), contact.wrench.dtype
        to, of = (jax.nn.one_hot(x, links, axis=0, dtype=dtype) for x in (contact.link_b, contact.link_a))
        return jnp.sum((to - of)[:, :, None] * contact.wrench[None], axis=1)  # faster than a matrix product

    def _stop_force(self, data: SystemData, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return the torque (nv,) of the joint limits, its stiffness (N,) and damping (N,)."""
        n, dtype = self.tree.num_joints, q.dtype
        k, eps, tau = (
            jnp.asarray(x, dtype) for x in (data.stop_stiffness, data.stop_smoothing, data.stop_damping)
        )
        # finite, as infinite numbers would spoil derivatives; a limit far away is never felt
        lower = jnp.maximum(jnp.asarray(data.joint_lower, dtype), -1e3)
        upper = jnp.minimum(jnp.asarray(data.joint_upper, dtype), 1e3)
        at = self.tree.positions(q)
        low, high = (lower - at) / eps, (at - upper) / eps
        slope = k * (jax.nn.sigmoid(low) + jax.nn.sigmoid(high))
        torque = k * eps * (jax.nn.softplus(low) - jax.nn.softplus(high)) - tau * slope * v[:n]
        return jnp.concatenate([torque, jnp.zeros(self.tree.nv - n, dtype)]), slope, tau * slope

    def forward(self, data: SystemData, q: Array, v: Array, tau: Array) -> Array:
        """Return v̇ (nv,) [25]."""
        _, M, force, _ = self._forces(data, q, v)
        return self.tree.solve(data.numbers, M, tau + force)

    def inverse(self, data: SystemData, q: Array, v: Array, acceleration: Array) -> Array:
        """Return τ (nv,) [24]."""
        _, M, force, _ = self._forces(data, q, v)
        return self.tree.full_mass(data.numbers, M) @ acceleration - force

    def euler(
        self, data: SystemData, q: Array, v: Array, tau: Array, dt: float | Array
    ) -> tuple[Array, Array]:
        """Advance by a step of semi-implicit Euler, velocity first."""
        v = v + dt * self.forward(data, q, v, tau)
        return self.tree.integrate(q, v, dt), v

    def rk4(self, data: SystemData, q: Array, v: Array, tau: Array, dt: float | Array) -> tuple[Array, Array]:
        """Advance by a step of fourth-order Runge–Kutta; poses move along the mean of the stages'
        velocities, as in MuJoCo."""
        a1 = self.forward(data, q, v, tau)
        v2 = v + 0.5 * dt * a1
        a2 = self.forward(data, self.tree.integrate(q, v, 0.5 * dt), v2, tau)
        v3 = v + 0.5 * dt * a2
        a3 = self.forward(data, self.tree.integrate(q, v2, 0.5 * dt), v3, tau)
        v4 = v + dt * a3
        a4 = self.forward(data, self.tree.integrate(q, v3, dt), v4, tau)
        q = self.tree.integrate(q, (v + 2.0 * v2 + 2.0 * v3 + v4) / 6.0, dt)
        return q, v + dt / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4)

    def implicit(
        self, data: SystemData, q: Array, v: Array, tau: Array, dt: float | Array
    ) -> tuple[Array, Array]:
        """Advance by a step of linearly implicit Euler: one linear solve, stable for stiff springs
        and sticking friction.

            (M + δt D + δt² K) Δv = δt (τ − c + Λ − δt K v)

        K and D are the symmetric, positive semidefinite part of the contact's stiffness and damping
        (friction as a viscous force of its present strength), so that a Cholesky factor exists. That
        strength would make sliding friction grow by the share Δv/v, which :func:`_kept` takes back.
        """
        m, M, force, contact = self._forces(data, q, v)
        n = self.tree.num_joints
        A = self.tree.full_mass(data.numbers, M)
        force = tau + force
        diagonal = (
            jnp.zeros(self.tree.nv, q.dtype).at[:n].add(dt * jnp.asarray(data.numbers.damping, q.dtype))
        )
        if self._stops:
            _, K, D = self._stop_force(data, q, v)
            diagonal = diagonal.at[:n].add(dt * D + dt * dt * K)
            force = force.at[:n].add(-dt * K * v[:n])
        A = A + jnp.diag(diagonal)
        if contact is not None:
            moves = jnp.asarray(self.tree.moves, q.dtype)
            J = (moves[contact.link_b] - moves[contact.link_a])[:, :, None] * m.columns[None]  # (P, nv, 6)
            KJ = dt * contact.stiffness + contact.damping
            A = A + dt * jnp.einsum("pia,pab,pjb->ij", J, KJ, J, optimize=[(0, 1), (0, 1)])
            relative = m.twist[contact.link_b] - m.twist[contact.link_a]
            rate = jnp.einsum("pab,pb->pa", contact.stiffness, relative)
            force = force - dt * self.tree.generalized(m, self.on_links(contact._replace(wrench=rate)))
        factor = jax.scipy.linalg.cho_factor(A)
        dv = dt * jax.scipy.linalg.cho_solve(factor, force)
        if contact is not None:
            push = jnp.einsum("pab,pb->pa", contact.damping, relative)
            floor = SLOWEST**2 * jnp.trace(contact.damping, axis1=1, axis2=2)
            power = dt * (jnp.sum(push * relative, axis=1) + floor)
            real = jnp.finfo(q.dtype)  # damping far from contact underflows, and may not be definite then
            power = jnp.maximum(power, real.tiny / real.eps)
            dv = dv + _kept(factor, dv, dt * jnp.einsum("pia,pa->ip", J, push), power)
        v = v + dv
        return self.tree.integrate(q, v, dt), v


def _kept(factor: tuple[Array, bool], dv: Array, u: Array, power: Array) -> Array:
    """Return the change (nv,) of Δv by which damping keeps its present force along the present slip,
    since friction does not grow with speed.

    A pair's impulse u = δt J D r, r its relative twist, changes in the step by the share u·Δv/P,
    P = δt r·D r. How stiff it is, ρ = u·A⁻¹u/P, is near 0 where bodies slide freely and near 1 where
    friction stops or holds them within the step, so that the change is needed.

    Args:
        factor: of A.
        u: (nv, P)
        power: (P,)
    """
    x = jax.scipy.linalg.cho_solve(factor, u)
    return x @ ((1.0 - jnp.sum(u * x, axis=0) / power) * (dv @ u) / power)


def _inertia(model: mujoco.MjModel) -> np.ndarray:
    """Return the diagonal (nv,) of the mass matrix at the reference [kg or kg m²]."""
    data, full = mujoco.MjData(model), np.zeros((model.nv, model.nv))
    mujoco.mj_forward(model, data)
    mujoco.mj_fullM(model, data, full)
    return np.diagonal(full)
