"""Checks of everything that a run is made of, before any node starts."""

from __future__ import annotations

from dexstack.control.params import MpcParams, PlannerParams
from dexstack.control.planners import PLANNERS
from dexstack.errors import unknown_name
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.plants import check_plant


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
    if planner.planner not in PLANNERS:
        raise unknown_name("planner", planner.planner, PLANNERS)
    robot, obj, start = make_task(spec, settings).scene(spec.world)
    robot.pose(start.hand_pose)
    _ = obj.parts  # a mesh that is not convex may need a library that is not installed
    if planner.theta:
        from dexstack.control.theta_file import theta_for

        step, joints = settings[MpcParams].step, len(robot.joint_names)
        theta_for(planner.theta, object_name=obj.name, robot_name=robot.name, step=step, joints=joints)
