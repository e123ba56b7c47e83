"""An identified world as the planner's θ: its nominal model of hand and object, scaled by the
identified factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dexstack.control.params import MpcParams, PlannerParams
from dexstack.control.theta_file import make_theta

if TYPE_CHECKING:
    from dexstack.control.problem import ModelParams
    from dexstack.tasks.base import Task, World


def theta_of_world(task: Task, settings: Mapping[type, Any], world: World) -> ModelParams:
    """Return θ of the task's planner for a known world.

    - ``mass`` scales ``mass`` and all of ``inertia``, whose distribution is unchanged.
    - ``size`` scales the rotations of ``inertia`` by its square.
    - ``friction`` scales ``friction``, the planner's only μ.
    - ``torque`` changes ``stiffness`` and ``cover``, because a motor that applies a share of the
      request is a servo with that share of the gains.
    - ``joint_damping`` changes ``cover``, the motion of a joint in one step by stiffness against
      damping.
    - ``joint_friction`` and ``joint_armature`` change nothing: the model has no dry friction and no
      joint inertia.
    - ``contact_stiffness`` changes nothing: the model's contacts are as stiff as the smoothing by
      ``sigma``.
    - ``com_x``, ``com_y`` and ``com_z`` change nothing: the model's centre of mass is the origin of
      the object's frame.

    A delay is the planner's ``command_delay``, not θ. ``sigma`` is not physical and unchanged.

    Args:
        settings: one object of every parameter class; a learned θ among them is not used, because
            factors refer to the models.

    Returns:
        θ for N joints, units as in :class:`~dexstack.control.problem.ModelParams`; for ``World()``
        the planner's own.

    Raises:
        ConfigError: a factor that the task's robot does not have.
    """
    robot, obj, _ = task.setup(world)
    believed: PlannerParams = settings[PlannerParams]
    changed = replace(
        believed,
        theta="",
        planned_friction=world.friction * believed.planned_friction,
        kp=world.torque * believed.kp,
        kd=world.torque * believed.kd,
    )
    return make_theta(robot, obj, changed, settings[MpcParams].step)
