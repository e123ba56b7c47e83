"""Short rollouts from measured states, many at once, in any plant: what a world says against what
was measured."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import mujoco
import numpy as np

from dexstack.errors import ConfigError
from dexstack.hand.servo import ServoParams
from dexstack.learning.transitions import rotation_between, segments, velocities
from dexstack.model.scene import JointLayout, robot_scene
from dexstack.plants import engine_errors, plant_params, scene_plant
from dexstack.plants.engines import Scene, State, rollout
from dexstack.plants.scene_plant import stiffened
from dexstack.tasks.base import Task, World

LONGEST_PERIOD = 0.1
"""Samples farther apart in time are not of one stretch [s]."""
SETTLED = 0.4
"""After so long the servo has forgotten how a stretch began [s]."""
NOISE = (5e-3, 1e-3, 2e-2)
"""How far joints [rad], the object's place [m] and its orientation [rad] may be from a model that
is right, to begin with."""

OFF_CENTRE = 1e-5
"""The object's centre of mass is at least so far from the origin of its frame [m]: MuJoCo's
rollouts share buffers, which it lays out otherwise where the two are one."""


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
        """Some of them."""
        return Windows(*(x[index] for x in self))


class Targets(NamedTuple):
    """What the servo was to follow, evenly spaced in time, with its limit on the target's speed
    applied."""

    t: np.ndarray
    """(K,) [s]"""
    q: np.ndarray
    """(K, N) [rad]"""


def in_order(recording: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The recording with times that never go back: where they do, another rollout begins a second
    later."""
    t = np.asarray(recording["t"], float)
    back = np.diff(t, prepend=t[:1])
    later = np.cumsum(np.where(back < 0.0, 1.0 - back, 0.0))
    return {
        **recording,
        **{
            name: np.asarray(recording[name], float) + later
            for name in ("t", "t_command")
            if name in recording
        },
    }


def cut_windows(recording: Mapping[str, np.ndarray], samples: int, most: int, where: object) -> Windows:
    """Stretches of ``samples`` samples in which nobody intervened; where there are more, those in
    which joints and object move most.

    Raises:
        ConfigError: there are fewer than eight such stretches.
    """
    arrays = {
        k: np.asarray(v, float)
        for k, v in recording.items()
        if k in ("t", "pose_WO", "q", "q_command", "qd", "twist_WO", "rollout")
    }
    finite = np.isfinite(np.column_stack([arrays[name] for name in ("t", "pose_WO", "q", "q_command")])).all(
        axis=1
    )
    state = np.concatenate([arrays["q"], arrays["pose_WO"]], axis=1)
    rows = []
    for first, last in segments(arrays, finite, LONGEST_PERIOD):
        qd, twist = velocities(arrays, np.arange(first, last))
        settled = first + 1 + int(np.searchsorted(arrays["t"][first:last], arrays["t"][first] + SETTLED))
        for k in range(settled, last - samples, samples):
            rows.append((state[k], np.concatenate([qd[k - first], twist[k - first]]), arrays["t"][k], k))
    if len(rows) < 8:
        raise ConfigError(
            f"{where} holds {len(rows)} stretches of {samples} samples without a break; 8 or more are needed"
        )
    q, v, t, at = (np.array(column) for column in zip(*rows, strict=True))
    index = at[:, None] + 1 + np.arange(samples)
    windows = Windows(q, v, t, arrays["t"][index] - t[:, None], state[index])
    moved = np.abs(differences(windows.q[:, None], windows.measured)).mean(axis=(1, 2))
    return windows.take(np.sort(np.argsort(-moved, kind="stable")[:most]))


def applied_targets(recording: Mapping[str, np.ndarray], servo: ServoParams) -> Targets:
    """The commands of a recording as the servo follows them, without delay; see
    :class:`dexstack.hand.servo.ServoLaw`.

    A command is of the time ``t_command`` where the recording has it, else of its row.
    """
    t, q = (
        np.asarray(recording.get("t_command", recording["t"]), float),
        np.asarray(recording["q_command"], float),
    )
    good = (
        np.isfinite(q).all(axis=1) & np.isfinite(t) & (np.diff(t, prepend=-np.inf) != 0.0)
    )  # a command may stand in several rows
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
    """The block of a task's joint servo.

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
    """A plant whose rollouts predict."""

    name: str = "mujoco"
    params: Any = None
    """Of the plant; None: its defaults."""


MUJOCO = Simulated()


class Predictor:
    """What worlds say of windows.

    Args:
        task: whose scene it is.
        servo: gains of its robot's servo.
        plant: in which physics.

    Raises:
        ConfigError: an unknown plant, one whose libraries are not installed, or a user's own
            without a scene.
    """

    def __init__(self, task: Task, servo: ServoParams, plant: Simulated = MUJOCO) -> None:
        self._task, self._servo, self._make_scene = task, servo, scene_plant(plant.name).make_scene
        self._params = plant.params or plant_params(plant.name)()

    @engine_errors()
    def scene(self, world: World) -> Scene:
        """The scene in a world, with the servo as actuators.

        Raises:
            ConfigError: what the plant refuses.
        """
        scene, servo = self._task.scene(world), self._servo
        held = 0.5 * (
            servo.period - self._params.dt
        )  # a plant holds a torque for a period, rollouts for a step: it answers old joints
        obj = (
            scene.obj
            if np.linalg.norm(scene.obj.com) > OFF_CENTRE
            else replace(scene.obj, com=(OFF_CENTRE, 0.0, 0.0))
        )
        spec = robot_scene(scene.robot, obj)
        for name, effort in zip(scene.robot.joint_names, scene.robot.effort, strict=True):
            motor = spec.add_actuator(name=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, target=name)
            motor.biastype, kp, kd = (
                mujoco.mjtBias.mjBIAS_AFFINE,
                world.torque * servo.kp,
                world.torque * servo.kd,
            )
            motor.gainprm[0], motor.biasprm[:3] = kp, (0.0, -kp, kp * held - kd)
            motor.forcelimited, motor.forcerange = True, (-world.torque * effort, world.torque * effort)
        if servo.gravity_compensation:
            for body in scene.robot.bodies:
                spec.body(body.name).gravcomp = world.torque
        return self._make_scene(spec, scene.robot, stiffened(self._params, obj))

    def predict(
        self, worlds: Sequence[tuple[World, float]], windows: Windows, targets: Targets
    ) -> np.ndarray:
        """(worlds, W, S, nq) under worlds with their delays [s]; not finite where a rollout
        diverges."""
        scenes = [self.scene(world) for world, _ in worlds]
        W, dt = len(windows.t), self._params.dt
        steps = int(np.ceil(windows.after.max() / dt)) + 1
        layout = JointLayout(scenes[0].model)
        joints, rates = layout.coordinates(windows.q[:, :-7]), layout.rates(windows.v[:, :-6])
        q, v = (
            np.concatenate([joints, windows.q[:, -7:]], axis=1),
            np.concatenate([rates, windows.v[:, -6:]], axis=1),
        )
        start = State(np.zeros(W), q, v, np.zeros((W, 0)))
        # a step holds the target of its middle; a command waits for the servo's next tick, half a
        # period on average
        at = windows.t[:, None] + dt * (0.5 + np.arange(steps)) - 0.5 * self._servo.period
        control = np.stack([self._controls(targets, at - delay) for _, delay in worlds])
        state = rolled(scenes, start, control).reshape(len(worlds), W, steps + 1, -1)
        state = np.concatenate([state[..., layout.own], state[..., -7:]], axis=-1)
        state[:, :, 0] = windows.q
        return _at(state, windows.after / dt)

    @staticmethod
    def _controls(targets: Targets, t: np.ndarray) -> np.ndarray:
        """(W, T, N) targets at times (W, T), linear in between, so that a delay has a
        derivative."""
        return np.stack([np.interp(t, targets.t, q) for q in targets.q.T], axis=-1)


def rolled(scenes: Sequence[Scene], start: State, controls: np.ndarray) -> np.ndarray:
    """(K W, T + 1, nq) of K scenes from W states each, under controls (K, W, T, nu); where one
    diverges all of it is NaN."""
    K, W, T, nu = controls.shape
    each = [scene for scene in scenes for _ in range(W)]
    starts, controls = (
        State(*(np.tile(x, (K, *(1,) * (x.ndim - 1))) for x in start)),
        controls.reshape(K * W, T, nu),
    )
    try:
        return rollout(each, starts, controls).q
    except FloatingPointError:
        q = np.full((K * W, T + 1, start.q.shape[1]), np.nan)
        for k, scene in enumerate(each):
            with contextlib.suppress(FloatingPointError):
                q[k] = scene.rollout(State(*(x[k] for x in starts)), controls[k]).q
        return q


def _at(path: np.ndarray, step: np.ndarray) -> np.ndarray:
    """(…, W, S, nq) of paths (…, W, T, nq) at steps (W, S) that are no whole numbers."""
    low = np.minimum(step.astype(int), path.shape[2] - 2)
    part = (step - low)[..., None]
    each = np.arange(path.shape[1])[:, None]
    return (1.0 - part) * path[:, each, low] + part * path[:, each, low + 1]


def differences(predicted: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """(…, nv) measured against predicted (…, nq), in units of :data:`NOISE`: joints, place,
    rotation."""
    n = measured.shape[-1] - 7
    joints, place = (
        (predicted[..., :n] - measured[..., :n]) / NOISE[0],
        (predicted[..., n : n + 3] - measured[..., n : n + 3]) / NOISE[1],
    )
    shape = np.broadcast_shapes(predicted.shape, measured.shape)[:-1]
    quats = (np.broadcast_to(x[..., n + 3 :], (*shape, 4)).reshape(-1, 4) for x in (measured, predicted))
    turn = rotation_between(*quats).reshape(*shape, 3) / NOISE[2]
    return np.concatenate([joints, place, turn], axis=-1)
