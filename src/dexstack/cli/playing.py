"""Motions of the joints played by the graph of a mode, with its limits, guard and consent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dexstack.cli.output import note
from dexstack.errors import ConfigError
from dexstack.graph.modes import MODES, NodeDescription

if TYPE_CHECKING:
    from dexstack.hand.trajectory import Waypoints

TORQUE_WITHIN = 30.0
"""Longest wait for the torque of a simulated hand [s]."""


def play(
    mode: str,
    values: Mapping[str, str],
    make_motion: Callable[[], Waypoints],
    file: Path,
    tolerances: Mapping[str, float],
) -> Path:
    """Start the robot's nodes as `dexstack up MODE`, play a motion, and return the bag of it.

    A real hand waits for ``/hand/enable``.

    Args:
        values: arguments of `dexstack up MODE`.
        make_motion: returns the motion, once the arguments are known to be usable.
        file: where to keep the motion (.npz); the bag (.mcap) and the folder ``log`` are next to it.
        tolerances: fields of :class:`~dexstack.hand.trajectory.FollowParams`.

    Raises:
        ConfigError: an invalid argument of the mode, a bag that exists, or the hand did not finish.
    """
    from dexstack.cli.supervisor import NodeSupervisor, graph_environment
    from dexstack.graph.modes import discovery_range
    from dexstack.hand.trajectory import write_waypoints

    file = file.absolute()
    bag, logs, graph = file.with_suffix(".mcap"), file.with_name("log"), MODES[mode]
    values = {**values, "part": "robot", "trajectories": "yes"}
    nodes = list(graph.describe(values))
    graph.check(values)
    if bag.exists():
        raise ConfigError(f"{bag} exists already; give another folder with --results")
    motion = make_motion()
    write_waypoints(file, motion)
    # a simulated hand needs no person to enable it; where its servo turned off, none will
    torque_within = 0.0 if mode == "hardware" else TORQUE_WITHIN
    played = {"motion": str(file), "heard_on": "object_pose", "torque_within": torque_within, **tolerances}
    for k, n in enumerate(nodes):
        if n.name == "trajectory":
            nodes[k] = replace(n, parameters={**n.parameters, **played}, ends_run=True, respawn=False)
    nodes = [NodeDescription("recorder", {"file": str(bag)}), *nodes]
    logs.mkdir(exist_ok=True)
    hint = "; enable it with /hand/enable" if mode == "hardware" else ""
    note(f"playing {motion.times[-1]:g} s on the hand{hint}")
    with graph_environment(whole=True) as environment:
        environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] = discovery_range("auto", "all")
        with (logs / "motion.log").open("w", encoding="utf-8") as view:
            end = NodeSupervisor(nodes, environment, logs, view=view).run()
    if end.failure or end.stopped or end.exit_code:
        log = (logs / "motion.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        why = end.failure or ("stopped" if end.stopped else log[-1] if log else "it failed")
        raise ConfigError(f"the motion was not finished: {why}")
    return bag
