"""What the camera saw is late, and so is what is commanded: the state of a picture, carried on to
the moment when its answer acts.

First to the joint angles of now, then on by the delay of commands, in which those act that were
sent before and are under way.

Where the joints have gone since the picture is measured; what has to be predicted is the object.
The planner's own model does it: one step from the picture's state with its contact set in which the
joints go where they were seen to go, less one in which they stay,

    Δx = x(Δq) − x(0),

so that only what the joints' motion changes is predicted. The smoothed contacts of a step problem
do not hold a resting object exactly where it rests; that cancels. With a model that makes one
Newton step, as `implicit` does, Δx is linear in Δq: a finger that leaves pulls as much as one that
comes pushes. Distances follow to first order, φ + J_n (Δx, Δq); contact points and normals move
with the object.

Where the joints will go is not measured. Free ones would follow the targets under way with the lag
that θ says; the same step finds how far they get against what they touch, with joints as stiff as θ
has them over the delay d, K/(1 − e^{−r d}) in place of K/(1 − e^{−r h}).
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
"""Stiffness with which the joints follow where they were seen to go: far above what contacts push
back with [N·m/rad]."""


UNDER_WAY = 256
"""Most commands kept: so many periods of a plan a delay may last."""


class Commands:
    """What was sent and may not act yet.

    Args:
        delay: time from sending to acting [s].
    """

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self._sent: collections.deque[tuple[float, np.ndarray]] = collections.deque(maxlen=UNDER_WAY)

    def add(self, t: float, target: np.ndarray) -> None:
        """A target (N,) [rad, m] sent at time ``t`` [s]; a time that goes back begins anew."""
        self._forget(t)
        self._sent.append((t, np.array(target, float)))

    def _forget(self, t: float) -> None:
        if self._sent and t < self._sent[-1][0]:
            self._sent.clear()

    def followed(self, t: float, q: np.ndarray, rate: np.ndarray) -> np.ndarray:
        """Where free joints are one delay from now.

        Args:
            t: now [s].
            q: (N,) joints now [rad, m].
            rate: (N,) of their lag: q̇ = rate (target − q) [1/s].
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


class StatePredictor:
    """Carries an observation on; a jitted function, compiled at the first call."""

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
            theta: the model's θ of the moment.
            step: h, length of a step that θ is of [s].
            capacity: slots of the contact sets.
            delay: from sending a command to its action [s].
        """
        self._tree, self._model, self._theta, self._step = robot.kinematics(), model, theta, step
        self._home, self._capacity = np.asarray(robot.home, float), capacity
        self._commands = Commands(delay)
        example = _Inputs(np.zeros(7), self._home, empty_contacts(capacity), self._home, theta())
        self._inputs: Packing[_Inputs] = Packing(example)
        self._compiled = KeptFunction(self._predict, robot, model, step, capacity)

    def warm_up(self) -> None:
        """Compile."""
        pose_WO = np.array([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0])
        self.predict(
            Observation(0.0, pose_WO, self._home, empty_contacts(self._capacity)), self._home + 1e-3, 0.0
        )

    @property
    def delay(self) -> float:
        """From sending a command to its action [s]; may change between two predictions."""
        return self._commands.delay

    @delay.setter
    def delay(self, value: float) -> None:
        self._commands.delay = value

    def sent(self, t: float, target: np.ndarray) -> None:
        """Say that a target (N,) [rad, m] was sent at time ``t`` [s]."""
        self._commands.add(t, target)

    def predict(self, seen: Observation, q_then: np.ndarray, t: float) -> Observation:
        """The observation at time ``t``: the joints at ``q_then`` (N,) [rad, m], object and
        contacts where they take them; then what commands under way make of both.

        It stays where it is where no joint has moved, and where no prediction can be made of it:
        the planner says what is wrong with it.

        Args:
            t: time of ``q_then`` [s].
        """
        theta = self._theta()
        follows = theta._replace(stiffness=np.full(len(self._home), FOLLOWS), cover=np.ones(len(self._home)))
        now = self._moved(seen, q_then - seen.q, follows)
        if now is not seen:
            now = now._replace(q=q_then)
        if t != seen.t:
            now = now._replace(t=t)
        if self._commands.delay <= 0.0:
            return now
        rate = -np.log1p(-np.clip(np.asarray(theta.cover, float), 0.0, 1.0 - 1e-9)) / self._step
        cover = -np.expm1(-rate * self._commands.delay)
        return self._moved(
            now, (self._commands.followed(t, now.q, rate) - now.q) / cover, theta._replace(cover=cover)
        )

    def _moved(self, seen: Observation, u: np.ndarray, theta: ModelParams) -> Observation:
        """An observation after targets displaced by ``u`` (N,) [rad, m]; itself where there is
        nothing to predict, or no prediction."""
        if not np.any(u):
            return seen
        inputs = self._inputs.pack(_Inputs(seen.pose_WO, seen.q, seen.contacts, u, theta))
        out = np.full(1, np.nan) if inputs is None else np.asarray(self._compiled(inputs))
        if not np.isfinite(out).all():
            return seen
        sizes = [7, len(self._home), 3 * self._capacity, 3 * self._capacity]
        pose_WO, q, p_W, nhat_W, phi = np.split(out, np.cumsum(sizes))
        contacts = seen.contacts._replace(p_W=p_W.reshape(-1, 3), nhat_W=nhat_W.reshape(-1, 3), phi=phi)
        return Observation(seen.t, pose_WO.astype(float), q.astype(float), contacts)

    # --- traced -------------------------------------------------------------------------------------------------------------------

    def _predict(self, vector: Array) -> Array:
        pose_WO, q, contacts, u, theta = self._inputs.unpack(vector)
        problem = step_problem(self._tree, self._tree.poses(q), pose_WO, contacts, theta, self._step)
        context, start = self._model.prepare(problem, theta), self._model.initial_dual(problem)
        moved, still = (
            self._model.step(context, force(theta, way), problem.phi, start)[0]
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
