"""Arguments that several commands share, and types of arguments with their ranges."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from dexstack.cli.options import option, options
from dexstack.control.planners import PLANNERS
from dexstack.control.supervisors import SUPERVISORS
from dexstack.model import HAND_NAMES

if TYPE_CHECKING:
    from dexstack.graph.settings import Spec

MEASURED = "measured"
OBJECT = "name of an object, or path of its YAML file"


def number(text: str, kind: type, ok: Callable[[Any], bool], what: str) -> Any:
    """Parse a finite number of a kind for which ``ok`` holds; ``what`` describes it in an error."""
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and ok(value)):
        raise argparse.ArgumentTypeError(f"must be {what}, got '{text}'")
    return value


def setting(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE, with the value as in a parameter file."""
    from dexstack.config import parse_yaml

    name, equals, value = text.partition("=")
    try:
        read = parse_yaml(value)
    except yaml.YAMLError:
        equals = ""
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got '{text}'")
    return name, read


add_set_argument = option(
    "--set",
    dest="settings",
    type=setting,
    action="append",
    default=[],
    metavar="NAME=VALUE",
    help="set one parameter, overriding all files; repeatable",
)
"""Add ``--set``."""


def positive_int(text: str) -> int:
    return number(text, int, lambda x: x > 0, "a whole number above 0")


def natural(text: str) -> int:
    return number(text, int, lambda x: x >= 0, "a whole number, 0 or more")


def positive(text: str) -> float:
    return number(text, float, lambda x: x > 0, "a number above 0")


def angle(text: str) -> float:
    return number(text, float, lambda x: abs(x) <= 180, "degrees in [-180, 180]")


def rate(text: str) -> float:
    return number(text, float, lambda x: 0 <= x <= 1, "a number in [0, 1]")


def incline(text: str) -> tuple[float, float, float]:
    from dexstack.errors import ConfigError
    from dexstack.model.mount import read_incline

    try:
        return read_incline(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def latency(text: str) -> float | str:
    return (
        text
        if text == MEASURED
        else number(text, float, lambda x: x >= 0, f"'{MEASURED}', or seconds, 0 or more")
    )


add_scene_arguments = options(
    option("--object", default="cube", help=OBJECT),
    option("--hand", default="right", help=HAND_NAMES),
)
"""Add ``--object`` and ``--hand``."""


NAMED = ("model", "planner", "supervisor", "theta", "contact_set")
"""Parameters with their own argument."""


add_planner_arguments = options(
    option("--model", help="time-stepping model of the planner (default: from the parameter files)"),
    option(
        "--planner",
        help=f"{', '.join(PLANNERS)}, or path to a Python file or an ONNX policy "
        "(default: from the parameter files)",
    ),
    option(
        "--supervisor",
        help=f"recovery of a stalled rollout: {', '.join(SUPERVISORS)}, or path (default: the task's)",
    ),
    option(
        "--contact-set",
        metavar="RULE",
        help="contacts along the plan: frozen, propagated, detected (default: from the parameter files)",
    ),
    option(
        "--theta",
        metavar="NAME",
        help="learned parameters θ of the planner: name or file (see `dexstack learn --save`)",
    ),
    option(
        "--params",
        action="append",
        default=[],
        metavar="FILE",
        help="ROS 2 parameter file that overrides the task's; repeatable",
    ),
    add_set_argument,
)
"""Add the arguments that choose the planner and its parameters."""


def spec_of(args: argparse.Namespace, task: str | None = None) -> Spec:
    """Return the spec of the arguments of :func:`add_scene_arguments` and
    :func:`add_planner_arguments`."""
    from dexstack.graph.settings import Spec, perception_file
    from dexstack.tasks.base import NOMINAL_WORLD, read_world

    overrides = {name: tuple(x) if isinstance(x, list) else x for name, x in args.settings} | {
        name: getattr(args, name) for name in NAMED if getattr(args, name) is not None
    }
    if getattr(args, "latency", None) not in (None, MEASURED):
        overrides["latency"] = args.latency
    if getattr(args, "tolerance", None) is not None:
        overrides["tolerance"] = args.tolerance
    if getattr(args, "incline", None) is not None:
        overrides["gravity"] = args.incline
    perception = getattr(args, "perception", None)
    given = (*([perception_file(perception)] if perception else []), *args.params)
    files = tuple(str(Path(f).absolute()) for f in given)
    world = NOMINAL_WORLD if getattr(args, "world", None) is None else read_world(args.world)
    return Spec(
        task or args.task,
        args.object,
        args.hand,
        files,
        tuple(sorted(overrides.items())),
        getattr(args, "plant", "mujoco"),
        world,
    )
