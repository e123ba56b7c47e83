"""Which link the hands of a family have: how a real one is reached, what emulates one, in real and
in simulated time.

:data:`WIRINGS` is the only place that says so; another kind of hand is another entry. Libraries of
one kind (python-can, dynamixel-sdk) are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dexstack.errors import ConfigError
from dexstack.hand.link import BusLink
from dexstack.hand.params import (
    CAN_INTERFACES,
    SERIAL_INTERFACES,
    BusParams,
    CanHandParams,
    EmulatedHandParams,
    FaultParams,
    MotorFaultParams,
    MotorParams,
)
from dexstack.hand.watch import UNWATCHED, WatchParams
from dexstack.model.hand import HandModel

AUTO = "auto"
"""The interface by which hands of the family are usually reached."""
EMULATED = "emulated"


@dataclass(frozen=True)
class Settings:
    """How to drive a hand, whatever it is."""

    can: CanHandParams = field(default_factory=CanHandParams)
    motors: MotorParams = field(default_factory=MotorParams)


@dataclass(frozen=True)
class Emulation:
    """What an emulated hand is, and what is wrong with it."""

    params: EmulatedHandParams = field(default_factory=EmulatedHandParams)
    motors: MotorParams = field(default_factory=MotorParams)
    faults: tuple[FaultParams | MotorFaultParams, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Wiring:
    """How hands of one family are reached."""

    interfaces: tuple[str, ...]
    """Of :class:`BusParams`; the first is a real hand's."""
    emulated: str
    """The one on which an emulated hand is in real time."""
    link: Callable[[HandModel, BusParams, Settings], BusLink]
    """Raises ConfigError."""
    firmware: Callable[[HandModel, BusParams, Emulation], Any]
    """An emulated hand without input or output."""
    loop: Callable[[Any, BusParams], Any]
    """Connects a firmware to its bus in real time, with ``run_until``, ``inject`` and ``close``.
    Raises ConfigError."""
    simulated: Callable[[HandModel, BusParams, Settings, Sequence[str]], BusLink]
    """A driver's link to an emulated hand in simulated time; the arguments are those of the
    emulator's program. Raises ConfigError."""
    frozen_ticks: int = 0
    """Least :attr:`WatchParams.frozen_ticks`. A LEAP hand's encoders say the same for as long as an
    object blocks a joint, since a count is 1.5 mrad; its motors report a broken encoder
    themselves."""

    def watch(self, params: WatchParams) -> WatchParams:
        """Limits of the watch over the joints of a hand on a bus."""
        return replace(params, frozen_ticks=max(params.frozen_ticks, self.frozen_ticks))


def _can_link(hand: HandModel, bus: BusParams, settings: Settings) -> BusLink:
    from dexstack.hand.allegro.can_hand import CanHand

    return CanHand(hand.side, bus, settings.can)


def _can_firmware(hand: HandModel, bus: BusParams, emulation: Emulation) -> Any:
    from dexstack.hand.emulated.allegro import EmulatedHand

    return EmulatedHand(hand.side, emulation.params, bus.device, emulation.seed)


def _can_loop(firmware: Any, bus: BusParams) -> Any:
    from dexstack.hand.allegro.bus import BusError, CanBus
    from dexstack.hand.emulated.allegro import EmulatorLoop

    try:
        return EmulatorLoop(firmware, CanBus(bus))
    except BusError as error:
        raise ConfigError(f"{error}; to mend: {error.mend}") from None


def _can_simulated(hand: HandModel, bus: BusParams, settings: Settings, arguments: Sequence[str]) -> BusLink:
    from dexstack.hand.allegro.can_hand import CanHand
    from dexstack.hand.emulated.allegro import from_arguments
    from dexstack.hand.emulated.lockstep import LockstepComputer

    firmware, plant, _ = from_arguments(["--plant", "standing", "--device", str(bus.device), *arguments])
    return CanHand(
        hand.side, BusParams("virtual", EMULATED, bus.device), settings.can, LockstepComputer(firmware, plant)
    )


def _leap_link(hand: HandModel, bus: BusParams, settings: Settings) -> BusLink:
    from dexstack.hand.leap.dynamixel_hand import LeapHand

    return LeapHand(hand, bus, settings.can, settings.motors)


def _leap_firmware(hand: HandModel, bus: BusParams, emulation: Emulation) -> Any:
    from dexstack.hand.emulated.leap import EmulatedMotors

    return EmulatedMotors(emulation.motors, emulation.params, emulation.seed)


def _leap_loop(firmware: Any, bus: BusParams) -> Any:
    from dexstack.hand.emulated.leap import PtyLoop

    return PtyLoop(firmware, bus.where)


def _leap_simulated(hand: HandModel, bus: BusParams, settings: Settings, arguments: Sequence[str]) -> BusLink:
    from dexstack.hand.emulated.leap import SimulatedLine, from_arguments
    from dexstack.hand.leap.dynamixel_hand import LeapHand

    firmware, plant, _ = from_arguments(["--plant", "standing", "--hand", hand.name, *arguments])
    return LeapHand(
        hand, BusParams("pty", EMULATED), settings.can, settings.motors, SimulatedLine(firmware, plant).open
    )


WIRINGS = {
    "allegro": Wiring(CAN_INTERFACES, "udp_multicast", _can_link, _can_firmware, _can_loop, _can_simulated),
    "leap": Wiring(
        SERIAL_INTERFACES, "pty", _leap_link, _leap_firmware, _leap_loop, _leap_simulated, UNWATCHED
    ),
}
"""By family."""


def wiring_of(hand: HandModel) -> Wiring:
    """How this hand is reached.

    Raises:
        ConfigError: no driver knows its family.
    """
    if hand.family not in WIRINGS:
        raise ConfigError(
            f"the hand '{hand.name}' is simulated only: drivers know hands of the families {', '.join(WIRINGS)}"
        )
    return WIRINGS[hand.family]


def interface_of(hand: HandModel, interface: str) -> str:
    """The interface by that name, which may be :data:`AUTO`.

    Raises:
        ConfigError: the hand cannot be reached by it.
    """
    wiring = wiring_of(hand)
    if interface == AUTO:
        return wiring.interfaces[0]
    if interface not in wiring.interfaces:
        raise ConfigError(
            f"the hand '{hand.name}' is not reached by {interface}: its interfaces are {', '.join(wiring.interfaces)}"
        )
    return interface


def link_to(hand: HandModel, bus: BusParams, settings: Settings) -> BusLink:
    """The link of a driver to a hand on a bus.

    Raises:
        ConfigError: there is none on this bus, an extra is missing, or the settings cannot be used.
    """
    interface_of(hand, bus.interface)
    try:
        return wiring_of(hand).link(hand, bus, settings)
    except ImportError as error:
        raise _missing(error) from None


def simulated_link(hand: HandModel, bus: BusParams, settings: Settings, arguments: Sequence[str]) -> BusLink:
    """The link to an emulated hand in simulated time; see :attr:`Wiring.simulated`.

    Raises:
        ConfigError: no driver knows the hand, an extra is missing, or the arguments cannot be used.
    """
    try:
        return wiring_of(hand).simulated(hand, bus, settings, arguments)
    except ImportError as error:
        raise _missing(error) from None


def _missing(error: ImportError) -> ConfigError:
    return ConfigError(
        f"{error}; install the extra: pip install 'dexstack[hardware]' (a LEAP hand's is 'dexstack[leap]')"
    )
