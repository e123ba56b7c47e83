"""``dexstack capture hand``: every answer of an Allegro hand, as a log of candump."""

from __future__ import annotations

import argparse
from pathlib import Path

from dexstack.cli.arguments import positive
from dexstack.cli.hand_access import add_hand_arguments, the_hand
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table
from dexstack.errors import ConfigError

add_parser = command(
    "hand",
    option("file", type=Path, metavar="FILE", help="file to write, e.g. v4-right.log"),
    add_hand_arguments,
    option(
        "--stream",
        type=positive,
        default=0.0,
        metavar="S",
        help="have the hand send joint angles and temperatures by itself for S seconds",
    ),
    help="every answer of an Allegro hand, as a log of candump",
    description="Send every request that the driver knows to an Allegro hand on CAN and write all frames "
    "to FILE, in the format of `candump -L`. The servo stays off and no setting changes, unless "
    "--stream makes the hand send its joint angles. The tests replay the files in "
    "tests/fixtures/allegro. Exit code 0 only if the hand answered.",
)


def run(args: argparse.Namespace) -> int:
    """Record and write.

    Returns:
        0 if the hand answered, otherwise 1.
    """
    from dexstack.hand.allegro.can_hand import CanHand
    from dexstack.hand.allegro.capture import capture, contents, write_capture
    from dexstack.hand.allegro.protocol import Command, split_id
    from dexstack.hand.link import TransportError

    link = the_hand(args, guard=False)
    if not isinstance(link, CanHand):
        raise ConfigError(f"capture reads Allegro hands on CAN, '{args.hand}' is on {link.bus.interface}")
    try:
        bus = link.computer.open_bus(link.bus)
        try:
            frames = capture(bus, link.computer, args.device, args.stream)
        finally:
            bus.close()
    except TransportError as error:
        note(error.fault().advice)
        return 1
    answers = contents(frames)
    write_capture(args.file, frames, args.channel or link.bus.where)
    rows = [
        (_name(Command, split_id(identifier)[0]), f"0x{identifier:03X}", len(data), data[0].hex(" "))
        for identifier, data in sorted(answers.items())
    ]
    results = {
        "file": str(args.file),
        "frames": len(frames),
        "answers": {f"{i:03X}": len(d) for i, d in answers.items()},
    }
    view = table("dexstack capture hand", ("message", "identifier", "frames", "first content"), rows)
    last = f"Kept in {args.file}" if answers else f"No hand on {link.bus} answers: dexstack diagnose hand"
    publish(args, "capture hand", results, view, last)
    return 0 if answers else 1


def _name(commands: type, number: int) -> str:
    """Return the name of a command, with its finger."""
    first = max((c for c in commands if c <= number), default=None)
    if first is None or number - first > 3:
        return "?"
    return first.name if number == first else f"{first.name} + {number - first}"
