"""Mass, friction and centre of mass of a pushed T from a recording, by derivatives through the
engine.

A T of hidden mass, friction and centre of mass stands on three feet, so that its load lies where
statics says, and is struck five times in MuJoCo, fast enough to slide on by itself; recorded at 50
Hz are its pose and where the position-controlled sphere is, both with noise. The three are fitted
by least squares on all frames, with SciPy's solver, three times on the same recording:

- ``derivatives``: the soft engine and its own derivatives, forward through the rollout;
- ``differences``: the soft engine and differences of rollouts;
- ``mujoco``: MuJoCo itself, the plant, and differences of rollouts.

All start at the nominal T. Asked for of ``derivatives``: mass within 5 %, friction within 10 %,
centre of mass within 2 mm in every case.
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
import mujoco.rollout
import numpy as np
from scipy.optimize import least_squares

from dexengines.soft import cloud
from dexengines.soft.cloud import Cloud
from dexengines.soft.scm import ContactParams
from dexengines.soft.system import Ground, Meeting, SoftSystem, Surface
from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.process.compilation import jit
from experiments.harness import Findings, experiment
from experiments.soft import systems

SPACING = 0.01
"""Spacing of the points on the T and on the sphere [m]; √ε1 is a fifth of it."""
GUESS = np.array([systems.T_MASS, systems.T_FRICTION, 0.0, 0.0])
"""Mass [kg], friction, centre of mass (x, y) in the T's frame [m]."""
LOW, HIGH = np.array([0.1, 0.1, -0.04, -0.04]), np.array([2.0, 1.5, 0.04, 0.04])
"""Bounds of a fit."""
DRAWN = np.array([0.25, 0.25, -0.015, -0.015]), np.array([0.9, 0.8, 0.015, 0.015])
"""Range of the true values."""
SCALE = np.array([0.1, 0.1, 0.005, 0.005])
"""Scale of the parameters in the solver."""
ROUGH = 0.3
"""Step of MuJoCo's differences in SCALEs, across the local minima of its error: the best of 0.01,
0.1, 0.3 and 1 with another seed."""
WITHIN = np.array([0.05, 0.10, 0.002])
"""Thresholds: errors of mass and friction as shares of the truth, and of the centre of mass [m]."""
DT, FRAME, SECONDS = 0.002, 0.02, 1.0
"""Step, period of frames, and length of a strike [s]."""
STRIKES = (
    ((0.0, -0.155), (0.0, 1.0)),
    ((0.04, 0.10), (0.0, -1.0)),
    ((-0.05, 0.10), (0.0, -1.0)),
    ((0.16, 0.03), (-1.0, 0.0)),
    ((-0.06, -0.08), (1.0, 0.0)),
)
"""Start and direction of the sphere, in the T's frame about its middle [m], before every strike."""
FEET, FOOT = ((-0.11, 0.04), (0.11, 0.04), (0.0, -0.12)), 0.004
"""Feet of the T in its frame, and their radius [m]."""
SMOOTHING = {"stiffness": 5e3, "eps2": 2e-3, "eps3": 2e-4, "v_d": 0.3, "v_s": 0.02}
SPEED, LENGTH = 0.7, 0.12
"""Speed of the sphere's target [m/s], and its travel [m]."""
NOISE = np.array([3e-4, 3e-4, np.radians(0.2), 1e-4, 1e-4])
"""Standard deviations of the T's place [m], its heading [rad] and the sphere's place [m]."""


def spec_of(numbers: np.ndarray) -> mujoco.MjSpec:
    """Return the scene with the T's parameters (4,)."""
    spec = systems.pusher_spec(DT)
    spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 10.0
    plain = spec.compile()
    t = plain.body("T").id
    mass, friction, x, y = map(float, numbers)
    body = spec.body("T")
    body.explicitinertial, body.mass, body.ipos = True, mass, (x, y, float(plain.body_ipos[t, 2]))
    body.inertia, body.iquat = plain.body_inertia[t] * mass / plain.body_mass[t], plain.body_iquat[t]
    for foot in FEET:
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE, size=(FOOT, 0, 0), pos=(*foot, FOOT - systems.HEIGHT / 2)
        )
    for geom in spec.geoms:
        geom.friction[0] = friction if geom.parent.name == "T" else 1e-3  # the larger of two counts
        on_floor = geom.type == mujoco.mjtGeom.mjGEOM_PLANE or (
            geom.type == mujoco.mjtGeom.mjGEOM_SPHERE and geom.parent.name == "T"
        )
        geom.contype = geom.conaffinity = 2 if on_floor else 1
    return spec


def starts() -> np.ndarray:
    """Return coordinates (B, 9) before every strike."""
    q = np.tile(systems.pusher_start()[0], (len(STRIKES), 1))
    q[:, :2] = [place for place, _ in STRIKES]
    return q


def targets() -> np.ndarray:
    """Return targets (B, K, 2) of the sphere: forth, and back before the T would push it."""
    t = DT * np.arange(1, round(SECONDS / DT) + 1)
    along = np.interp(t, [0.0, LENGTH / SPEED, 2 * LENGTH / SPEED], [0.0, LENGTH, 0.0])
    return np.array([np.array(place) + along[:, None] * np.array(way) for place, way in STRIKES])


def seen(q: Any) -> Any:
    """Return (…, 5) of coordinates (…, 9), NumPy or JAX: the T's x, y and heading, then the
    sphere."""
    xp = jnp if isinstance(q, jax.Array) else np
    w, x, y, z = (q[..., k] for k in range(5, 9))
    heading = xp.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return xp.concatenate([q[..., 2:4], heading[..., None], q[..., :2]], axis=-1)


@dataclass
class Model:
    """Frames (B·F·5,) over their noise as a function of parameters (4,), with counts of
    evaluations."""

    frames: Callable[[np.ndarray], np.ndarray]
    slopes: Callable[[np.ndarray], np.ndarray] | None = None
    """Derivatives (B·F·5, 4); None: central differences over ``step`` SCALEs."""
    step: float = 0.01
    rollouts: int = 0
    derivatives: int = 0

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        self.rollouts += 1
        return self.frames(numbers)

    def slope(self, numbers: np.ndarray) -> np.ndarray:
        """Return the derivatives (B·F·5, 4)."""
        self.derivatives += 1
        if self.slopes:
            return self.slopes(numbers)
        steps = np.diag(self.step * SCALE)
        return np.stack([(self(numbers + h) - self(numbers - h)) / (2.0 * h.max()) for h in steps], axis=1)


def in_mujoco(numbers: np.ndarray) -> np.ndarray:
    """Return frames by MuJoCo."""
    model = spec_of(numbers).compile()
    data, full = mujoco.MjData(model), mujoco.mjtState.mjSTATE_FULLPHYSICS
    states = np.empty((len(STRIKES), mujoco.mj_stateSize(model, full)))
    for q, state in zip(starts(), states, strict=True):
        data.qpos[:] = q
        mujoco.mj_getState(model, data, state, full)
    rolled, _ = mujoco.rollout.rollout(model, data, states, targets())
    every = round(FRAME / DT)
    return np.asarray(seen(rolled[:, every - 1 :: every, 1 : 1 + model.nq]) / NOISE).ravel()


def in_soft() -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]:
    """Return functions for frames by the soft engine and for their derivatives (…, 4)."""
    off_centre = spec_of(
        GUESS + np.array([0.0, 0.0, 1e-3, 0.0])
    ).compile()  # so that the centre of mass is one of the system's numbers

    params = ContactParams(eps1=(0.2 * SPACING) ** 2, **SMOOTHING)
    feet = np.array([(*foot, -systems.HEIGHT / 2) for foot in FEET])
    t = Surface("T", "T", systems.t_cloud(SPACING), systems.T_FRICTION)
    ball = Surface("pusher", "pusher", cloud.sphere(systems.PUSHER_RADIUS, SPACING / 2), systems.T_FRICTION)
    stand = Surface("feet", "T", Cloud(feet, np.tile([0.0, 0.0, -1.0], (3, 1))), systems.T_FRICTION)
    system = SoftSystem(off_centre, [Meeting([t], [ball], params=params)], [Ground(stand, params)])
    link, start, paths = int(np.argmax(system.data.numbers.mass)), starts(), targets()
    data, every = jax.device_put(system.data), round(FRAME / DT)
    unit = jnp.asarray(system.data.numbers.inertia[link] / system.data.numbers.mass[link])

    def with_numbers(data: Any, numbers: jax.Array) -> Any:
        mass, friction, x, y = numbers
        n = data.numbers
        com = n.com.at[link, 0].set(x).at[link, 1].set(y)
        changed = n._replace(
            mass=n.mass.at[link].set(mass), inertia=n.inertia.at[link].set(unit * mass), com=com
        )
        meetings = tuple(
            m._replace(params=m.params._replace(friction=jnp.full_like(m.params.friction, friction)))
            for m in data.meetings
        )
        grounds = tuple(g._replace(params=g.params._replace(friction=friction)) for g in data.grounds)
        return data._replace(numbers=changed, meetings=meetings, grounds=grounds)

    def frames(data: Any, numbers: jax.Array) -> jax.Array:
        hidden = with_numbers(data, numbers)

        def strike(q: jax.Array, path: jax.Array) -> jax.Array:
            def step(state: Any, u: jax.Array) -> Any:
                return system.euler(hidden, *state, systems.pusher_force(*state, u), DT), None

            def frame(state: Any, path: jax.Array) -> Any:
                state, _ = jax.lax.scan(step, state, path)
                return state, state[0]

            return jax.lax.scan(frame, (q, jnp.zeros(8)), path.reshape(-1, every, 2))[1]

        return (seen(jax.vmap(strike)(jnp.asarray(start), jnp.asarray(paths))) / NOISE).ravel()

    values, slopes = jit(frames), jit(jax.jacfwd(frames, argnums=1))
    return lambda x: np.asarray(values(data, jnp.asarray(x))), lambda x: np.asarray(
        slopes(data, jnp.asarray(x))
    )


def fitted(model: Model, recorded: np.ndarray) -> tuple[np.ndarray, float]:
    """Return fitted parameters (4,) and processor time [s]."""
    begin, model.rollouts, model.derivatives = time.process_time(), 0, 0
    found = least_squares(
        lambda x: model(x) - recorded, GUESS, model.slope, bounds=(LOW, HIGH), x_scale=SCALE
    )
    return found.x, time.process_time() - begin


def identify(args: argparse.Namespace) -> Findings:
    """Fit all cases in all three ways."""
    with jax.enable_x64(True):
        values, slopes = in_soft()
        values(GUESS), slopes(GUESS)  # compiles
        models = {
            "derivatives": Model(values, slopes),
            "differences": Model(values),
            "mujoco": Model(in_mujoco, step=ROUGH),
        }
        rng, cases = np.random.default_rng(args.seed), []
        for k in range(args.cases):
            truth = rng.uniform(*DRAWN)
            clean = in_mujoco(truth)
            recorded = clean + rng.normal(size=clean.shape)
            for name, model in models.items():
                numbers, seconds = fitted(model, recorded)
                off = np.abs(numbers - truth) / np.array([*truth[:2], 1.0, 1.0])
                errors = np.array([off[0], off[1], float(np.hypot(*off[2:]))])
                cases.append(
                    {
                        "case": k,
                        "by": name,
                        "truth": truth,
                        "found": numbers,
                        "errors": errors,
                        "cpu_s": seconds,
                    }
                )
                cases[-1] |= {
                    "rollouts": model.rollouts,
                    "derivatives": model.derivatives,
                    "reached": bool((errors <= WITHIN).all()),
                }
            note(
                f"case {k}: "
                + "; ".join(
                    f"{c['by']} {np.round(c['errors'], 4)}, {c['cpu_s']:.2f} s" for c in cases[-len(models) :]
                )
            )
    rows = [_row(name, [c for c in cases if c["by"] == name]) for name in models]
    passed = rows[0]["reached"] == rows[0]["cases"]
    columns = (
        "by",
        "cases",
        "reached",
        "mass off %",
        "friction off %",
        "centre off mm",
        "CPU s",
        "rollouts",
        "derivatives",
    )
    listed = [
        [
            r["by"],
            r["cases"],
            r["reached"],
            100 * r["mass"],
            100 * r["friction"],
            1e3 * r["centre_m"],
            *list(r.values())[-3:],
        ]
        for r in rows
    ]
    view = table("a T from a recording, medians", columns, listed)
    return Findings({"cases": cases, "rows": rows, "passed": bool(passed)}, None, [view], args.seed)


def _row(name: str, cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return medians and largest errors of one way."""
    errors = np.array([c["errors"] for c in cases])
    middle, worst = np.median(errors, axis=0), errors.max(axis=0)
    result = {"by": name, "cases": len(cases), "reached": sum(c["reached"] for c in cases)}
    result |= {"mass": middle[0], "friction": middle[1], "centre_m": middle[2]}
    result |= {"worst_mass": worst[0], "worst_friction": worst[1], "worst_centre_m": worst[2]}
    return result | {
        key: float(np.median([c[key] for c in cases])) for key in ("cpu_s", "rollouts", "derivatives")
    }


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--cases", type=arguments.positive_int, default=10, metavar="N", help="hidden T's")
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S", help="draws them and the noise")


main = experiment(__spec__.name, __doc__, identify, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
