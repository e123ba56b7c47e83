"""An identified world as the planner's θ: what it believes of hand and object, changed by the
factors that a recording tells."""

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
    """θ of the task's planner, did it know the world.

    - ``mass``: ``mass``, and all of ``inertia``, because the mass changes and not how it is
        distributed.
    - ``size``: the rotations of ``inertia``, by its square.
    - ``friction``: ``friction``, the one μ that the planner has for all contacts.
    - ``torque``: ``stiffness`` and ``cover``, because a motor that gives a share of what is asked
        is a servo with that share of its gains.
    - ``joint_damping``: ``cover``, which says how far stiffness against damping moves a joint in
        one step.
    - ``joint_friction``, ``joint_armature``: nothing, because the model has no dry friction, and
        joints without inertia.
    - ``contact_stiffness``: nothing, because the model's contacts are as stiff as ``sigma`` says,
        which smooths them.
    - ``com_x``, ``com_y``, ``com_z``: nothing, because the model has the centre of mass in the
        origin of the object's frame.

    A delay changes nothing either: it is the planner's ``command_delay``. ``sigma`` is no physical
    quantity and stays.

    Args:
        settings: one object of every parameter class; what a learned θ among them says is not used,
            because factors are of the models.

    Returns:
        Joints N, units as in :class:`~dexstack.control.problem.ModelParams`; for ``World()`` the
        planner's own.

    Raises:
        ConfigError: a factor that the task's robot does not have.
    """
    robot, obj, _ = task.scene(world)
    believed: PlannerParams = settings[PlannerParams]
    changed = replace(
        believed,
        theta="",
        planned_friction=world.friction * believed.planned_friction,
        kp=world.torque * believed.kp,
        kd=world.torque * believed.kd,
    )
    return make_theta(robot, obj, changed, settings[MpcParams].step)
