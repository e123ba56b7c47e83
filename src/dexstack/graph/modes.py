"""Graphs of the modes: their nodes, parameters and restarts, as ``dexstack up`` and the launch files
start them.

A mode is a function from argument values to nodes. Nodes configure and activate themselves
(parameter ``autostart``), in any order and again after a crash, so no lifecycle manager is needed.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dexstack.config import make_params, share_dir
from dexstack.errors import ConfigError, check_names
from dexstack.graph.arguments import ARGUMENTS, HARDWARE_PERCEPTION, OPTIONAL_NUMBERS, Argument, Value
from dexstack.graph.settings import (
    Spec,
    check_run,
    chosen_planner,
    node_parameters,
    parameter_files,
    unmatched_sections,
)
from dexstack.hand.emulated.process import ENCODER_NOISE
from dexstack.hand.links import interface_of, wiring_of
from dexstack.model.hand import HandModel, load_hand
from dexstack.model.mount import GravityParams, read_incline
from dexstack.perception import require_camera
from dexstack.process.threads import ONE_THREAD, XLA_ONE_THREAD
from dexstack.tasks import load_task
from dexstack.tasks.base import NOMINAL_WORLD, read_world

Setting = Value | Sequence[float]
"""Value of a node's parameter."""


@dataclass(frozen=True)
class NodeDescription:
    """One process."""

    name: str
    """Node name, module in ``dexstack.nodes`` and section of the parameter files."""
    parameters: Mapping[str, Setting] = field(default_factory=dict)
    """Override the parameter files."""
    parameter_files: tuple[Path, ...] = ()
    namespace: str = ""
    remappings: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additions to the inherited environment; inherited values win."""
    respawn: bool = True
    respawn_delay: float = 0.2
    """Delay before a restart [s]."""
    ends_run: bool = False
    """The run ends when this node exits."""

    @property
    def module(self) -> str:
        """Python module of the node."""
        return f"dexstack.nodes.{self.name}"

    @property
    def command(self) -> list[str]:
        """Command line before the ROS arguments; uses the running interpreter and so its packages."""
        return [sys.executable, "-m", "dexstack.nodes", self.name]


@dataclass(frozen=True)
class Mode:
    """A way to run the stack."""

    doc: str
    build: Callable[[Mapping[str, Any]], list[NodeDescription]]
    without_effect: frozenset[str]
    """Arguments that are accepted, so that all modes take the same, but have no effect."""
    instead: tuple[Argument, ...] = ()
    """Arguments that differ from :data:`ARGUMENTS` in default or choices."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Arguments of this mode; the help of those without effect says so."""
        own = {a.name: a for a in self.instead}
        return tuple(
            replace(a, doc=f"{a.doc} (no effect in this mode)") if a.name in self.without_effect else a
            for a in (own.get(a.name, a) for a in ARGUMENTS)
        )

    def notes(self, values: Mapping[str, Any]) -> list[str]:
        """Return one sentence per given value without effect, and per section of the parameter files
        that applies to another namespace."""
        a, spec = self._parse(values), _spec(self._parse(values))
        unused = [x.name for x in self.arguments if x.name in self.without_effect and a[x.name] != x.default]
        return [f"'{name}' has no effect in this mode" for name in unused] + unmatched_sections(
            parameter_files(spec), spec.namespace
        )

    def describe(self, values: Mapping[str, Any]) -> list[NodeDescription]:
        """Return the nodes for the given values; other arguments take their defaults.

        Raises:
            ConfigError: an unknown argument, or a value that an argument does not take.
        """
        return self.build(self._parse(values))

    def check(self, values: Mapping[str, Any]) -> None:
        """Read everything that the nodes of :meth:`describe` will read, before any of them starts.

        Raises:
            ConfigError: a file, name or value cannot be used.
        """
        a = self._parse(values)
        simulated = "plant" not in self.without_effect
        world = read_world(Path(a["world"])) if a["world"] and simulated else NOMINAL_WORLD
        check_run(replace(_spec(a), plant=a["plant"], world=world), simulated=simulated)

    def _parse(self, values: Mapping[str, Any]) -> dict[str, Any]:
        known = {a.name: a for a in self.arguments}
        check_names("argument", values, known)
        return {name: a.parse(values.get(name, a.default)) for name, a in known.items()}


def _spec(a: Mapping[str, Any]) -> Spec:
    """Return task, object, hand and parameters for the argument values."""
    return Spec(
        task=str(Path(a["task"]).absolute()) if a["task"].endswith(".py") else a["task"],
        object=a["object"],
        hand=a["hand"],
        files=(_absolute(a["params"]),) if a["params"] else (),
        overrides=(
            *((name, a[name]) for name in ("planner", "theta") if a[name]),
            *((("gravity", read_incline(a["incline"])),) if a["incline"] else ()),
        ),
        namespace=a["namespace"].strip("/"),
    )


def _absolute(path: str) -> str:
    return str(Path(path).absolute()) if path else ""


def discovery_range(discovery: str, part: str) -> str:
    """Return ``ROS_AUTOMATIC_DISCOVERY_RANGE`` for the values of these two arguments: by default this
    machine for a whole graph, the local network for a part of one."""
    if discovery != "auto":
        return discovery.upper()
    return os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST" if part == "all" else "SUBNET")


def middleware(file: str) -> dict[str, str]:
    """Return the environment of nodes with the profiles of Fast DDS in a file of ``config/``."""
    return {"FASTDDS_DEFAULT_PROFILES_FILE": str(share_dir() / "config" / file)}


def picture_environment() -> dict[str, str]:
    """Return the environment of nodes that send or receive pictures (see ``config/fastdds.xml``)."""
    return {**ONE_THREAD, **middleware("fastdds.xml")}


class _Builder:
    """Common parts of the graphs of all modes."""

    def __init__(self, a: Mapping[str, Any]) -> None:
        self._a, spec = a, _spec(a)
        self._namespace = f"/{spec.namespace}" if spec.namespace else ""
        self.task_type = load_task(spec.task)
        self._files, self._planner = parameter_files(spec), chosen_planner(spec)
        self.has_hand = self.task_type.servo_node == "hand"
        self.mount = self._mount(spec)
        self.hand, self.object = {"hand": a["hand"]}, {"object": a["object"]}
        self.scene = {"task": spec.task, **self.hand, **self.object, **self.mount}

    def _mount(self, spec: Spec) -> dict[str, Any]:
        """Return the parameters of gravity for every node that takes them: those of the section of
        the node that moves the robot, or the argument.

        Raises:
            ConfigError: one is out of range.
        """
        given = {**self.from_files(self.task_type.servo_node), **dict(spec.overrides)}
        mount = make_params(GravityParams, given, ignore_unknown=True)
        return {f.name: getattr(mount, f.name) for f in fields(mount) if f.name in given}

    def number(self, name: str, default: float | None) -> float | None:
        """Return the value of an argument that may be empty; ``default`` if it is."""
        return OPTIONAL_NUMBERS[name].parse(self._a[name]) if str(self._a[name]) else default  # type: ignore[return-value]

    def require_hand(self, what: str) -> None:
        """Reject a task whose robot is not a hand.

        Raises:
            ConfigError: the robot is not a hand.
        """
        if not self.has_hand:
            raise ConfigError(
                f"{what} needs a hand, and the robot of the task '{self.task_type.name}' "
                "exists in simulation only"
            )

    def hand_on_a_bus(self, what: str) -> HandModel:
        """Return the hand model.

        Raises:
            ConfigError: the robot is not a hand, or no driver supports it.
        """
        self.require_hand(what)
        hand = load_hand(self._a["hand"])
        wiring_of(hand)
        return hand

    def from_files(self, node: str) -> dict[str, Any]:
        """Return the parameters that the files of the run give to a node."""
        return node_parameters(self._files, node, self._namespace)

    def node(
        self,
        name: str,
        environment: Mapping[str, str] = ONE_THREAD,
        ends_run: bool = False,
        **parameters: Setting,
    ) -> NodeDescription:
        """Return the description of a node; ``parameters`` override the files of the run."""
        sim_time = {"use_sim_time": True} if self._a["use_sim_time"] == "true" else {}
        return NodeDescription(
            name,
            parameters={**self.from_files(name), **parameters, **sim_time},
            namespace=self._namespace,
            remappings=(("/clock", f"{self._namespace}/clock"),) if self._namespace else (),
            environment={**middleware("discovery.xml"), **environment},
            respawn=self._a["respawn"] == "yes",
            ends_run=ends_run,
        )

    def world(self, **own: Setting) -> list[NodeDescription]:
        """Return the simulator and, for perception by camera, the simulated camera and the pose
        estimator."""
        own |= {"plant": self._a["plant"], "world": _absolute(self._a["world"]), "seed": self._a["seed"]}
        if self._a["perception"] != "camera":
            return [self.node("simulator", **self.scene, **own)]
        self.require_hand("perception by camera")
        require_camera()
        truth = {"pose_topic": "object_pose_truth", "pose_period": 0.005}
        return [
            self.node("pose_estimator", picture_environment(), **self.hand, **self.object, reliable=True),
            self.node("camera", picture_environment(), **self.hand, **self.object, seed=own["seed"]),
            self.node("simulator", **self.scene, **own, **truth),
        ]

    def graph(self, *robot: NodeDescription, **task: Setting) -> list[NodeDescription]:
        """Return ``robot``, the nodes of hand and camera, with controller, task and console.

        The robot's nodes come first, since the slow imports of the planner delay what follows it; the
        planner, which takes the longest until it is ready, comes next.
        """
        a = self._a
        if a["trajectories"] == "yes":
            self.require_hand("a trajectory")
            robot = (*robot, self.node("trajectory", **self.hand))
        if a["robot_state"] == "yes" and self.has_hand:
            robot = (self.node("robot_state", **self.hand, **self.object), *robot)
        nodes = [
            *robot,
            self.node("mpc", XLA_ONE_THREAD, **self.scene, planner=self._planner, theta=a["theta"]),
            self.node("contact_detector", XLA_ONE_THREAD, **self.scene),
            self.node("task", **self.scene, **self._goal(), seed=a["seed"], **task),
            self.node(
                "console",
                **self.scene,
                results=a["results"],
                stay="yes" in (a["stay"], a["monitor"]),
                ends_run=True,
            ),
        ]
        if a["learn"] == "yes":
            nodes.append(self._learner())
        if a["monitor"] == "yes":
            nodes.insert(0, self.node("monitor", **self.scene))
        if a["record"]:
            # First, so that it misses few messages.
            nodes.insert(0, self.node("recorder", file=_absolute(a["record"])))
        at_the_robot = {node.name for node in robot}
        return [n for n in nodes if a["part"] == "all" or (n.name in at_the_robot) == (a["part"] == "robot")]

    def _goal(self) -> dict[str, Value]:
        task = self.task_type(obj=self._a["object"], hand=self._a["hand"])
        seconds = self.number("seconds", task.seconds())
        degrees = self.number("goal_yaw", None)
        yaw = self.task_type.opening_yaw if degrees is None else math.radians(degrees)
        goal = {"own_goals": True} if yaw is None else {"own_goals": False, "goal_yaw": yaw}
        return {**goal, "seconds": seconds}

    def _learner(self) -> NodeDescription:
        """Return the learner with the parameters of detector and planner, since it predicts as they
        do; it ignores those that it does not know."""
        shared = {**self.from_files("contact_detector"), **self.from_files("mpc"), "planner": self._planner}
        own = {**self.scene, "theta": self._a["theta"], "results": self._a["results"]}
        return self.node("learner", XLA_ONE_THREAD, **{**shared, **own})


def _sim(a: Mapping[str, Any]) -> list[NodeDescription]:
    b = _Builder(a)
    servo = b.node(b.task_type.servo_node, **({**b.hand, **b.mount} if b.has_hand else b.scene))
    return b.graph(*b.world(real_time_factor=a["real_time_factor"]), servo)


def _mock(a: Mapping[str, Any]) -> list[NodeDescription]:
    b = _Builder(a)
    interface = wiring_of(b.hand_on_a_bus("an emulated hand on a bus")).emulated
    bus = {"interface": interface, "channel": a["channel"]}
    world = b.world(**bus, emulated_hardware=a["hardware"], encoder_noise=ENCODER_NOISE)
    return b.graph(*world, b.node("hand", **b.hand, **b.mount, **bus, hardware=a["hardware"]))


def _hardware(a: Mapping[str, Any]) -> list[NodeDescription]:
    b = _Builder(a)
    interface = interface_of(b.hand_on_a_bus("this mode"), a["interface"])
    bus = {"interface": interface, "channel": a["channel"], "hardware": a["hardware"]}
    hand = b.node("hand", **b.hand, **b.mount, **bus, consent="person")  # an emulated bus may be bridged
    if a["perception"] != "camera":
        return b.graph(hand, reset_service="")
    if not a["calibration"]:
        raise ConfigError(
            "with 'perception' camera, 'calibration' must name the file that dexstack calibrate camera "
            "wrote, or be tf"
        )
    require_camera()
    estimator = b.node(
        "pose_estimator",
        picture_environment(),
        **b.hand,
        **b.object,
        source="topic" if a["camera"] == "external" else "realsense",
        calibration="tf" if a["calibration"] == "tf" else _absolute(a["calibration"]),
    )
    if a["camera"] == "external":
        topics = (("camera/color/image_raw", a["image"]), ("camera/color/camera_info", a["camera_info"]))
        estimator = replace(estimator, remappings=(*estimator.remappings, *topics))
    return b.graph(estimator, hand, reset_service="")


_CAMERA = frozenset({"camera", "image", "camera_info", "calibration"})
_NOT_SIM = _CAMERA | {"hardware", "interface", "channel"}
_NOT_MOCK = _CAMERA | {"interface", "real_time_factor"}
_NOT_HARDWARE = frozenset({"plant", "world", "seed", "real_time_factor"})
MODES: dict[str, Mode] = {
    "sim": Mode("simulated hand and object", _sim, _NOT_SIM),
    "mock": Mode(
        "emulated hand on its bus, with the plant behind it and the driver of a real hand", _mock, _NOT_MOCK
    ),
    "hardware": Mode("real hand on its bus", _hardware, _NOT_HARDWARE, (HARDWARE_PERCEPTION,)),
}
