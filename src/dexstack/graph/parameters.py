"""Parameters of the nodes themselves, declared here so that files are checked without ROS."""

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
from dexstack.model.mount import GravityParams
from dexstack.perception.camera_params import (
    CameraFaultParams,
    EstimatorParams,
    MountParams,
    RealSenseParams,
    SimulatedCameraParams,
)
from dexstack.plants import PLANTS


@dataclass(frozen=True)
class SceneParams(GravityParams):
    """Parameters of every node that knows the scene."""

    task: str = param("palm_turn", "name of a task, or the path to its Python file")
    hand: str = param("right", f"which hand: {HAND_NAMES}")
    object: str = param("cube", "name of an object, or the path to its YAML file")


@dataclass(frozen=True)
class MpcNodeParams:
    """Parameters of the mpc node besides those of planner, supervisor and task."""

    input_timeout: float = param(
        0.1, "largest age of pose and joint angles relative to the contacts [s]", 0.001, 10.0
    )
    command_timeout: float = param(
        ServoParams.command_timeout,
        "the hand's: largest distance in time of contacts from the newest joint angles [s]",
        0.001,
        10.0,
    )
    prediction_every: int = param(
        5, "publish mpc/prediction for every n-th solve if it has subscribers", 1, 1000
    )
    judged_goals: int = param(
        3, "goals before and after a change of θ by the learner whose pace decides whether it stays", 1, 1000
    )
    realtime_priority: int = param(
        20, "SCHED_FIFO priority of the process while it plans, where permitted; 0: none", 0, 90
    )


@dataclass(frozen=True)
class SimulatorParams:
    """Parameters of the simulator node."""

    plant: str = param("mujoco", f"physics engine ({', '.join(PLANTS)}); a change restarts the simulation")
    world: str = param("", "YAML file of the plant's deviations from the controller's model; empty: none")
    seed: int = param(0, "seed of the noise of the start pose", 0, 2**31 - 1)
    real_time_factor: float = param(1.0, "simulated seconds per second of wall time", 0.01, 100.0)
    feedback_period: float = param(0.003, "time between two joint feedbacks [s]", 0.001, 0.1)
    clock_period: float = param(0.01, "time between two messages on /clock [s]", 0.001, 1.0)
    pose_topic: str = param(
        "object_pose", "topic of the true object pose; differs where a camera estimates the pose"
    )
    pose_period: float = param(0.02, "time between two object poses [s]", 0.005, 1.0)
    patch_period: float = param(
        0.1,
        "time between two messages on contact_patch, if it has subscribers and the plant has patches [s]",
        0.01,
        10.0,
    )
    torque_timeout: float = param(
        0.05, "wall time without an answer after which the hand counts as dead [s]", 0.001, 1.0
    )


@dataclass(frozen=True)
class TaskNodeParams:
    """Parameters of the task node besides those of the task."""

    goal_yaw: float = param(
        0.0,
        "turn of the object from its nominal start; a change starts a rollout [rad]",
        -math.pi,
        math.pi,
    )
    own_goals: bool = param(True, "use the task's own goals until goal_yaw changes or a pose is requested")
    seconds: float = param(30.0, "time limit of a rollout [s]", 0.1, 1e5)
    seed: int = param(0, "seed of drawn goals", 0, 2**31 - 1)
    reset_service: str = param(
        "simulator/reset", "service that resets hand and object to their start; empty: none"
    )


@dataclass(frozen=True)
class ContactDetectorParams:
    """Parameters of the contact_detector node besides those of the detector."""

    joint_timeout: float = param(0.1, "largest age of joint angles relative to the pose [s]", 0.001, 10.0)
    marker_every: int = param(5, "publish contact_markers for every n-th pose if it has subscribers", 1, 1000)
    realtime_priority: int = param(
        15, "SCHED_FIFO priority of the process while it is active, where permitted; 0: none", 0, 90
    )


@dataclass(frozen=True)
class LearnerNodeParams:
    """Parameters of the learner node besides those of the learner and of the planner."""

    results: str = param("", "folder for theta.yaml; empty: none")
    seed: int = param(0, "seed of the order of mini-batches", 0, 2**31 - 1)
    update_every: int = param(50, "samples between two updates of θ", 10, 100000)
    input_timeout: float = param(0.05, "largest age of joint angles relative to the pose [s]", 0.001, 10.0)


@dataclass(frozen=True)
class CameraNodeParams:
    """Parameters of the camera node besides those of the camera, its faults and its pose."""

    hand: str = param("right", f"which hand: {HAND_NAMES}")
    object: str = param(
        "cube",
        "name of an object, or the path to its YAML file; its tags are in tags.yaml in the same folder",
    )
    seed: int = param(0, "seed of the pixel noise", 0, 2**31 - 1)
    niceness: int = param(
        -15,
        "niceness of the process while the hand follows commands, where permitted, since a real camera "
        "takes no processor time; it draws for at most half of the time",
        -20,
        19,
    )


@dataclass(frozen=True)
class PoseEstimatorParams:
    """Parameters of the pose_estimator node besides those of the estimator and of the camera."""

    hand: str = param("right", f"which hand: {HAND_NAMES}")
    object: str = param(
        "cube",
        "name of an object, or the path to its YAML file; its tags are in tags.yaml in the same folder",
    )
    source: str = param("topic", "source of pictures: topic or realsense", choices=("topic", "realsense"))
    reliable: bool = param(
        False,
        "subscribe to pictures reliably: no losses, but no connection to a best-effort driver",
    )
    calibration: str = param(
        "",
        "file of dexstack calibrate camera, overrides camera_position and camera_quaternion; "
        "tf: from /tf_static",
    )
    image_timeout: float = param(1.0, "time without a picture that counts as a fault [s]", 0.05, 60.0)
    realtime_priority: int = param(
        10, "SCHED_FIFO priority of the process while it is active, where permitted; 0: none", 0, 90
    )


NODE_BLOCKS: dict[str, tuple[type, ...]] = {
    "mpc": (SceneParams, MpcNodeParams),
    "simulator": (
        SceneParams,
        SimulatorParams,
        BusParams,
        EmulatedHandParams,
        MotorParams,
        FaultParams,
        MotorFaultParams,
    ),
    "task": (SceneParams, TaskNodeParams),
    "contact_detector": (SceneParams, ContactDetectorParams),
    "learner": (SceneParams, LearnerNodeParams),
    "servo": (SceneParams,),
    "hand": (HandParams, ServoParams, WatchParams, BusParams, CanHandParams, MotorParams),
    "camera": (CameraNodeParams, SimulatedCameraParams, CameraFaultParams, MountParams),
    "pose_estimator": (PoseEstimatorParams, EstimatorParams, MountParams, RealSenseParams),
}
"""Parameter blocks of each node besides those of a closed loop."""
