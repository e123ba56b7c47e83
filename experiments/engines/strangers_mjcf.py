"""MJCF texts and figures of the scenes of :mod:`experiments.engines.strangers_scenes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import mujoco
import numpy as np

from dexengines.scene import State

G = 9.81
Figure = Callable[[mujoco.MjModel, State], float]


@dataclass(frozen=True)
class Stranger:
    """A scene, its figure and the truth of that."""

    name: str
    says: str
    """Description of the figure, with its unit."""
    xml: str
    seconds: float
    figure: Figure
    """Figure of the states (T + 1, …) of a run."""
    truth: float
    tolerance: float
    """Largest distance of the figure from the truth."""
    q: Mapping[int, float] = field(default_factory=dict)
    v: Mapping[int, float] = field(default_factory=dict)
    """Entries of the initial state that differ from the model's."""
    control: tuple[float, ...] = ()


# --- MJCF ---


def numbers(values: float | tuple[float, ...]) -> str:
    return " ".join(f"{x:.12g}" for x in np.atleast_1d(values))


def mjcf(
    world: str,
    dt: float = 1e-3,
    gravity: tuple[float, ...] = (0.0, 0.0, -G),
    before: str = "",
    after: str = "",
) -> str:
    """Return a model of bodies in the world."""
    option = (
        f'<option timestep="{dt}" gravity="{numbers(gravity)}" cone="elliptic" impratio="10" '
        'integrator="implicitfast"/>'
    )
    return f"<mujoco>{option}{before}<worldbody>{world}</worldbody>{after}</mujoco>"


def geom(kind: str, size: float | tuple[float, ...], mu: float = 0.5, more: str = "") -> str:
    """Return a geom."""
    return f'<geom type="{kind}" size="{numbers(size)}" friction="{mu:.12g}" {more}/>'


def free(at: tuple[float, ...], shape: str, turned: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)) -> str:
    """Return a free body at a place."""
    return f'<body pos="{numbers(at)}" quat="{numbers(turned)}"><freejoint/>{shape}</body>'


def floor(mu: float = 0.5) -> str:
    """Return the plane z = 0."""
    return geom("plane", (0.0, 0.0, 1.0), mu, 'name="floor"')


def tilted(degrees: float) -> tuple[float, float, float]:
    """Return gravity on a slope that falls to +x."""
    return (G * np.sin(np.radians(degrees)), 0.0, -G * np.cos(np.radians(degrees)))


LYING = (0.5**0.5, 0.5**0.5, 0.0, 0.0)
"""Turns the axis of a cylinder or a capsule to y."""
MOTORS = '<actuator><motor joint="jl"/><motor joint="jr"/></actuator>'

# --- figures ---


def way(s: State) -> float:
    """Return the horizontal way of the first body [m]."""
    return float(np.linalg.norm(s.q[-1, :2] - s.q[0, :2]))


def braking(entry: int, seconds: float) -> Figure:
    """Return the mean deceleration of an entry of v."""
    return lambda m, s: float((s.v[0, entry] - s.v[-1, entry]) / seconds)


def crept(start: int) -> Figure:
    """Return the way of the free body at an entry of q after the first fifth of the run [m]."""
    return lambda m, s: float(np.linalg.norm(np.diff(s.q[[len(s.q) // 5, -1], start : start + 3], axis=0)))


def far_from(start: int, place: tuple[float, ...]) -> Figure:
    """Return the final distance of the free body at an entry of q from a place [m]."""
    return lambda m, s: float(np.linalg.norm(s.q[-1, start : start + 3] - place))


def fallen(start: int, below: float) -> Figure:
    """Return 1 if the free body at an entry of q ends below a height, else 0."""
    return lambda m, s: float(s.q[-1, start + 2] < below)


def momentum_lost(m: mujoco.MjModel, s: State) -> float:
    """Return the largest change of momentum and angular momentum, each over its initial size."""
    data, found = mujoco.MjData(m), []
    for q, v in zip(s.q[[0, -1]], s.v[[0, -1]], strict=True):
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_fwdPosition(m, data)
        mujoco.mj_fwdVelocity(m, data)
        mujoco.mj_subtreeVel(m, data)
        p = data.subtree_linvel[0] * m.body_subtreemass[0]
        found.append((p, data.subtree_angmom[0] + np.cross(data.subtree_com[0], p)))
    return float(max(np.linalg.norm(b - a) / np.linalg.norm(a) for a, b in zip(*found, strict=True)))


U_MESH = (
    '<asset><mesh name="u" vertex="-0.06 -0.02 -0.08 -0.04 -0.02 -0.08 -0.04 -0.02 0 0.04 -0.02 0 '
    "0.04 -0.02 -0.08 0.06 -0.02 -0.08 0.06 -0.02 0.02 -0.06 -0.02 0.02 -0.06 0.02 -0.08 -0.04 0.02 -0.08 "
    "-0.04 0.02 0 0.04 0.02 0 0.04 0.02 -0.08 0.06 0.02 -0.08 0.06 0.02 0.02 -0.06 0.02 0.02"
    '" face="0 1 2 0 2 7 7 2 6 2 3 6 3 4 5 3 5 6 8 10 9 8 15 10 15 14 10 10 14 11 11 13 12 11 14 13 '
    "0 8 1 1 8 9 1 9 2 2 9 10 2 10 3 3 10 11 3 11 4 4 11 12 4 12 5 5 12 13 5 13 6 6 13 14 6 14 7 7 14 15 "
    '7 15 0 0 15 8" inertia="exact"/></asset>'
)


def pendulum(limit: str = "") -> str:
    rod = 'fromto="0 0 0 0 0 -0.5" mass="1" contype="0" conaffinity="0"'
    return mjcf(
        f'<body pos="0 0 1"><joint axis="0 1 0" {limit}/>' + geom("capsule", 0.02, 0.5, rod) + "</body>"
    )


def quarter(m: mujoco.MjModel, s: State) -> float:
    """Return the time at which the first coordinate changes its sign [s]."""
    k = int(np.argmax(s.q[:, 0] < 0.0))
    return float(s.time[k] + s.q[k, 0] / (s.q[k - 1, 0] - s.q[k, 0]) * (s.time[k] - s.time[k - 1]))


def pyramid() -> str:
    places = [(0.105 * k + 0.0525 * row, 0.05 + 0.1 * row) for row in range(5) for k in range(5 - row)]
    return "".join(free((x, 0.0, z), geom("box", (0.05,) * 3, 0.5, 'mass="0.5"')) for x, z in places)


def bin_of_27() -> str:
    """Return 27 bodies of three shapes, turned at random, over a bin."""
    rng = np.random.default_rng(0)
    walls = "".join(
        geom("box", size, 0.5, f'pos="{numbers(at)}"')
        for size, at in (
            ((0.01, 0.2, 0.1), (0.2, 0.0, 0.1)), ((0.01, 0.2, 0.1), (-0.2, 0.0, 0.1)),
            ((0.2, 0.01, 0.1), (0.0, 0.2, 0.1)), ((0.2, 0.01, 0.1), (0.0, -0.2, 0.1)),
        )
    )  # fmt: skip
    shapes = (("sphere", 0.04), ("box", (0.035, 0.03, 0.04)), ("capsule", (0.025, 0.03)))
    bodies = ""
    for k in range(27):
        x, y, z = (np.array([k // 9, k // 3 % 3, k % 3]) - 1.0) * 0.115 + rng.uniform(-0.003, 0.003, 3)
        turned = rng.normal(size=4)
        bodies += free((x, y, z * 1.2 + 0.218), geom(*shapes[k % 3], 0.5, 'mass="0.2"'),
                       tuple(turned / np.linalg.norm(turned)))  # fmt: skip
    return floor() + walls + bodies


def lost(m: mujoco.MjModel, s: State) -> float:
    """Return the number of free bodies below the floor or outside the bin."""
    at = s.q[-1].reshape(-1, 7)[:, :3]
    return float(((at[:, 2] < 0.0) | (np.abs(at[:, :2]) > 0.2).any(axis=1)).sum())


def drifted(m: mujoco.MjModel, s: State) -> float:
    """Return the greatest distance of a free body from its start [m]."""
    return float(np.linalg.norm((s.q[-1] - s.q[0]).reshape(-1, 7)[:, :3], axis=1).max())


def off_circle(s: State) -> float:
    """Return the distance of the ball from the circle it runs in at 2/7 of the turntable's rate.

    It starts at x = 0.2 m along y without slip, so the circle's centre lies on the x axis.
    """
    rate = 2.0 / 7.0 * 3.0
    x0, v0 = 0.2, s.v[0, 2]
    radius, angle = v0 / rate, rate * s.time[-1]
    place = (x0 - radius * (1.0 - np.cos(angle)), radius * np.sin(angle))
    return float(np.linalg.norm(s.q[-1, 1:3] - place))
