"""``dexstack calibrate hand``: zero offsets of the joints, kept by serial number."""

from __future__ import annotations

import argparse
import time
from datetime import datetime
from typing import Any

from dexstack.cli.arguments import positive
from dexstack.cli.hand_access import add_hand_arguments, agreed, the_bus
from dexstack.cli.output import add_json_argument, note, publish, table
from dexstack.errors import ConfigError

STILL = 0.01
"""Largest standard deviation of a joint that is held still [rad]."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``calibrate hand``."""
    p = subparsers.add_parser(
        "hand",
        help="zero offsets of the hand's joints",
        description="Measures the zero offsets of the joints while the hand is held in a known pose, and keeps them by serial number "
        "for every later start. The servo is off all the time. Exit code 0 only if they were measured and kept.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add_hand_arguments(p)
    p.add_argument("--pose", default="flat", help="pose of the hand's YAML that the hand is held in")
    p.add_argument("--seconds", type=positive, default=2.0, metavar="S", help="how long to average")
    p.add_argument("--dry-run", action="store_true", help="measure, but keep nothing")
    p.add_argument("--yes", action="store_true", help="do not ask whether the hand is in the pose")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Measure and keep.

    Returns:
        0 when that was done, 1 when the hand failed or was not held still.
    """
    from dexstack.hand.calibration import save_offsets
    from dexstack.hand.link import HandFault
    from dexstack.model.hand import load_hand

    hand = load_hand(args.hand)
    pose = hand.pose(args.pose)
    if not agreed(args, f"The servo is off. Is the hand held in the pose '{args.pose}'?"):
        note("nothing was measured")
        return 1
    with the_bus(args) as bus:
        try:
            offsets, spread, old, serial = _measure(args, bus, hand, pose)
        except HandFault as fault:
            note(f"{fault}\nTo mend: {fault.mend}")
            return 1
    results: dict[str, Any] = {"serial": serial, "pose": args.pose, "zero_offsets": offsets, "spread": spread, "before": old}
    rows = [(name, *(float(f"{x:.4f}") for x in row)) for name, *row in zip(hand.joint_names, offsets, old, spread, strict=True)]
    view = table(f"Zero offsets of {serial} [rad]", ("joint", "offset", "before", "spread"), rows)
    if spread.max() > STILL:
        restless = hand.joint_names[int(spread.argmax())]
        publish(
            args, "calibrate hand", results | {"file": None}, view, f"Not kept: {restless} was not held still ({spread.max():.3f} rad)."
        )
        return 1
    if args.dry_run:
        publish(args, "calibrate hand", results | {"file": None}, view, "Not kept: dry run.")
        return 0
    path = save_offsets(args.calibration_dir, serial, offsets, measured=f"{datetime.now():%Y-%m-%d %H:%M}", pose=args.pose)
    publish(args, "calibrate hand", results | {"file": str(path)}, view, f"Kept in {path}")
    return 0


def _measure(args: argparse.Namespace, bus: Any, hand: Any, pose: Any) -> tuple[Any, Any, Any, str]:
    """Offsets, standard deviations and offsets before (16,) [rad]; serial number."""
    import numpy as np

    from dexstack.hand.can_hand import CanHand
    from dexstack.hand.params import CanHandParams

    link = CanHand(hand.side, bus, CanHandParams(hardware=args.hardware, calibration_dir=args.calibration_dir, guard=False))
    try:
        _, serial = link.identify()
        old = link.offsets.copy()
        link.stream()
        samples = []
        end = time.monotonic() + args.seconds
        while time.monotonic() < end:
            feedback = link.read(0.02)
            if feedback is not None:
                samples.append(feedback.q + old)
    finally:
        link.close()
    if len(samples) < 10:
        raise ConfigError(f"only {len(samples)} sets of joint angles came in {args.seconds:g} s; dexstack diagnose hand")
    measured = np.array(samples)
    return np.median(measured, axis=0) - pose, measured.std(axis=0), old, serial
