"""Captures of an Allegro hand's bus, in the log format of candump (``candump -L``)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import can
from can.io import CanutilsLogReader, CanutilsLogWriter

from dexstack.errors import ConfigError
from dexstack.hand.allegro import protocol
from dexstack.hand.allegro.bus import CanBus, Computer
from dexstack.hand.allegro.protocol import REQUESTS, Frame

ANSWER = 0.1
"""Time for the answers to one request [s]."""


class Captured(NamedTuple):
    """A frame on the bus."""

    t: float
    """System time [s]."""
    frame: Frame


def capture(
    bus: CanBus, computer: Computer, device: int = 0, stream: float = 0.0, params: tuple[int, int] = (3, 200)
) -> list[Captured]:
    """Send every request of :data:`REQUESTS` and record all frames.

    The servo is never switched on. Only a stream changes a setting of the hand: the periods of its
    messages, which are set to zero afterwards.

    Args:
        bus: an open bus.
        computer: its clocks.
        device: number of the hand on the bus.
        stream: how long the hand sends joint angles and temperatures by itself [s]; 0: not at all.
        params: their periods [ms].
    """
    heard: list[Captured] = []

    def listen(seconds: float) -> None:
        end = computer.monotonic() + seconds
        while (left := end - computer.monotonic()) > 0.0:
            if (received := bus.receive(left)) is not None:
                heard.append(Captured(received[1], received[0]))

    def say(frame: Frame) -> None:
        heard.append(Captured(computer.system(), frame))
        bus.send(frame)

    for command in REQUESTS:
        say(protocol.request(command, device))
        listen(ANSWER)
    if stream > 0.0:
        try:
            say(protocol.set_period(params[0], 0, params[1], device))
            listen(stream)
        finally:
            say(protocol.set_period(0, 0, 0, device))
    return heard


def write_capture(path: Path, frames: Iterable[Captured], channel: str) -> None:
    """Write a capture; raises ConfigError if the file cannot be written."""
    try:
        with CanutilsLogWriter(path, channel) as log:
            for t, frame in frames:
                log.on_message_received(
                    can.Message(
                        timestamp=t,
                        arbitration_id=frame.id,
                        data=frame.data,
                        is_remote_frame=frame.remote,
                        is_extended_id=False,
                    )
                )
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None


def read_capture(path: Path) -> list[Captured]:
    """Read a capture; raises ConfigError if the file is missing or not in candump's format."""
    try:
        return [
            Captured(m.timestamp, Frame(m.arbitration_id, bytes(m.data), m.is_remote_frame))
            for m in CanutilsLogReader(path)
        ]
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, IndexError) as error:
        raise ConfigError(f"{path} is not a log of candump: {error}") from None


def contents(frames: Iterable[Captured]) -> dict[int, list[bytes]]:
    """Return the contents of data frames from the hand by identifier, in their order."""
    found: dict[int, list[bytes]] = {}
    commands = (protocol.Command.SERVO_ON, protocol.Command.SERVO_OFF, protocol.Command.PERIOD)
    for _, frame in frames:
        if not frame.remote and protocol.split_id(frame.id)[0] not in commands:
            found.setdefault(frame.id, []).append(frame.data)
    return found
