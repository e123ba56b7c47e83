"""What runs together: the nodes of each mode, their parameters and how they are kept alive; the
only place that says so.

``dexstack up`` and the launch files both read it. A mode is a list of arguments, which are the same
words everywhere (``dexstack up sim --goal-yaw 45``, ``ros2 launch dexstack sim.launch.py
goal_yaw:=45``), and a function from their values to nodes. Nodes bring themselves up (their
parameter ``autostart``), in any order and again after a crash, so nobody has to sequence them.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dexstack.config import read_parameter_file, share_dir
from dexstack.control.planners import PLANNERS
from dexstack.errors import ConfigError
from dexstack.graph.check import check_run
from dexstack.graph.settings import Spec, chosen_planner, parameter_files
from dexstack.hand.links import AUTO, interface_of, wiring_of
from dexstack.model import HAND_NAMES
from dexstack.model.hand import HandModel, load_hand
from dexstack.perception import require_camera
from dexstack.plants import PLANTS
from dexstack.process.threads import ONE_THREAD, XLA_ONE_THREAD
from dexstack.tasks import TASKS, load_task
from dexstack.tasks.base import AS_BELIEVED, read_world

Value = bool | int | float | str


@dataclass(frozen=True)
class Argument:
    """One thing a user chooses at start; the type is the default's."""

    name: str
    default: Value
    doc: str
    choices: Collection[str] = ()
    """All values there are; empty: any."""
    lo: float | None = None
    hi: float | None = None

    def parse(self, text: Value) -> Value:
        """A value from a string, as launch files and command lines give it.

        Raises:
            ConfigError: not of the argument's type, or out of its range.
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


@dataclass(frozen=True)
class NodeDescription:
    """One process."""

    name: str
    """Node name, module in ``dexstack.nodes`` and section of the parameter file."""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    """Win over the parameter files."""
    parameter_files: tuple[Path, ...] = ()
    namespace: str = ""
    remappings: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the inherited environment unless set there."""
    respawn: bool = True
    respawn_delay: float = 0.2
    """Wait before a restart [s]."""
    ends_run: bool = False
    """The run ends when this node exits by itself."""

    @property
    def module(self) -> str:
        """Where the node's code is."""
        return f"dexstack.nodes.{self.name}"

    @property
    def command(self) -> list[str]:
        """The program, before its ROS arguments: run by the interpreter that runs this, so that
        both find the same packages."""
        return [sys.executable, "-m", self.module]


@dataclass(frozen=True)
class Mode:
    """A way to run the stack."""

    doc: str
    arguments: tuple[Argument, ...]
    build: Callable[[Mapping[str, Any]], list[NodeDescription]]
    without_effect: frozenset[str] = frozenset()
    """Arguments that this mode takes, so that every mode takes the same, and that change nothing in
    it."""

    def ignored(self, values: Mapping[str, Any]) -> list[str]:
        """The names of values that were chosen and change nothing."""
        return [
            a.name
            for a in self.arguments
            if a.name in self.without_effect and a.parse(values.get(a.name, a.default)) != a.default
        ]

    def describe(self, values: Mapping[str, Any]) -> list[NodeDescription]:
        """The nodes for some of the arguments' values; the others take their defaults.

        Raises:
            ConfigError: an unknown argument, or a value an argument does not take.
        """
        known = {a.name: a for a in self.arguments}
        for name in values:
            if name not in known:
                raise ConfigError(f"unknown argument '{name}'; known: {', '.join(known)}")
        return self.build({name: a.parse(values.get(name, a.default)) for name, a in known.items()})

    def check(self, values: Mapping[str, Any]) -> None:
        """Read what the nodes of :meth:`describe` will read, before any of them starts.

        Raises:
            ConfigError: something of it cannot be used.
        """
        a = {x.name: x.parse(values.get(x.name, x.default)) for x in self.arguments}
        simulated = "plant" not in self.without_effect
        world = read_world(Path(a["world"])) if a["world"] and simulated else AS_BELIEVED
        check_run(replace(_spec(a), plant=a["plant"], world=world), simulated=simulated)


def _spec(a: Mapping[str, Any]) -> Spec:
    """Task, object, hand and parameters of the arguments' values."""
    task = a["task"] if not a["task"].endswith(".py") else str(Path(a["task"]).absolute())
    overrides = tuple((name, a[name]) for name in ("planner", "theta") if a[name])
    return Spec(
        task, a["object"], a["hand"], (str(Path(a["params"]).absolute()),) if a["params"] else (), overrides
    )


def discovery_range(discovery: str, part: str) -> str:
    """What ``ROS_AUTOMATIC_DISCOVERY_RANGE`` is for the values of those two arguments. Nothing of a
    whole graph leaves the machine unless somebody says so; a part of one looks for the others in
    the local network."""
    if discovery != "auto":
        return discovery.upper()
    return os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST" if part == "all" else "SUBNET")


def picture_environment() -> dict[str, str]:
    """Of nodes that send or receive pictures; why Fast DDS needs a profile is said in the file."""
    return {**ONE_THREAD, "FASTDDS_DEFAULT_PROFILES_FILE": str(share_dir() / "config" / "fastdds.xml")}


TASK = Argument(
    "task", "palm_turn", f"what to do: {', '.join(TASKS)}, or the path of your own task's Python file"
)
OBJECT = Argument("object", "cube", "what to do it with: a name, or the path of an object's YAML")
HAND = Argument("hand", "right", f"which hand: {HAND_NAMES}")
PLANT = Argument("plant", "mujoco", "physics engine: a name, or the path of your own's Python file", PLANTS)
WORLD = Argument(
    "world",
    "",
    "YAML of what the plant has and the controller does not know (see dexstack identify); empty: as believed",
)
PERCEPTION = Argument(
    "perception",
    "truth",
    "where the object pose comes from: the plant, or pictures of it",
    ("truth", "camera"),
)
GOAL_YAW = Argument(
    "goal_yaw", "", "turn of the object from its nominal start [deg]; empty: what the task asks for"
)
SECONDS = Argument("seconds", "", "time after which the run has failed [s]; empty: the task's")
SEED = Argument(
    "seed", 0, "seed of the noise of the start pose, and of goals that are drawn", lo=0, hi=2**31 - 1
)
_NUMBERS = {
    "goal_yaw": Argument("goal_yaw", 0.0, "", lo=-180.0, hi=180.0),
    "seconds": Argument("seconds", 0.0, "", lo=0.1, hi=1e5),
}
"""What an argument takes that may be left to the task."""
REAL_TIME_FACTOR = Argument("real_time_factor", 1.0, "simulated seconds per second", lo=0.01, hi=100.0)
NAMESPACE = Argument("namespace", "", "namespace of all nodes and topics")
PLANNER = Argument(
    "planner",
    "",
    f"what plans: {', '.join(PLANNERS)}, or a path of your own's; empty: the object's file or the task's",
)
THETA = Argument("theta", "", "learned θ of the planner: a name or a file; empty: the physical parameters")
LEARN = Argument("learn", "no", "learn θ while it runs, and let the planner use it at once", ("yes", "no"))
PARAMS = Argument("params", "", "ROS 2 parameter file that wins over config/<task>.yaml")
RESULTS = Argument("results", "", "folder that receives the recording")
RECORD = Argument("record", "", "bag (MCAP) that receives every message; empty: none")
MONITOR = Argument(
    "monitor",
    "no",
    "serve a page that shows the run in a browser, and go on when the goal is reached",
    ("yes", "no"),
)
FOXGLOVE = Argument(
    "foxglove",
    "no",
    "show the run live to the Foxglove application, and go on when the goal is reached",
    ("yes", "no"),
)
STAY = Argument(
    "stay",
    "no",
    "go on when the goal is reached: somebody may ask for another; so do 'monitor' and 'foxglove'",
    ("yes", "no"),
)
TRAJECTORIES = Argument("trajectories", "no", "play what comes on joint_trajectory", ("yes", "no"))
HARDWARE = Argument("hardware", "V4", "generation of an Allegro hand", ("V3", "V4", "V5"))
INTERFACE = Argument(
    *(
        "interface",
        AUTO,
        "how the hand is reached; auto: an Allegro hand by socketcan, a LEAP hand by serial",
    ),
    choices=(AUTO, "socketcan", "pcan", "udp_multicast", "serial", "pty"),
)
CHANNEL = Argument(
    "channel",
    "",
    "channel of the interface; empty: can0, PCAN_USBBUS1, /dev/ttyUSB0, or that of the ROS domain's emulated hand",
)

CALIBRATION = Argument(
    "calibration",
    "",
    "where the camera stands: the file of dexstack calibrate camera; tf: /tf_static says it",
)
CAMERA = Argument(
    "camera",
    "realsense",
    "the camera: a RealSense that is read here, or any driver's",
    ("realsense", "external"),
)
IMAGE = Argument(
    "image",
    "/camera/camera/color/image_raw",
    "topic of an external camera's pictures; realsense2_camera's is the default",
)
CAMERA_INFO = Argument(
    "camera_info",
    "/camera/camera/color/camera_info",
    "topic of an external camera's intrinsics; the default as above",
)
ROBOT_STATE = Argument(
    "robot_state",
    "yes" if importlib.util.find_spec("tf2_msgs") else "no",
    "publish robot_description and the tree of frames, for rviz; the default is yes where tf2_msgs is installed",
    ("yes", "no"),
)
DISCOVERY = Argument(
    *(
        "discovery",
        "auto",
        "how far nodes are looked for; auto: ROS_AUTOMATIC_DISCOVERY_RANGE, else a whole graph stays on this machine",
    ),
    choices=("auto", "localhost", "subnet"),
)
PART = Argument(
    "part",
    "all",
    "which nodes run here: those at the hand and the camera, all others, or both",
    ("all", "robot", "planner"),
)
RESPAWN = Argument("respawn", "yes", "start a node again that crashed", ("yes", "no"))
USE_SIM_TIME = Argument(
    "use_sim_time",
    "false",
    "give the nodes' own clocks the time of /clock; control goes by the stamps of messages anyway",
    ("true", "false"),
)
ARGUMENTS = (
    *(
        TASK,
        OBJECT,
        HAND,
        PLANT,
        WORLD,
        PERCEPTION,
        GOAL_YAW,
        SECONDS,
        SEED,
        REAL_TIME_FACTOR,
        HARDWARE,
        INTERFACE,
        CHANNEL,
    ),
    *(
        CAMERA,
        IMAGE,
        CAMERA_INFO,
        CALIBRATION,
        NAMESPACE,
        PLANNER,
        THETA,
        LEARN,
        PARAMS,
        RESULTS,
        RECORD,
        MONITOR,
        FOXGLOVE,
        STAY,
        TRAJECTORIES,
        ROBOT_STATE,
        PART,
        DISCOVERY,
        RESPAWN,
        USE_SIM_TIME,
    ),
)
"""What every mode takes."""


def _arguments(without_effect: frozenset[str], *instead: Argument) -> tuple[Argument, ...]:
    """All arguments, some with other defaults or choices; what changes nothing says so."""
    own = {a.name: a for a in instead}
    of_mode = [own.get(a.name, a) for a in ARGUMENTS]
    return tuple(
        replace(a, doc=f"{a.doc} (no effect in this mode)") if a.name in without_effect else a
        for a in of_mode
    )


class _Builder:
    """What all modes have in common."""

    def __init__(self, a: Mapping[str, Any]) -> None:
        self._a = a
        namespace = a["namespace"].strip("/")
        self._namespace = f"/{namespace}" if namespace else ""
        spec = _spec(a)
        self.task_type = load_task(spec.task)
        for path in spec.files:
            if not Path(path).is_file():
                raise ConfigError(f"there is no parameter file {path}")
        self._files, self._planner = parameter_files(spec), chosen_planner(spec)
        self.hand, self.object = {"hand": a["hand"]}, {"object": a["object"]}
        self.scene = {"task": spec.task, **self.hand, **self.object}
        self.task = self.task_type(obj=a["object"], hand=a["hand"])

    def number(self, name: str) -> float | None:
        """The value of an argument that may be left to the task; None if it is."""
        return _NUMBERS[name].parse(self._a[name]) if str(self._a[name]) else None  # type: ignore[return-value]

    def needs_a_hand(self, what: str) -> None:
        """Refuse a task whose robot is no hand.

        Raises:
            ConfigError: so it is.
        """
        if self.task_type.servo_node != "hand":
            raise ConfigError(
                f"{what} needs a hand, and the robot of the task '{self.task_type.name}' exists in simulation only"
            )

    def hand_on_a_bus(self, what: str) -> HandModel:
        """The hand; a task without one is refused, and a hand that no driver knows.

        Raises:
            ConfigError: so it is.
        """
        self.needs_a_hand(what)
        hand = load_hand(self._a["hand"])
        wiring_of(hand)
        return hand

    def node(
        self,
        name: str,
        environment: Mapping[str, str] = ONE_THREAD,
        ends_run: bool = False,
        **parameters: Value,
    ) -> NodeDescription:
        return NodeDescription(
            name,
            parameters=parameters | ({"use_sim_time": True} if self._a["use_sim_time"] == "true" else {}),
            parameter_files=tuple(self._files),
            namespace=self._namespace,
            remappings=(("/clock", f"{self._namespace}/clock"),) if self._namespace else (),
            environment=environment,
            respawn=self._a["respawn"] == "yes",
            ends_run=ends_run,
        )

    def world(self, **own: Value) -> list[NodeDescription]:
        """The simulator and, if the pose comes from pictures, what draws them and what looks at
        them."""
        if self._a["perception"] != "camera":
            return [self.node("simulator", **self.scene, **own)]
        self.needs_a_hand("perception by camera")
        require_camera()
        truth = {"pose_topic": "object_pose_truth", "pose_period": 0.005}
        return [
            self.node("pose_estimator", picture_environment(), **self.hand, **self.object, reliable=True),
            self.node("camera", picture_environment(), **self.hand, **self.object, seed=own["seed"]),
            self.node("simulator", **self.scene, **own, **truth),
        ]

    def graph(self, *hand_side: NodeDescription, **task: Value) -> list[NodeDescription]:
        """Controller, task and console around the nodes on the hand's side; those that import most
        come last and keep no other waiting."""
        a, both = self._a, self.scene
        yaw, seconds = self.number("goal_yaw"), self.number("seconds")
        yaw = self.task_type.opening_yaw if yaw is None else math.radians(yaw)
        goal = {"own_goals": True} if yaw is None else {"own_goals": False, "goal_yaw": yaw}
        seconds = self.task.seconds() if seconds is None else seconds
        if a["trajectories"] == "yes":
            self.needs_a_hand("a trajectory")
            hand_side = (*hand_side, self.node("trajectory", **self.hand))
        if "yes" in (a["robot_state"], a["foxglove"]) and self.task_type.servo_node == "hand":
            hand_side = (self.node("robot_state", **self.hand, **self.object), *hand_side)
        nodes = [
            *hand_side,
            self.node("task", **both, **goal, seconds=seconds, seed=a["seed"], **task),
            self.node(
                "console",
                **both,
                results=a["results"],
                stay="yes" in (a["stay"], a["monitor"], a["foxglove"]),
                ends_run=True,
            ),
            self.node("mpc", XLA_ONE_THREAD, **both, planner=self._planner, theta=a["theta"]),
            self.node("contact_detector", XLA_ONE_THREAD, **both),
        ]
        if a["learn"] == "yes":
            # It predicts as the planner and its detector do, so it gets their sections of the
            # files; what it does not know it ignores.
            sections = [
                read_parameter_file(path, section)
                for path in self._files
                for section in ("contact_detector", "mpc")
            ]
            theirs = {name: value for section in sections for name, value in section.items()} | {
                "planner": self._planner
            }
            nodes.append(
                self.node(
                    "learner", XLA_ONE_THREAD, **{**theirs, **both}, theta=a["theta"], results=a["results"]
                )
            )
        if a["monitor"] == "yes":
            nodes.insert(0, self.node("monitor", **both))
        if a["foxglove"] == "yes":
            nodes.insert(
                0, self.node("foxglove", hand=a["hand"] if self.task_type.servo_node == "hand" else "")
            )
        if a["record"]:
            # First, so that it misses little; its own respawn is harmless, since it never writes
            # over a bag.
            nodes.insert(0, self.node("recorder", file=str(Path(a["record"]).absolute())))
        at_the_robot = {node.name for node in hand_side}
        return [
            node
            for node in nodes
            if a["part"] == "all" or (node.name in at_the_robot) == (a["part"] == "robot")
        ]


def _plant(a: Mapping[str, Any]) -> dict[str, str]:
    return {"plant": a["plant"], "world": str(Path(a["world"]).absolute()) if a["world"] else ""}


def _sim(a: Mapping[str, Any]) -> list[NodeDescription]:
    b = _Builder(a)
    own = {**_plant(a), "seed": a["seed"], "real_time_factor": a["real_time_factor"]}
    servo = (
        b.node("hand", **b.hand)
        if b.task_type.servo_node == "hand"
        else b.node(b.task_type.servo_node, **b.scene)
    )
    return b.graph(*b.world(**own), servo)


ENCODER_NOISE = 0.0002
"""Of the emulated hand, two counts [rad]: an encoder that says the same to the last count, on a
joint that an object blocks, looks dead."""


def _mock(a: Mapping[str, Any]) -> list[NodeDescription]:
    b = _Builder(a)
    bus = {
        "interface": wiring_of(b.hand_on_a_bus("an emulated hand on a bus")).emulated,
        "channel": a["channel"],
    }
    emulated = {"emulated_hardware": a["hardware"], "encoder_noise": ENCODER_NOISE}
    world = b.world(**bus, **emulated, **_plant(a), seed=a["seed"])
    return b.graph(*world, b.node("hand", **b.hand, **bus, hardware=a["hardware"]))


def _hardware(a: Mapping[str, Any]) -> list[NodeDescription]:
    b = _Builder(a)
    interface = interface_of(b.hand_on_a_bus("this mode"), a["interface"])
    hand = b.node("hand", **b.hand, interface=interface, channel=a["channel"], hardware=a["hardware"])
    if a["perception"] != "camera":
        return b.graph(hand, reset_service="")
    if not a["calibration"]:
        raise ConfigError(
            "with 'perception' camera, 'calibration' must name the file that dexstack calibrate camera wrote, or be tf"
        )
    require_camera()
    calibration = "tf" if a["calibration"] == "tf" else str(Path(a["calibration"]).absolute())
    source = "topic" if a["camera"] == "external" else "realsense"
    eyes = b.node(
        "pose_estimator", picture_environment(), **b.hand, **b.object, source=source, calibration=calibration
    )
    topics = {"image_raw": a["image"], "camera_info": a["camera_info"]} if source == "topic" else {}
    eyes = replace(
        eyes,
        remappings=(*eyes.remappings, *((f"camera/color/{name}", topic) for name, topic in topics.items())),
    )
    return b.graph(eyes, hand, reset_service="")


_CAMERA = frozenset({"camera", "image", "camera_info", "calibration"})
_NOT_SIM = _CAMERA | {"hardware", "interface", "channel"}
_NOT_MOCK = _CAMERA | {"interface", "real_time_factor"}
_NOT_HARDWARE = frozenset({"plant", "world", "seed", "real_time_factor"})
_TOPIC = Argument(
    *(
        "perception",
        "topic",
        "where the object pose comes from: another node publishes object_pose, or pictures of it",
    ),
    choices=("topic", "camera"),
)

MODES: dict[str, Mode] = {
    "sim": Mode("hand, object and everything else simulated", _arguments(_NOT_SIM), _sim, _NOT_SIM),
    "mock": Mode(
        "an emulated hand on its bus, with the plant behind it, driven as a real one",
        _arguments(_NOT_MOCK),
        _mock,
        _NOT_MOCK,
    ),
    "hardware": Mode("the real hand on its bus", _arguments(_NOT_HARDWARE, _TOPIC), _hardware, _NOT_HARDWARE),
}
