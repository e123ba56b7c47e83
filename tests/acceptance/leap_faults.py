"""Faults of the fault matrix that a LEAP hand has: those it shares with an Allegro hand, and those of its
motors.

Missing against an Allegro hand: a controller off the bus, since a serial line has none; bytes in the wrong
order and fingers on other connectors, since each motor has its number; a status byte, whose bits are those
of each motor here; a dead encoder, which the motors report themselves; and the guard process, since the
motors have a watchdog of their own. Two motors with each other's number, or two fingers, cannot be told
apart on the line: angles and torques are exchanged alike.
"""

from __future__ import annotations

from typing import Any

SHARED = (
    "joint angles stop",
    *(f"the angles of finger {f} stop" for f in range(4)),
    "the hand is switched off and on",
    "all frames are lost",
    "30 % of the frames are lost",
    "frames are 40 ms late",
    "frames are 60 ms late",
    "an encoder leaps by 0.5 rad",
    "an encoder leaps by -0.5 rad",
    "an encoder leaps by 0.12 rad",
    "all motors are inverted",
    "one motor is inverted",
    "one encoder is inverted",
)
"""Names in :data:`tests.acceptance.hand_faults.HAND_FAULTS`."""
MOTOR_FAULTS: dict[str, tuple[dict[str, Any], float]] = {
    "the supply is too weak for the torque": ({"supply": 4.2}, 0.1),
    "a motor is at 90 °C": ({"motor_celsius": 90}, 0.1),
    "a motor reports an overload": ({"failing_motor": 6}, 0.1),
    "a motor reports overheating": ({"failing_motor": 6, "motor_error": 4}, 0.1),
    "a motor does not answer": ({"missing_motor": 6}, 0.15),  # nor hear: its own watchdog stops it
    "a bit is wrong in 30 % of the answers": ({"corrupt": 0.3}, 1.5),
    "a byte is missing in 30 % of the answers": ({"lost_bytes": 0.3}, 1.5),
}
HARMLESS_MOTORS: dict[str, Any] = {
    "missing_motor": -1,
    "failing_motor": -1,
    "reversed_motor": -1,
    "motor_celsius": 40,
    "supply": 5.0,
    "corrupt": 0.0,
    "lost_bytes": 0.0,
}
"""The same for the motors of a LEAP hand."""
