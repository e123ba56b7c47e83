"""Gauss–Newton through rollouts: the most probable world, its covariance, and the unknowns that the
recording does not determine.

With residuals r of all windows under a robust loss ρ, and a normal prior of the unknowns x, the fit
minimises

    ½ Σ ρ(r²) + ½ (x − x₀)ᵀ Λ (x − x₀)

Errors within a window are correlated, because they share a start: the covariance is H⁻¹ (Σ_w g_w
g_wᵀ + Λ) H⁻¹ with H = C + Λ, C the Gauss–Newton matrix and g_w the gradient of window w (the
"sandwich" of clustered errors). Model errors of the rollouts, such as the missing servo ticks, are
common to all windows and do not average out: n residuals that are off by a share c of their width in
the direction of x_i move it by c √(n (H⁻¹ C H⁻¹)_ii). That is added, and each unknown's floor
(:func:`.unknowns.floors`). The width of ρ follows the residuals at each step, so that ρ stays robust
while they decrease by a factor of a hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from dexstack.hand.servo import ServoParams
from dexstack.identification.rollouts import (
    MUJOCO,
    NOISE,
    Predictor,
    Simulated,
    Targets,
    Windows,
    applied_targets,
    cut_windows,
    differences,
    in_order,
)
from dexstack.identification.unknowns import MOST, Unknown, first_guess, floors, values, world_and_delay
from dexstack.learning.transitions import check_recording
from dexstack.tasks.base import Task, World

SAMPLES = 10
"""Number of samples of a window."""
STEP = {True: 0.1, False: 2e-3}
"""Steps of difference quotients: of a logarithm; of a delay [s] or an offset [m]. Smaller ones would
resolve the noise of changing contacts."""
THINNED = {2: 0.1, 1: 1e-3}
"""Stages of the fit: with every n-th window, until a step gains less than the value."""
ROUNDS, TRIED = 20, 3
"""Largest number of Gauss–Newton steps, and of dampings tried in each."""
SMALL = 0.5
"""Steps also end when all are below this share of their unknowns' floors."""
TOLD = 0.7
"""Ratio of posterior to prior standard deviation below which the recording determines an unknown."""
HELD_OUT = 5
"""Every n-th window is held out."""
SYSTEMATIC = 0.45
"""Share of the residuals' width that is the rollouts' model error, in the direction that moves an
unknown most: chosen with :attr:`.Unknown.least` so that nine of ten intervals contain the truth in
fifty hidden worlds, seeds 300 on."""
SURE = 1.645
"""Standard deviations of a 90 % interval."""


class Fit(NamedTuple):
    """Result of a fit; (P,) in the unknowns' fitted numbers, logarithms of positive quantities."""

    unknowns: tuple[Unknown, ...]
    x: np.ndarray
    covariance: np.ndarray
    """(P, P)"""
    told: np.ndarray
    """(P,) true where the recording determines the unknown better than the prior."""
    world: World
    delay: float
    """[s]"""
    before: float
    after: float
    """Root mean square of the residuals of held-out windows, nominal and fitted, in units of
    :data:`.rollouts.NOISE`."""
    windows: Windows
    believed: np.ndarray
    predicted: np.ndarray
    """(W, S, nq) of all windows, nominal and fitted."""

    def told_world(self) -> World:
        """Return the world of the unknowns that the recording determines; others are nominal."""
        told = {u.name for u, each in zip(self.unknowns, self.told, strict=True) if each}
        return World(**{f.name: getattr(self.world, f.name) for f in fields(World) if f.name in told})

    def interval(self) -> np.ndarray:
        """Return the 90 % intervals (P, 2) in the unknowns' units."""
        spread = SURE * np.sqrt(np.diag(self.covariance))
        ends = [values(self.unknowns, x) for x in (self.x - spread, self.x + spread)]
        return np.stack(ends, axis=1)

    def curves(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return the root mean squares (S,) over the windows, nominal and fitted, of joints,
        position and orientation, by label with unit."""
        n = self.windows.measured.shape[-1] - 7
        parts = (
            ("joints [rad]", slice(0, n), NOISE[0]),
            ("object's place [mm]", slice(n, n + 3), 1e3 * NOISE[1]),
            ("object's orientation [rad]", slice(n + 3, n + 6), NOISE[2]),
        )
        both = [differences(each, self.windows.measured) for each in (self.believed, self.predicted)]
        return {
            label: tuple(unit * np.sqrt(np.mean(r[..., which] ** 2, axis=(0, 2))) for r in both)
            for label, which, unit in parts
        }


class _Linear(NamedTuple):
    """Residuals linearised at one x."""

    r: np.ndarray
    """(W, R)"""
    J: np.ndarray
    """(W, R, P)"""
    scale: float
    """Robust standard deviation of the residuals, the width of the loss."""
    around: np.ndarray
    """(2 P, P) points of the differences."""
    around_cost: np.ndarray
    """(2 P,) costs of the residuals at these points."""

    @property
    def weight(self) -> np.ndarray:
        """(W, R) weights of :func:`_cost`."""
        return 1.0 / np.sqrt(1.0 + (self.r / self.scale) ** 2)

    def gradients(self) -> np.ndarray:
        """Return the gradient (W, P) of every window's cost."""
        return np.einsum("wr,wrp->wp", self.weight * self.r, self.J) / self.scale**2

    def curvature(self) -> np.ndarray:
        """Return the Gauss–Newton matrix (P, P) of the cost."""
        flat = self.J.reshape(-1, self.J.shape[-1])
        return flat.T @ (self.weight.reshape(-1, 1) * flat) / self.scale**2


class _Problem:
    """Residuals and their derivatives."""

    def __init__(
        self, predictor: Predictor, unknowns: tuple[Unknown, ...], windows: Windows, targets: Targets
    ) -> None:
        self._predictor, self._unknowns, self._windows, self._targets = predictor, unknowns, windows, targets

    def residuals(self, xs: np.ndarray, windows: Windows | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return residuals (K, W, S · nv) and predictions (K, W, S, nq) at xs (K, P)."""
        windows = windows or self._windows
        worlds = [world_and_delay(self._unknowns, x) for x in xs]
        predicted = self._predictor.predict(worlds, windows, self._targets)
        r = differences(predicted, windows.measured)
        return np.nan_to_num(r.reshape(*r.shape[:2], -1), nan=1e3, posinf=1e3, neginf=-1e3), predicted

    def thinned(self, every: int) -> _Problem:
        """Return the problem of every n-th window."""
        windows = self._windows.take(np.arange(0, len(self._windows.t), every))
        return _Problem(self._predictor, self._unknowns, windows, self._targets)

    def linearised(self, x: np.ndarray) -> _Linear:
        """Return residuals and their Jacobian, by central differences in one batch of rollouts."""
        h = np.array([STEP[u.positive] for u in self._unknowns])
        xs = np.concatenate([x[None], x + np.diag(h), x - np.diag(h)])
        r, _ = self.residuals(xs)
        P = len(x)
        J = np.moveaxis((r[1 : 1 + P] - r[1 + P :]) / (2.0 * h[:, None, None]), 0, -1)
        scale = max(1.4826 * float(np.median(np.abs(r[0]))), 1e-3)
        return _Linear(r[0], J, scale, xs[1:], np.array([_cost(each / scale) for each in r[1:]]))


def _cost(r: np.ndarray) -> float:
    """Return Σ √(1 + r²) − 1, the soft absolute value."""
    return float((np.sqrt(1.0 + r**2) - 1.0).sum())


def identify(
    task: Task,
    servo: ServoParams,
    recording: Mapping[str, np.ndarray],
    unknowns: tuple[Unknown, ...],
    *,
    most: int = MOST,
    plant: Simulated = MUJOCO,
    where: object = "the recording",
    say: Callable[[str], Any] = lambda text: None,
) -> Fit:
    """Fit a world to a recording of a task.

    Args:
        recording: samples ``t``, ``pose_WO``, ``q``, ``q_command``, as
            :data:`dexstack.learning.transitions.RECORDED`.
        most: largest number of windows; fewer are faster and less informative.
        plant: simulated plant whose world is fitted.
        where: name of the recording in errors.
        say: called with lines of progress.

    Raises:
        ConfigError: arrays are missing, of a wrong size, or too short; or the plant rejects a world.
    """
    predictor = Predictor(task, servo, plant)
    joints = len(task.setup().robot.joint_names)
    check_recording(recording, joints, str(where))
    recording = in_order(recording)
    windows = cut_windows(recording, SAMPLES, most, where)
    held = np.arange(len(windows.t)) % HELD_OUT == 0
    problem = _Problem(predictor, unknowns, windows.take(~held), applied_targets(recording, servo))
    x0 = first_guess(unknowns)
    precision = np.diag([u.spread**-2 for u in unknowns])
    x, at = _descend(problem, x0, precision, SMALL * np.array([u.floor for u in unknowns]), say)
    # clustered by window, with the correction for few clusters
    g = at.gradients()
    few = len(g) / max(len(g) - len(x), 1)
    curvature = at.curvature()
    inverse = np.linalg.inv(curvature + precision)
    alike = SYSTEMATIC**2 * at.r.size * np.diag(inverse @ curvature @ inverse)
    covariance = inverse @ (few * g.T @ g + precision) @ inverse + np.diag(alike + floors(unknowns, x) ** 2)
    residuals, predicted = problem.residuals(np.stack([x0, x]), windows)
    scores = [float(np.sqrt(np.mean(np.minimum(np.abs(r[held]), 50.0) ** 2))) for r in residuals]
    told = np.sqrt(np.diag(covariance)) < TOLD * np.array([u.spread for u in unknowns])
    return Fit(unknowns, x, covariance, told, *world_and_delay(unknowns, x), *scores, windows, *predicted)


def _descend(
    problem: _Problem, x: np.ndarray, precision: np.ndarray, small: np.ndarray, say: Callable[[str], Any]
) -> tuple[np.ndarray, _Linear]:
    """Run damped Gauss–Newton from x, on a part of the windows and then on all, until steps are
    ``small`` (P,).

    Changing contacts make derivatives too large and steps too short: where a point of the
    differences is better than all steps, the descent continues from there.

    Returns:
        The minimum, and the linearisation there.
    """
    x0 = x
    for every, enough in THINNED.items():
        part, damping = problem.thinned(every), 1e-3
        at = part.linearised(x)
        for _ in range(ROUNDS):
            H, slope = at.curvature() + precision, at.gradients().sum(axis=0) + precision @ (x - x0)
            dampings = damping * 30.0 ** np.arange(TRIED)
            tried = np.stack([x - np.linalg.solve(H + d * np.diag(np.diag(H)), slope) for d in dampings])
            there = np.concatenate([x[None], tried, at.around])
            new = [_cost(r / at.scale) for r in (at.r, *part.residuals(tried)[0])]
            costs = np.array([*new, *at.around_cost])
            cost, *costs = costs + 0.5 * np.einsum("ki,ij,kj->k", there - x0, precision, there - x0)
            best = int(np.argmin(costs))
            gain = 1.0 - costs[best] / cost
            say(f"{len(at.r)} windows: residual {at.scale:.3g}, gain {100 * max(gain, 0.0):.2g} %")
            step = np.abs(there[1 + best] - x)
            if gain > 0.0:
                x = there[1 + best]
                damping = max(1e-6, 0.1 * damping * 30.0**best) if best < TRIED else damping
                at = part.linearised(x)
            if gain < enough or (step < small).all():
                break
    return x, at
