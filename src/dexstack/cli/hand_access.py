"""How commands reach a hand: their arguments, an emulated hand where none is at hand, and the question before anything moves."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dexstack.cli.output import note
from dexstack.errors import ConfigError
from dexstack.model import HAND_NAMES

if TYPE_CHECKING:
    from dexstack.hand.can_hand import CanHand

EMULATED = "emulated"


def add_hand_arguments(p: argparse.ArgumentParser) -> None:
    """Where the hand is and which one it should be."""
    interfaces = ("socketcan", "pcan", "udp_multicast", EMULATED)
    p.add_argument(
        "--interface", default="socketcan", choices=interfaces, help="CAN interface; emulated: a hand simulated for this command"
    )
    p.add_argument("--channel", default="", help="channel of the interface (default: can0, PCAN_USBBUS1)")
    p.add_argument("--device", type=int, default=0, choices=range(4), help="device number of the hand")
    p.add_argument("--hand", default="right", help=f"which hand it should be: {HAND_NAMES}")
    p.add_argument("--hardware", default="V4", choices=("V3", "V4", "V5"), help="generation it should be")
    p.add_argument("--calibration-dir", default="", metavar="DIR", help="folder of zero offsets (default: ~/.config/dexstack/hands)")
    p.add_argument(
        "--emulator-arguments", default="", metavar="ARGS", help="of an emulated hand, e.g. --emulator-arguments='--silent-finger 2'"
    )


def the_hand(args: argparse.Namespace, *, guard: bool = True) -> CanHand:
    """The hand that the arguments name; an emulated one is in simulated time, which goes on only while somebody waits for it.

    Raises:
        ConfigError: an extra is missing, or nobody knows such a hand.
    """
    try:
        from dexstack.hand.can_hand import CanHand
        from dexstack.hand.emulator import from_arguments
        from dexstack.hand.lockstep import LockstepComputer
    except ImportError as error:
        raise ConfigError(f"{error}; install the extra: pip install 'dexstack[hardware]'") from None
    from dexstack.hand.params import BusParams, CanHandParams
    from dexstack.model.hand import load_hand

    side = load_hand(args.hand).side_on_can
    params = CanHandParams(hardware=args.hardware, calibration_dir=args.calibration_dir, guard=guard)
    if args.interface != EMULATED:
        return CanHand(side, BusParams(args.interface, args.channel, args.device), params)
    arguments = ["--plant", "standing", "--device", str(args.device), *args.emulator_arguments.split()]
    hand, plant, _ = from_arguments(arguments)
    return CanHand(side, BusParams("virtual", EMULATED, args.device), params, LockstepComputer(hand, plant))


def agreed(args: argparse.Namespace, question: str) -> bool:
    """Whether the user wants that; ``--yes`` says so beforehand, and without a terminal nobody can be asked."""
    if args.yes:
        return True
    if not sys.stdin.isatty():
        note(f"{question} There is no terminal to ask on: say --yes")
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
