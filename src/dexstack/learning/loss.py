"""Learning of θ = {M_o, K_r, m_o, μ, σ} of a time-stepping model by gradient through the model,
contactsdf [23], [24].

    min_θ Σ  w_p ‖p⁺ − p̂⁺(θ)‖² + w_q 4 (1 − (q⁺ᵀ q̂⁺(θ))²) + w_r ‖q_r⁺ − q̂_r⁺(θ)‖²
          +  w_0 Σ (√(1 + x²) − 1)

over transitions; 4 (1 − (qᵀq̂)²) is the squared angle for small angles. The hat is the planner's
model with the same θ, :func:`dexstack.control.problem.step_problem` and
:class:`dexstack.control.models.base.StepModel`. x are the free numbers below: w_0 keeps those that
the data do not determine at the first guess, from which they would drift. The mass has a separate
weight, for tasks whose object has been weighed.

Every number of θ is kept in its range (:data:`~dexstack.control.theta.RANGES`) by the
reparametrisation θ = lo (hi/lo)^sigmoid(4 x / ln(hi/lo)): x is free, and a change of x is about a
relative change of θ. Numbers that a few hundred transitions cannot distinguish are tied: the three
translations of M_o, the stiffness of all joints, the lag of all joints. Nine free numbers remain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dexstack.control.models.base import StepModel
from dexstack.control.problem import OBJECT_DOF, ModelParams, force, integrate_quaternion, step_problem
from dexstack.control.theta import RANGES
from dexstack.errors import ConfigError
from dexstack.learning.learner_params import LearnerParams
from dexstack.learning.transitions import Transitions, take
from dexstack.process.compilation import jit

if TYPE_CHECKING:
    from dexstack.model.robot import Robot


def _width(lo: Any, hi: Any) -> Any:
    return np.log(np.asarray(hi) / np.asarray(lo))


def _encode(value: Any, lo: Any, hi: Any) -> np.ndarray:
    """Return x of a value strictly inside its range."""
    share = np.log(np.asarray(value, float) / lo) / _width(lo, hi)
    return np.asarray(np.log(share / (1 - share)) * _width(lo, hi) / 4)


def _decode(x: Array, lo: Any, hi: Any) -> Array:
    width = jnp.asarray(_width(lo, hi), x.dtype)
    return jnp.asarray(lo, x.dtype) * jnp.exp(width * jax.nn.sigmoid(4 * x / width))


class Reparametrisation:
    """Numbers in ranges as a smooth function of free numbers, equal to the first guess at zero.

    Args:
        first: a NamedTuple of numbers or arrays, such as ``ModelParams``.
        ranges: the same NamedTuple of (lo, hi).
        ties: for a field of ``first``, the free numbers that shift it and how many entries each; all
            entries of other fields are shifted by one free number of the field's name.

    Raises:
        ConfigError: a number of the first guess is outside its range.
    """

    def __init__(self, first: Any, ranges: Any, ties: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self._kind, self._ranges, self._ties = type(first), ranges, ties or {}
        self._x = {}
        for name, (lo, hi) in ranges._asdict().items():
            value = np.asarray(getattr(first, name), float)
            if not (np.all(value > lo) and np.all(value < hi)):
                where = f"between {np.min(lo):g} and {np.max(hi):g}"
                raise ConfigError(
                    f"'{name}' of θ must lie {where}, got {np.array2string(value, precision=4)}"
                )
            self._x[name] = _encode(value, lo, hi)
        self.start: dict[str, np.ndarray] = {}
        """The free numbers, all zero."""
        for name in ranges._fields:
            for free in self._ties.get(name, {name: 1}):
                self.start[free] = np.zeros((), np.float32)

    def theta(self, free: Mapping[str, Array]) -> Any:
        """Return the numbers at some free numbers; traced."""
        out = {}
        for name, x in self._x.items():
            ties = self._ties.get(name)
            shift = (
                free[name]
                if ties is None
                else jnp.concatenate([jnp.broadcast_to(free[f], (n,)) for f, n in ties.items()])
            )
            out[name] = _decode(jnp.asarray(x, shift.dtype) + shift, *getattr(self._ranges, name))
        return self._kind(**out)


def of_model(first: ModelParams) -> Reparametrisation:
    """Return the reparametrisation of the planner's θ by nine free numbers.

    Raises:
        ConfigError: a number of the first guess is outside its range.
    """
    return Reparametrisation(first, RANGES, {"inertia": {"translation": 3, "roll": 1, "pitch": 1, "yaw": 1}})


def between(first: ModelParams, second: ModelParams, share: float) -> ModelParams:
    """Interpolate θ between two in the free numbers, as float32 numpy arrays."""
    found = {}
    for name, (lo, hi) in RANGES._asdict().items():
        x, y = (_encode(getattr(theta, name), lo, hi) for theta in (first, second))
        found[name] = np.asarray(_decode(jnp.asarray(x + share * (y - x)), lo, hi), np.float32)
    return ModelParams(**found)


Predict = Callable[[Any, Transitions], tuple[Array, Array]]
"""Maps a model's parameters and a transition to object pose (7,) and joint angles (N,) one step after
the transition's start."""


def model_prediction(robot: Robot, model: StepModel, step: float, calls: int) -> Predict:
    """Return the planner's one-step prediction, solved in ``calls`` calls of the model and
    differentiable in θ (see ``StepModel.solved``)."""
    tree = robot.kinematics()

    def predict(theta: ModelParams, at: Transitions) -> tuple[Array, Array]:
        problem = step_problem(tree, tree.poses(at.q), at.pose_WO, at.contacts, theta, step)
        context = model.prepare(problem, theta)
        fixed, fixed_problem = jax.lax.stop_gradient((context, problem))
        b, phi = force(theta, at.q_command - at.q, robot.gravity), problem.phi
        fixed_b, fixed_phi = jax.lax.stop_gradient((b, phi))
        dual = model.initial_dual(fixed_problem)
        dual = jax.lax.fori_loop(
            0, calls, lambda _, dual: model.step(fixed, fixed_b, fixed_phi, dual)[1], dual
        )
        dq = model.solved(context, b, phi, dual)
        pose = jnp.concatenate(
            [at.pose_WO[:3] + dq[:3], integrate_quaternion(at.pose_WO[3:], dq[3:OBJECT_DOF])]
        )
        return pose, at.q + dq[OBJECT_DOF:]

    return predict


def squared_errors(pose: Array, q: Array, at: Transitions) -> tuple[Array, Array, Array]:
    """Return the squared errors of a prediction: position [m²], orientation [rad², for small angles],
    joints (sum) [rad²]."""
    a, b = at.next_pose_WO[3:], pose[3:]
    # 1 − (qᵀq̂)² as the squared vector part of the difference, accurate near zero
    vector = a[0] * b[1:] - b[0] * a[1:] - jnp.cross(a[1:], b[1:])
    return (
        jnp.sum((pose[:3] - at.next_pose_WO[:3]) ** 2),
        4 * jnp.sum(vector**2),
        jnp.sum((q - at.next_q) ** 2),
    )


class Update(NamedTuple):
    """Result of one call of :meth:`Learner.update`."""

    loss_before: float
    loss_after: float
    gradients: int
    """Number of gradient steps."""
    refused: int
    """Number of steps that were skipped because of a non-finite number."""


class Learner:
    """Adam on the free numbers of θ over mini-batches of transitions.

    One instance compiles for one batch size. Its state, θ's free numbers and Adam's moments, is kept
    between updates.
    """

    def __init__(
        self, numbers: Reparametrisation, predict: Predict, params: LearnerParams = LearnerParams()
    ) -> None:
        import_optax()
        import optax

        self.params = params
        self._map = numbers
        self.predict = predict
        self._optimiser = optax.adam(params.learning_rate)
        self.free = numbers.start
        """Current free numbers of θ, by name."""
        self._state = self._optimiser.init(self.free)
        self._advance = jit(self._step)
        self._prior_of = jit(self._prior)
        self._data_loss_of = jit(self._data_loss)
        self._theta_of = jit(self._map.theta)

    def warm_up(self, example: Transitions) -> None:
        """Compile for transitions of these shapes, without learning."""
        batch, weight = next(self._batches(example, np.arange(example.count)))
        self._advance(self.free, self._state, batch, weight)
        self._prior_of(self.free)
        self._data_loss_of(self.free, batch, weight)
        self._theta_of(self.free)

    @property
    def theta(self) -> Any:
        """The current θ, as float32 numpy arrays."""
        return jax.tree.map(lambda a: np.asarray(a, np.float32), self._theta_of(self.free))

    def loss(self, data: Transitions) -> float:
        """Return the mean loss of the current θ over transitions, with the prior."""
        return self.data_loss(data) + float(self._prior_of(self.free))

    def data_loss(self, data: Transitions, free: dict[str, Array] | None = None) -> float:
        """Return the mean loss over transitions without the prior, to compare θ on held-out data.

        Args:
            free: free numbers of a θ; None: the current ones.
        """
        total, free = 0.0, self.free if free is None else free
        for batch, weight in self._batches(data, np.arange(data.count)):
            total += float(self._data_loss_of(free, batch, weight)) * float(weight.sum())
        return total / data.count

    def update(
        self, data: Transitions, rng: np.random.Generator, should_stop: Callable[[], bool] = lambda: False
    ) -> Update:
        """Pass over the data :attr:`LearnerParams.epochs` times in mini-batches, and keep the best of
        the start and the ends of the passes.

        Gradient steps with a non-finite number are skipped.
        """
        before, gradients, refused = self.loss(data), 0, 0
        best = (before, self.free)
        for _ in range(self.params.epochs):
            for batch, weight in self._batches(data, rng.permutation(data.count)):
                if should_stop():
                    break
                free, state, good = self._advance(self.free, self._state, batch, weight)
                if bool(good):
                    self.free, self._state = free, state
                    gradients += 1
                else:
                    refused += 1
            if should_stop():
                break
            loss = self.loss(data)
            if loss < best[0]:
                best = (loss, self.free)
        self.free = best[1]
        return Update(before, best[0], gradients, refused)

    def _batches(self, data: Transitions, order: np.ndarray) -> Iterator[tuple[Transitions, np.ndarray]]:
        """Yield mini-batches of one size, with weights; the last one is filled up with transitions of
        weight zero."""
        B = self.params.batch
        for first in range(0, len(order), B):
            index = order[first : first + B]
            weight = np.zeros(B, np.float32)
            weight[: len(index)] = 1.0
            yield take(data, np.resize(index, B)), weight

    # --- traced ---

    def batch_loss(self, free: dict[str, Array], batch: Transitions, weight: Array) -> Array:
        """Return the loss of a weighted batch with the prior."""
        return self._data_loss(free, batch, weight) + self._prior(free)

    def _prior(self, free: dict[str, Array]) -> Array:
        p = self.params
        # linear for large x, so that the data prevail
        return sum(
            (p.mass_prior if name == "mass" else p.prior) * (jnp.sqrt(1.0 + x**2) - 1.0)
            for name, x in free.items()
        )

    def _data_loss(self, free: dict[str, Array], batch: Transitions, weight: Array) -> Array:
        p, theta = self.params, self._map.theta(free)

        def one(at: Transitions) -> Array:
            position, orientation, joints = squared_errors(*self.predict(theta, at), at)
            error = p.position_loss * position + p.orientation_loss * orientation + p.joint_loss * joints
            # Huber on the norm, so that one slip does not outweigh a hundred quiet steps
            linear = 2 * p.robust * jnp.sqrt(jnp.maximum(error, p.robust**2)) - p.robust**2
            return jnp.where(error < p.robust**2, error, linear)

        return jnp.sum(weight * jax.vmap(one)(batch)) / jnp.sum(weight)

    def _step(
        self, free: dict[str, Array], state: Any, batch: Transitions, weight: Array
    ) -> tuple[dict[str, Array], Any, Array]:
        import optax

        loss, gradient = jax.value_and_grad(self.batch_loss)(free, batch, weight)
        change, state = self._optimiser.update(gradient, state, free)
        free = optax.apply_updates(free, change)
        finite = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves((free, gradient))]
        return free, state, jnp.isfinite(loss) & jnp.all(jnp.stack(finite))


def import_optax() -> None:
    """Check that optax is installed.

    Raises:
        ConfigError: it is not.
    """
    try:
        import optax  # noqa: F401
    except ImportError:
        raise ConfigError("learning needs optax: pip install -c constraints.txt 'dexstack[all]'") from None


def make_learner(predict: Predict, first: ModelParams, params: LearnerParams = LearnerParams()) -> Learner:
    """Return a learner of a planner's θ from a first guess, with the prediction ``predict``.

    Raises:
        ConfigError: see :func:`of_model`, :func:`import_optax`.
    """
    return Learner(of_model(first), predict, params)
