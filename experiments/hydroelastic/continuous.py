"""Continuous mode: contact forces as a function of the state, integrated with error control or in
fixed steps.

    M(q) v̇ = τ − c(q, v) + Σ_pairs Jᵀ w(q, v),   q̇ = N(q) v

with the wrench w of ``forces.py``: pressure with dissipation and regularised friction, integrated
over the fan of every polygon, so that it is continuous in the state. A joint δ past its stop is
pushed back by

    f = k δ (1 + χ δ̇)₊,   k = 1/(m⁻¹ T²)

with the inverse inertia m⁻¹ of the joint at qpos0: alone it comes to a stop in π/2 T, and undamped
leaves as fast as it came.
"""

from __future__ import annotations

from collections.abc import Iterator

import mujoco
import numpy as np
from scipy import integrate

from dexengines.hydroelastic.discrete import BUNDLE, _pair_jacobian, find_surface, place_boxes
from dexengines.hydroelastic.system import HydroelasticSystem
from dexengines.kernels import entry, load
from dexstack.errors import ConfigError
from experiments.hydroelastic.forces import ContactLaw, wrench_kernel

METHODS = {
    "Radau": integrate.Radau,
    "BDF": integrate.BDF,
    "LSODA": integrate.LSODA,
    "DOP853": integrate.DOP853,
    "RK45": integrate.RK45,
}
"""Error-controlled methods of scipy; the first three are implicit."""
STOP_TIME = 1e-4
"""T of the joints' stops [s]."""
FIXED = ("euler", "midpoint", "rk4")
"""Fixed-step methods: semi-implicit Euler, explicit midpoint, and the classical one of order
four."""


@entry
def _contact_force(address: int, stiction_speed: float, force: np.ndarray) -> int:
    """Generalised contact force (nv,) at the poses of a stored bundle; the number of faces, or −1
    if an array is too small."""
    s, state, surface, p, _, contacts = load(address, BUNDLE)
    force[:] = 0.0
    place_boxes(s, state, contacts)
    faces = 0
    twist, wrench, about = np.empty(6), np.empty(6), np.empty(3)
    for k in range(s.pairs.shape[0]):
        n = find_surface(s, state, contacts, k, surface)
        if n < 0:
            return -1
        if n == 0:
            continue
        faces += n
        ga, gb = s.pairs[k, 0], s.pairs[k, 1]
        a, b = s.geom_body[ga], s.geom_body[gb]
        about[:] = surface.centroid_W[0]
        _pair_jacobian(s, state, b, a, about, p, 0)  # of A relative to B
        for i in range(6):
            twist[i] = 0.0
            for j in range(p.pair_ndof[0]):
                twist[i] += p.pair_J[0, i, j] * state.qvel[p.pair_dof[0, j]]
        law = ContactLaw(1.0, 0.0, 0.0, s.pair_relaxation[k], s.pair_friction[k], stiction_speed)
        wrench_kernel(surface, n, law, s.geom_rigid[gb] == 1, about, twist[3:], twist[:3], wrench)
        for j in range(p.pair_ndof[0]):
            x = 0.0
            for i in range(3):
                x += p.pair_J[0, i, j] * wrench[3 + i] + p.pair_J[0, 3 + i, j] * wrench[i]
            force[p.pair_dof[0, j]] += x
    return faces


class ContinuousSystem:
    """The same scene as a system of differential equations.

    Args:
        system: bodies and meshes; its state is where the integration starts, and follows it.
        stiction_speed: v_s of the regularised friction [m/s].
        stop_dissipation: χ of the joints' stops [s/rad or s/m].
    """

    def __init__(
        self, system: HydroelasticSystem, stiction_speed: float = 1e-4, stop_dissipation: float = 0.0
    ) -> None:
        self.system = system
        self._stop_dissipation = stop_dissipation
        stops = system.static
        self._stop_stiffness = 1.0 / (
            np.maximum(system.model.dof_invweight0[stops.limit_dof], 1e-15) * STOP_TIME**2
        )
        self.stiction_speed = stiction_speed
        system.drop_angle(np.pi)  # a face dropped for its angle would be a jump of the force
        self.model, self.data = system.model, system.data
        self.evaluations = 0
        """Calls of :meth:`rate`."""
        self.faces = 0
        """Faces at the last call of :meth:`rate`."""
        self._force = np.zeros(self.model.nv)
        if np.any(self.model.jnt_type == mujoco.mjtJoint.mjJNT_BALL):
            raise ConfigError("the continuous mode takes free, hinge and slide joints, no ball joints")

    @property
    def state(self) -> np.ndarray:
        """(nq + nv,) positions and velocities now."""
        return np.concatenate([self.data.qpos, self.data.qvel])

    def place(self, y: np.ndarray) -> None:
        """Bring the bodies into state ``y``; quaternions are made unit."""
        nq = self.model.nq
        self.data.qpos[:], self.data.qvel[:] = y[:nq], y[nq:]
        mujoco.mj_normalizeQuat(self.model, self.data.qpos)
        mujoco.mj_fwdPosition(self.model, self.data)
        mujoco.mj_fwdVelocity(self.model, self.data)

    def rate(self, t: float, y: np.ndarray) -> np.ndarray:
        """ẏ (nq + nv,); a solver's right-hand side."""
        model, data = self.model, self.data
        self.evaluations += 1
        self.place(y)
        while True:
            faces = _contact_force(self.system.stored.address, self.stiction_speed, self._force)
            if faces >= 0:
                break
            self.system.enlarge()
        self.faces = faces
        self._add_stops()
        acceleration = np.empty((1, model.nv))
        mujoco.mj_factorM(model, data)
        mujoco.mj_solveM(
            model,
            data,
            acceleration,
            (self._force + data.qfrc_passive + data.qfrc_applied - data.qfrc_bias)[None],
        )
        return np.concatenate([self._position_rate(), acceleration[0]])

    def _add_stops(self) -> None:
        s = self.system.static
        at, v = self.data.qpos[s.limit_qpos], self.data.qvel[s.limit_dof]
        for depth, sign in ((s.limit_range[:, 0] - at, 1.0), (at - s.limit_range[:, 1], -1.0)):
            back = np.maximum(1.0 - sign * self._stop_dissipation * v, 0.0)
            np.add.at(self._force, s.limit_dof, sign * self._stop_stiffness * np.maximum(depth, 0.0) * back)

    def jacobian(self, t: float, y: np.ndarray) -> np.ndarray:
        """∂ẏ/∂y by differences of fixed width: scipy's own widen without end along coordinates that
        nothing depends on."""
        base = self.rate(t, y)
        columns = []
        for i in range(y.size):
            x = y.copy()
            x[i] += 1e-7
            columns.append((self.rate(t, x) - base) / (x[i] - y[i]))
        return np.array(columns).T

    def run(
        self,
        seconds: float,
        *,
        method: str = "Radau",
        rtol: float = 1e-8,
        atol: float = 1e-10,
        max_step: float = 5e-3,
    ) -> Iterator[tuple[float, np.ndarray]]:
        """Integrate with error control; yields time [s] and state after every accepted step.

        Args:
            seconds: from now.
            method: one of :data:`METHODS`.
            rtol, atol: of the local error.
            max_step: bounds how far a body may travel before contact is looked for [s].

        Raises:
            ConfigError: an unknown method.
            FloatingPointError: the method gave up.
        """
        if method not in METHODS:
            raise ConfigError(f"unknown method '{method}'; known: {', '.join(METHODS)}")
        start = self.data.time
        options = {"jac": self.jacobian} if method in ("Radau", "BDF") else {}
        solver = METHODS[method](
            self.rate,
            0.0,
            self.state,
            seconds,
            rtol=rtol,
            atol=atol,
            max_step=max_step,
            first_step=1e-6,
            **options,
        )
        while solver.status == "running":
            message = solver.step()
            if solver.status == "failed":
                raise FloatingPointError(f"{method} gave up at {start + solver.t:.4f} s: {message}")
            self.place(solver.y)
            self.data.time = start + solver.t
            yield start + solver.t, solver.y
        self.place(solver.y)

    def run_fixed(
        self, seconds: float, dt: float, *, method: str = "rk4"
    ) -> Iterator[tuple[float, np.ndarray]]:
        """The same in fixed steps of ``dt`` [s] with one of :data:`FIXED`."""
        if method not in FIXED:
            raise ConfigError(f"unknown method '{method}'; known: {', '.join(FIXED)}")
        start, y, nq = self.data.time, self.state, self.model.nq
        for k in range(round(seconds / dt)):
            k1 = self.rate(0.0, y)
            if method == "euler":
                v = y[nq:] + dt * k1[nq:]
                self.data.qvel[:] = v
                y = np.concatenate([y[:nq] + dt * self._position_rate(), v])
            elif method == "midpoint":
                y = y + dt * self.rate(0.0, y + 0.5 * dt * k1)
            else:
                k2 = self.rate(0.0, y + 0.5 * dt * k1)
                k3 = self.rate(0.0, y + 0.5 * dt * k2)
                k4 = self.rate(0.0, y + dt * k3)
                y = y + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            self.place(y)
            self.data.time = start + (k + 1) * dt
            yield self.data.time, y

    def energy(self) -> float:
        """Kinetic and gravitational energy at the state placed last [J]; the contacts' own is not
        in it."""
        mujoco.mj_energyPos(self.model, self.data)
        mujoco.mj_energyVel(self.model, self.data)
        return float(self.data.energy.sum())

    def _position_rate(self) -> np.ndarray:
        """q̇ (nq,) = N(q) v."""
        model, data = self.model, self.data
        rate = np.empty(model.nq)
        for j in range(model.njnt):
            q, v = model.jnt_qposadr[j], model.jnt_dofadr[j]
            if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE:
                rate[q : q + 3] = data.qvel[v : v + 3]
                quat = np.empty(4)
                # of an angular velocity in body axes; mju_derivQuat takes one in world
                mujoco.mju_mulQuat(
                    quat, data.qpos[q + 3 : q + 7], np.concatenate([[0.0], data.qvel[v + 3 : v + 6]])
                )
                rate[q + 3 : q + 7] = 0.5 * quat
            else:
                rate[q] = data.qvel[v]
        return rate
