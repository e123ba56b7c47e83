"""The planner's problem as the paper solves it: multiple shooting in CasADi with IPOPT, on the contact
sets of the MPC.

    min_{u, x}   Σ_t c(x_t) + c_T(x_T) + ω_u Σ_t ‖u_t‖²                             [22]
    s.t.         x_{t+1} = f(x_t, u_t),  |u_t| ≤ u_max,  joint limits

x_t consists of the displacement from the current state and the object's quaternion. c and c_T are the
residuals of the task, traced from JAX. f is either the closed form of D-SDF or the step problem by its
KKT conditions with relaxed complementarity (the paper's QP-model MPC):

    Q dq = b(u) + Jᵀ λ,     J dq + φ ≥ 0,     λ ≥ 0,     λ_i (J dq + φ)_i ≤ ε
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dexstack.config import numbers
from dexstack.contact.contact import Contacts
from dexstack.control.base import Cost, PlannedState
from dexstack.control.planners.gauss_newton import MpcParams
from dexstack.control.problem import FRICTION_DIRECTIONS, OBJECT_DOF, ModelParams, step_problem
from dexstack.errors import ConfigError
from dexstack.model.robot import Robot
from dexstack.process.compilation import jit
from experiments.contactsdf.plan_cost import Planning
from experiments.contactsdf.symbolic import symbolic

GRAVITY = 9.81
RELAXATION = 1e-4
"""ε of the complementarity conditions, as in the paper [N m]."""
FAR = -1e3
"""Offset of the plane of an inactive contact [√J]."""
IPOPT = {"print_level": 0, "sb": "yes", "max_iter": 200, "tol": 1e-6}


@dataclass(frozen=True)
class NlpSolution:
    """One solve by IPOPT."""

    plan: np.ndarray
    """(T, N) commanded displacements [rad]."""
    cost: float
    """IPOPT's objective."""
    cpu_s: float
    solved: bool
    """True if IPOPT met its tolerance."""


class _Unknowns:
    """Variables and constraints with their bounds."""

    def __init__(self, casadi: Any) -> None:
        self._ca = casadi
        self.x: list[Any] = []
        self.g: list[Any] = []
        self.bounds: dict[str, list[np.ndarray]] = {"lbx": [], "ubx": [], "lbg": [], "ubg": []}

    def variable(self, name: str, size: int, low: float, high: float) -> Any:
        """Add and return a vector of unknowns."""
        self.x.append(self._ca.SX.sym(name, size))
        self.bounds["lbx"].append(np.full(size, low))
        self.bounds["ubx"].append(np.full(size, high))
        return self.x[-1]

    def bound(self, expression: Any, low: Any, high: Any) -> None:
        """Constrain an expression to two bounds."""
        self.g.append(expression)
        self.bounds["lbg"].append(np.broadcast_to(np.asarray(low, float), (expression.numel(),)))
        self.bounds["ubg"].append(np.broadcast_to(np.asarray(high, float), (expression.numel(),)))


class NlpBaseline:
    """Solves the problem of an MPC of one robot, task and θ, warm-started by the last solution."""

    def __init__(
        self,
        robot: Robot,
        cost: Cost,
        weights: Any,
        params: MpcParams,
        theta: ModelParams,
        capacity: int,
        *,
        kkt: bool = False,
    ) -> None:
        """Build and expand the problem for ``capacity`` contacts.

        Args:
            kkt: use the step problem by its relaxed KKT conditions instead of D-SDF.

        Raises:
            ConfigError: CasADi is not installed, or the task's cost cannot be translated for it.
        """
        try:
            import casadi
        except ModuleNotFoundError:
            raise ConfigError("the comparison needs casadi: pip install 'dexstack[peers]'") from None
        self._ca, self._tree, self._cost = casadi, robot.kinematics(), cost
        self._weights = SimpleNamespace(**numbers(weights))
        self._params, self._theta, self._kkt = params, theta, kkt
        self._n, self._T = len(robot.joint_names), params.horizon
        self._limits = robot.lower + params.limit_margin, robot.upper - params.limit_margin
        self._Q = np.concatenate([theta.inertia / params.step**2, theta.stiffness / theta.cover])
        self._freeze = jit(self._frozen)
        self._P = self._parameters(capacity, len(np.asarray(self._tree.tip_body)))
        unknowns = _Unknowns(casadi)
        objective = self._horizon(unknowns)
        parameters = casadi.vertcat(*(casadi.vec(p) for p in self._P.values()))
        problem = {
            "x": casadi.vertcat(*unknowns.x),
            "f": objective,
            "g": casadi.vertcat(*unknowns.g),
            "p": parameters,
        }
        # exact derivatives, CasADi's default: the longest horizon's Hessian has a few thousand entries
        self._solver = casadi.nlpsol("planner", "ipopt", problem, {"ipopt": IPOPT, "print_time": False})
        self._bounds = {name: np.concatenate(parts) for name, parts in unknowns.bounds.items()}
        self._sizes, self._per_step = [v.numel() for v in unknowns.x], len(unknowns.x) // self._T
        self._start: np.ndarray | None = None

    def _parameters(self, capacity: int, tips: int) -> dict[str, Any]:
        V, M = OBJECT_DOF + self._n, FRICTION_DIRECTIONS * capacity
        shapes = {
            "p": (3, 1),
            "quat": (4, 1),
            "q": (self._n, 1),
            "goal": (7, 1),
            "tips": (3, tips),
            "J_tip": (3 * tips, self._n),
        }
        shapes |= {
            "Jn": (capacity, V),
            "J": (M, V),
            "phi": (capacity, 1),
            "normals": (M, V),
            "offsets": (M, 1),
            "inv_length": (M, 1),
        }
        return {name: self._ca.SX.sym(name, *shape) for name, shape in shapes.items()}

    def _horizon(self, unknowns: _Unknowns) -> Any:
        """Add all steps; return the objective."""
        ca, P, V, u_max = self._ca, self._P, OBJECT_DOF + self._n, self._params.u_max
        d, quat, objective = ca.SX.zeros(V), P["quat"], 0
        for t in range(self._T):
            u = unknowns.variable(f"u{t}", self._n, -u_max, u_max)
            following = unknowns.variable(f"d{t}", V, -1.0, 1.0)
            following_quat = unknowns.variable(f"quat{t}", 4, -1.1, 1.1)
            self._step(unknowns, t, u, d, following)
            unknowns.bound(following_quat - self._turned(quat, (following - d)[3:OBJECT_DOF]), 0.0, 0.0)
            unknowns.bound(P["q"] + d[OBJECT_DOF:] + u, *self._limits)
            unknowns.bound(P["q"] + following[OBJECT_DOF:], *self._limits)
            d, quat = following, following_quat
            objective += self._charged(self._cost.stage, d, quat) + self._params.effort_weight * ca.sumsqr(u)
        return objective + self._charged(self._cost.terminal, d, quat)

    def _step(self, unknowns: _Unknowns, t: int, u: Any, d: Any, following: Any) -> None:
        """Add one step of the model as constraints."""
        ca, P, Q = self._ca, self._P, self._Q
        b = ca.vertcat(
            0, 0, -GRAVITY * float(self._theta.mass), 0, 0, 0, np.asarray(self._theta.stiffness, float) * u
        )
        M = P["J"].shape[0]
        phi = ca.reshape(ca.repmat((P["phi"] + P["Jn"] @ d).T, FRICTION_DIRECTIONS, 1), M, 1)
        dq = following - d
        if self._kkt:
            force = unknowns.variable(f"force{t}", M, 0.0, np.inf)
            gap = P["J"] @ dq + phi
            unknowns.bound(Q * dq - b - P["J"].T @ force, 0.0, 0.0)
            unknowns.bound(gap, 0.0, np.inf)
            unknowns.bound(force * gap, -np.inf, RELAXATION)
            return
        sigma = float(self._theta.sigma)
        z = b / np.sqrt(Q)
        e = ca.exp(sigma * (P["normals"] @ z + P["offsets"] - phi * P["inv_length"]))
        total = 1 + ca.sum1(e)
        moved = z - ca.log(total) / sigma * (P["normals"].T @ e) / total
        unknowns.bound(dq - moved / np.sqrt(Q), 0.0, 0.0)

    def _turned(self, quat: Any, r: Any) -> Any:
        """Return ``quat`` rotated by the rotation vector r in body axes."""
        ca = self._ca
        half = ca.sqrt(ca.sumsqr(r) / 4 + 1e-16)
        v = ca.sin(half) / half / 2 * r
        c0, c = ca.cos(half), quat[1:]
        return ca.vertcat(quat[0] * c0 - ca.dot(c, v), quat[0] * v + c0 * c + ca.cross(c, v))

    def _charged(self, residual: Any, d: Any, quat: Any) -> Any:
        """Return ‖residual‖² of the task at a predicted state."""
        ca, P = self._ca, self._P
        p, q, turn = P["p"] + d[:3], P["q"] + d[OBJECT_DOF:], P["J_tip"] @ d[OBJECT_DOF:]
        tips = P["tips"] + ca.reshape(turn, 3, P["tips"].shape[1])

        def of(p_WO: Any, quat_WO: Any, joints: Any, p_WTip: Any, goal_WO: Any) -> Any:
            return residual(PlannedState(p_WO, quat_WO, joints, p_WTip), goal_WO, self._weights)

        def vector(x: Any) -> np.ndarray:
            return np.array(ca.vertsplit(x), object)

        by_tip = np.array([ca.vertsplit(tip) for tip in ca.horzsplit(tips)], object)
        found = symbolic(of, vector(p), vector(quat), vector(q), by_tip, vector(P["goal"]))
        return ca.sumsqr(ca.vertcat(*found.ravel()))

    def _frozen(self, pose_WO: Any, q: Any, contacts: Contacts) -> Any:
        poses = self._tree.poses(q)
        tips = self._tree.fingertips(poses)
        J_tip = self._tree.point_jacobian(poses, tips, jnp.asarray(self._tree.tip_body))
        return step_problem(self._tree, poses, pose_WO, contacts, self._theta, self._params.step), tips, J_tip

    def solve(self, problem: Planning) -> NlpSolution:
        """Solve one problem; the time is IPOPT's alone, without that of the contact rows."""
        pose, q = np.asarray(problem.pose_WO, np.float32), np.asarray(problem.q, np.float32)
        step, tips, J_tip = jax.tree.map(
            lambda a: np.asarray(a, float), self._freeze(pose, q, problem.contacts)
        )
        rows = step.J / np.sqrt(step.Q)
        length = np.linalg.norm(rows, axis=1)
        there = length > 1e-6
        inv_length = np.where(there, 1 / np.where(there, length, 1.0), 0.0)
        values = {
            "p": pose[:3],
            "quat": pose[3:] / np.linalg.norm(pose[3:]),
            "q": q,
            "goal": problem.goal_WO,
            "tips": tips.T,
            "J_tip": J_tip.reshape(-1, self._n),
            "Jn": step.Jn,
            "J": step.J,
            "phi": step.phi,
            "normals": -rows * inv_length[:, None],
            "offsets": np.where(there, 0.0, FAR),
            "inv_length": inv_length,
        }
        p = np.concatenate([np.asarray(values[name], float).ravel(order="F") for name in self._P])
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
        return NlpSolution(np.stack(parts[:: self._per_step]), float(out["f"]), cpu, solved)

    def predicted(self) -> np.ndarray:
        """Return the displacements (T, 6 + N) of the last solution from the present state: linear in world,
        rotation in body axes, joints."""
        parts = np.split(self._start, np.cumsum(self._sizes)[:-1])
        return np.stack(parts[1 :: self._per_step])

    def _at_rest(self, quat: np.ndarray) -> np.ndarray:
        """Return the variables of a state at rest."""
        parts = [np.zeros(size) for size in self._sizes]
        for t in range(self._T):
            parts[t * self._per_step + 2] = quat
        return np.concatenate(parts)
