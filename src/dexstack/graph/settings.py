"""Parameters of a run: ROS 2 parameter files, single values that win over them, and the blocks that
both fill.

A file has a section per node, so that a node on a robot and a loop in one process read the same
file. A name that nothing takes is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dexstack.config import make_params, read_parameter_file, read_sections
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
    own_blocks,
)
from dexstack.errors import unknown_name
from dexstack.graph.parameters import NODE_BLOCKS
from dexstack.learning.learner_params import LearnerParams
from dexstack.plants import plant_params
from dexstack.sim.disturbance import Pushes
from dexstack.sim.params import LoopParams
from dexstack.sim.sensor import PoseSensor
from dexstack.tasks import load_task, task_files
from dexstack.tasks.base import AS_BELIEVED, Task, World

Blocks = Mapping[type, str]
"""Parameter class → the node whose section of a file holds it."""


@dataclass(frozen=True)
class Spec:
    """What to build; small and picklable, so that another process can build the same."""

    task: str | type[Task] = "palm_turn"
    """A name, the path of a user's own file, or a class."""
    object: str = "cube"
    hand: str = "right"
    files: tuple[str, ...] = ()
    """Parameter files after the task's own, the last wins."""
    overrides: tuple[tuple[str, Any], ...] = field(default=())
    """Single parameters that win over all files."""
    plant: str = "mujoco"
    """See :data:`dexstack.plants.PLANTS`."""
    world: World = AS_BELIEVED
    """What the plant has of what the controller believes."""


def blocks_of(task: type[Task], plant: str, own: Iterable[type] = ()) -> dict[type, str]:
    """Every parameter block of a closed loop.

    Args:
        own: blocks of a planner and a supervisor that do not come with dexstack.

    Raises:
        ConfigError: an unknown plant.
    """
    return {
        **dict.fromkeys(own, "mpc"),
        **dict.fromkeys((MpcParams, PlannerParams, SamplingParams, BlindParams, task.Weights), "mpc"),
        **dict.fromkeys((GaitParams, DetourParams, RegraspParams, NoParams), "mpc"),
        **dict.fromkeys((LoopParams, PoseSensor, Pushes, plant_params(plant)), "simulator"),
        DetectorParams: "contact_detector",
        LearnerParams: "learner",
        task.Params: "task",
        task.servo_params(): task.servo_node,
    }


def read_settings(spec: Spec) -> dict[type, Any]:
    """One object of every parameter class of :func:`blocks_of`.

    Raises:
        ConfigError: an unknown task or plant, an unreadable file, a parameter that nothing has or
            that is out of its range.
    """
    task, overrides = load_task(spec.task), {"planner": chosen_planner(spec), **dict(spec.overrides)}
    files = parameter_files(replace(spec, overrides=tuple(overrides.items())))

    def block(cls: type, node: str) -> Any:
        values: dict[str, Any] = {}
        for path in files:
            values.update(read_parameter_file(path, node))
        return make_params(cls, {**values, **overrides}, ignore_unknown=True)

    blocks = blocks_of(task, spec.plant, own_blocks(block(PlannerParams, "mpc"), task.supervisor))
    known = {f.name for cls in blocks for f in fields(cls)}
    for name in overrides:
        if name not in known:
            raise unknown_name("parameter", name, known)
    check_files(files, blocks)
    return {cls: block(cls, node) for cls, node in blocks.items()}


def chosen_planner(spec: Spec) -> str:
    """The planner's name: that of the overrides, of the user's files, of the object's file, or of
    the task's; the first there is.

    Raises:
        ConfigError: an unknown task, or an unreadable file.
    """
    overrides = dict(spec.overrides)
    if "planner" in overrides:
        return str(overrides["planner"])

    def named(files: Sequence[Path]) -> str:
        return next(
            (str(v["planner"]) for f in reversed(files) if "planner" in (v := read_parameter_file(f, "mpc"))),
            "",
        )

    task = load_task(spec.task)
    return (
        named([Path(f) for f in spec.files])
        or task.planner_for(spec.object, spec.hand)
        or named(task_files(spec.task))
        or PlannerParams().planner
    )


def parameter_files(spec: Spec) -> list[Path]:
    """The files of a run, the last wins: the task's, what it has otherwise with its planner, the
    user's.

    Raises:
        ConfigError: see :func:`chosen_planner`.
    """
    return [*task_files(spec.task, chosen_planner(spec)), *(Path(f) for f in spec.files)]


def make_task(spec: Spec, settings: Mapping[type, Any]) -> Task:
    """The task with its parameters."""
    task = load_task(spec.task)
    return task(settings[task.Params], spec.object, spec.hand)


def check_files(files: Sequence[Path], blocks: Blocks) -> None:
    """Refuse what no node would read.

    Raises:
        ConfigError: a section of no node, or a parameter that its node does not have.
    """
    known: dict[str, set[str]] = {}
    for cls, node in (*blocks.items(), *NODE_BLOCKS):
        known.setdefault(node, set()).update(f.name for f in fields(cls))
    for path in files:
        for node, names in read_sections(path).items():
            _check_section(path, node, names, known)


def _check_section(path: Path, node: str, names: Iterable[str], known: Mapping[str, set[str]]) -> None:
    if node != "**" and node not in known:
        raise unknown_name(f"node of a section of {path}", node, known)
    taken = set().union(*known.values()) if node == "**" else known[node]
    for name in names:
        if name not in taken:
            raise unknown_name(f"parameter of section '{node}' of {path}", name, taken)
