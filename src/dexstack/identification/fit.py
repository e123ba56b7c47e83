"""Gauss–Newton through rollouts: the most probable world, how sure that is, and what the recording
does not tell.

With residuals r of all windows under a robust loss ρ, and a normal distribution of the unknowns x
beforehand, the fit minimises

    ½ Σ ρ(r²) + ½ (x − x₀)ᵀ Λ (x − x₀)

Samples of one window err together, because they come from one start: the covariance is H⁻¹ (Σ_w g_w
g_wᵀ + Λ) H⁻¹ with H = C + Λ, C the Gauss–Newton matrix and g_w the gradient of window w (the
"sandwich" of clustered errors). What rollouts do not have, as the servo's ticks, errs in all
windows alike and does not average out: n residuals that are off by a share c of their width, each
as moves x_i most, move it by c √(n (H⁻¹ C H⁻¹)_ii). That is added, and each unknown's floor
(:func:`.unknowns.floors`). ρ is as wide as the residuals are at each step, so that it stays robust
while they fall by a hundred.
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
"""Of a window."""
STEP = {True: 0.1, False: 2e-3}
"""Of difference quotients: of a logarithm; of a delay [s] or an offset [m]. Contacts come and go:
smaller ones see the noise of that."""
THINNED = {2: 0.1, 1: 1e-3}
"""The fit goes through every so many-th window first, because far from its end a share of them
shows the way; until a step gains less."""
ROUNDS, TRIED = 20, 3
"""Most Gauss–Newton steps, and dampings tried in each."""
SMALL = 0.5
"""Steps end, too, where all are below this share of their unknowns' floors: what is left is not
what makes the intervals wide."""
TOLD = 0.7
"""An unknown is told where its standard deviation is below this share of that beforehand."""
HELD_OUT = 5
"""Every so many-th window is not fitted but judged."""
SYSTEMATIC = 0.45
"""Share of the residuals' width that is the rollouts' own error, in the direction that moves an
unknown most: with :attr:`.Unknown.least` chosen so that nine of ten intervals hold the truth in
fifty hidden worlds, seeds 300 on."""
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
    """Root mean square of the residuals of windows held out, as believed and fitted, in units of
    :data:`.rollouts.NOISE`."""
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
        return np.stack(
            [values(self.unknowns, self.x - spread), values(self.unknowns, self.x + spread)], axis=1
        )

    def curves(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Root mean squares (S,) over the windows, as believed and fitted, of joints, place and
        orientation; by label, with unit."""
        n = self.windows.measured.shape[-1] - 7
        parts = (
            ("joints [rad]", slice(0, n), NOISE[0]),
            ("object's place [mm]", slice(n, n + 3), 1e3 * NOISE[1]),
            ("object's orientation [rad]", slice(n + 3, n + 6), NOISE[2]),
        )
        each = [
            differences(predicted, self.windows.measured) for predicted in (self.believed, self.predicted)
        ]
        rms = lambda r: np.sqrt(np.mean(r**2, axis=(0, 2)))  # noqa: E731
        return {
            label: (unit * rms(each[0][..., which]), unit * rms(each[1][..., which]))
            for label, which, unit in parts
        }


class _Linear(NamedTuple):
    """Residuals about one x."""

    r: np.ndarray
    """(W, R)"""
    J: np.ndarray
    """(W, R, P)"""
    scale: float
    """Standard deviation of the residuals but for outliers: what the loss takes for one. It falls
    as the fit comes near."""
    around: np.ndarray
    """(2 P, P) where the differences were taken."""
    around_cost: np.ndarray
    """(2 P,) costs of the residuals there."""

    @property
    def weight(self) -> np.ndarray:
        """(W, R), of :func:`_cost`."""
        return 1.0 / np.sqrt(1.0 + (self.r / self.scale) ** 2)

    def gradients(self) -> np.ndarray:
        """(W, P) of every window's cost."""
        return np.einsum("wr,wrp->wp", self.weight * self.r, self.J) / self.scale**2

    def curvature(self) -> np.ndarray:
        """(P, P), the Gauss–Newton matrix of the cost."""
        flat = self.J.reshape(-1, self.J.shape[-1])
        return flat.T @ (self.weight.reshape(-1, 1) * flat) / self.scale**2


class _Problem:
    """Residuals and their derivatives at any x."""

    def __init__(
        self, predictor: Predictor, unknowns: tuple[Unknown, ...], windows: Windows, targets: Targets
    ) -> None:
        self._predictor, self._unknowns, self._windows, self._targets = predictor, unknowns, windows, targets

    def residuals(self, xs: np.ndarray, windows: Windows | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Residuals (K, W, S · nv) and predictions (K, W, S, nq) at xs (K, P)."""
        windows = windows or self._windows
        predicted = self._predictor.predict(
            [world_and_delay(self._unknowns, x) for x in xs], windows, self._targets
        )
        r = differences(predicted, windows.measured)
        return np.nan_to_num(r.reshape(*r.shape[:2], -1), nan=1e3, posinf=1e3, neginf=-1e3), predicted

    def thinned(self, every: int) -> _Problem:
        """The same of every so many-th window."""
        return _Problem(
            self._predictor,
            self._unknowns,
            self._windows.take(np.arange(0, len(self._windows.t), every)),
            self._targets,
        )

    def linearised(self, x: np.ndarray) -> _Linear:
        """Residuals and their Jacobian, by central differences, in one batch of rollouts."""
        h = np.array([STEP[u.positive] for u in self._unknowns])
        xs = np.concatenate([x[None], x + np.diag(h), x - np.diag(h)])
        r, _ = self.residuals(xs)
        P = len(x)
        J = np.moveaxis((r[1 : 1 + P] - r[1 + P :]) / (2.0 * h[:, None, None]), 0, -1)
        scale = max(1.4826 * float(np.median(np.abs(r[0]))), 1e-3)
        return _Linear(r[0], J, scale, xs[1:], np.array([_cost(each / scale) for each in r[1:]]))


def _cost(r: np.ndarray) -> float:
    """Σ √(1 + r²) − 1, the soft absolute value."""
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
        most: windows; fewer are faster, and tell less.
        plant: whose world it is to be.
        say: progress.

    Raises:
        ConfigError: arrays are missing, of a wrong size, or too short; or what the plant refuses.
    """
    predictor = Predictor(task, servo, plant)
    joints = len(task.scene().robot.joint_names)
    check_recording(recording, joints, str(where))
    recording = in_order(recording)
    windows = cut_windows(recording, SAMPLES, most, where)
    held = np.arange(len(windows.t)) % HELD_OUT == 0
    problem = _Problem(predictor, unknowns, windows.take(~held), applied_targets(recording, servo))
    x0 = first_guess(unknowns)
    precision = np.diag([u.spread**-2 for u in unknowns])
    x, at = _descend(problem, x0, precision, SMALL * np.array([u.floor for u in unknowns]), say)
    # every window's errors belong together; few windows show too small a spread
    g = at.gradients()
    few = len(g) / max(len(g) - len(x), 1)
    curvature = at.curvature()
    inverse = np.linalg.inv(curvature + precision)
    alike = SYSTEMATIC**2 * at.r.size * np.diag(inverse @ curvature @ inverse)
    covariance = inverse @ (few * g.T @ g + precision) @ inverse + np.diag(alike + floors(unknowns, x) ** 2)
    (believed, fitted), predicted = problem.residuals(np.stack([x0, x]), windows)
    before, after = (
        float(np.sqrt(np.mean(np.minimum(np.abs(each[held]), 50.0) ** 2))) for each in (believed, fitted)
    )
    told = np.sqrt(np.diag(covariance)) < TOLD * np.array([u.spread for u in unknowns])
    world, delay = world_and_delay(unknowns, x)
    return Fit(
        unknowns, x, covariance, told, world, delay, before, after, windows, predicted[0], predicted[1]
    )


def _descend(
    problem: _Problem, x: np.ndarray, precision: np.ndarray, small: np.ndarray, say: Callable[[str], Any]
) -> tuple[np.ndarray, _Linear]:
    """Damped Gauss–Newton from x, through a share of the windows and then through all, until steps
    are ``small`` (P,).

    Contacts that come and go make derivatives too large, and then steps too short: where a place at
    which a difference was taken is better than all of them, it goes on from there.

    Returns:
        Where it ends, and the problem there.
    """
    x0 = x
    for every, enough in THINNED.items():
        part, damping = problem.thinned(every), 1e-3
        at = part.linearised(x)
        for _ in range(ROUNDS):
            H, slope = at.curvature() + precision, at.gradients().sum(axis=0) + precision @ (x - x0)
            tried = np.stack(
                [
                    x - np.linalg.solve(H + d * np.diag(np.diag(H)), slope)
                    for d in damping * 30.0 ** np.arange(TRIED)
                ]
            )
            there = np.concatenate([x[None], tried, at.around])
            costs = np.array(
                [
                    _cost(at.r / at.scale),
                    *(_cost(r / at.scale) for r in part.residuals(tried)[0]),
                    *at.around_cost,
                ]
            )
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
