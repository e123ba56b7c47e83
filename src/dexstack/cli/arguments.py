"""Types of command-line arguments: numbers in their ranges, refused in one sentence."""

from __future__ import annotations

import argparse
import math
from typing import Any

import yaml

MEASURED = "measured"


def number(text: str, kind: type, ok: Any, what: str) -> Any:
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and ok(value)):
        raise argparse.ArgumentTypeError(f"must be {what}, got '{text}'")
    return value


def setting(text: str) -> tuple[str, Any]:
    """NAME=VALUE, the value as in a parameter file."""
    name, equals, value = text.partition("=")
    try:
        read = yaml.safe_load(value)
    except yaml.YAMLError:
        equals = ""
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got '{text}'")
    return name, read


def add_set_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--set``."""
    parser.add_argument(
        "--set",
        dest="settings",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="one parameter, wins over all files; may be given several times",
    )


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


def latency(text: str) -> float | str:
    return text if text == MEASURED else number(text, float, lambda x: x >= 0, f"'{MEASURED}', or seconds, 0 or more")
