"""Friction and restitution from a recorded flight: a ball that bounces and a box that slides, by
the engine's gradients.

Positions of both are recorded ten times in 0.6 s, with noise; what is fitted are the two numbers
that make the simulation go the same way. Gauss–Newton with the derivative by the parameters (a step
that does not help is halved) stands beside Nelder–Mead on the same squares. A derivative counts as
the ten rollouts that it takes; each is replayed twice besides.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize

from dexengines.lcp import gradient, record
from dexengines.lcp.shapes import box, plane, sphere
from dexengines.lcp.system import LcpSystem
from experiments.harness import BLUE, GREEN, PINK, Outcome, run
from experiments.lcp import systems

TRUTH, GUESS = np.array([0.35, 0.6]), np.array([0.15, 0.85])
"""Friction and restitution; what the fit begins with."""
STEPS, FRAMES = 60, 10
NOISES = (0.0, 1e-3)
"""Standard deviations of the recorded positions [m]."""
ROUNDS, CLOSE = 30, 1e-12
"""Most iterations; change of the parameters that ends them."""
REACHED = {0.0: 1e-8, 1e-3: 1e-2}
"""Error that is asked for, by noise."""


class Flight:
    """The scene, and how often it was simulated."""

    def __init__(self) -> None:
        model = systems.free_bodies({"ball": (0.2, (8e-5,) * 3), "box": (1.0, (4e-3,) * 3)}, dt=0.01)
        shapes = [
            plane("floor", friction=1.0, restitution=0.0),
            sphere("ball", "ball", 0.03, restitution=1.0, friction=0.0),
            box("box", "box", (0.1,) * 3),
        ]
        self.system = LcpSystem(model, shapes)
        self.rollouts = 0
        self._start = np.concatenate(
            [(0.0, 0.5, 0.4, 1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.1 + 1e-5, 1.0, 0.0, 0.0, 0.0)]
        )

    def _run(self, parameters: np.ndarray, steps: int) -> gradient.Rollout:
        system, (friction, restitution) = self.system, parameters
        system.forget()
        system.parameters = record.Parameters(
            system.parameters.mass, np.array([friction, 0.0, 0.0]), np.array([0.0, restitution, 0.0])
        )
        system.q[:], system.v[:] = self._start, 0.0
        system.v[[0, 6, 7]] = 3.0, 2.0, 0.5
        return gradient.rollout(system, np.zeros((steps, 12)))

    def seen(self, parameters: np.ndarray) -> np.ndarray:
        """(FRAMES, 6) positions of ball and box."""
        self.rollouts += 1
        q = self._run(parameters, STEPS).q[STEPS // FRAMES :: STEPS // FRAMES]
        return np.concatenate([q[:, :3], q[:, 7:10]], axis=1)

    def slope(self, parameters: np.ndarray) -> np.ndarray:
        """(FRAMES, 6, 2) their derivative: a rollout to each frame."""
        along = {
            "friction": np.array([[1.0, 0.0, 0.0], [0.0] * 3]),
            "restitution": np.array([[0.0] * 3, [0.0, 1.0, 0.0]]),
        }
        found = []
        for k in range(1, FRAMES + 1):
            self.rollouts += 1
            d = gradient.directional(self.system, self._run(parameters, k * STEPS // FRAMES), along)
            found.append(np.concatenate([d[:, :3], d[:, 7:10]], axis=1).T)
        return np.array(found)


def by_gradient(flight: Flight, recorded: np.ndarray) -> np.ndarray:
    """Friction and restitution that minimise the squares."""
    x, at = GUESS, flight.seen(GUESS)
    for _ in range(ROUNDS):
        J = flight.slope(x).reshape(-1, 2)
        step = -np.linalg.lstsq(J, (at - recorded).ravel(), rcond=None)[0]
        while np.abs(step).max() > CLOSE:
            new = np.clip(x + step, 1e-3, (2.0, 1.0))
            there = flight.seen(new)
            if np.sum((there - recorded) ** 2) < np.sum((at - recorded) ** 2):
                x, at = new, there
                break
            step = 0.5 * step
        else:
            break
    return x


def by_values(flight: Flight, recorded: np.ndarray) -> np.ndarray:
    """The same by Nelder–Mead."""
    loss = lambda x: float(np.sum((flight.seen(np.clip(x, 1e-3, (2.0, 1.0))) - recorded) ** 2))  # noqa: E731
    return minimize(
        loss, GUESS, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-18, "maxfev": 1000}
    ).x


def identify(args: argparse.Namespace) -> Outcome:
    """All recordings; without noise one is enough."""
    rng, flight, runs, lines, clouds = np.random.default_rng(args.seed), Flight(), {}, [], {}
    truth = flight.seen(TRUTH)
    for noise in NOISES:
        found, counts = {"gradient": [], "values": []}, {"gradient": [], "values": []}
        for _ in range(args.recordings if noise > 0.0 else 1):
            recorded = truth + noise * rng.normal(size=truth.shape)
            for way, fit in (("gradient", by_gradient), ("values", by_values)):
                flight.rollouts = 0
                found[way].append(fit(flight, recorded))
                counts[way].append(flight.rollouts)
        clouds[noise] = np.array(found["gradient"])
        errors = np.abs(clouds[noise] - TRUTH)
        row = {"noise_m": noise, "recordings": len(errors), "rollouts": np.median(counts["gradient"])}
        for k, name in enumerate(("friction", "restitution")):
            row[name] = {"median": np.median(errors[:, k]), "worst": errors[:, k].max()}
        row["zeroth_order_rollouts"] = np.median(counts["values"])
        row["zeroth_order_error"] = np.abs(np.array(found["values"]) - TRUTH).max()
        row["reached"] = bool(errors.max() <= REACHED[noise])
        runs[f"{1e3 * noise:g} mm"] = row
        lines.append(
            f"noise {1e3 * noise:g} mm, n {len(errors)}: friction off by {errors[:, 0].max():.1e} at most, restitution by "
            f"{errors[:, 1].max():.1e}, {row['rollouts']:.0f} rollouts; Nelder–Mead off by {row['zeroth_order_error']:.1e} after "
            f"{row['zeroth_order_rollouts']:.0f}"
        )
    figure = Figure(figsize=(6.5, 3.8), layout="constrained")
    ax = figure.subplots()
    ax.plot(
        *clouds[NOISES[-1]].T, ".", color=PINK, label=f"from recordings with {1e3 * NOISES[-1]:g} mm of noise"
    )
    ax.plot(*TRUTH, "*", ms=14, color=GREEN, label="truth")
    ax.plot(*GUESS, "s", color=BLUE, label="first guess")
    ax.set(xlabel="friction", ylabel="restitution", title="identified from a bounce and a slide")
    ax.legend()
    return Outcome(
        {"runs": runs, "passed": all(row["reached"] for row in runs.values())}, figure, lines, args.seed
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recordings", type=int, default=50, help="recordings with noise")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, identify, argv, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
