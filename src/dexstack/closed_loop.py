"""Everything one process needs for closed-loop trials of a task, built from names and parameter files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dexstack.config import make_params, param, read_parameter_file, share_dir
from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.control.factory import PlannerParams, make_model, make_mpc
from dexstack.control.mpc import Cost, MpcParams
from dexstack.control.stall import StallParams, StallRemedy
from dexstack.engines.base import Plant
from dexstack.engines.mujoco import MujocoPlant, MujocoPlantParams
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import HandModel, load_hand
from dexstack.model.objects import ObjectModel, Start, load_object
from dexstack.model.robot import Robot
from dexstack.rollout import Servo, Task, Trial, run_trial
from dexstack.sensing import PoseSensor
from dexstack.tasks.allegro import AllegroCost, AllegroTask, AllegroWeights, without_reach
from dexstack.tasks.continuous import ContinuousTask

P = TypeVar("P")

BLOCKS: dict[type, str] = {
    DetectorParams: "contact_detector",
    MpcParams: "mpc",
    StallParams: "mpc",
    PlannerParams: "mpc",
    AllegroWeights: "mpc",
    PoseSensor: "simulator",
    MujocoPlantParams: "simulator",
    ServoParams: "hand",
}
"""Whose section of a parameter file holds a block: the node that runs the same code over ROS."""


@dataclass(frozen=True)
class LoopParams:
    """Timing of the loop."""

    pose_period: float = param(0.02, "time between two object poses, each answered by one plan [s]", 0.002, 1.0)
    latency: float = param(0.01, "time from a pose to the command that answers it [s]", 0.0, 1.0)


@dataclass(frozen=True)
class LoopSpec:
    """What to build; small and picklable, so that another process can build the same."""

    object: str = "cube"
    hand: str = "right"
    files: tuple[str, ...] = ()
    """Parameter files after ``config/allegro.yaml``, the last wins."""
    overrides: tuple[tuple[str, Any], ...] = field(default=())
    """Single parameters that win over all files."""
    plant_scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """What the plant's object has of the mass, sliding friction and size that the controller believes in."""


class Parts(NamedTuple):
    """What a spec names, read and checked."""

    hand: HandModel
    obj: ObjectModel
    start: Start
    params: dict[type, Any]
    """One object of every parameter class in :data:`BLOCKS`, and of :class:`LoopParams`."""


def read_parts(spec: LoopSpec) -> Parts:
    """Read everything a spec names; quick, nothing is compiled.

    Raises:
        ConfigError: an unknown name, an unreadable file, a parameter out of its range.
    """
    params = read_blocks((share_dir() / "config" / "allegro.yaml", *spec.files), dict(spec.overrides))
    make_model(params[PlannerParams])  # only to refuse an unknown name here
    obj = load_object(spec.object)
    return Parts(load_hand(spec.hand), obj, obj.start("allegro"), params)


class Loop:
    """Plant, servo, contact detector and compiled MPC of one robot and one object: the trials of any task."""

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
        self.mpc, self.theta = make_mpc(robot, obj, cost, params[PlannerParams], params[MpcParams])
        self.remedy = StallRemedy(self.mpc, robot.pose(start.hand_pose), params[StallParams], without_reach)
        contacts = self.detector.detect(start.pose_WO, robot.home)
        self.compile_s = self.mpc.warm_up(contacts, self.theta, weights)
        """Time the MPC took to compile [s]."""

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
        )


class ClosedLoop(Loop):
    """The Allegro task.

    Raises:
        ConfigError: see :func:`read_parts`.
    """

    def __init__(self, spec: LoopSpec) -> None:
        self.hand, obj, start, params = read_parts(spec)
        plant = MujocoPlant(self.hand, obj, params[MujocoPlantParams])
        servo = ServoLaw(self.hand, params[ServoParams], GravityCompensation(self.hand))
        super().__init__(self.hand, obj, start, plant, servo, AllegroCost(), params[AllegroWeights].arrays(), params)

    def yaw(self, pose_WO: np.ndarray) -> float:
        """Turn of the object from its nominal start [rad], in (−π, π]."""
        return AllegroTask(self.start, 0.0).yaw(pose_WO)

    def turn_on(self, turn: float, seed: int, seconds: float) -> Trial:
        """Continuous rotation by sub-goals ``turn`` [rad] apart; see :class:`~dexstack.tasks.continuous.ContinuousTask`."""
        return self.run(ContinuousTask(self.start, turn, turn=turn), seed, seconds)

    def trial(self, goal_yaw: float, seed: int, seconds: float, *, measured_latency: bool = False) -> Trial:
        """One trial towards ``goal_yaw`` [rad]; see :meth:`Loop.run`."""
        return self.run(AllegroTask(self.start, goal_yaw), seed, seconds, measured_latency=measured_latency)


def read_blocks(files: Sequence[str | Path], overrides: Mapping[str, Any]) -> dict[type, Any]:
    """Every parameter block of the loop from ROS 2 parameter files; the last file wins, then ``overrides``.

    Raises:
        ConfigError: see :func:`dexstack.config.make_params`.
    """

    def block(cls: type[P], node: str) -> P:
        values: dict[str, Any] = {}
        for path in files:
            values.update(read_parameter_file(path, node))
        return make_params(cls, {**values, **overrides}, ignore_unknown=True)

    return {cls: block(cls, node) for cls, node in {**BLOCKS, LoopParams: "simulator"}.items()}
