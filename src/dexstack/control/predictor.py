"""What the camera saw is late: the state of its picture, carried on to the joint angles of now.

Where the joints have gone since the picture is measured; what has to be predicted is the object. The planner's own model does it: one step
from the picture's state with its contact set in which the joints go where they were seen to go, less one in which they stay,

    Δx = x(Δq) − x(0),

so that only what the joints' motion changes is predicted. The smoothed contacts of a step problem do not hold a resting object exactly
where it rests; that cancels. With a model that makes one Newton step, as `implicit` does, Δx is linear in Δq: a finger that leaves pulls as
much as one that comes pushes. Distances follow to first order, φ + J_n (Δx, Δq); contact points and normals move with the object.
"""

from __future__ import annotations

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
"""Stiffness with which the joints follow where they were seen to go: far above what contacts push back with [N·m/rad]."""


class _Inputs(NamedTuple):
    pose_WO: Any
    q: Any
    contacts: Contacts
    q_then: Any
    theta: ModelParams


class StatePredictor:
    """Carries an observation on; a jitted function, compiled at the first call."""

    def __init__(self, robot: Robot, model: StepModel, theta: Callable[[], ModelParams], step: float, capacity: int) -> None:
        """
        Args:
            theta: the model's θ of the moment.
            step: h, length of a step that θ is of [s].
            capacity: slots of the contact sets.
        """
        self._tree, self._model, self._theta, self._step = robot.kinematics(), model, theta, step
        self._home, self._capacity = np.asarray(robot.home, float), capacity
        example = _Inputs(np.zeros(7), self._home, empty_contacts(capacity), self._home, theta())
        self._inputs: Packing[_Inputs] = Packing(example)
        self._compiled = KeptFunction(self._predict, robot, model, step, capacity)

    def warm_up(self) -> None:
        """Compile."""
        pose_WO = np.array([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0])
        self.predict(Observation(0.0, pose_WO, self._home, empty_contacts(self._capacity)), self._home + 1e-3)

    def predict(self, seen: Observation, q_then: np.ndarray) -> Observation:
        """The observation with the joints at ``q_then`` (N,) [rad, m], and object and contacts where they take them.

        It stays as it is where no joint has moved, and where no prediction can be made of it: the planner says what is wrong with it.
        """
        if np.array_equal(seen.q, q_then):
            return seen
        inputs = self._inputs.pack(_Inputs(seen.pose_WO, seen.q, seen.contacts, q_then, self._theta()))
        out = np.full(1, np.nan) if inputs is None else np.asarray(self._compiled(inputs))
        if not np.isfinite(out).all():
            return seen
        pose_WO, p_W, nhat_W, phi = np.split(out, np.cumsum([7, 3 * self._capacity, 3 * self._capacity]))
        contacts = seen.contacts._replace(p_W=p_W.reshape(-1, 3), nhat_W=nhat_W.reshape(-1, 3), phi=phi)
        return Observation(seen.t, pose_WO.astype(float), q_then, contacts)

    # --- traced -------------------------------------------------------------------------------------------------------------------

    def _predict(self, vector: Array) -> Array:
        pose_WO, q, contacts, q_then, theta = self._inputs.unpack(vector)
        theta = theta._replace(stiffness=jnp.full_like(theta.stiffness, FOLLOWS), cover=jnp.ones_like(theta.cover))
        problem = step_problem(self._tree, self._tree.poses(q), pose_WO, contacts, theta, self._step)
        context, start = self._model.prepare(problem, theta), self._model.initial_dual(problem)
        dq = q_then - q
        moved, still = (self._model.step(context, force(theta, way), problem.phi, start)[0] for way in (dq, jnp.zeros_like(dq)))
        dx = (moved - still)[:OBJECT_DOF]
        quat = integrate_quaternion(pose_WO[3:], dx[3:])
        turn = quaternion_matrix(quat) @ quaternion_matrix(pose_WO[3:]).T
        p_WO = pose_WO[:3] + dx[:3]
        phi = jnp.where(contacts.active, contacts.phi + problem.Jn @ jnp.concatenate([dx, dq]), contacts.phi)
        parts = p_WO, quat, p_WO[None] + (contacts.p_W - pose_WO[None, :3]) @ turn.T, contacts.nhat_W @ turn.T, phi
        return jnp.concatenate([part.reshape(-1).astype(vector.dtype) for part in parts])
