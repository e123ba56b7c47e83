"""Excitation of a simulated, emulated or real hand, recorded for ``dexstack identify``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dexstack.cli import arguments
from dexstack.cli.output import note
from dexstack.errors import ConfigError
from dexstack.graph.modes import MODES, NodeDescription

if TYPE_CHECKING:
    from dexstack.hand.servo import ServoParams
    from dexstack.tasks.base import Task

SECONDS = 60.0
"""Default duration of a motion [s]."""
TOLERANCE = 0.3
"""Largest distance of a joint from its last point, since it may lean on the object [rad]."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--excite`` and its options."""
    parser.add_argument(
        "--excite",
        choices=tuple(MODES),
        help="make the recording first: start the hand as `dexstack up MODE`, swing its joints about the "
        "task's start, and record. "
        "The motion is first rehearsed in simulation; a real hand waits for /hand/enable",
    )
    parser.add_argument(
        "--seconds",
        type=arguments.positive,
        default=SECONDS,
        metavar="S",
        help="duration of the swings, with --excite",
    )
    parser.add_argument(
        "--up",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="argument of `dexstack up MODE` for --excite, e.g. world=FILE or channel=can1",
    )


def excite(args: argparse.Namespace, task: Task, servo: ServoParams, folder: Path) -> Path:
    """Find a safe motion, play it, and return the bag.

    Args:
        folder: folder of the motion, the bag and the logs.

    Raises:
        ConfigError: an invalid argument of the mode, no safe motion, or the hand did not finish it.
    """
    from dexstack.cli.supervisor import NodeSupervisor, graph_environment
    from dexstack.graph.modes import discovery_range
    from dexstack.hand.trajectory import write_motion
    from dexstack.identification.excitation import excitation

    folder = folder.absolute()
    bag, motion = folder / "excite.mcap", folder / "excite.npz"
    values = _values(args.up) | {"task": args.task, "object": args.object, "hand": args.hand}
    values |= {"part": "robot", "trajectories": "yes"}
    mode = MODES[args.excite]
    nodes = mode.describe(values)
    mode.check(values)
    if bag.exists():
        raise ConfigError(f"{bag} exists already; give another folder with --results")
    write_motion(motion, excitation(task, servo, args.seconds, note))
    played = {"motion": str(motion), "goal_tolerance": TOLERANCE, "heard_on": "object_pose"}
    for k, n in enumerate(nodes := list(nodes)):
        if n.name == "trajectory":
            nodes[k] = replace(n, parameters={**n.parameters, **played}, ends_run=True, respawn=False)
    nodes = [NodeDescription("recorder", {"file": str(bag)}), *nodes]
    logs = folder / "log"
    logs.mkdir(exist_ok=True)
    hint = "; enable it with /hand/enable" if args.excite == "hardware" else ""
    note(f"playing {args.seconds:g} s on the hand{hint}")
    with graph_environment(whole=True) as environment:
        environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] = discovery_range("auto", "all")
        with (logs / "motion.log").open("w") as view:
            end = NodeSupervisor(nodes, environment, logs, view=view).run()
    if end.failure or end.stopped or end.exit_code:
        log = (logs / "motion.log").read_text(errors="replace").strip().splitlines()
        why = end.failure or ("stopped" if end.stopped else log[-1] if log else "it failed")
        raise ConfigError(f"the motion was not finished: {why}")
    return bag


def _values(settings: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in settings]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise ConfigError(f"--up takes NAME=VALUE, got '{name}'")
    return {name.replace("-", "_"): value for name, _, value in pairs}
