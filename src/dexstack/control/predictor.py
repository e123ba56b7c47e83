"""Prediction of the state at which a command acts, from a delayed picture and delayed commands.

The state of the picture is predicted first to the present joint positions, then by the delay of
commands, during which the commands under way act.

The motion of the joints since the picture is measured; only the object is predicted. The planner's
model takes one step from the picture's state with its contact set in which the joints move as
measured, less one in which they do not,

    Δx = x(Δq) − x(0),

so that only the effect of the joints' motion is predicted: the smoothed contacts of a step problem do
not hold a resting object exactly in place, and this error cancels. With a model of one Newton step,
as `implicit`, Δx is linear in Δq: a finger that leaves pulls as much as one that comes pushes.
Distances follow to first order, φ + J_n (Δx, Δq); contact points and normals move with the object.

The motion of the joints during the delay of commands is not measured. Free joints would follow the
targets under way with the lag of θ; the same step determines how far they move against contacts, with
the stiffness of θ over the delay d, K/(1 − e^{−r d}) instead of K/(1 − e^{−r h}).
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from dexstack.contact.contact import Contacts, empty_contacts
from dexstack.control.base import Observation
from dexstack.control.models.base import StepModel
from dexstack.control.packing import Packing
from dexstack.control.problem import OBJECT_DOF, ModelParams, force, integrate_quaternion, step_problem
from dexstack.model.kinematics import quaternion_matrix
from dexstack.process.compilation import KeptFunction

if TYPE_CHECKING:
    from dexstack.model.robot import Robot

FOLLOWS = 1e3
"""Stiffness with which joints follow their measured motion, far above that of contacts [N·m/rad]."""
UNDER_WAY = 256
"""Largest number of commands in memory, and so of plans during one delay."""


class Commands:
    """Commands that were sent and may not act yet."""

    def __init__(self, delay: float) -> None:
        """
        Args:
            delay: time from sending to acting [s]; may change.
        """
        self.delay = delay
        self._sent: collections.deque[tuple[float, np.ndarray]] = collections.deque(maxlen=UNDER_WAY)

    def add(self, t: float, target: np.ndarray) -> None:
        """Add a target (N,) [rad, m] sent at time ``t`` [s]; a time that goes back discards all others."""
        self._forget(t)
        self._sent.append((t, np.array(target, float)))

    def _forget(self, t: float) -> None:
        if self._sent and t < self._sent[-1][0]:
            self._sent.clear()

    def followed(self, t: float, q: np.ndarray, rate: np.ndarray) -> np.ndarray:
        """Return the positions (N,) of free joints one delay from now.

        Args:
            t: now [s].
            q: (N,) joints now [rad, m].
            rate: (N,) lag of the joints, q̇ = rate (target − q) [1/s].
        """
        self._forget(t)
        while len(self._sent) > 1 and self._sent[1][0] + self.delay <= t:
            self._sent.popleft()
        end, q = t + self.delay, np.array(q, float)
        sent = [(s + self.delay, target) for s, target in self._sent]
        for k, (begin, target) in enumerate(sent):
            until = sent[k + 1][0] if k + 1 < len(sent) else end
            q = target + (q - target) * np.exp(-rate * max(min(until, end) - max(begin, t), 0.0))
        return q


class _Inputs(NamedTuple):
    pose_WO: Any
    q: Any
    contacts: Contacts
    u: Any
    theta: ModelParams
    gravity: Any


class StatePredictor:
    """Predicts observations; a jitted function, compiled at the first call."""

    def __init__(
        self,
        robot: Robot,
        model: StepModel,
        theta: Callable[[], ModelParams],
        step: float,
        capacity: int,
        delay: float = 0.0,
    ) -> None:
        """
        Args:
            theta: returns the current θ of the model.
            step: h, length of a step of θ [s].
            capacity: number of slots of a contact set.
            delay: time from sending a command to its action [s].
        """
        self._tree, self._model, self._theta, self._step = robot.kinematics(), model, theta, step
        self._home, self._capacity = np.asarray(robot.home, float), capacity
        self.gravity = tuple(robot.gravity)
        """(3,) in the world [m/s²]; may change between two predictions."""
        self.commands = Commands(delay)
        example = _Inputs(np.zeros(7), self._home, empty_contacts(capacity), self._home, theta(), np.zeros(3))
        self._inputs: Packing[_Inputs] = Packing(example)
        self._compiled = KeptFunction(self._predict, robot, model, step, capacity)

    def warm_up(self) -> None:
        """Compile."""
        pose_WO = np.array([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0])
        self.predict(
            Observation(0.0, pose_WO, self._home, empty_contacts(self._capacity)), self._home + 1e-3, 0.0
        )

    def sent(self, t: float, target: np.ndarray) -> None:
        """Note a target (N,) [rad, m] that was sent at time ``t`` [s]."""
        self.commands.add(t, target)

    def predict(self, seen: Observation, q_then: np.ndarray, t: float) -> Observation:
        """Predict an observation to the joint positions ``q_then`` (N,) [rad, m] of time ``t`` [s], and
        on to the moment of actuation.

        The observation does not change where no joint moves, nor where it is unusable: the planner
        then reports the reason.
        """
        now = self.follow(seen, q_then)
        if t != seen.t:
            now = now._replace(t=t)
        if self.commands.delay <= 0.0:
            return now
        theta = self._theta()
        rate = -np.log1p(-np.clip(np.asarray(theta.cover, float), 0.0, 1.0 - 1e-9)) / self._step
        cover = -np.expm1(-rate * self.commands.delay)
        return self._moved(
            now, (self.commands.followed(t, now.q, rate) - now.q) / cover, theta._replace(cover=cover)
        )

    def follow(self, seen: Observation, q_then: np.ndarray) -> Observation:
        """Return an observation moved with the joints to the measured positions (N,) [rad, m]; the same
        one where no joint moves, or without a finite prediction."""
        theta = self._theta()
        follows = theta._replace(stiffness=np.full(len(self._home), FOLLOWS), cover=np.ones(len(self._home)))
        now = self._moved(seen, q_then - seen.q, follows)
        return now if now is seen else now._replace(q=q_then)

    def _moved(self, seen: Observation, u: np.ndarray, theta: ModelParams) -> Observation:
        """Return an observation after targets displaced by ``u`` (N,) [rad, m]; the same one if there is
        no displacement, or no finite prediction."""
        if not np.any(u):
            return seen
        inputs = self._inputs.pack(
            _Inputs(seen.pose_WO, seen.q, seen.contacts, u, theta, np.asarray(self.gravity))
        )
        out = np.full(1, np.nan) if inputs is None else np.asarray(self._compiled(inputs))
        if not np.isfinite(out).all():
            return seen
        sizes = [7, len(self._home), 3 * self._capacity, 3 * self._capacity]
        pose_WO, q, p_W, nhat_W, phi = np.split(out, np.cumsum(sizes))
        contacts = seen.contacts._replace(p_W=p_W.reshape(-1, 3), nhat_W=nhat_W.reshape(-1, 3), phi=phi)
        return Observation(seen.t, pose_WO.astype(float), q.astype(float), contacts)

    # --- traced -----------------------------------------------------------------------------------

    def _predict(self, vector: Array) -> Array:
        pose_WO, q, contacts, u, theta, gravity = self._inputs.unpack(vector)
        problem = step_problem(self._tree, self._tree.poses(q), pose_WO, contacts, theta, self._step)
        context, start = self._model.prepare(problem, theta), self._model.initial_dual(problem)
        moved, still = (
            self._model.step(context, force(theta, way, gravity), problem.phi, start)[0]
            for way in (u, jnp.zeros_like(u))
        )
        change = moved - still
        dx, dq = change[:OBJECT_DOF], change[OBJECT_DOF:]
        quat = integrate_quaternion(pose_WO[3:], dx[3:])
        turn = quaternion_matrix(quat) @ quaternion_matrix(pose_WO[3:]).T
        p_WO = pose_WO[:3] + dx[:3]
        phi = jnp.where(contacts.active, contacts.phi + problem.Jn @ change, contacts.phi)
        parts = (
            p_WO,
            quat,
            q + dq,
            p_WO[None] + (contacts.p_W - pose_WO[None, :3]) @ turn.T,
            contacts.nhat_W @ turn.T,
            phi,
        )
        return jnp.concatenate([part.reshape(-1).astype(vector.dtype) for part in parts])


class MeasuredState:
    """No prediction, in a predictor's place: the measured pose with the newest joint positions, as
    policies see it in training."""

    gravity: tuple[float, ...] = ()

    def warm_up(self) -> None:
        """No-op."""

    def sent(self, t: float, target: np.ndarray) -> None:
        """No-op."""

    def follow(self, seen: Observation, q_then: np.ndarray) -> Observation:
        """Return the observation with other joint positions (N,) [rad, m]."""
        return seen._replace(q=q_then)

    def predict(self, seen: Observation, q_then: np.ndarray, t: float) -> Observation:
        """Return the observation with the joint positions (N,) [rad, m] of time ``t`` [s]."""
        return seen._replace(q=q_then, t=t)
