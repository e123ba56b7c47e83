"""Parameters of a run: ROS 2 parameter files, single values that override them, and the blocks that
they fill.

A file has one section per node, so a node on a robot and a loop in one process read the same file.
Unknown names are rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dexstack.config import make_params, read_parameter_file, read_sections, share_dir
from dexstack.contact.params import DetectorParams
from dexstack.control.params import (
    BlindParams,
    DetourParams,
    GaitParams,
    MpcParams,
    NoParams,
    PlannerParams,
    RegraspParams,
    SamplingParams,
    TrackerParams,
    own_blocks,
)
from dexstack.control.planners import PLANNERS
from dexstack.errors import check_names, unknown_name
from dexstack.graph.parameters import NODE_BLOCKS
from dexstack.learning.learner_params import LearnerParams
from dexstack.model.mount import GravityParams
from dexstack.perception.camera_params import EstimatorParams, MountParams, SimulatedCameraParams
from dexstack.plants import check_plant, plant_params
from dexstack.sim.disturbance import Pushes
from dexstack.sim.params import LoopParams
from dexstack.sim.sensor import PoseSensor
from dexstack.tasks import load_task, task_files
from dexstack.tasks.base import NOMINAL_WORLD, Task, World

Blocks = Mapping[type, str]
"""Parameter class → node whose section holds its values."""


@dataclass(frozen=True)
class Spec:
    """Description of a run; small and picklable, so that another process can build the same."""

    task: str | type[Task] = "palm_turn"
    """Name, path to your own file, or class."""
    object: str = "cube"
    hand: str = "right"
    files: tuple[str, ...] = ()
    """Parameter files after those of the task; the last wins."""
    overrides: tuple[tuple[str, Any], ...] = field(default=())
    """Single parameters that override all files."""
    plant: str = "mujoco"
    """See :data:`dexstack.plants.PLANTS`."""
    world: World = NOMINAL_WORLD
    """Deviations of the plant from the controller's model."""
    namespace: str = ""
    """Namespace of the nodes, which selects sections of the files."""


def blocks_of(task: type[Task], plant: str, own: Iterable[type] = ()) -> dict[type, str]:
    """Return all parameter blocks of a closed loop, each with its node.

    Args:
        own: blocks of a planner and a supervisor that do not come with dexstack.

    Raises:
        ConfigError: an unknown plant.
    """
    return {
        **dict.fromkeys(own, "mpc"),
        **dict.fromkeys(
            (MpcParams, PlannerParams, SamplingParams, BlindParams, TrackerParams, task.Weights), "mpc"
        ),
        **dict.fromkeys((GaitParams, DetourParams, RegraspParams, NoParams), "mpc"),
        **dict.fromkeys((LoopParams, PoseSensor, Pushes, plant_params(plant)), "simulator"),
        **dict.fromkeys((SimulatedCameraParams, MountParams), "camera"),
        EstimatorParams: "pose_estimator",
        DetectorParams: "contact_detector",
        LearnerParams: "learner",
        task.Params: "task",
        task.servo_params(): task.servo_node,
        GravityParams: task.servo_node,
    }


def read_settings(spec: Spec) -> dict[type, Any]:
    """Return one object of every parameter class of :func:`blocks_of`.

    Raises:
        ConfigError: an unknown task or plant, an unreadable file, or a parameter that is unknown or
            out of range.
    """
    task, overrides = load_task(spec.task), {"planner": chosen_planner(spec), **dict(spec.overrides)}
    files = parameter_files(replace(spec, overrides=tuple(overrides.items())))

    def block(cls: type, node: str) -> Any:
        values = {**node_parameters(files, node, spec.namespace), **overrides}
        return make_params(cls, values, ignore_unknown=True)

    blocks = blocks_of(task, spec.plant, own_blocks(block(PlannerParams, "mpc"), task.supervisor))
    known = {f.name for cls in blocks for f in fields(cls)}
    check_names("parameter", overrides, known)
    check_files(files, blocks)
    return {cls: block(cls, node) for cls, node in blocks.items()}


def chosen_planner(spec: Spec) -> str:
    """Return the planner's name from the first of: overrides, the user's files, the object's file,
    the task's files.

    Raises:
        ConfigError: an unknown task, or an unreadable file.
    """

    overrides = dict(spec.overrides)
    if "planner" in overrides:
        return str(overrides["planner"])
    return (
        _named(spec, "planner", spec.files)
        or load_task(spec.task).planner_for(spec.object, spec.hand)
        or _named(spec, "planner", task_files(spec.task))
        or PlannerParams().planner
    )


def _named(spec: Spec, parameter: str, files: Iterable[str | Path]) -> str:
    return str(node_parameters(files, "mpc", spec.namespace).get(parameter, ""))


def perception_file(name: str | Path) -> Path:
    """Return the parameter file of a preset of pose errors, from ``config/perception``, or the path
    itself.

    Raises:
        ConfigError: an unknown preset.
    """
    if Path(name).suffix:
        return Path(name)
    folder = share_dir() / "config" / "perception"
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if str(name) not in known:
        raise unknown_name("preset of perception", str(name), (*known, "the path of a parameter file"))
    return folder / f"{name}.yaml"


def parameter_files(spec: Spec) -> list[Path]:
    """Return the files of a run, the last wins: the task's, the task's for its planner and for its
    model, the user's.

    Raises:
        ConfigError: see :func:`chosen_planner`.
    """
    own = [Path(f) for f in spec.files]
    files = task_files(spec.task, chosen_planner(spec))
    model = str(dict(spec.overrides).get("model", "")) or _named(spec, "model", [*files, *own])
    return [*task_files(spec.task, chosen_planner(spec), model), *own]


def node_parameters(files: Iterable[str | Path], node: str, namespace: str = "") -> dict[str, Any]:
    """Return the parameters that the files give to a node; the last file wins.

    Raises:
        ConfigError: an unreadable file.
    """
    read = (read_parameter_file(path, node, namespace) for path in files)
    return {name: value for values in read for name, value in values.items()}


def make_task(spec: Spec, settings: Mapping[type, Any]) -> Task:
    """Return the task with its parameters."""
    task = load_task(spec.task)
    return task(settings[task.Params], spec.object, spec.hand, settings[GravityParams].gravity)


def check_files(files: Iterable[Path], blocks: Blocks) -> None:
    """Reject sections and parameters that no node reads.

    Raises:
        ConfigError: a section of an unknown node, or a parameter that its node does not have.
    """
    known = {node: {f.name for cls in own for f in fields(cls)} for node, own in NODE_BLOCKS.items()}
    for cls, node in blocks.items():
        known.setdefault(node, set()).update(f.name for f in fields(cls))
    every = set().union(*known.values())
    for path in files:
        for section in read_sections(path):
            taken = every if section.node == "**" else known.get(section.node)
            if taken is None:
                raise unknown_name(f"node of a section of {path}", section.node, known)
            check_names(f"parameter of section '{section.key}' of {path}", section.values, taken)


def unmatched_sections(files: Iterable[Path], namespace: str) -> list[str]:
    """Return one sentence per section that is restricted to a namespace other than the given one."""
    return [
        f"section '{s.key}' of {path} matches no node in the namespace '/{namespace}'; "
        f"'/**/{s.node}' matches any namespace"
        for path in files
        for s in read_sections(path)
        if not s.matches(s.node, namespace)
    ]


def check_run(spec: Spec, *, simulated: bool = True) -> None:
    """Read task, object, hand, plant, parameters and θ of a run.

    JAX is imported only if a learned θ is named.

    Args:
        simulated: whether the run uses the plant.

    Raises:
        ConfigError: a file, mesh, pose, name or parameter cannot be used, or a library is not
            installed.
    """
    if simulated:
        check_plant(spec.plant)
    settings = read_settings(spec)
    planner: PlannerParams = settings[PlannerParams]
    check_names("planner", [planner.planner], PLANNERS)
    robot, obj, start = make_task(spec, settings).setup(spec.world)
    robot.pose(start.hand_pose)
    _ = obj.parts  # a mesh that is not convex may need a library that is not installed
    if planner.theta:
        from dexstack.control.theta_file import theta_for  # imports JAX

        step, joints = settings[MpcParams].step, len(robot.joint_names)
        theta_for(planner.theta, object_name=obj.name, robot_name=robot.name, step=step, joints=joints)
