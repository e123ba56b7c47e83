"""Short rollouts from measured states, in batches and in any plant, to compare with the
measurements."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import mujoco
import numpy as np

from dexstack.errors import ConfigError
from dexstack.hand.servo import ServoParams
from dexstack.learning.transitions import RECORDED, rotation_between, segments, velocities
from dexstack.model.scene import JointLayout, robot_scene
from dexstack.plants import engine_errors, plant_params, scene_plant_class
from dexstack.plants.engines import Scene, State, rollout
from dexstack.plants.scene_plant import stiffened
from dexstack.tasks.base import Task, World

LONGEST_PERIOD = 0.1
"""Longest time between two samples of one stretch [s]."""
SETTLED = 0.4
"""Time after which the servo's state no longer depends on the start of a stretch [s]."""
NOISE = (5e-3, 1e-3, 2e-2)
"""Units of residuals: expected errors of a correct model in joints [rad], the object's position [m]
and its orientation [rad]."""

OFF_CENTRE = 1e-5
"""Least distance of the object's centre of mass from the origin of its frame [m]: MuJoCo lays out
buffers, which its rollouts share, differently where the two coincide."""


class Windows(NamedTuple):
    """W stretches of S samples each, and the state before each of them."""

    q: np.ndarray
    """(W, nq) joints, then the object's pose."""
    v: np.ndarray
    """(W, nv)"""
    t: np.ndarray
    """(W,) [s]"""
    after: np.ndarray
    """(W, S) times of the samples, from ``t`` on [s]."""
    measured: np.ndarray
    """(W, S, nq)"""

    def take(self, index: np.ndarray) -> Windows:
        """Return the windows at an index."""
        return Windows(*(x[index] for x in self))


class Targets(NamedTuple):
    """Targets of the servo, evenly spaced in time, with its limit on the target's speed applied."""

    t: np.ndarray
    """(K,) [s]"""
    q: np.ndarray
    """(K, N) [rad]"""


def in_order(recording: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the recording with increasing times: where they go back, another rollout begins, one
    second later."""
    t = np.asarray(recording["t"], float)
    back = np.diff(t, prepend=t[:1])
    later = np.cumsum(np.where(back < 0.0, 1.0 - back, 0.0))
    times = [name for name in ("t", "t_command") if name in recording]
    return {**recording, **{name: np.asarray(recording[name], float) + later for name in times}}


def cut_windows(recording: Mapping[str, np.ndarray], samples: int, most: int, where: object) -> Windows:
    """Return at most ``most`` stretches of ``samples`` samples without interruption, those with the
    most motion of joints and object.

    Raises:
        ConfigError: there are fewer than eight such stretches.
    """
    names = (*RECORDED, "qd", "twist_WO", "rollout")
    arrays = {name: np.asarray(recording[name], float) for name in names if name in recording}
    finite = np.isfinite(np.column_stack([arrays[name] for name in RECORDED])).all(axis=1)
    state = np.concatenate([arrays["q"], arrays["pose_WO"]], axis=1)
    rows = []
    for first, last in segments(arrays, finite, LONGEST_PERIOD):
        qd, twist = velocities(arrays, np.arange(first, last))
        settled = first + 1 + int(np.searchsorted(arrays["t"][first:last], arrays["t"][first] + SETTLED))
        for k in range(settled, last - samples, samples):
            rows.append((state[k], np.concatenate([qd[k - first], twist[k - first]]), arrays["t"][k], k))
    if len(rows) < 8:
        raise ConfigError(
            f"{where} contains {len(rows)} stretches of {samples} samples without interruption; 8 or more "
            "are needed"
        )
    q, v, t, at = (np.array(column) for column in zip(*rows, strict=True))
    index = at[:, None] + 1 + np.arange(samples)
    windows = Windows(q, v, t, arrays["t"][index] - t[:, None], state[index])
    moved = np.abs(differences(windows.q[:, None], windows.measured)).mean(axis=(1, 2))
    return windows.take(np.sort(np.argsort(-moved, kind="stable")[:most]))


def applied_targets(recording: Mapping[str, np.ndarray], servo: ServoParams) -> Targets:
    """Return the commands of a recording as followed by the servo without delay, see
    :class:`dexstack.hand.servo.ServoLaw`.

    A command has the time ``t_command`` where the recording contains it, else that of its row.
    """
    t = np.asarray(recording.get("t_command", recording["t"]), float)
    q = np.asarray(recording["q_command"], float)
    new = np.diff(t, prepend=-np.inf) != 0.0  # a command may be in several rows
    good = np.isfinite(q).all(axis=1) & np.isfinite(t) & new
    t, q = t[good], q[good]
    edge = np.flatnonzero((np.diff(t) <= 0.0) | (np.diff(t) > LONGEST_PERIOD)) + 1
    parts_t, parts_q = [], []
    for ts, qs in zip(np.split(t, edge), np.split(q, edge), strict=True):
        fine = np.arange(ts[0], ts[-1] + servo.period, servo.period)
        asked = qs[np.clip(np.searchsorted(ts, fine, "right") - 1, 0, None)]
        reach, now = servo.slew_rate * servo.period, asked[0].copy()
        out = np.empty_like(asked)
        for k, target in enumerate(asked):
            now += np.clip(target - now, -reach, reach)
            out[k] = now
        parts_t.append(fine)
        parts_q.append(out)
    return Targets(np.concatenate(parts_t), np.concatenate(parts_q))


def servo_of(task: Task, settings: Mapping[type, Any]) -> ServoParams:
    """Return the parameters of a task's joint servo.

    Raises:
        ConfigError: the task's robot has another servo.
    """
    servo = settings[task.servo_params()]
    if not isinstance(servo, ServoParams):
        raise ConfigError(
            f"only hands can be identified; the robot of the task '{task.name}' has no joint servo"
        )
    return servo


class Simulated(NamedTuple):
    """A simulated plant for predictions."""

    name: str = "mujoco"
    params: Any = None
    """Parameters of the plant; None: defaults."""


MUJOCO = Simulated()


class Predictor:
    """Predictions of windows in given worlds.

    Args:
        task: provides the scene.
        servo: gains of the robot's servo.
        plant: simulated plant.

    Raises:
        ConfigError: an unknown plant, one whose libraries are not installed, or a user's plant
            without a scene.
    """

    def __init__(self, task: Task, servo: ServoParams, plant: Simulated = MUJOCO) -> None:
        self._task, self._servo, self._make_scene = task, servo, scene_plant_class(plant.name).make_scene
        self._params = plant.params or plant_params(plant.name)()

    @engine_errors()
    def scene(self, world: World) -> Scene:
        """Return the scene in a world, with the servo as actuators.

        Raises:
            ConfigError: the plant rejects the world.
        """
        scene, servo = self._task.setup(world), self._servo
        held = 0.5 * (servo.period - self._params.dt)  # mean age of the plant's torque beyond a rollout's
        obj = scene.obj
        if np.linalg.norm(obj.com) <= OFF_CENTRE:
            obj = replace(obj, com=(OFF_CENTRE, 0.0, 0.0))
        spec = robot_scene(scene.robot, obj)
        kp, kd = world.torque * servo.kp, world.torque * servo.kd
        for name, effort in zip(scene.robot.joint_names, world.torque * scene.robot.effort, strict=True):
            motor = spec.add_actuator(name=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, target=name)
            motor.biastype = mujoco.mjtBias.mjBIAS_AFFINE
            motor.gainprm[0], motor.biasprm[:3] = kp, (0.0, -kp, kp * held - kd)
            motor.forcelimited, motor.forcerange = True, (-effort, effort)
        if servo.gravity_compensation:
            for body in scene.robot.bodies:
                spec.body(body.name).gravcomp = world.torque
        return self._make_scene(spec, scene.robot, stiffened(self._params, obj))

    def predict(
        self, worlds: Sequence[tuple[World, float]], windows: Windows, targets: Targets
    ) -> np.ndarray:
        """Return predictions (worlds, W, S, nq) in worlds with their delays [s]; not finite where a
        rollout diverges."""
        scenes = [self.scene(world) for world, _ in worlds]
        W, dt = len(windows.t), self._params.dt
        steps = int(np.ceil(windows.after.max() / dt)) + 1
        layout = JointLayout(scenes[0].model)
        q = np.concatenate([layout.coordinates(windows.q[:, :-7]), windows.q[:, -7:]], axis=1)
        v = np.concatenate([layout.rates(windows.v[:, :-6]), windows.v[:, -6:]], axis=1)
        start = State(np.zeros(W), q, v, np.zeros((W, 0)))
        # a step uses the target at its middle; a command waits half a servo period on average
        at = windows.t[:, None] + dt * (0.5 + np.arange(steps)) - 0.5 * self._servo.period
        control = np.stack([self._controls(targets, at - delay) for _, delay in worlds])
        state = rolled(scenes, start, control).reshape(len(worlds), W, steps + 1, -1)
        state = np.concatenate([state[..., layout.own], state[..., -7:]], axis=-1)
        state[:, :, 0] = windows.q
        return _at(state, windows.after / dt)

    @staticmethod
    def _controls(targets: Targets, t: np.ndarray) -> np.ndarray:
        """Return targets (W, T, N) at times (W, T), interpolated so that a delay has a
        derivative."""
        return np.stack([np.interp(t, targets.t, q) for q in targets.q.T], axis=-1)


def rolled(scenes: Sequence[Scene], start: State, controls: np.ndarray) -> np.ndarray:
    """Return rollouts (K W, T + 1, nq) of K scenes from W states each, under controls (K, W, T, nu);
    a rollout that diverges is NaN."""
    K, W, T, nu = controls.shape
    each = [scene for scene in scenes for _ in range(W)]
    starts = State(*(np.tile(x, (K, *(1,) * (x.ndim - 1))) for x in start))
    controls = controls.reshape(K * W, T, nu)
    try:
        return rollout(each, starts, controls).q
    except FloatingPointError:
        q = np.full((K * W, T + 1, start.q.shape[1]), np.nan)
        for k, scene in enumerate(each):
            with contextlib.suppress(FloatingPointError):
                q[k] = scene.rollout(State(*(x[k] for x in starts)), controls[k]).q
        return q


def _at(path: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Interpolate paths (…, W, T, nq) at fractional steps (W, S)."""
    low = np.minimum(step.astype(int), path.shape[2] - 2)
    part = (step - low)[..., None]
    each = np.arange(path.shape[1])[:, None]
    return (1.0 - part) * path[:, each, low] + part * path[:, each, low + 1]


def differences(predicted: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Return predicted minus measured states (…, nq) as (…, nv) in units of :data:`NOISE`: joints,
    position, rotation."""
    n = measured.shape[-1] - 7
    joints = (predicted[..., :n] - measured[..., :n]) / NOISE[0]
    place = (predicted[..., n : n + 3] - measured[..., n : n + 3]) / NOISE[1]
    shape = np.broadcast_shapes(predicted.shape, measured.shape)[:-1]
    quats = (np.broadcast_to(x[..., n + 3 :], (*shape, 4)).reshape(-1, 4) for x in (measured, predicted))
    turn = rotation_between(*quats).reshape(*shape, 3) / NOISE[2]
    return np.concatenate([joints, place, turn], axis=-1)
