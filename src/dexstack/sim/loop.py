"""Everything one process needs for closed-loop trials of a task, built from names and parameter files."""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dexstack.config import make_params, param, read_parameter_file, share_dir
from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.control.factory import PlannerParams, check_rule, make_model, make_mpc, make_theta
from dexstack.control.mpc import Cost, MpcParams
from dexstack.control.parts import FingerContacts
from dexstack.control.supervisors.gait import StallParams, StallRemedy
from dexstack.control.supervisors.regrasp import RegraspingMpc, RegraspParams
from dexstack.engines import make_plant, plant_params
from dexstack.engines.base import Plant
from dexstack.errors import ConfigError
from dexstack.hand.ball_servo import BallServo, BallServoParams
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.model.balls import BallsModel
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import HandModel, load_hand
from dexstack.model.objects import ObjectModel, Start, load_object, scaled
from dexstack.model.robot import Robot
from dexstack.sim.disturbance import Pushes
from dexstack.sim.sensor import PoseSensor
from dexstack.sim.trial import Servo, Task, Trial, run_trial
from dexstack.tasks.continuous import ContinuousTask
from dexstack.tasks.palm_turn import PUBLISHED, AllegroCost, AllegroTask, AllegroWeights, without_reach
from dexstack.tasks.three_ball import (
    TASK,
    ThreeBallCost,
    ThreeBallParams,
    ThreeBallTask,
    ThreeBallWeights,
    plans_of,
    scene_balls,
    scene_object,
    targets,
)

P = TypeVar("P")


@dataclass(frozen=True)
class LoopParams:
    """Timing of the loop."""

    pose_period: float = param(0.02, "time between two object poses, each answered by one plan [s]", 0.002, 1.0)
    latency: float = param(0.01, "time from a pose to the command that answers it [s]", 0.0, 1.0)


_LOOP: dict[type, str] = {
    LoopParams: "simulator",
    PoseSensor: "simulator",
    Pushes: "simulator",
    DetectorParams: "contact_detector",
    MpcParams: "mpc",
    PlannerParams: "mpc",
}
BLOCKS = {**_LOOP, StallParams: "mpc", AllegroWeights: "mpc", ServoParams: "hand"}
"""Whose section of a parameter file holds a block of the Allegro task: the node that runs the same code over ROS."""
THREE_BALL_BLOCKS = {**_LOOP, ThreeBallWeights: "mpc", RegraspParams: "mpc", ThreeBallParams: "simulator"}
"""The same for the three-ball task."""


@dataclass(frozen=True)
class LoopSpec:
    """What to build; small and picklable, so that another process can build the same."""

    object: str = "cube"
    hand: str = "right"
    files: tuple[str, ...] = ()
    """Parameter files after ``config/allegro.yaml``, the last wins."""
    overrides: tuple[tuple[str, Any], ...] = field(default=())
    """Single parameters that win over all files."""
    plant: str = "mujoco"
    """See :data:`dexstack.engines.PLANTS`."""
    plant_scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """What the plant's object has of the mass, sliding friction (the hand too) and size that the controller believes in."""


class Parts(NamedTuple):
    """What a spec names, read and checked."""

    hand: HandModel
    obj: ObjectModel
    start: Start
    params: dict[type, Any]
    """One object of every parameter class in :data:`BLOCKS`, and of the plant's."""


def read_parts(spec: LoopSpec) -> Parts:
    """Read everything a spec names; quick, nothing is compiled.

    Raises:
        ConfigError: an unknown name, an unreadable file, a parameter out of its range.
    """
    params = read_blocks((share_dir() / "config" / "allegro.yaml", *spec.files), dict(spec.overrides), plant=spec.plant)
    make_model(params[PlannerParams])  # this and the next two: only to refuse an unknown name here
    hand, obj = load_hand(spec.hand), load_object(spec.object)
    check_rule(params[PlannerParams])
    make_theta(hand, obj, params[PlannerParams], params[MpcParams].step)
    return Parts(hand, obj, obj.start("allegro", hand.side), params)


class Loop(abc.ABC):
    """Plant, servo, contact detector and compiled MPC of one robot and one object: the trials of any task."""

    settling = 0.0
    """Time after which the servo follows its target as fast as it ever will [s]."""
    seconds: float
    """Simulated time of a trial, the paper's [s]."""

    def __init__(
        self,
        robot: Robot,
        obj: ObjectModel,
        start: Start,
        plant: Plant,
        servo: Servo,
        cost: Cost,
        weights: dict[str, np.ndarray],
        params: Mapping[type, Any],
    ) -> None:
        """``params`` holds detector, planner, MPC and timing; the MPC is compiled here."""
        self.robot, self.obj, self.start, self.params = robot, obj, start, params
        self.timing: LoopParams = params[LoopParams]
        self.plant, self.servo, self.weights = plant, servo, weights
        self.detector = ContactDetector(robot, obj, params[DetectorParams])
        self.fingers = FingerContacts(robot, params[PlannerParams])
        self.mpc, self.theta = make_mpc(robot, obj, cost, params[PlannerParams], params[MpcParams], params[DetectorParams])
        self.remedy: StallRemedy | None = None
        """What a task does when the rollout stalls, if it does not leave that to its MPC."""
        contacts = self.detector.detect(start.pose_WO, robot.home)
        self.compile_s = self.mpc.warm_up(contacts, self.theta, weights)
        """Time the MPC took to compile [s]."""

    @abc.abstractmethod
    def task(self, k: int, seed: int) -> Task:
        """Goal and score of the k-th trial: the paper's targets one after another, drawn by ``seed`` where they are drawn."""

    def run(self, task: Task, seed: int, seconds: float, *, measured_latency: bool = False) -> Trial:
        """One trial of ``seconds`` [s]; ``seed`` draws the start pose, as it does for ``dexstack up sim``.

        With ``measured_latency`` every command is as late as its own computation was, and the trial is not repeatable.
        """
        return run_trial(
            self.plant,
            self.servo,
            self.detector,
            self.mpc,
            self.theta,
            self.weights,
            task,
            np.random.default_rng(seed),
            seconds=seconds,
            period=self.timing.pose_period,
            latency=None if measured_latency else self.timing.latency,
            stop_when_reached=False,
            remedy=self.remedy,
            sensor=self.params[PoseSensor],
            pushes=self.params[Pushes],
        )


class ClosedLoop(Loop):
    """The Allegro task.

    Raises:
        ConfigError: see :func:`read_parts`.
    """

    def __init__(self, spec: LoopSpec) -> None:
        self.hand, obj, start, params = read_parts(spec)
        mass, friction, size = spec.plant_scale
        actual = scaled(obj, mass=mass, friction=friction, size=size)
        start = actual.start("allegro", self.hand.side)
        # a contact takes the rougher of its two surfaces, so that the object's alone would change nothing
        surface = replace(
            self.hand, friction_palm=friction * self.hand.friction_palm, friction_fingers=friction * self.hand.friction_fingers
        )
        plant = make_plant(spec.plant, surface, actual, params[plant_params(spec.plant)])
        servo = ServoLaw(self.hand, params[ServoParams], GravityCompensation(self.hand))
        super().__init__(self.hand, obj, start, plant, servo, AllegroCost(), params[AllegroWeights].arrays(), params)
        self.remedy = StallRemedy(self.mpc, self.hand.pose(start.hand_pose), params[StallParams], without_reach, self.hand.swing_joints)
        self.settling = servo.params.startup_time
        self._published = PUBLISHED.get(obj.name, PUBLISHED["cube"])
        self.seconds = self._published.steps * params[MpcParams].step

    def task(self, k: int, seed: int) -> AllegroTask:
        goals = self._published.goals_deg
        return AllegroTask(self.start, math.radians(goals[k % len(goals)]))

    def yaw(self, pose_WO: np.ndarray) -> float:
        """Turn of the object from its nominal start [rad], in (−π, π]."""
        return AllegroTask(self.start, 0.0).yaw(pose_WO)

    def turn_on(self, turn: float, seed: int, seconds: float) -> Trial:
        """Continuous rotation by sub-goals ``turn`` [rad] apart; see :class:`~dexstack.tasks.continuous.ContinuousTask`."""
        return self.run(ContinuousTask(self.start, turn, turn=turn), seed, seconds)

    def trial(self, goal_yaw: float, seed: int, seconds: float, *, measured_latency: bool = False) -> Trial:
        """One trial towards ``goal_yaw`` [rad]; see :meth:`Loop.run`."""
        return self.run(AllegroTask(self.start, goal_yaw), seed, seconds, measured_latency=measured_latency)


class ThreeBallParts(NamedTuple):
    """What a spec names for the three-ball task, read and checked."""

    balls: BallsModel
    obj: ObjectModel
    params: dict[type, Any]
    """One object of every parameter class in :data:`THREE_BALL_BLOCKS`, and of the plant's."""


def read_three_ball(spec: LoopSpec) -> ThreeBallParts:
    """Read everything a spec names; quick, nothing is compiled.

    Raises:
        ConfigError: an unknown name, an unreadable file, a parameter out of its range.
    """
    params = read_blocks((share_dir() / "config" / "three_ball.yaml", *spec.files), dict(spec.overrides), THREE_BALL_BLOCKS, spec.plant)
    obj = scene_object(load_object(spec.object), params[ThreeBallParams])
    balls = scene_balls(obj, params[ThreeBallParams])
    make_model(params[PlannerParams])  # this and the next two: only to refuse an unknown name here
    check_rule(params[PlannerParams])
    make_theta(balls, obj, params[PlannerParams], params[MpcParams].step)
    return ThreeBallParts(balls, obj, params)


class ThreeBallLoop(Loop):
    """The three-ball task; of the spec, the hand is not used.

    Raises:
        ConfigError: see :func:`read_three_ball`.
    """

    def __init__(self, spec: LoopSpec) -> None:
        balls, obj, params = read_three_ball(spec)
        plant = make_plant(spec.plant, balls, obj, params[plant_params(spec.plant)])
        servo = BallServo(balls, BallServoParams(params[ThreeBallParams].kp))
        weights = params[ThreeBallWeights].arrays()
        super().__init__(balls, obj, obj.start(TASK), plant, servo, ThreeBallCost(), weights, params)
        self.mpc = RegraspingMpc(self.mpc, self.detector, balls, obj, params[RegraspParams])
        self.seconds = plans_of(obj.name) * self.timing.pose_period

    def task(self, k: int, seed: int) -> ThreeBallTask:
        return ThreeBallTask(self.start, next(itertools.islice(targets(self.obj, seed), k, None))[1])


def read_blocks(
    files: Sequence[str | Path], overrides: Mapping[str, Any], blocks: Mapping[type, str] = BLOCKS, plant: str = "mujoco"
) -> dict[type, Any]:
    """Every parameter block of a loop, and the plant's, from ROS 2 parameter files; the last file wins, then ``overrides``.

    Raises:
        ConfigError: see :func:`dexstack.config.make_params`; an override that no block has.
    """
    every = {**blocks, plant_params(plant): "simulator"}
    known = {f.name for cls in every for f in fields(cls)}
    unknown = sorted(set(overrides) - known)
    if unknown:
        raise ConfigError(f"unknown parameter '{unknown[0]}'; known: {', '.join(sorted(known))}")

    def block(cls: type[P], node: str) -> P:
        values: dict[str, Any] = {}
        for path in files:
            values.update(read_parameter_file(path, node))
        return make_params(cls, {**values, **overrides}, ignore_unknown=True)

    return {cls: block(cls, node) for cls, node in every.items()}
