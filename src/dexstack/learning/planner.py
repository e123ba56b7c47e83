"""One-step predictions of the planners, from whose errors θ is learned.

The Gauss–Newton planner predicts by a time-stepping model, with exact derivatives; the sampling
planner by rollouts of MuJoCo, with finite differences. A θ that is learned with one planner
compensates its errors and is not valid for the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dexstack.control.factory import make_model
from dexstack.control.params import MpcParams, PlannerParams, SamplingParams
from dexstack.learning.learner_params import LearnerParams
from dexstack.learning.loss import Learner, Predict, make_learner, model_prediction

if TYPE_CHECKING:
    from jax import Array

    from dexstack.control.planners.rollouts import Rollouts
    from dexstack.control.problem import ModelParams
    from dexstack.learning.transitions import Transitions
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot

DIFFERENCE = 0.15
"""Step of the central differences in the logarithms of mass, friction, stiffness and lag: wide,
because contacts change within a step."""
KINDS = 4
"""Number of these quantities."""


def planner_learner(
    robot: Robot, obj: ObjectModel, first: ModelParams, params: Mapping[type, Any]
) -> Learner:
    """Return a learner of θ of the planner selected by the parameters, from a first guess.

    Args:
        params: blocks of planner, MPC, sampling and learner by class.

    Raises:
        ConfigError: see :func:`~dexstack.learning.loss.make_learner`.
    """
    planner, mpc, learner = params[PlannerParams], params[MpcParams], params[LearnerParams]
    if planner.planner != "sampling":
        model = make_model(planner, robot.chains, params)
        return make_learner(model_prediction(robot, model, mpc.step, learner.solver_calls), first, learner)
    from dexstack.control.planners.sampling import rollouts_of

    rollouts, substeps = rollouts_of(robot, obj, mpc, params[SamplingParams], planner)
    predict = rollout_prediction(rollouts, substeps, mpc.step, planner.planned_friction)
    return make_learner(predict, first, learner)


def rollout_prediction(rollouts: Rollouts, substeps: int, step: float, usual: float) -> Predict:
    """Return the prediction by rollouts, differentiable in mass, friction, stiffness and lag.

    Stiffness and lag are differentiated along common factors of all joints, as they are learned.

    Args:
        substeps: number of physics steps per step.
        step: h [s].
        usual: see :meth:`~dexstack.control.planners.rollouts.Rollouts.set_theta`.
    """
    host = _Host(rollouts, substeps, step, usual)
    ends, slopes_too = (
        lambda *args, of=of: of(*jax.tree.map(np.asarray, args)) for of in (host.ends, host.slopes)
    )

    def shapes(start: tuple[Array, ...]) -> tuple[Any, Any]:
        size, real = 7 + start[1].shape[-1], start[1].dtype
        return jax.ShapeDtypeStruct((size,), real), jax.ShapeDtypeStruct((KINDS, size), real)

    @jax.custom_jvp
    def end(theta: ModelParams, start: tuple[Array, ...]) -> Array:
        return jax.pure_callback(ends, shapes(start)[0], theta, start, vmap_method="broadcast_all")

    @end.defjvp
    def _(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
        theta, change = primals[0], tangents[0]
        at, slopes = jax.pure_callback(slopes_too, shapes(primals[1]), *primals, vmap_method="broadcast_all")
        lag = -jnp.log1p(-theta.cover) * (1.0 - theta.cover)  # d cover / d log(h K/D)
        by = (
            change.mass / theta.mass,
            change.friction / theta.friction,
            jnp.mean(change.stiffness / theta.stiffness),
        )
        return at, jnp.stack([*by, jnp.mean(change.cover / lag)]) @ slopes

    def predict(theta: ModelParams, at: Transitions) -> tuple[Array, Array]:
        found = end(theta, (at.pose_WO, at.q, at.qd, at.twist_WO, at.q_command))
        return found[:7], found[7:]

    return predict


class _Host:
    """Rollouts called from compiled code; all transitions of a batch have one θ."""

    def __init__(self, rollouts: Rollouts, substeps: int, step: float, usual: float) -> None:
        self._rollouts, self._substeps, self._step, self._usual = rollouts, substeps, step, usual
        self._place = rollouts.fork().standing  # of the unchanged models: poses do not depend on θ

    def ends(self, theta: ModelParams, start: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return object poses and joints (…, 7 + N) after a step."""
        theta, states, targets = self._begin(theta, start)
        return self._after(theta, states, targets).reshape(*start[1].shape[:-1], -1).astype(start[1].dtype)

    def slopes(self, theta: ModelParams, start: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return the same, and their derivatives (…, 4, 7 + N) with respect to the logarithms of
        mass, friction, stiffness and h K/D."""
        theta, states, targets = self._begin(theta, start)
        batch, real = start[1].shape[:-1], start[1].dtype
        sides = [
            [self._after(_changed(theta, k, way * DIFFERENCE), states, targets) for way in (1.0, -1.0)]
            for k in range(KINDS)
        ]
        slopes = np.stack([(high - low) / (2.0 * DIFFERENCE) for high, low in sides], axis=1)
        found = self._after(theta, states, targets)
        return found.reshape(*batch, -1).astype(real), slopes.reshape(*batch, KINDS, -1).astype(real)

    def _begin(
        self, theta: ModelParams, start: tuple[np.ndarray, ...]
    ) -> tuple[ModelParams, np.ndarray, np.ndarray]:
        """Return θ in double precision, states (B, …) and targets (B, substeps, N)."""
        pose, q, qd, twist, command = (np.asarray(x, float).reshape(-1, np.shape(x)[-1]) for x in start)
        batch = np.ndim(start[1]) - 1
        one = jax.tree.map(lambda x: np.asarray(x, float)[(0,) * batch], theta)
        states = np.array([self._place(*row) for row in zip(q, pose, qd, twist, strict=True)])
        return one, states, np.repeat(command[:, None], self._substeps, axis=1)

    def _after(self, theta: ModelParams, states: np.ndarray, targets: np.ndarray) -> np.ndarray:
        self._rollouts.set_theta(theta, self._step, self._usual)
        q, pose_WO = self._rollouts.roll(states, targets, self._substeps)
        return np.concatenate([pose_WO[:, 0], q[:, 0]], axis=1)


def _changed(theta: ModelParams, kind: int, by: float) -> ModelParams:
    """Return θ with one of the four quantities multiplied by e^by."""
    factor = np.exp(by)
    if kind < KINDS - 1:
        name = ("mass", "friction", "stiffness")[kind]
        return theta._replace(**{name: factor * getattr(theta, name)})
    return theta._replace(cover=-np.expm1(factor * np.log1p(-theta.cover)))
