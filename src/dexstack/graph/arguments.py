"""Arguments of the graph: the same names for ``dexstack up`` (``--goal-yaw 45``) and ``ros2 launch``
(``goal_yaw:=45``)."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Collection
from dataclasses import dataclass

from dexstack.control.planners import PLANNERS
from dexstack.errors import ConfigError
from dexstack.hand.links import AUTO
from dexstack.model import HAND_NAMES
from dexstack.model.mount import INCLINE
from dexstack.plants import PLANTS
from dexstack.tasks import TASKS

Value = bool | int | float | str
YES_NO = ("yes", "no")


@dataclass(frozen=True)
class Argument:
    """One value that a user chooses at start; its type is that of the default."""

    name: str
    default: Value
    doc: str
    choices: Collection[str] = ()
    """Allowed values; empty: any."""
    lo: float | None = None
    hi: float | None = None

    def parse(self, text: Value) -> Value:
        """Return the value of a string from a launch file or command line.

        Raises:
            ConfigError: the value has the wrong type or is out of range.
        """
        kind = type(self.default)
        try:
            value = kind(text)
        except ValueError:
            raise ConfigError(
                f"'{self.name}' must be {'a whole number' if kind is int else 'a number'}, got '{text}'"
            ) from None
        if self.choices and value not in self.choices:
            raise ConfigError(f"'{self.name}' must be one of {', '.join(self.choices)}, got '{text}'")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"'{self.name}' must be finite, got '{text}'")
        if not isinstance(value, str) and (
            (self.lo is not None and value < self.lo) or (self.hi is not None and value > self.hi)
        ):
            raise ConfigError(f"'{self.name}' must lie in [{self.lo:g}, {self.hi:g}], got '{text}'")
        return value


ARGUMENTS = (
    Argument("task", "palm_turn", f"task: {', '.join(TASKS)}, or the path to your own task's Python file"),
    Argument("object", "cube", "name of the object, or the path to its YAML file"),
    Argument("hand", "right", f"which hand: {HAND_NAMES}"),
    Argument("plant", "mujoco", "physics engine: a name, or the path to your own Python file", PLANTS),
    Argument(
        "world",
        "",
        "YAML file of the plant's deviations from the controller's model (dexstack identify); empty: none",
    ),
    Argument("incline", "", f"{INCLINE}; empty: that of the hand's section of the parameter files"),
    Argument("perception", "truth", "source of the object pose: the plant, or pictures", ("truth", "camera")),
    Argument("goal_yaw", "", "turn of the object from its nominal start [deg]; empty: the task's goals"),
    Argument("seconds", "", "time limit of a rollout [s]; empty: the task's"),
    Argument("seed", 0, "seed of the start pose's noise and of drawn goals", lo=0, hi=2**31 - 1),
    Argument("real_time_factor", 1.0, "simulated seconds per second of wall time", lo=0.01, hi=100.0),
    Argument("hardware", "V4", "generation of an Allegro hand", ("V3", "V4", "V5")),
    Argument(
        "interface",
        AUTO,
        "interface to the hand; auto: socketcan for an Allegro hand, serial for a LEAP hand",
        (AUTO, "socketcan", "pcan", "udp_multicast", "serial", "pty"),
    ),
    Argument(
        "channel",
        "",
        "channel of the interface; empty: can0, PCAN_USBBUS1, /dev/ttyUSB0, the ROS domain's emulated hand",
    ),
    Argument(
        "camera",
        "realsense",
        "camera: a RealSense read directly, or the topics of any driver",
        ("realsense", "external"),
    ),
    Argument(
        "image",
        "/camera/camera/color/image_raw",
        "topic of an external camera's raw pictures; default: realsense2_camera's",
    ),
    Argument(
        "camera_info",
        "/camera/camera/color/camera_info",
        "topic of an external camera's intrinsics; default: realsense2_camera's",
    ),
    Argument(
        "calibration",
        "",
        "pose of the camera: the file of dexstack calibrate camera; tf: from /tf_static",
    ),
    Argument("namespace", "", "namespace of all nodes and topics"),
    Argument(
        "planner",
        "",
        f"planner: {', '.join(PLANNERS)}, or path to your own file or ONNX policy; empty: object's or task's",
    ),
    Argument("theta", "", "learned θ of the planner: a name or a file; empty: the physical parameters"),
    Argument("learn", "no", "learn θ during the run and hand each update to the planner", YES_NO),
    Argument("params", "", "ROS 2 parameter file that overrides config/<task>.yaml"),
    Argument("results", "", "folder for the recording"),
    Argument("record", "", "bag (MCAP) of all messages; empty: none"),
    Argument("monitor", "no", "serve a page with the live run, and continue after the goal", YES_NO),
    Argument(
        "stay", "no", "continue after the goal and wait for further goals; implied by 'monitor'", YES_NO
    ),
    Argument("trajectories", "no", "execute trajectories from joint_trajectory", YES_NO),
    Argument(
        "robot_state",
        "yes" if importlib.util.find_spec("tf2_msgs") else "no",
        "publish robot_description and the tree of frames for rviz; default: yes where tf2_msgs is installed",
        YES_NO,
    ),
    Argument(
        "part",
        "all",
        "nodes to run on this machine: those of hand and camera, the others, or all",
        ("all", "robot", "planner"),
    ),
    Argument(
        "discovery",
        "auto",
        "range of discovery; auto: ROS_AUTOMATIC_DISCOVERY_RANGE, else this machine only for a whole graph",
        ("auto", "localhost", "subnet"),
    ),
    Argument("respawn", "yes", "restart a crashed node", YES_NO),
    Argument(
        "use_sim_time",
        "false",
        "run the nodes' clocks on /clock; control follows the stamps of messages in any case",
        ("true", "false"),
    ),
)
"""Arguments of every mode."""
HARDWARE_PERCEPTION = Argument(
    "perception",
    "topic",
    "source of the object pose: the topic object_pose of another node, or pictures",
    ("topic", "camera"),
)
OPTIONAL_NUMBERS = {
    "goal_yaw": Argument("goal_yaw", 0.0, "", lo=-180.0, hi=180.0),
    "seconds": Argument("seconds", 0.0, "", lo=0.1, hi=1e5),
}
"""Types and ranges of the arguments that may be empty."""
