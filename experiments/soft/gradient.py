"""Value and gradient of 50 steps of a pushed T by all controls and the start, compared with
MuJoCo's derivatives on the same scene.

The engine's come from one ``jax.value_and_grad`` in float32. The peer chains MuJoCo's
``mjd_transitionFD``: centred differences of every step by state and control, of the most accurate
size, then products back to the start. With every time: the error of the gradient against central
differences of whole rollouts of the same engine in double precision, along random directions. Asked
for: :data:`LIMITS`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from dexengines.soft.near import Room
from dexengines.soft.system import OPTIONS, SoftSystem, SystemData
from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.process.compilation import compiler_options
from experiments.harness import Findings, experiment
from experiments.soft import systems
from experiments.soft.speed import DT, start

STEPS = 50
GOAL = 0.05
"""Displacement of every T along y that is the goal [m]."""
CALLS = 5
"""Consecutive calls in one timing."""
DIRECTIONS = 4
"""Number of directions along which a gradient is compared with differences."""
STEP = 1e-6
"""Step of the differences [m and m/s]."""
REACHES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
"""Steps of ``mjd_transitionFD``, of which the most accurate is used."""


@dataclass(frozen=True)
class Scene:
    """Numbers of Ts and of points of each, with thresholds."""

    points: int
    count: int
    passes: float
    """Most forward passes for value and gradient."""
    faster: float
    """Least ratio of MuJoCo's time."""


LIMITS = (Scene(26, 1, 4.5, 5.0), Scene(4000, 1, 4.5, 2.0), Scene(26, 8, 4.5, 20.0))


State = tuple[np.ndarray, np.ndarray, np.ndarray]
"""q, v and the targets (STEPS, 2 count) of the pushers."""


def begin(count: int) -> State:
    """Return the start: every pusher a millimetre from the end of its stem, with a target beyond
    it."""
    return *start(count), np.tile([0.0, -0.12], (STEPS, count))


def places(count: int, size: int) -> np.ndarray:
    """Return the indices in q (``size`` 7 for a T) or in v (6) of positions, or linear
    velocities."""
    return np.concatenate(
        [np.arange(2 * count), *(2 * count + size * k + np.arange(3) for k in range(count))]
    )


def pushed(scene: Scene) -> tuple[SoftSystem, Callable[..., jax.Array]]:
    """Return a system, and the squared distance of its Ts from the goal at the end as a function of
    q, v, targets and numbers."""
    room = Room(scene.count, 16 * scene.count, systems.ROOM.planes)
    system = systems.pusher_system(scene.points, count=scene.count, room=room)

    def cost(q: jax.Array, v: jax.Array, path: jax.Array, data: SystemData) -> jax.Array:
        def step(state: Any, u: jax.Array) -> Any:
            return system.euler(data, *state, systems.pusher_force(*state, u), DT), None

        (q, _), _ = jax.lax.scan(step, (q, v), path)
        return jnp.sum((q[2 * scene.count + 1 :: 7] - GOAL) ** 2)

    return system, cost


class Ours:
    """The soft engine: compiled functions of the value and of value and gradient, float32."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        system, cost = pushed(scene)
        data, at = jax.device_put(system.data), [jnp.asarray(x, jnp.float32) for x in begin(scene.count)]
        functions = [jax.jit(f).lower(*at, data) for f in (cost, jax.value_and_grad(cost, (0, 1, 2)))]
        value, both = (f.compile(compiler_options() | OPTIONS) for f in functions)
        self.value, self.both = (lambda: value(*at, data)), (lambda: both(*at, data))

    def gradient(self) -> State:
        """Return the gradient by q, v and targets."""
        return tuple(np.asarray(x, float) for x in self.both()[1])

    def exactly(self) -> Callable[..., float]:
        """Return a function for the value in double precision."""
        system, cost = pushed(self._scene)
        f = jax.jit(cost)

        def value(*at: np.ndarray) -> float:
            with jax.enable_x64(True):
                return float(f(*at, system.data))

        return value


class Chained:
    """MuJoCo: a rollout, and products of ``mjd_transitionFD`` along it, with differences of
    ``reach``."""

    def __init__(self, scene: Scene, reach: float) -> None:
        self.reach = reach
        self._count = count = scene.count
        self._model = model = systems.pusher_spec(DT, count=count).compile()
        self._data = mujoco.MjData(model)
        self._at = begin(count)
        self._A = np.zeros((STEPS, 2 * model.nv, 2 * model.nv))
        self._B = np.zeros((STEPS, 2 * model.nv, model.nu))

    def exactly(self) -> Callable[..., float]:
        """Return a function for the value; all is in double precision."""
        return lambda *at: self._roll(at, lambda t: None)

    def _roll(self, at: State, before: Callable[[int], None]) -> float:
        d = self._data
        mujoco.mj_resetData(self._model, d)
        d.qpos[:], d.qvel[:] = at[:2]
        for t, u in enumerate(at[2]):
            d.ctrl[:] = u
            before(t)
            mujoco.mj_step(self._model, d)
        return float(np.sum((d.qpos[2 * self._count + 1 :: 7] - GOAL) ** 2))

    def value(self) -> float:
        """Return the value of the rollout."""
        return self._roll(self._at, lambda t: None)

    def both(self) -> tuple[float, State]:
        """Return value and gradient, without quaternions."""
        m, d, count = self._model, self._data, self._count
        value = self._roll(
            self._at,
            lambda t: mujoco.mjd_transitionFD(m, d, self.reach, True, self._A[t], self._B[t], None, None),
        )
        x, controls = np.zeros(2 * m.nv), np.empty((STEPS, m.nu))
        x[2 * count + 1 : m.nv : 6] = 2.0 * (d.qpos[2 * count + 1 :: 7] - GOAL)
        for t in reversed(range(STEPS)):
            controls[t] = x @ self._B[t]
            x = x @ self._A[t]
        q = np.zeros(m.nq)
        q[places(count, 7)] = x[places(count, 6)]
        return value, (q, x[m.nv :], controls)

    def gradient(self) -> State:
        """Return the gradient by q, v and targets."""
        return self.both()[1]


def error(case: Ours | Chained, count: int, seed: int) -> float:
    """Return the largest error of slopes along random directions against central differences, over
    the largest slope; Ts are not turned."""
    rng, slopes, truths = np.random.default_rng(seed), [], []
    at, gradient, value = begin(count), case.gradient(), case.exactly()
    for _ in range(DIRECTIONS):
        along = [np.zeros(len(at[0])), rng.normal(size=len(at[1])), rng.normal(size=at[2].shape)]
        along[0][places(count, 7)] = rng.normal(size=5 * count)
        slopes.append(sum(float(np.sum(g * x)) for g, x in zip(gradient, along, strict=True)))
        ends = [value(*(x + sign * STEP * u for x, u in zip(at, along, strict=True))) for sign in (1.0, -1.0)]
        truths.append((ends[0] - ends[1]) / (2.0 * STEP))
    return float(np.abs(np.subtract(slopes, truths)).max() / np.abs(truths).max())


def clock(functions: Sequence[Callable[[], Any]], repeats: int) -> np.ndarray:
    """Return processor times (repeats, F) [s], in turns, so that other load affects all alike; each
    is a mean of CALLS consecutive calls."""
    for f in functions:
        jax.block_until_ready(f())
    samples = np.empty((repeats, len(functions)))
    for row in samples:
        for k, f in enumerate(functions):
            since = time.process_time()
            for _ in range(CALLS):
                jax.block_until_ready(f())
            row[k] = (time.process_time() - since) / CALLS
    return samples


def measure(scene: Scene, repeats: int, seed: int) -> dict[str, Any]:
    """Measure one scene, both engines in turns."""
    ours, peers = Ours(scene), [Chained(scene, reach) for reach in REACHES]
    off = [error(peer, scene.count, seed) for peer in peers]
    peer = peers[int(np.argmin(off))]
    samples = clock((ours.value, ours.both, peer.value, peer.both), repeats)
    forward, both, peer_forward, peer_both = np.median(samples, axis=0)
    return {
        "points": scene.points,
        "bodies": scene.count,
        "forward_s": forward,
        "gradient_s": both,
        "passes": float(np.median(samples[:, 1] / samples[:, 0])),
        "error": error(ours, scene.count, seed),
        "mujoco_forward_s": peer_forward,
        "mujoco_gradient_s": peer_both,
        "mujoco_error": min(off),
        "mujoco_reach": peer.reach,
        "faster": float(np.median(samples[:, 3] / samples[:, 1])),
        "asked": {"passes": scene.passes, "faster": scene.faster},
    }


def gradient(args: argparse.Namespace) -> Findings:
    """Measure all scenes."""
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # no gain on one core
    cases = []
    for scene in LIMITS:
        note(f"{scene.count} of {scene.points} points")
        cases.append(measure(scene, args.rounds, args.seed))
    passed = all(
        c["passes"] <= s.passes and c["faster"] >= s.faster for c, s in zip(cases, LIMITS, strict=True)
    )
    rows = [
        [c["points"], c["bodies"], 1e3 * c["forward_s"], 1e3 * c["gradient_s"], c["passes"], c["error"],
         1e3 * c["mujoco_gradient_s"], c["mujoco_error"], c["faster"], c["asked"]["faster"]]
        for c in cases
    ]  # fmt: skip
    columns = (
        "points",
        "Ts",
        "forward ms",
        "and gradient ms",
        "passes",
        "off",
        "MuJoCo's ms",
        "off",
        "times faster",
        "asked",
    )
    results = {
        "core": args.core,
        "steps": STEPS,
        "cases": cases,
        "passed": passed,
        "mujoco": mujoco.__version__,
    }
    return Findings(
        results,
        None,
        [table(f"value and gradient of {STEPS} steps, core {args.core}", columns, rows)],
        args.seed,
    )


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--rounds", type=arguments.positive_int, default=20, metavar="N", help="timings")
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S", help="seed of the directions")


main = experiment(__spec__.name, __doc__, gradient, arguments=_arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
