"""The planner's problem as the paper solves it: multiple shooting in CasADi with IPOPT, on the contact sets that the MPC plans with.

    min_{u, x} Σ_t c(x_t) + c_T(x_T) + ω_u Σ_t ‖u_t‖²     s.t.  x_{t+1} = f(x_t, u_t),  |u_t| ≤ u_max,  joint limits                    [22]

x_t is the displacement since the current state and the object's quaternion. f is either the closed form of D-SDF, or the step
problem itself by its KKT conditions with relaxed complementarity (the paper's QP-model MPC):

    Q dq = b(u) + Jᵀ λ,     J dq + φ ≥ 0,     λ ≥ 0,     λ_i (J dq + φ)_i ≤ ε
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dexstack.contact.contact import Contacts
from dexstack.control.mpc import Mpc
from dexstack.control.problem import FRICTION_DIRECTIONS, OBJECT_DOF, ModelParams, step_problem
from dexstack.errors import ConfigError

GRAVITY = 9.81
RELAXATION = 1e-4
"""ε of the complementarity conditions, the paper's [N m]."""
FAR = -1e3
"""Offset of the plane of a contact that is not there [√J]."""
IPOPT = {"print_level": 0, "sb": "yes", "max_iter": 200, "tol": 1e-6}


@dataclass(frozen=True)
class Planning:
    """One planning problem of the closed loop."""

    pose_WO: np.ndarray
    q: np.ndarray
    contacts: Contacts
    goal_WO: np.ndarray


@dataclass(frozen=True)
class NlpSolution:
    """One solve by IPOPT."""

    plan: np.ndarray
    """(T, N) commanded displacements [rad]."""
    motion: np.ndarray
    """(T, 6 + N) displacements of object [m, rad] and joints [rad] from the current state, after each step."""
    cost: float
    cpu_s: float
    solved: bool
    """IPOPT met its tolerance."""


class NlpBaseline:
    """Solves what an :class:`~dexstack.control.mpc.Mpc` solves, for one θ and one set of weights of the Allegro task."""

    def __init__(self, mpc: Mpc, theta: ModelParams, weights: dict[str, np.ndarray], capacity: int, *, kkt: bool = False) -> None:
        """Build and expand the problem for ``capacity`` contacts.

        Args:
            kkt: the step problem by its relaxed KKT conditions; otherwise D-SDF.

        Raises:
            ConfigError: CasADi is not installed.
        """
        try:
            import casadi
        except ModuleNotFoundError:
            raise ConfigError("the baseline needs casadi: pip install 'dexstack[baseline]'") from None
        self._tree, self._h, self._theta = mpc.robot.kinematics(), mpc.params.step, theta
        self._freeze = jax.jit(self._frozen)
        n, T, C = len(mpc.robot.joint_names), mpc.params.horizon, capacity
        V, M, F = OBJECT_DOF + n, FRICTION_DIRECTIONS * capacity, len(jnp.asarray(self._tree.tip_body))
        w = {name: float(value) for name, value in weights.items()}
        stiffness, Q = np.asarray(theta.stiffness, float), np.concatenate([theta.inertia / self._h**2, theta.stiffness / theta.cover])
        ca, SX = casadi, casadi.SX
        shapes = {"p": (3, 1), "quat": (4, 1), "q": (n, 1), "goal": (7, 1), "tips": (3, F), "J_tip": (3 * F, n), "Jn": (C, V)}
        shapes |= {"J": (M, V), "phi": (C, 1), "normals": (M, V), "offsets": (M, 1), "inv_length": (M, 1)}
        P = {name: SX.sym(name, *shape) for name, shape in shapes.items()}

        def cost_of(d: Any, quat: Any, running: bool) -> Any:
            p = P["p"] + d[:3]
            a, b = P["goal"][3:], quat
            vector = a[0] * b[1:] - b[0] * a[1:] - ca.cross(a[1:], b[1:])
            goal = w["position_weight"] * ca.sumsqr(p - P["goal"][:3]) + w["orientation_weight"] * ca.sumsqr(vector)
            if not running:
                return goal
            tips = P["tips"] + ca.reshape(P["J_tip"] @ d[OBJECT_DOF:], 3, F)
            return w["contact_weight"] * ca.sumsqr(tips - ca.repmat(p, 1, F)) + w["running_weight"] * goal

        def turned(quat: Any, r: Any) -> Any:
            half_square = ca.sumsqr(r) / 4
            half = ca.sqrt(half_square + 1e-16)
            s = ca.sin(half) / half / 2
            v = s * r
            c0, c = ca.cos(half), quat[1:]
            return ca.vertcat(quat[0] * c0 - ca.dot(c, v), quat[0] * v + c0 * c + ca.cross(c, v))

        x, lbx, ubx, g, lbg, ubg, cost = [], [], [], [], [], [], 0
        margin = mpc.params.limit_margin
        lower, upper = mpc.robot.lower + margin, mpc.robot.upper - margin

        def bound(expression: Any, low: Any, high: Any) -> None:
            g.append(expression)
            lbg.append(np.broadcast_to(np.asarray(low, float), (expression.numel(),)))
            ubg.append(np.broadcast_to(np.asarray(high, float), (expression.numel(),)))

        def variable(name: str, size: int, low: float, high: float) -> Any:
            v = SX.sym(name, size)
            x.append(v)
            lbx.append(np.full(size, low))
            ubx.append(np.full(size, high))
            return v

        d, quat = SX.zeros(V), P["quat"]
        for t in range(T):
            u = variable(f"u{t}", n, -mpc.params.u_max, mpc.params.u_max)
            following = variable(f"d{t}", V, -1.0, 1.0)
            following_quat = variable(f"quat{t}", 4, -1.1, 1.1)
            b = ca.vertcat(0, 0, -GRAVITY * float(theta.mass), 0, 0, 0, stiffness * u)
            phi = ca.reshape(ca.repmat((P["phi"] + P["Jn"] @ d).T, FRICTION_DIRECTIONS, 1), M, 1)
            dq = following - d
            if kkt:
                force = variable(f"force{t}", M, 0.0, np.inf)
                gap = P["J"] @ dq + phi
                bound(Q * dq - b - P["J"].T @ force, 0.0, 0.0)
                bound(gap, 0.0, np.inf)
                bound(force * gap, -np.inf, RELAXATION)
            else:
                z = b / np.sqrt(Q)
                e = ca.exp(float(theta.sigma) * (P["normals"] @ z + P["offsets"] - phi * P["inv_length"]))
                total = 1 + ca.sum1(e)
                moved = z - ca.log(total) / float(theta.sigma) * (P["normals"].T @ e) / total
                bound(dq - moved / np.sqrt(Q), 0.0, 0.0)
            bound(following_quat - turned(quat, dq[3:OBJECT_DOF]), 0.0, 0.0)
            bound(P["q"] + d[OBJECT_DOF:] + u, lower, upper)
            bound(P["q"] + following[OBJECT_DOF:], lower, upper)
            d, quat = following, following_quat
            cost += cost_of(d, quat, True) + mpc.params.effort_weight * ca.sumsqr(u)
        cost += cost_of(d, quat, False)
        self._names, self._sizes = list(P), [v.numel() for v in x]
        parameters = ca.vertcat(*(ca.vec(P[name]) for name in self._names))
        problem = {"x": ca.vertcat(*x), "f": cost, "g": ca.vertcat(*g), "p": parameters}
        # the longest horizon's Hessian has a few thousand entries: exact derivatives, as CasADi gives them by default
        self._solver = ca.nlpsol("planner", "ipopt", problem, {"ipopt": IPOPT, "print_time": False})
        self._bounds = {"lbx": np.concatenate(lbx), "ubx": np.concatenate(ubx), "lbg": np.concatenate(lbg), "ubg": np.concatenate(ubg)}
        self._T, self._n, self._per_step = T, n, len(x) // T
        self._start: np.ndarray | None = None

    def _frozen(self, pose_WO: Any, q: Any, contacts: Contacts) -> Any:
        poses = self._tree.poses(q)
        tips = self._tree.fingertips(poses)
        J_tip = self._tree.point_jacobian(poses, tips, jnp.asarray(self._tree.tip_body))
        return step_problem(self._tree, poses, pose_WO, contacts, self._theta, self._h), tips, J_tip

    def solve(self, problem: Planning) -> NlpSolution:
        """Solve one problem, from the solution of the last; only IPOPT's own time counts, not the contact rows'."""
        pose, q = np.asarray(problem.pose_WO, np.float32), np.asarray(problem.q, np.float32)
        step, tips, J_tip = jax.tree.map(lambda a: np.asarray(a, float), self._freeze(pose, q, problem.contacts))
        rows = step.J / np.sqrt(step.Q)
        length = np.linalg.norm(rows, axis=1)
        there = length > 1e-6
        inv_length = np.where(there, 1 / np.where(there, length, 1.0), 0.0)
        values = {
            "p": pose[:3], "quat": pose[3:] / np.linalg.norm(pose[3:]), "q": q, "goal": problem.goal_WO, "tips": tips.T,
            "J_tip": J_tip.reshape(-1, self._n), "Jn": step.Jn, "J": step.J, "phi": step.phi, "normals": -rows * inv_length[:, None],
            "offsets": np.where(there, 0.0, FAR), "inv_length": inv_length,
        }  # fmt: skip
        p = np.concatenate([np.asarray(values[name], float).ravel(order="F") for name in self._names])
        if self._start is None:
            self._start = self._at_rest(values["quat"])
        cpu = time.process_time()
        out = self._solver(x0=self._start, p=p, **self._bounds)
        cpu = time.process_time() - cpu
        solved = bool(self._solver.stats()["success"])
        found = np.asarray(out["x"]).ravel()
        if np.all(np.isfinite(found)):
            self._start = found
        parts = np.split(found, np.cumsum(self._sizes)[:-1])
        plan, motion = (np.stack(parts[k :: self._per_step]) for k in (0, 1))
        return NlpSolution(plan, motion, float(out["f"]), cpu, solved)

    def _at_rest(self, quat: np.ndarray) -> np.ndarray:
        """The variables where nothing moves."""
        parts = [np.zeros(size) for size in self._sizes]
        for t in range(self._T):
            parts[t * self._per_step + 2] = quat
        return np.concatenate(parts)
