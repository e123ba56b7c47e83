"""``dexstack diagnose hand``: interface, bus, identity, stream, and motion of one joint or of all
(commissioning)."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from dexstack.cli.hand_access import add_gravity_argument, add_hand_arguments, agreed, the_hand
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table

if TYPE_CHECKING:
    from dexstack.hand.bus_hand import BusHand
    from dexstack.model.hand import HandModel

JOINT = 15
"""The joint that moves without ``--all``: the tip of the thumb, which is free when the hand is
open."""


@dataclass(frozen=True)
class Layer:
    """Result of one layer."""

    name: str
    good: bool
    detail: str
    remedy: str = ""
    """Remedy of a broken layer."""


class Broken(Exception):
    """A layer is broken."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.remedy = remedy


add_parser = command(
    "hand",
    add_hand_arguments,
    add_gravity_argument,
    option("--seconds", type=float, default=2.0, metavar="S", help="duration of the stream test"),
    option("--all", action="store_true", help="move every joint, and record that the hand passed"),
    option("--no-motion", action="store_true", help="leave out the last layer: nothing moves"),
    option(
        "--reboot",
        action="store_true",
        help="ask, then reboot motors of a LEAP hand that switched themselves off (overload, heat)",
    ),
    option("--yes", action="store_true", help="do not ask before a reboot or a motion"),
    help="interface, bus, identity, stream, motion; --all: commission it",
    description="Check interface, bus, identity, stream and a motion of the thumb's tip by 3 degrees, "
    "stop at the first broken layer and print its remedy. With --all every joint moves alone, "
    "3 degrees out and back with at most 0.12 N·m beyond its weight; a hand that passes may be driven by "
    "`dexstack up hardware`. Exit code 0 only if every layer is good.",
)


def run(args: argparse.Namespace) -> int:
    """Check the layers.

    Returns:
        0 if all are good, otherwise 1.
    """
    layers = _walk(args, the_hand(args))
    good = all(layer.good for layer in layers)
    results = {
        "good": good,
        "layers": [{"name": x.name, "good": x.good, "detail": x.detail, "remedy": x.remedy} for x in layers],
        "broken": None if good else layers[-1].name,
    }
    rows = [(layer.name, "good" if layer.good else "BROKEN", layer.detail) for layer in layers]
    ready = (
        "The hand is ready: dexstack up hardware"
        if args.all
        else "Before it is driven: dexstack diagnose hand --all"
    )
    last = ready if good else f"Remedy for '{layers[-1].name}': {layers[-1].remedy}"
    publish(
        args, "diagnose hand", results, table("dexstack diagnose hand", ("layer", "", "found"), rows), last
    )
    return 0 if good else 1


def _walk(args: argparse.Namespace, link: BusHand) -> list[Layer]:
    from dexstack.hand.link import HandFault
    from dexstack.model.hand import load_hand

    hand = load_hand(args.hand)
    steps: list[tuple[str, Callable[[], str]]] = [
        ("interface", lambda: _interface(link)),
        ("bus", lambda: _bus(link)),
        *([("reboot", lambda: _reboot(args, link))] if args.reboot else []),
        ("identity", lambda: _identity(link)),
        ("stream", lambda: _stream(link, hand, args.seconds)),
    ]
    if not args.no_motion:
        steps.append(("motion", lambda: _motion(args, link, hand)))
    layers = []
    try:
        for name, step in steps:
            note(f"{name} …")
            try:
                layers.append(Layer(name, True, step()))
            except (HandFault, Broken) as fault:
                layers.append(Layer(name, False, str(fault), fault.remedy))
                break
    finally:
        link.close()
    return layers


def _interface(link: BusHand) -> str:
    link.open()
    return f"{link.bus} is open"


def _bus(link: BusHand) -> str:
    """Find any device that answers."""
    from dexstack.hand.link import FaultKind, HandFault

    try:
        link.identify()
    except HandFault as fault:
        if fault.kind is not FaultKind.WRONG_HAND:
            raise
    return f"a device on {link.bus} answers"


def _reboot(args: argparse.Namespace, link: BusHand) -> str:
    link.identify()
    latched = ", ".join(link.latched)
    if not latched:
        return "no motor has to be rebooted"
    if not agreed(args, f"{latched} switched off by itself. Was the cause removed? It is rebooted, limp."):
        raise Broken(f"not allowed to reboot {latched}", "use --yes, or switch the hand's supply off and on")
    link.reboot()
    return f"rebooted {latched}"


def _identity(link: BusHand) -> str:
    link.identify()
    return link.introduction()


def _stream(link: BusHand, hand: HandModel, seconds: float) -> str:
    import numpy as np

    from dexstack.hand.commissioning import check_at_rest
    from dexstack.hand.link import Feedback

    link.stream()
    expected = seconds / link.period
    for _ in range(3):  # a busy machine loses sets once, a bus each time
        first, missed, arrivals, q = link.sets, link.missed, [], None
        end = link.computer.monotonic() + seconds
        while link.computer.monotonic() < end:
            if (feedback := link.read(0.02)) is not None:
                arrivals.append(link.arrival)
                q = feedback.q
        sets, missed = link.sets - first, link.missed - missed
        if q is not None and sets >= 0.9 * expected:
            break
    else:
        found = f"{sets} complete sets of joint angles in {seconds:g} s, expected {expected:.0f}"
        raise Broken(f"{found}; {missed} incomplete", link.stream_remedy)
    if missed > 0.01 * expected:
        raise Broken(f"{missed} of {sets + missed} sets were incomplete", link.stream_remedy)
    check_at_rest(Feedback(0.0, 0.0, q), hand, link.rad_per_count)
    outside = np.flatnonzero((q < hand.lower - 0.2) | (q > hand.upper + 0.2))
    if outside.size:
        names = ", ".join(f"{hand.joint_names[i]} at {q[i]:+.2f} rad" for i in outside)
        raise Broken(f"outside the joint limits: {names}", "dexstack calibrate hand")
    jitter = np.percentile(np.abs(np.diff(arrivals) - link.period), 99)
    return (
        f"{sets / seconds:.0f} sets per second, {missed} incomplete, p99 of the jitter {1e3 * jitter:.2f} ms"
    )


def _motion(args: argparse.Namespace, link: BusHand, hand: HandModel) -> str:
    from dexstack.hand.allegro.protocol import JOINTS
    from dexstack.hand.commissioning import check_at_rest, commission, save_commissioning

    joints = range(JOINTS) if args.all else (JOINT,)
    which = "every joint, one after the other," if args.all else hand.joint_names[JOINT]
    if not agreed(
        args,
        f"The servo goes on and {which} moves by 3°. Is the hand empty, open, free to move and out of reach?",
    ):
        raise Broken("not allowed to move", "use --yes, or --no-motion to leave it out")
    link.start()
    feedback = link.read(0.1)
    if feedback is None:
        raise Broken("no joint angles", "dexstack diagnose hand --no-motion")
    check_at_rest(feedback, hand, link.rad_per_count)
    results = commission(
        link,
        hand,
        joints,
        lambda j: note(f"now {hand.joint_names[j]} moves; if another joint does: Ctrl-C"),
        args.gravity,
    )
    link.servo_off()
    largest, others = max(r.largest_torque for r in results), max(r.others for r in results)
    moved = f"{len(results)} of {JOINTS} joints moved as they should"
    found = f"{moved}, at most {largest:.2f} N·m; others within {math.degrees(others):.1f}°"
    if not args.all:
        return found
    today = f"{datetime.now():%Y-%m-%d %H:%M}"
    path = save_commissioning(
        args.calibration_dir, link.serial, results, measured=today, hardware=args.hardware
    )
    return f"{found}; kept in {path}"
