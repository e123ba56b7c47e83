"""Scenes with a known outcome, each with one threshold for all engines.

The thresholds were written down before any engine was measured. A scene is an MJCF text, its
duration, a figure computed from its states, and the largest value that passes. Scenes may name the
engines that claim them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import mujoco
import numpy as np

from dexengines.scene import State

G = 9.81
_FLOOR = '<geom name="floor" type="plane" size="0 0 1" friction="0.01"/>'
_BOX = (
    '<body name="{name}" pos="{pos}"><freejoint/><geom name="{name}" type="box" size="0.05 0.05 0.05" '
    'mass="0.5" friction="{mu}"/></body>'
)
_BALL = (
    '<body name="{name}" pos="{pos}"><freejoint/><geom name="{name}" type="sphere" size="0.05" '
    'mass="0.5" friction="0.5"/></body>'
)


def _model(
    body: str, *, dt: float = 1e-3, gravity: tuple[float, ...] = (0.0, 0.0, -G), more: str = ""
) -> str:
    numbers = " ".join(f"{x:.12g}" for x in gravity)
    option = (
        f'<option timestep="{dt}" gravity="{numbers}" cone="elliptic" impratio="10" '
        f'integrator="implicitfast"/>'
    )
    return f"<mujoco>{option}<worldbody>{body}</worldbody>{more}</mujoco>"


@dataclass(frozen=True)
class Scene:
    """A scene and its judgement."""

    name: str
    says: str
    """Description of the figure, with its unit."""
    xml: str
    seconds: float
    judge: Callable[[State], float]
    """Figure of the states (T + 1, …) of a run."""
    limit: float
    q: Mapping[int, float] = field(default_factory=dict)
    v: Mapping[int, float] = field(default_factory=dict)
    """Entries of the initial state that differ from the model's."""
    control: tuple[float, ...] = ()
    only: tuple[str, ...] = ()
    """Engines that claim the scene; all if empty."""
    conserves: bool = False
    """True if the scene conserves energy."""


def _pendulum(state: State) -> float:
    """Return the difference from MuJoCo's Runge–Kutta at a hundredth of the step [rad]."""
    model = mujoco.MjModel.from_xml_string(PENDULUM.xml)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model.opt.timestep /= 100.0
    data = mujoco.MjData(model)
    data.qpos[:] = state.q[0]
    worst = 0.0
    for q in state.q[1:]:
        mujoco.mj_step(model, data, 100)
        worst = max(worst, float(np.abs(q - data.qpos).max()))
    return worst


def _relative(found: float, right: float) -> float:
    return abs(found / right - 1.0)


def _still(z: float) -> Callable[[State], float]:
    """Return the final distance of the first body's height from z [m], infinite if it still moves
    faster than 2 mm/s."""
    return lambda s: float(abs(s.q[-1, 2] - z)) if np.linalg.norm(s.v[-1, :3]) < 2e-3 else np.inf


def _kept(inertia: np.ndarray) -> Callable[[State], float]:
    """Return the relative change of the angular momentum's magnitude."""

    def change(s: State) -> float:
        size = np.linalg.norm(s.v[:, 3:6] * inertia, axis=1)
        return float(np.abs(size / size[0] - 1.0).max())

    return change


PENDULUM = Scene(
    "pendulum",
    "two links, angles [rad]",
    _model(
        '<body pos="0 0 1"><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" '
        'mass="0.3" contype="0"'
        ' conaffinity="0"/><body pos="0 0 -0.3"><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 '
        '-0.3" size="0.02" mass="0.3"'
        ' contype="0" conaffinity="0"/></body></body>'
    ),
    1.0,
    _pendulum,
    0.02,
    q={0: 0.6, 1: 0.3},
    conserves=True,
)
_SLIDE = _model(_FLOOR + _BOX.format(name="box", pos="0 0 0.05", mu=0.4))
_TILT = np.radians(20.0)
_GRIP = (
    '<body name="left" pos="-0.071 0 0.5"><joint name="left" type="slide" axis="1 0 0"/><geom name="left" '
    'type="box" size="0.02 0.04 0.04"'
    ' mass="0.2" friction="0.5"/></body><body name="right" pos="0.071 0 0.5"><joint name="right" '
    'type="slide" axis="-1 0 0"/>'
    '<geom name="right" type="box" size="0.02 0.04 0.04" mass="0.2" friction="0.5"/></body>'
)
SCENES = {
    scene.name: scene
    for scene in (
        Scene(
            "fall",
            "height of a falling ball [m]",
            _model(_BALL.format(name="ball", pos="0 0 2")),
            0.5,
            lambda s: float(np.abs(s.q[:, 2] - 2.0 + G / 2 * s.time**2).max()),
            G * 1e-3 * 0.5,
            conserves=True,
        ),
        Scene(
            "rest",
            "height of a box that fell by 5 mm [m]",
            _model(_FLOOR + _BOX.format(name="box", pos="0 0 0.055", mu=0.5)),
            1.0,
            _still(0.05),
            1e-3,
        ),
        Scene(
            "slide",
            "distance of a box of 1 m/s, relative to v²/2μg",
            _SLIDE,
            0.6,
            lambda s: _relative(s.q[-1, 0], 1.0 / (2 * 0.4 * G)),
            0.03,
            v={0: 1.0},
        ),
        Scene(
            "stick",
            "creep of a box on a slope of 20° (μ 0.5) in 1 s [m]",
            _model(
                _FLOOR + _BOX.format(name="box", pos="0 0 0.05", mu=0.5),
                gravity=(G * np.sin(_TILT), 0.0, -G * np.cos(_TILT)),
            ),
            1.2,
            lambda s: float(np.linalg.norm(s.q[-1, :2] - s.q[200, :2])),
            1e-3,
        ),
        Scene(
            "stack",
            "displacement of the upper box in 2 s [m]",
            _model(
                _FLOOR
                + _BOX.format(name="low", pos="0 0 0.0501", mu=0.5)
                + _BOX.format(name="high", pos="0.01 0 0.1502", mu=0.5)
            ),
            2.0,
            lambda s: float(np.linalg.norm(s.q[-1, 7:10] - (0.01, 0.0, 0.15))),
            2e-3,
        ),
        Scene(
            "roll",
            "final speed of a thrown ball, relative to 5/7 v",
            _model(_FLOOR + _BALL.format(name="ball", pos="0 0 0.05")),
            0.5,
            lambda s: _relative(s.v[-1, 0], 5.0 / 7.0),
            0.03,
            v={0: 1.0},
        ),
        Scene(
            "tumble",
            "angular momentum of a free brick, relative",
            _model(
                '<body><freejoint/><geom type="box" size="0.1 0.05 0.02" mass="1"/></body>',
                gravity=(0.0, 0.0, 0.0),
            ),
            1.0,
            _kept(np.array([0.05**2 + 0.02**2, 0.1**2 + 0.02**2, 0.1**2 + 0.05**2]) / 3.0),
            0.01,
            v={3: 0.1, 4: 8.0, 5: 0.1},
            conserves=True,
        ),
        PENDULUM,
        Scene(
            "grip",
            "slip of a box of 4.9 N between fingers of 10 N (μ 0.5) in 1 s [m]",
            _model(
                _GRIP + _BOX.format(name="box", pos="0 0 0.5", mu=0.5),
                more='<actuator><motor joint="left"/><motor joint="right"/></actuator>',
            ),
            1.2,
            lambda s: float(np.linalg.norm(s.q[-1, 2:5] - s.q[200, 2:5])),
            1e-3,
            control=(10.0, 10.0),
        ),
        Scene(
            "bounce",
            "second height of a ball (e 0.8), relative to e² h",
            _model(
                _FLOOR + _BALL.format(name="ball", pos="0 0 0.25"),
                more='<custom><numeric name="contact_restitution" data="0.8"/></custom>',
            ),
            0.6,
            lambda s: _relative(s.q[300:, 2].max() - 0.05, 0.64 * 0.2),
            0.03,
            only=("lcp",),
        ),
    )
}
"""All scenes by name."""
