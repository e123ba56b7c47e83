"""``dexstack calibrate hand``: zero offsets of the joints from their stops."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Any

from dexstack.cli.arguments import positive
from dexstack.cli.hand_access import add_hand_arguments, agreed, the_hand
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table

NOTE_PERIOD = 5.0
"""Time between two messages about missing joints [s]."""


add_parser = command(
    "hand",
    add_hand_arguments,
    option(
        "--seconds",
        type=positive,
        default=180.0,
        metavar="S",
        help="time limit; it ends when all stops were reached",
    ),
    option("--dry-run", action="store_true", help="measure, but store nothing"),
    option("--yes", action="store_true", help="do not ask for confirmation"),
    help="zero offsets of the hand's joints",
    description="Measure the zero offsets of the joints while a person moves each of them from one stop "
    "to the other, and store them by serial number for every later start. The servo stays off. The lower "
    "stops give the offsets, the upper ones check them. Exit code 0 only if they were measured, "
    "checked and stored.",
)


def run(args: argparse.Namespace) -> int:
    """Measure, check and store.

    Returns:
        0 on success, 1 if the hand failed or a stop contradicts the joint limits.
    """
    import numpy as np

    from dexstack.hand.calibration import HELD_OUT, save_offsets
    from dexstack.hand.link import HandFault
    from dexstack.model.hand import load_hand

    hand = load_hand(args.hand)
    if not agreed(
        args, "The servo is off. Will you move every joint gently from one of its stops to the other?"
    ):
        note("nothing was measured")
        return 1
    try:
        sweep, old, serial = _measure(args, the_hand(args, guard=False), hand)
    except HandFault as fault:
        note(fault.advice)
        return 1
    offsets, errors = sweep.offsets, np.degrees(sweep.errors)
    results: dict[str, Any] = {
        "serial": serial,
        "zero_offsets": offsets,
        "held_out_deg": errors,
        "before": old,
        "file": None,
    }
    rows = [
        (name, *(float(f"{x:.4f}") for x in row))
        for name, *row in zip(hand.joint_names, offsets, old, errors, strict=True)
    ]
    view = table(
        f"Zero offsets of {serial} [rad]", ("joint", "offset", "before", "upper stop off by [°]"), rows
    )
    if not sweep.complete:
        worst = int(np.argmax(np.abs(errors)))
        last = (
            f"Not kept: the upper stop of {hand.joint_names[worst]} is off by {errors[worst]:+.1f}°, at most "
            f"{np.degrees(HELD_OUT):.0f}° are allowed. It was not moved from stop to stop, or its "
            "encoder's scale is wrong."
        )
        publish(args, "calibrate hand", results, view, last)
        return 1
    if args.dry_run:
        publish(args, "calibrate hand", results, view, "Not kept: dry run.")
        return 0
    today, held_out = f"{datetime.now():%Y-%m-%d %H:%M}", np.abs(sweep.errors).max()
    path = save_offsets(args.calibration_dir, serial, offsets, measured=today, held_out=held_out)
    publish(args, "calibrate hand", results | {"file": str(path)}, view, f"Kept in {path}")
    return 0


def _measure(args: argparse.Namespace, link: Any, hand: Any) -> tuple[Any, Any, str]:
    """Return the sweep, the previous offsets (16,) [rad], and the serial number."""
    import numpy as np

    from dexstack.hand.calibration import HELD_OUT, StopSweep

    try:
        _, serial = link.identify()
        old = link.offsets.copy()
        link.stream()
        now = link.computer.monotonic
        sweep = StopSweep(hand.lower, hand.upper)
        said = incomplete = now()
        end = said + args.seconds
        # once complete a little longer, because a stop may yield a little
        while now() < (incomplete + min(2.0, args.seconds) if sweep.complete else end):
            if (feedback := link.read(0.02)) is not None:
                sweep.add(feedback.q + old)
            incomplete = incomplete if sweep.complete else now()
            if not sweep.complete and now() > said + NOTE_PERIOD:
                said = now()
                missing = [hand.joint_names[j] for j in np.flatnonzero(~(np.abs(sweep.errors) <= HELD_OUT))]
                note(f"not yet moved from stop to stop: {', '.join(missing)}")
    finally:
        link.close()
    return sweep, old, serial
