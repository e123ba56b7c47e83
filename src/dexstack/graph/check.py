"""What a run is made of, read before anything starts: what is wrong is said in one sentence, not by
six nodes that have started."""

from __future__ import annotations

from dexstack.control.params import MpcParams, PlannerParams
from dexstack.control.planners import PLANNERS
from dexstack.errors import unknown_name
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.plants import check_plant


def check_run(spec: Spec, *, simulated: bool = True) -> None:
    """Task, object, hand, plant, parameters and θ of a run; JAX is not imported unless a learned θ
    is named.

    Args:
        simulated: whether the plant is used.

    Raises:
        ConfigError: a file, mesh, pose, name or parameter that cannot be used, or a library that is
            not installed.
    """
    if simulated:
        check_plant(spec.plant)
    settings = read_settings(spec)
    planner: PlannerParams = settings[PlannerParams]
    if planner.planner not in PLANNERS:
        raise unknown_name("planner", planner.planner, PLANNERS)
    robot, obj, start = make_task(spec, settings).scene(spec.world)
    robot.pose(start.hand_pose)
    _ = obj.parts  # of a mesh that is not convex: what takes it apart may be missing
    if planner.theta:
        from dexstack.control.theta_file import theta_for

        step, joints = settings[MpcParams].step, len(robot.joint_names)
        theta_for(planner.theta, object_name=obj.name, robot_name=robot.name, step=step, joints=joints)
