"""How commands reach a hand: their arguments, an emulated hand where none is at hand, and the question before anything moves."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dexstack.cli.output import note
from dexstack.errors import ConfigError

if TYPE_CHECKING:
    from dexstack.hand.params import BusParams

EMULATED = "emulated"


def add_hand_arguments(p: argparse.ArgumentParser) -> None:
    """Where the hand is and which one it should be."""
    interfaces = ("socketcan", "pcan", "udp_multicast", EMULATED)
    p.add_argument(
        "--interface", default="socketcan", choices=interfaces, help="CAN interface; emulated: a hand that exists for this command only"
    )
    p.add_argument("--channel", default="", help="channel of the interface (default: can0, PCAN_USBBUS1)")
    p.add_argument("--device", type=int, default=0, choices=range(4), help="device number of the hand")
    p.add_argument("--hand", default="right", help="which hand it should be: right, left, or the path of a hand's YAML")
    p.add_argument("--hardware", default="V4", choices=("V3", "V4", "V5"), help="generation it should be")
    p.add_argument("--calibration-dir", default="", metavar="DIR", help="folder of zero offsets (default: ~/.config/dexstack/hands)")
    p.add_argument(
        "--emulator-arguments", default="", metavar="ARGS", help="of an emulated hand, e.g. --emulator-arguments='--silent-finger 2'"
    )


@contextlib.contextmanager
def the_bus(args: argparse.Namespace) -> Iterator[BusParams]:
    """The bus the arguments name, with an emulated hand on it if that was asked for.

    Raises:
        ConfigError: the emulated hand does not start.
    """
    try:
        from dexstack.hand.params import BusParams
    except ImportError as error:
        raise ConfigError(f"{error}; install the extra: pip install 'dexstack[hardware]'") from None
    if args.interface != EMULATED:
        yield BusParams(args.interface, args.channel, args.device)
        return
    bus = BusParams("udp_multicast", f"239.76.{os.getpid() >> 8 & 255}.{os.getpid() & 255}:6500", args.device)
    command = [sys.executable, "-m", "dexstack.hand.emulator", "--interface", bus.interface, "--channel", bus.channel]
    options = ["--plant", "standing", "--device", str(args.device), *args.emulator_arguments.split()]
    process = subprocess.Popen([*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        if not process.stdout.readline():
            raise ConfigError("the emulated hand did not start; its complaint is above")
        yield bus
    finally:
        process.stdin.close()
        process.wait(10.0)
        process.stdout.close()


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
