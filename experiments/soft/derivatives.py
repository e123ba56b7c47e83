"""First and second derivatives of the soft contact wrench in random states, against finite
differences in float64.

The smooth law has two continuous derivatives and no third: d‴ jumps where a plane's separation
speed is 0 or 2 v_d. A body at rest is at that jump with every plane at once, so a central
difference there has an error of first order in its step, whatever its nominal order. The
differences here look to either side alone, where the law is smooth, over steps halved six times and
extrapolated to zero; that both sides agree with the derivative is what twice differentiable says. A
fast body passes the jump of some plane within these steps every few thousand states: where the
differences disagree, shorter ones decide.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dexengines.soft import cloud
from dexengines.soft.scm import ContactParams, smooth_dissipation
from dexengines.soft.tree import turned
from dexstack.cli import arguments
from dexstack.cli.output import table
from dexstack.model.kinematics import quaternion_matrix
from dexstack.process.compilation import jit
from experiments.harness import Outcome, run
from experiments.soft.systems import dense_pair

RADIUS = 0.03
BALL, BOX = cloud.sphere(RADIUS, 0.025), cloud.box((0.03, 0.02, 0.04), 0.031)
LAW = ContactParams(stiffness=1e4, eps1=5e-5, eps2=1e-3, eps3=5e-4, v_d=0.2, v_s=0.02)
SCALES = np.repeat([0.03, 1e-3, 0.02, 0.6], 3)
"""A change of a state that the law feels: turn [rad], place [m], velocity [m/s], angular velocity
[rad/s]."""
KINDS = ("touching", "concentric", "deep", "far apart", "fast", "at rest")
BATCH = 500
STEPS = 4e-3 * 0.5 ** np.arange(7)
"""Of the differences, in SCALES."""
CLOSER = 1.0 / 64.0
"""How much shorter they are the second time."""
TOLERANCE = 1e-6
NOTHING = 1e-200
"""Below, a force [N] or a derivative counts as none: products of such numbers leave the range of a
float64."""


class Errors(NamedTuple):
    """Of one kind of states."""

    kind: str
    not_finite: np.ndarray
    """(count,) whether a value, an entry of the Jacobian or of its derivative is not finite."""
    first: np.ndarray
    """(count,) error of the derivative along a random direction over its own size; moments are
    divided by the ball's radius."""
    second: np.ndarray
    """(count,) the same of the second derivative."""
    uncertain: np.ndarray
    """(count,) what the differences say of their own error, the larger of both."""
    closer: int
    """States that took the shorter steps."""

    @property
    def failed(self) -> np.ndarray:
        """(count,)"""
        return self.not_finite | ~(np.maximum(self.first, self.second) <= TOLERANCE)


def states(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, 13) pose (quaternion, place) and twist of a box relative to a ball."""
    quat = rng.normal(size=(count, 4))
    u = rng.normal(size=(count, 3))
    low, high = {"concentric": (0.0, 0.0), "deep": (0.0, 0.03), "far apart": (0.2, 20.0)}.get(
        kind, (0.03, 0.08)
    )
    place = u * (rng.uniform(low, high, count) / np.linalg.norm(u, axis=1))[:, None]
    speed = {"fast": 100.0, "at rest": 0.0}.get(kind, 1.0)
    twist = speed * rng.normal(size=(count, 6)) * np.repeat([0.3, 1.0], 3)
    return np.hstack([quat / np.linalg.norm(quat, axis=1)[:, None], place, twist])


def wrench(x: jax.Array, step: jax.Array) -> jax.Array:
    """(6,) [N], moments over the ball's radius, at the state x (13,) moved by ``step`` (12,)."""
    R = quaternion_matrix(turned(x[:4], step[:3]))
    found = dense_pair(*BALL, *BOX, R, x[4:7] + step[3:6], x[7:] + step[6:], LAW, smooth_dissipation).wrench
    return found / jnp.repeat(jnp.array([1.0, RADIUS]), 3)


def extrapolated(at: jax.Array, zero: jax.Array, steps: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Slope at 0 (6,) of a function with the values ``at`` (7, 6) at the steps and ``zero`` (6,) at
    0, and an estimate of its error ().

    Every column of the triangle cancels one more power of the step; the best entry is the one that
    differs least from its neighbours.
    """
    column = (at - zero[None]) / steps[:, None]
    best, error = column[-1], jnp.max(jnp.abs(column[-1] - column[-2]))
    for power in range(1, len(STEPS)):
        finer = column[1:] + (column[1:] - column[:-1]) / (2.0**power - 1.0)
        changes = jnp.maximum(
            jnp.max(jnp.abs(finer - column[1:]), axis=1), jnp.max(jnp.abs(finer - column[:-1]), axis=1)
        )
        k = jnp.argmin(changes)
        better = changes[k] < error
        best, error = jnp.where(better, finer[k], best), jnp.where(better, changes[k], error)
        column = finer
    return best, error


def one(x: jax.Array, u: jax.Array, steps: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Of the state x (13,): whether all is finite, both errors along u (12,), and the differences'
    own.

    The derivatives are those of a backward pass and of a forward pass over it; the differences are
    of values and of forward slopes.
    """
    J, H_u = jax.jvp(
        jax.jacrev(lambda s: wrench(x, s)), (jnp.zeros(12),), (u,)
    )  # (6, 12) and its change along u
    f1, f2 = J @ u, H_u @ u
    t = jnp.concatenate([steps, -steps, jnp.zeros(1)])
    values, slopes = jax.vmap(lambda t: jax.jvp(lambda t: wrench(x, t * u), (t,), (1.0,)))(t)
    size1, size2 = (jnp.maximum(jnp.max(jnp.abs(y)), NOTHING) for y in (f1, f2))
    first, second, uncertain = jnp.max(jnp.abs(slopes[-1] - f1)) / size1, jnp.zeros(()), jnp.zeros(())
    for side, at in ((1.0, slice(0, 7)), (-1.0, slice(7, 14))):
        (d1, e1), (d2, e2) = (
            extrapolated(values[at], values[-1], steps),
            extrapolated(slopes[at], slopes[-1], steps),
        )
        first = jnp.maximum(first, jnp.max(jnp.abs(side * d1 - f1)) / size1)
        second = jnp.maximum(second, jnp.max(jnp.abs(side * d2 - f2)) / size2)
        uncertain = jnp.maximum(uncertain, jnp.maximum(e1 / size1, e2 / size2))
    finite = jnp.all(jnp.array([jnp.isfinite(y).all() for y in (values, slopes, J, H_u)]))
    return finite, first, second, uncertain


def check(count: int, seed: int) -> list[Errors]:
    """The six kinds, ``count`` states in all or a few more."""
    rng, result = np.random.default_rng(seed), []
    each = -(-count // len(KINDS))
    size = min(BATCH, each)  # one size, one compilation
    with jax.enable_x64(True):
        batch = jit(lambda x, u, steps: jax.lax.map(lambda args: one(*args, steps), (x, u)))
        for kind in KINDS:
            parts, closer = [], 0
            for begin in range(0, each, size):
                x, u = states(kind, size, rng), SCALES * rng.normal(size=(size, 12))
                found = [np.array(y) for y in batch(x, u, STEPS)]
                again = ~(np.maximum(found[1], found[2]) <= TOLERANCE)
                again[each - begin :] = False
                if again.any():
                    closer += int(again.sum())
                    for y, z in zip(found[1:], batch(x, u, CLOSER * STEPS)[1:], strict=True):
                        y[again] = np.asarray(z)[again]
                parts.append([y[: each - begin] for y in found])
            finite, first, second, uncertain = (np.concatenate(y) for y in zip(*parts, strict=True))
            result.append(Errors(kind, ~finite, first, second, uncertain, closer))
    return result


def derivatives(args: argparse.Namespace) -> Outcome:
    """Check as many states as asked for."""
    outcomes = check(args.states, args.seed)
    rows = [
        [
            o.kind,
            len(o.first),
            int(o.not_finite.sum()),
            *(float(x.max()) for x in (o.first, o.second, o.uncertain)),
            o.closer,
        ]
        for o in outcomes
    ]
    worst = max(max(r[3], r[4]) for r in rows)
    failed, checked = sum(int(o.failed.sum()) for o in outcomes), sum(r[1] for r in rows)
    fields = (
        "kind",
        "checked",
        "not_finite",
        "first_worst",
        "second_worst",
        "difference_error_worst",
        "shorter_steps",
    )
    cases = [dict(zip(fields, r, strict=True)) for r in rows]
    results = {
        "checked": checked,
        "failed": failed,
        "worst": worst,
        "tolerance": TOLERANCE,
        "cases": cases,
        "passed": failed == 0,
    }
    title = "wrench of a box on a ball: derivatives against finite differences, worst, relative"
    columns = ("states", "checked", "not finite", "first", "second", "differences' own", "shorter steps")
    lines = [
        table(title, columns, rows),
        f"{checked} states, {failed} not finite or more than {TOLERANCE:g} off",
    ]
    return Outcome(results, None, lines, args.seed)


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--states", type=arguments.positive_int, default=600, metavar="N", help="how many, of six kinds"
    )
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S", help="draws the states")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, derivatives, argv, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
