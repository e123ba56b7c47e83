"""Parameters of the nodes that are not those of the library they stand on; declared here, so that
files are checked without ROS."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dexstack.config import param
from dexstack.hand.params import (
    BusParams,
    CanHandParams,
    EmulatedHandParams,
    FaultParams,
    HandParams,
    MotorFaultParams,
    MotorParams,
)
from dexstack.hand.servo import ServoParams
from dexstack.hand.watch import WatchParams
from dexstack.model import HAND_NAMES
from dexstack.perception.camera_params import (
    CameraFaultParams,
    EstimatorParams,
    MountParams,
    RealSenseParams,
    SimulatedCameraParams,
)
from dexstack.plants import PLANTS


@dataclass(frozen=True)
class SceneParams:
    """What runs: of every node that knows the scene."""

    task: str = param("palm_turn", "name of a task, or the path of a task's Python file")
    hand: str = param("right", f"which hand: {HAND_NAMES}")
    object: str = param("cube", "name of an object, or the path of an object's YAML")


@dataclass(frozen=True)
class MpcNodeParams:
    """Parameters of the mpc node, beside those of planner, supervisor and the task's weights."""

    input_timeout: float = param(
        0.1, "pose and joint angles older than this against the contacts are not used [s]", 0.001, 10.0
    )
    command_timeout: float = param(
        ServoParams.command_timeout,
        "the hand's: contacts farther than this from the newest joint angles are not answered [s]",
        0.001,
        10.0,
    )
    prediction_every: int = param(5, "publish mpc/prediction for every n-th solve, if anybody looks", 1, 1000)
    realtime_priority: int = param(
        20, "SCHED_FIFO priority of the process while it plans, where permitted; 0: none", 0, 90
    )


@dataclass(frozen=True)
class SimulatorParams:
    """Parameters of the simulator node."""

    plant: str = param("mujoco", f"physics engine ({', '.join(PLANTS)}); another one starts anew")
    world: str = param(
        "", "YAML of what the plant has and the controller does not know; empty: the plant is as believed"
    )
    seed: int = param(0, "seed of the noise of the start pose", 0, 2**31 - 1)
    real_time_factor: float = param(1.0, "simulated seconds per second of wall time", 0.01, 100.0)
    feedback_period: float = param(0.003, "time between two joint feedbacks [s]", 0.001, 0.1)
    clock_period: float = param(0.01, "time between two messages on /clock [s]", 0.001, 1.0)
    pose_topic: str = param(
        "object_pose", "where the true object pose goes; another topic when a camera looks for it"
    )
    pose_period: float = param(0.02, "time between two object poses [s]", 0.005, 1.0)
    patch_period: float = param(
        0.1,
        "time between two messages on contact_patch, if anybody looks and the plant has patches [s]",
        0.01,
        10.0,
    )
    torque_timeout: float = param(
        0.05, "wall time after which a hand that does not answer counts as dead [s]", 0.001, 1.0
    )


@dataclass(frozen=True)
class TaskNodeParams:
    """Parameters of the task node, beside those of the task."""

    goal_yaw: float = param(
        0.0,
        "turn of the object from its nominal start; a change starts a rollout towards it [rad]",
        -math.pi,
        math.pi,
    )
    own_goals: bool = param(
        True, "the task's own goals instead, until goal_yaw is changed or somebody asks for a pose"
    )
    seconds: float = param(30.0, "time after which the rollout counts as failed [s]", 0.1, 1e5)
    seed: int = param(0, "seed of goals that are drawn", 0, 2**31 - 1)
    reset_service: str = param(
        "simulator/reset", "service that puts everything to its start; empty when there is none"
    )


@dataclass(frozen=True)
class ContactDetectorParams:
    """Parameters of the contact_detector node, beside those of the detector."""

    joint_timeout: float = param(
        0.1, "joint angles older than this against the pose are not used [s]", 0.001, 10.0
    )
    marker_every: int = param(5, "publish contact_markers for every n-th pose, if anybody looks", 1, 1000)


@dataclass(frozen=True)
class LearnerNodeParams:
    """Parameters of the learner node, beside those of the learner and of the planner whose model it
    learns."""

    results: str = param("", "folder that receives theta.yaml; empty: none")
    seed: int = param(0, "seed of the order of mini-batches", 0, 2**31 - 1)
    update_every: int = param(50, "samples between two updates of θ", 10, 100000)
    input_timeout: float = param(
        0.05, "joint angles older than this against the pose are not used [s]", 0.001, 10.0
    )


@dataclass(frozen=True)
class CameraNodeParams:
    """Parameters of the camera node, beside those of the camera and of where it stands."""

    hand: str = param("right", f"which hand: {HAND_NAMES}")
    object: str = param(
        "cube", "name of an object, or the path of an object's YAML; its tags are in tags.yaml beside it"
    )
    seed: int = param(0, "seed of the pixel noise", 0, 2**31 - 1)


@dataclass(frozen=True)
class PoseEstimatorParams:
    """Parameters of the pose_estimator node, beside those of the estimate and of the camera."""

    hand: str = param("right", f"which hand: {HAND_NAMES}")
    object: str = param(
        "cube", "name of an object, or the path of an object's YAML; its tags are in tags.yaml beside it"
    )
    source: str = param("topic", "where pictures come from: topic or realsense")
    reliable: bool = param(
        False,
        "ask the driver for reliable pictures: none is lost on the way, but a driver that offers best effort is not heard at all",
    )
    calibration: str = param(
        "",
        "file of dexstack calibrate camera; wins over camera_position and camera_quaternion; tf: /tf_static says where it stands",
    )
    image_timeout: float = param(1.0, "no picture for so long is a fault [s]", 0.05, 60.0)


NODE_BLOCKS: tuple[tuple[type, str], ...] = (
    *((SceneParams, node) for node in ("mpc", "simulator", "task", "contact_detector", "learner", "servo")),
    (MpcNodeParams, "mpc"),
    *(
        (block, "simulator")
        for block in (
            SimulatorParams,
            BusParams,
            EmulatedHandParams,
            MotorParams,
            FaultParams,
            MotorFaultParams,
        )
    ),
    (TaskNodeParams, "task"),
    (ContactDetectorParams, "contact_detector"),
    (LearnerNodeParams, "learner"),
    *(
        (block, "hand")
        for block in (HandParams, ServoParams, WatchParams, BusParams, CanHandParams, MotorParams)
    ),
    *(
        (block, "camera")
        for block in (CameraNodeParams, SimulatedCameraParams, CameraFaultParams, MountParams)
    ),
    *(
        (block, "pose_estimator")
        for block in (PoseEstimatorParams, EstimatorParams, MountParams, RealSenseParams)
    ),
)
"""Parameter blocks that nodes have beside those of a closed loop, each with its node."""
