"""Links to the hands of each family: a real one, and an emulated one in real and simulated time.

Another kind of hand is another entry of :data:`WIRINGS`. Libraries of one kind (python-can,
dynamixel-sdk) are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dexstack.errors import ConfigError
from dexstack.hand.bus_hand import BusHand
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
"""The usual interface of the family."""
EMULATED = "emulated"


@dataclass(frozen=True)
class Settings:
    """Parameters of the drivers of all families."""

    can: CanHandParams = field(default_factory=CanHandParams)
    motors: MotorParams = field(default_factory=MotorParams)


@dataclass(frozen=True)
class Emulation:
    """Identity and faults of an emulated hand."""

    params: EmulatedHandParams = field(default_factory=EmulatedHandParams)
    motors: MotorParams = field(default_factory=MotorParams)
    faults: tuple[FaultParams | MotorFaultParams, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Wiring:
    """Connections of the hands of one family."""

    interfaces: tuple[str, ...]
    """Interfaces of :class:`BusParams`; the first is the usual one of a real hand."""
    emulated: str
    """The interface of an emulated hand in real time."""
    link: Callable[[HandModel, BusParams, Settings], BusHand]
    """Raises ConfigError."""
    firmware: Callable[[HandModel, BusParams, Emulation], Any]
    """Makes an emulated hand without input or output."""
    loop: Callable[[Any, BusParams], Any]
    """Connects a firmware to its bus in real time, with ``run_until`` and ``close``. Raises
    ConfigError."""
    simulated: Callable[[HandModel, BusParams, Settings, Sequence[str]], BusHand]
    """Makes a link to an emulated hand in simulated time; the arguments are those of the emulator's
    program. Raises ConfigError."""
    frozen_ticks: int = 0
    """Lower bound of :attr:`WatchParams.frozen_ticks`. A LEAP hand's encoders do not change while an
    object blocks a joint, since a count is 1.5 mrad; its motors report a broken encoder."""

    def watch(self, params: WatchParams) -> WatchParams:
        """Return the limits of the watch for a hand on a bus."""
        return replace(params, frozen_ticks=max(params.frozen_ticks, self.frozen_ticks))


def _can_link(hand: HandModel, bus: BusParams, settings: Settings) -> BusHand:
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
        raise ConfigError(error.fault().advice) from None


def _can_simulated(hand: HandModel, bus: BusParams, settings: Settings, arguments: Sequence[str]) -> BusHand:
    from dexstack.hand.allegro.can_hand import CanHand
    from dexstack.hand.emulated.allegro import from_arguments
    from dexstack.hand.emulated.lockstep import LockstepComputer

    firmware, plant, _ = from_arguments(["--plant", "hand", "--device", str(bus.device), *arguments])
    return CanHand(
        hand.side, BusParams("virtual", EMULATED, bus.device), settings.can, LockstepComputer(firmware, plant)
    )


def _leap_link(hand: HandModel, bus: BusParams, settings: Settings) -> BusHand:
    from dexstack.hand.leap.dynamixel_hand import LeapHand

    return LeapHand(hand, bus, settings.can, settings.motors)


def _leap_firmware(hand: HandModel, bus: BusParams, emulation: Emulation) -> Any:
    from dexstack.hand.emulated.dynamixel import EmulatedMotors

    return EmulatedMotors(emulation.motors, emulation.params, emulation.seed)


def _leap_loop(firmware: Any, bus: BusParams) -> Any:
    from dexstack.hand.emulated.leap import PtyLoop

    return PtyLoop(firmware, bus.where)


def _leap_simulated(hand: HandModel, bus: BusParams, settings: Settings, arguments: Sequence[str]) -> BusHand:
    from dexstack.hand.emulated.leap import SimulatedLine, from_arguments
    from dexstack.hand.leap.dynamixel_hand import LeapHand

    firmware, plant, _ = from_arguments(["--plant", "hand", "--hand", hand.name, *arguments])
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
    """Return how this hand is connected.

    Raises:
        ConfigError: there is no driver for its family.
    """
    if hand.family not in WIRINGS:
        raise ConfigError(
            f"the hand '{hand.name}' is simulated only: drivers know hands of the families "
            f"{', '.join(WIRINGS)}"
        )
    return WIRINGS[hand.family]


def interface_of(hand: HandModel, interface: str) -> str:
    """Return the interface of that name, which may be :data:`AUTO`.

    Raises:
        ConfigError: the hand does not have it.
    """
    wiring = wiring_of(hand)
    if interface == AUTO:
        return wiring.interfaces[0]
    if interface not in wiring.interfaces:
        raise ConfigError(
            f"the hand '{hand.name}' is not reached by {interface}: its interfaces are "
            f"{', '.join(wiring.interfaces)}"
        )
    return interface


def link_to(hand: HandModel, bus: BusParams, settings: Settings) -> BusHand:
    """Return the link to a hand on a bus.

    Raises:
        ConfigError: wrong interface, a missing extra, or invalid settings.
    """
    interface_of(hand, bus.interface)
    try:
        return wiring_of(hand).link(hand, bus, settings)
    except ImportError as error:
        raise _missing(error) from None


def simulated_link(hand: HandModel, bus: BusParams, settings: Settings, arguments: Sequence[str]) -> BusHand:
    """Return the link to an emulated hand in simulated time; see :attr:`Wiring.simulated`.

    Raises:
        ConfigError: no driver for the hand, a missing extra, or invalid arguments.
    """
    try:
        return wiring_of(hand).simulated(hand, bus, settings, arguments)
    except ImportError as error:
        raise _missing(error) from None


def _missing(error: ImportError) -> ConfigError:
    return ConfigError(f"{error}; install the extra: pip install 'dexstack[hardware]'")
