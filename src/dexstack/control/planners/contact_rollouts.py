"""Rollouts of the sampling planner by :class:`~dexstack.control.rollout.rollout.ContactRollouts`, in
place of MuJoCo's :class:`~dexstack.control.planners.rollouts.Rollouts`.

A step of at most :data:`LONGEST` is that of the step problem with the object's own inertia and its
momentum, so that a thrown object flies; joints have none, they lag. A state is object pose (7,),
velocity (6,) and joint positions (N,).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.transform import Rotation

from dexstack.control.base import Observation
from dexstack.control.params import PlannerParams
from dexstack.control.problem import ModelParams
from dexstack.control.rollout.rollout import ContactRollouts

if TYPE_CHECKING:
    from dexstack.control.planners.rollouts import Cost
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot

LONGEST = 0.05
"""Longest step [s]."""
SMOOTHING = 3e-4
"""Distance over which a contact's force sets in, shorter than that of the Gauss–Newton planner, which
needs its gradient [m]."""
NEWTON = 4
"""Newton steps per step."""


class ContactSdfRollouts:
    """The methods of :class:`~dexstack.control.planners.rollouts.Rollouts`."""

    def __init__(
        self, robot: Robot, obj: ObjectModel, planner: PlannerParams, u_max: float, dt: float, threads: int
    ) -> None:
        """
        Args:
            u_max: farthest target from its joint that has an effect [rad, m].
            dt: time between two targets [s].
            threads: number of threads of a rollout.
        """
        self._robot, self._u_max, self._dt, self._threads = robot, u_max, dt, threads
        self._inertia = np.concatenate([np.ones(3), np.diag(obj.inertia) / obj.mass])
        self.set_gravity(robot.gravity)
        self._per_step = max(1, int(LONGEST / dt + 1e-9))
        self._rollouts = ContactRollouts(
            robot,
            [obj],
            dt * self._per_step,
            planner=replace(planner, implicit_smoothing=SMOOTHING),
            newton=NEWTON,
            momentum=1.0,
            usual=planner.planned_friction,
        )
        N = len(robot.joint_names)
        stiffness, damping = planner.kp * np.ones(N), robot.damping + planner.kd
        friction = planner.planned_friction or 1.0
        self._set(obj.mass, friction, stiffness, stiffness / np.maximum(damping, 1e-9))

    def limit(self, u_max: float) -> None:
        """Limit targets to ``u_max`` [rad, m] ahead of their joint."""
        self._u_max = u_max

    def set_gravity(self, gravity: Sequence[float]) -> None:
        """Set gravity (3,) in the world [m/s²]."""
        self._gravity = np.array(gravity, float)

    def set_theta(self, theta: ModelParams, step: float, usual: float) -> None:
        """Set mass, friction, stiffness and lag of a θ whose steps are ``step`` [s] long."""
        cover = np.minimum(np.asarray(theta.cover, float), 1.0 - 1e-7)
        self._set(
            float(theta.mass), float(theta.friction), np.asarray(theta.stiffness), -np.log1p(-cover) / step
        )

    def _set(self, mass: float, friction: float, stiffness: np.ndarray, rate: np.ndarray) -> None:
        """Set the physics; ``rate`` (N,) is that of a free joint's lag [1/s]."""
        cover, age = -np.expm1(-rate * self._rollouts.step), np.arange(self._per_step)[::-1, None]
        weight = np.exp(-rate * self._dt * age)
        self._weight = weight / weight.sum(axis=0)  # of newer targets in a free joint's motion
        self._theta = ModelParams(self._inertia * mass, stiffness, cover, mass, friction, 0.0)

    def fork(self) -> ContactSdfRollouts:
        """Return the same model with separate parameters."""
        return copy.copy(self)

    def state(
        self, observations: Sequence[Observation], target: Callable[[float], np.ndarray], until: float
    ) -> np.ndarray:
        """Return the state at a time, predicted from past observations under the commanded targets.

        Args:
            observations: the last ones, the newest last.
            target: joint targets (N,) as a function of time [rad, m].
            until: time of the state [s].
        """
        now = observations[-1]
        state = self.standing(now.q, now.pose_WO, np.zeros(len(now.q)), _twist(observations))
        steps = round((until - now.t) / self._dt)
        if not steps:
            return state
        targets = np.array([target(now.t + k * self._dt) for k in range(steps)])
        q, pose = self._roll(state[None], targets[None])
        return np.concatenate([pose[0, -1], state[7:13], q[0, -1]])

    def standing(
        self, q: np.ndarray, pose_WO: np.ndarray, qd: np.ndarray, twist_WO: np.ndarray
    ) -> np.ndarray:
        """Return a state; joint velocities have no effect."""
        return np.concatenate([pose_WO, twist_WO, q])

    def roll(self, state: np.ndarray, targets: np.ndarray, every: int) -> tuple[np.ndarray, np.ndarray]:
        """Roll out B sequences of targets.

        Args:
            state: or (B, …) one for each sequence.
            targets: (B, T · every, N) [rad, m].
            every: targets per returned state.

        Returns:
            Joint positions (B, T, N) and object poses (B, T, 7).
        """
        states = np.broadcast_to(state, (len(targets), np.shape(state)[-1]))
        parts = np.array_split(np.arange(len(targets)), min(self._threads, len(targets)))
        if len(parts) == 1:
            q, pose_WO = self._roll(states, targets)
        else:
            with ThreadPoolExecutor(len(parts)) as pool:
                found = pool.map(lambda part: self._roll(states[part], targets[part]), parts)
            q, pose_WO = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        each = -(-every // self._per_step)
        return q[:, each - 1 :: each].astype(float), pose_WO[:, each - 1 :: each].astype(float)

    def roll_best(
        self, state: np.ndarray, targets: np.ndarray, every: int, cost: Cost, halvings: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """See :meth:`.rollouts.Rollouts.roll_best`; all are rolled out to the end."""
        q, pose_WO = self.roll(state, targets, every)
        return q, pose_WO, cost(q, pose_WO), np.arange(len(targets))

    def _roll(self, states: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        B, K, N = targets.shape
        steps = -(-K // self._per_step)
        padded = np.concatenate(
            [targets, np.repeat(targets[:, -1:], steps * self._per_step - K, axis=1)], axis=1
        )
        means = np.einsum("btsn,sn->btn", padded.reshape(B, steps, self._per_step, N), self._weight)
        return self._rollouts.roll(
            states[:, :7],
            states[:, 13:],
            means,
            self._theta,
            u_max=self._u_max,
            gravity=self._gravity,
            twist_WO=states[:, 7:13],
        )


def _twist(observations: Sequence[Observation]) -> np.ndarray:
    """Return the object's velocity (6,) by least squares over all observations, since its pose is
    noisy."""
    if len(observations) < 2:
        return np.zeros(6)
    t = np.array([seen.t for seen in observations]) - observations[-1].t
    pose = np.array([seen.pose_WO for seen in observations], float)
    turn = Rotation.from_quat(pose[:, 3:], scalar_first=True)
    way = np.column_stack([pose[:, :3] - pose[-1, :3], (turn[-1].inv() * turn).as_rotvec()])
    return (t - t.mean()) @ way / np.sum((t - t.mean()) ** 2)
