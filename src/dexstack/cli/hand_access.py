"""How commands reach a hand: their arguments, an emulated hand where none is at hand, and the
question before anything moves."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dexstack.cli.output import note
from dexstack.model import HAND_NAMES

if TYPE_CHECKING:
    from dexstack.hand.bus_hand import BusHand

EMULATED = "emulated"


def add_hand_arguments(p: argparse.ArgumentParser) -> None:
    """Where the hand is and which one it should be."""
    interfaces = ("auto", "socketcan", "pcan", "udp_multicast", "serial", "pty", EMULATED)
    how = "how the hand is reached; auto: an Allegro hand by socketcan, a LEAP hand by serial; emulated: a hand simulated for this command"
    p.add_argument("--interface", default="auto", choices=interfaces, help=how)
    p.add_argument(
        "--channel", default="", help="channel of the interface (default: can0, PCAN_USBBUS1, /dev/ttyUSB0)"
    )
    p.add_argument(
        "--device", type=int, default=0, choices=range(4), help="device number of the hand on a CAN bus"
    )
    p.add_argument("--hand", default="right", help=f"which hand it should be: {HAND_NAMES}")
    p.add_argument(
        "--hardware", default="V4", choices=("V3", "V4", "V5"), help="generation an Allegro hand should be"
    )
    p.add_argument(
        "--motor",
        default="XC330-M288",
        help="motors of a LEAP hand: XC330-M288, or XL330-M288 of the light version",
    )
    p.add_argument(
        "--calibration-dir",
        default="",
        metavar="DIR",
        help="folder of zero offsets (default: ~/.config/dexstack/hands)",
    )
    p.add_argument(
        "--emulator-arguments",
        default="",
        metavar="ARGS",
        help="of an emulated hand, e.g. --emulator-arguments='--silent-finger 2'",
    )


def the_hand(args: argparse.Namespace, *, guard: bool = True) -> BusHand:
    """The hand that the arguments name; an emulated one is in simulated time, which goes on only
    while somebody waits for it.

    Raises:
        ConfigError: an extra is missing, or nobody knows such a hand.
    """
    from dexstack.hand.links import Settings, interface_of, link_to, simulated_link
    from dexstack.hand.params import BusParams, CanHandParams, MotorParams
    from dexstack.model.hand import load_hand

    hand = load_hand(args.hand)
    can = CanHandParams(hardware=args.hardware, calibration_dir=args.calibration_dir, guard=guard)
    settings = Settings(can, MotorParams(motor=args.motor))
    if args.interface == EMULATED:
        return simulated_link(hand, BusParams(device=args.device), settings, args.emulator_arguments.split())
    return link_to(hand, BusParams(interface_of(hand, args.interface), args.channel, args.device), settings)


def agreed(args: argparse.Namespace, question: str) -> bool:
    """Whether the user wants that; ``--yes`` says so beforehand, and without a terminal nobody can
    be asked."""
    if args.yes:
        return True
    if not sys.stdin.isatty():
        note(f"{question} There is no terminal to ask on: say --yes")
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
