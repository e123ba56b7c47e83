"""What a run is made of, read before anything starts: what is wrong is said in one sentence, not by six nodes that have started."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dexstack.config import make_params, read_parameter_file
from dexstack.engines import check_plant
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object

if TYPE_CHECKING:
    from dexstack.model.hand import HandModel
    from dexstack.model.objects import ObjectModel


def check_scene(task: str, object_name: str, hand_name: str, plant: str | None = None) -> tuple[HandModel, ObjectModel]:
    """Hand and object, with what a task and a plant want of them.

    Args:
        task: as objects' YAMLs call it, under ``start``.
        object_name, hand_name: names, or paths of YAML files.
        plant: see :data:`dexstack.engines.PLANTS`; None where nothing is simulated.

    Raises:
        ConfigError: a file, mesh, pose or name that cannot be used, or a library that is not installed.
    """
    if plant is not None:
        check_plant(plant)
    hand, obj = load_hand(hand_name), load_object(object_name)
    hand.pose(obj.start(task, hand.side).hand_pose)
    _ = obj.parts  # of a mesh that is not convex: what takes it apart may be missing
    return hand, obj


def check_theta_of_run(name: str, hand: HandModel, obj: ObjectModel, step: float) -> None:
    """A learned θ; an empty name is none.

    Args:
        step: of the planner [s].

    Raises:
        ConfigError: it cannot be read, or is for something else.
    """
    if name:
        from dexstack.learning.theta_file import theta_for  # brings JAX, which takes as long as all else here

        theta_for(name, object_name=obj.name, robot_name=hand.name, step=step, joints=len(hand.joint_names))


def check_values(files: Sequence[Path], blocks: Iterable[tuple[type, str]]) -> None:
    """The parameters of nodes in files, the last of which wins; names that no block has are not looked at.

    Args:
        blocks: parameter classes, each with the node that has it.

    Raises:
        ConfigError: a file that cannot be read, or a value of the wrong type or out of its range.
    """
    for block, node in blocks:
        values = {name: value for path in files for name, value in read_parameter_file(path, node).items()}
        make_params(block, values, ignore_unknown=True)
