"""Gauss–Newton through rollouts: the most probable world, how sure that is, and what the recording does not tell.

With residuals r of all windows under a robust loss ρ, and a normal distribution of the unknowns x beforehand, the fit minimises

    ½ Σ ρ(r²) + ½ (x − x₀)ᵀ Λ (x − x₀)

Samples of one window err together, because they come from one start: the covariance is H⁻¹ (Σ_w g_w g_wᵀ + Λ) H⁻¹ with H the Gauss–Newton
matrix and g_w the gradient of window w (the "sandwich" of clustered errors), and :data:`FLOOR` for what the rollouts do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from dexstack.hand.servo import ServoParams
from dexstack.identification.rollouts import NOISE, Predictor, Targets, Windows, applied_targets, cut_windows, differences, in_order
from dexstack.identification.unknowns import Unknown, first_guess, values, world_and_delay
from dexstack.learning.transitions import check_recording
from dexstack.tasks.base import Task, World

SAMPLES, MOST = 10, 120
"""Samples of a window, and most windows."""
STEP = {True: 0.1, False: 2e-3}
"""Of difference quotients: of a logarithm; of a delay [s] or an offset [m]. Contacts come and go: smaller ones see the noise of that."""
ROUNDS, ENOUGH = 20, 1e-3
"""Most Gauss–Newton steps, and the relative gain below which they end."""
TOLD = 0.7
"""An unknown is told where its standard deviation is below this share of that beforehand."""
FLOOR = {True: 0.01, False: 5e-4}
"""Standard deviation that no recording brings down, of a logarithm; of a delay [s] or an offset [m]: the rollouts' servo has no ticks."""
HELD_OUT = 5
"""Every so many-th window is not fitted but judged."""
SURE = 1.645
"""Standard deviations within which 90 % lie."""


class Fit(NamedTuple):
    """What a recording says; (P,) in the unknowns' own numbers, logarithms of what is positive."""

    unknowns: tuple[Unknown, ...]
    x: np.ndarray
    covariance: np.ndarray
    """(P, P)"""
    told: np.ndarray
    """(P,) whether the recording says more than was known beforehand."""
    world: World
    delay: float
    """[s]"""
    before: float
    after: float
    """Root mean square of the residuals of windows held out, as believed and fitted, in units of :data:`.rollouts.NOISE`."""
    windows: Windows
    believed: np.ndarray
    predicted: np.ndarray
    """(W, S, nq) of all windows, as believed and fitted."""

    def told_world(self) -> World:
        """The world of what the recording tells; the rest is as believed."""
        told = {u.name for u, each in zip(self.unknowns, self.told, strict=True) if each}
        return World(**{f.name: getattr(self.world, f.name) for f in fields(World) if f.name in told})

    def interval(self) -> np.ndarray:
        """(P, 2) that hold the truth in 90 % of cases, in units."""
        spread = SURE * np.sqrt(np.diag(self.covariance))
        return np.stack([values(self.unknowns, self.x - spread), values(self.unknowns, self.x + spread)], axis=1)

    def curves(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Root mean squares (S,) over the windows, as believed and fitted, of joints, place and orientation; by label, with unit."""
        n = self.windows.measured.shape[-1] - 7
        parts = (
            ("joints [rad]", slice(0, n), NOISE[0]),
            ("object's place [mm]", slice(n, n + 3), 1e3 * NOISE[1]),
            ("object's orientation [rad]", slice(n + 3, n + 6), NOISE[2]),
        )
        each = [differences(predicted, self.windows.measured) for predicted in (self.believed, self.predicted)]
        rms = lambda r: np.sqrt(np.mean(r**2, axis=(0, 2)))  # noqa: E731
        return {label: (unit * rms(each[0][..., which]), unit * rms(each[1][..., which])) for label, which, unit in parts}


class _Problem:
    """Residuals and their derivatives at any x."""

    def __init__(self, predictor: Predictor, unknowns: tuple[Unknown, ...], windows: Windows, targets: Targets) -> None:
        self._predictor, self._unknowns, self._windows, self._targets = predictor, unknowns, windows, targets

    def residuals(self, xs: np.ndarray, windows: Windows | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Residuals (K, W, S · nv) and predictions (K, W, S, nq) at xs (K, P)."""
        windows = windows or self._windows
        predicted = self._predictor.predict([world_and_delay(self._unknowns, x) for x in xs], windows, self._targets)
        r = differences(predicted, windows.measured)
        return np.nan_to_num(r.reshape(*r.shape[:2], -1), nan=1e3, posinf=1e3, neginf=-1e3), predicted

    def linearised(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residuals (W, R) and their Jacobian (W, R, P), by central differences, in one batch of rollouts."""
        h = np.array([STEP[u.positive] for u in self._unknowns])
        xs = np.concatenate([x[None], x + np.diag(h), x - np.diag(h)])
        r, _ = self.residuals(xs)
        P = len(x)
        return r[0], np.moveaxis((r[1 : 1 + P] - r[1 + P :]) / (2.0 * h[:, None, None]), 0, -1)


def _cost(r: np.ndarray) -> float:
    """Σ √(1 + r²) − 1, the soft absolute value; :func:`_weighed` has its weights."""
    return float((np.sqrt(1.0 + r**2) - 1.0).sum())


def identify(
    task: Task,
    servo: ServoParams,
    recording: Mapping[str, np.ndarray],
    unknowns: tuple[Unknown, ...],
    *,
    where: object = "the recording",
    say: Callable[[str], Any] = lambda text: None,
) -> Fit:
    """Fit a world to a recording of a task.

    Args:
        recording: samples ``t``, ``pose_WO``, ``q``, ``q_command``, as :data:`dexstack.learning.transitions.RECORDED`.
        say: progress.

    Raises:
        ConfigError: arrays are missing, of a wrong size, or too short.
    """
    predictor = Predictor(task, servo)
    joints = len(task.scene().robot.joint_names)
    check_recording(recording, joints, str(where))
    recording = in_order(recording)
    windows = cut_windows(recording, SAMPLES, MOST, where)
    held = np.arange(len(windows.t)) % HELD_OUT == 0
    problem = _Problem(predictor, unknowns, windows.take(~held), applied_targets(recording, servo))
    x0 = first_guess(unknowns)
    precision = np.diag([u.spread**-2 for u in unknowns])
    x, weight, r, J, H = _descend(problem, x0, precision, say)
    # every window's errors belong together; few windows show too small a spread
    g = np.einsum("wr,wrp->wp", weight * r, J)
    few = len(g) / max(len(g) - len(x), 1)
    inverse = np.linalg.inv(H)
    covariance = inverse @ (few * g.T @ g + precision) @ inverse + np.diag([FLOOR[u.positive] ** 2 for u in unknowns])
    (believed, fitted), predicted = problem.residuals(np.stack([x0, x]), windows)
    before, after = (float(np.sqrt(np.mean(np.minimum(np.abs(each[held]), 50.0) ** 2))) for each in (believed, fitted))
    told = np.sqrt(np.diag(covariance)) < TOLD * np.array([u.spread for u in unknowns])
    world, delay = world_and_delay(unknowns, x)
    return Fit(unknowns, x, covariance, told, world, delay, before, after, windows, predicted[0], predicted[1])


def _descend(
    problem: _Problem, x: np.ndarray, precision: np.ndarray, say: Callable[[str], Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Damped Gauss–Newton: x, weights (W, R), residuals, Jacobian and H there, in units in which the first residuals are about one."""
    x0, damping = x, 1e-3
    r, J = problem.linearised(x)
    scale = max(1.4826 * float(np.median(np.abs(r))), 1e-3)
    for _ in range(ROUNDS):
        weight, H = _weighed(r / scale, J / scale, precision)
        gradient = np.einsum("wrp,wr->p", J / scale, weight * r / scale) + precision @ (x - x0)
        tried = np.stack([x - np.linalg.solve(H + d * np.diag(np.diag(H)), gradient) for d in damping * 30.0 ** np.arange(5)])
        cost, *costs = (
            _cost(each / scale) + 0.5 * (at - x0) @ precision @ (at - x0)
            for each, at in zip([r, *problem.residuals(tried)[0]], [x, *tried], strict=True)
        )
        best = int(np.argmin(costs))
        gain = 1.0 - costs[best] / cost
        say(f"residual {np.sqrt(np.mean(np.minimum(np.abs(r), 50.0) ** 2)):.3g}, gain {100 * max(gain, 0.0):.2g} %")
        if gain > 0.0:
            x, damping = tried[best], max(1e-6, 0.1 * damping * 30.0**best)
            r, J = problem.linearised(x)
        if gain < ENOUGH:
            break
    weight, H = _weighed(r / scale, J / scale, precision)
    return x, weight, r / scale, J / scale, H


def _weighed(r: np.ndarray, J: np.ndarray, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (W, R) and the Gauss–Newton matrix (P, P)."""
    weight = 1.0 / np.sqrt(1.0 + r**2)
    flat = J.reshape(-1, J.shape[-1])
    return weight, flat.T @ (weight.reshape(-1, 1) * flat) + precision
