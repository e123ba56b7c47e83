"""Excitation of a simulated, emulated or real hand, recorded for ``dexstack identify``."""

from __future__ import annotations

import argparse
from pathlib import Path

from dexstack.cli import arguments
from dexstack.cli.options import option, options
from dexstack.cli.output import note
from dexstack.errors import ConfigError
from dexstack.graph.modes import MODES
from dexstack.hand.servo import ServoParams
from dexstack.tasks.base import Task

SECONDS = 60.0
"""Default duration of a motion [s]."""
TOLERANCE = 0.3
"""Largest distance of a joint from its last point, since it may lean on the object [rad]."""


add_arguments = options(
    option(
        "--excite",
        choices=tuple(MODES),
        help="make the recording first: start the hand as `dexstack up MODE`, swing its joints about the "
        "task's start, and record. "
        "The motion is first rehearsed in simulation; a real hand waits for /hand/enable",
    ),
    option(
        "--seconds",
        type=arguments.positive,
        default=SECONDS,
        metavar="S",
        help="duration of the swings, with --excite",
    ),
    option(
        "--up",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="argument of `dexstack up MODE` for --excite, e.g. world=FILE or channel=can1",
    ),
)
"""Add ``--excite`` and its options."""


def excite(args: argparse.Namespace, task: Task, servo: ServoParams, folder: Path) -> Path:
    """Find a safe motion, play it, and return the bag.

    Args:
        folder: folder of the motion, the bag and the logs.

    Raises:
        ConfigError: an invalid argument of the mode, no safe motion, or the hand did not finish it.
    """
    from dexstack.cli.playing import play
    from dexstack.identification.excitation import excitation

    values = _values(args.up) | {"task": args.task, "object": args.object, "hand": args.hand}
    tolerances = {"goal_tolerance": TOLERANCE}
    return play(
        args.excite,
        values,
        lambda: excitation(task, servo, args.seconds, note),
        folder / "excite.npz",
        tolerances,
    )


def _values(settings: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in settings]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise ConfigError(f"--up takes NAME=VALUE, got '{name}'")
    return {name.replace("-", "_"): value for name, _, value in pairs}
