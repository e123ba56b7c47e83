"""Access of commands to a hand: arguments, emulated hands, and consent before anything moves."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dexstack.cli.options import option, options
from dexstack.cli.output import note
from dexstack.model import HAND_NAMES

if TYPE_CHECKING:
    from dexstack.hand.bus_hand import BusHand

EMULATED = "emulated"


add_hand_arguments = options(
    option(
        "--interface",
        default="auto",
        choices=("auto", "socketcan", "pcan", "udp_multicast", "serial", "pty", EMULATED),
        help="interface of the hand; auto: socketcan for an Allegro hand, serial for a LEAP hand; "
        "emulated: a hand simulated for this command",
    ),
    option(
        "--channel", default="", help="channel of the interface (default: can0, PCAN_USBBUS1, /dev/ttyUSB0)"
    ),
    option("--device", type=int, default=0, choices=range(4), help="device number of the hand on a CAN bus"),
    option("--hand", default="right", help=f"expected hand: {HAND_NAMES}"),
    option(
        "--hardware", default="V4", choices=("V3", "V4", "V5"), help="expected generation of an Allegro hand"
    ),
    option(
        "--motor",
        default="XC330-M288",
        help="motors of a LEAP hand: XC330-M288, or XL330-M288 of the light version",
    ),
    option(
        "--calibration-dir",
        default="",
        metavar="DIR",
        help="folder of zero offsets (default: ~/.config/dexstack/hands)",
    ),
    option(
        "--emulator-arguments",
        default="",
        metavar="ARGS",
        help="arguments of an emulated hand, e.g. --emulator-arguments='--silent-finger 2'",
    ),
)
"""Add the arguments that select a hand."""


add_gravity_argument = option(
    "--gravity",
    type=float,
    nargs=3,
    default=(0.0, 0.0, -9.81),
    metavar=("X", "Y", "Z"),
    help="gravity in the hand's world, in which the palm is fixed, of a palm at another angle [m/s²]",
)
"""Add the argument for a palm that is not mounted as in the model."""


def the_hand(args: argparse.Namespace, *, guard: bool = True) -> BusHand:
    """Return the hand of the arguments; an emulated one is in simulated time, which advances only
    while the caller waits for it.

    Raises:
        ConfigError: a missing extra, or an unknown hand.
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
    """Ask for the user's consent, which ``--yes`` gives in advance; False without a terminal."""
    if args.yes:
        return True
    if not sys.stdin.isatty():
        note(f"{question} There is no terminal to ask on: use --yes")
        return False
    from dexstack.hand.session import on_terminal

    return on_terminal(question)
