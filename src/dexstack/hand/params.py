"""Parameters of a hand on a bus and of an emulated one, without a dependency on python-can."""

from __future__ import annotations

import os
from dataclasses import dataclass

from dexstack.config import param
from dexstack.errors import ConfigError, check_names
from dexstack.hand.allegro.protocol import FINGERS, JOINTS
from dexstack.model import HAND_NAMES
from dexstack.model.mount import GravityParams

CAN_INTERFACES = ("socketcan", "pcan", "udp_multicast", "virtual")
SERIAL_INTERFACES = ("serial", "pty")
INTERFACES = (*CAN_INTERFACES, *SERIAL_INTERFACES)
CONSENTS = ("", "person", "mode")
GROUP = "239.74.163.2"
FIRST_PORT = 6100
"""The bus of ROS domain d has this port + d, below Linux' ephemeral ports; it belongs to one graph,
like the domain."""


@dataclass(frozen=True)
class HandParams(GravityParams):
    """Parameters of the hand node except those of the servo and of the bus."""

    hand: str = param("right", f"which hand: {HAND_NAMES}")
    applied_command_every: int = param(3, "publish hand/applied_command at every n-th feedback", 1, 1000)
    consent: str = param(
        "",
        "consent to move: person (service enable), mode (start of the graph); empty: person on "
        "hardware, else mode",
    )
    command_owners: str = param(
        "teleop trajectory mpc",
        "node names that may take joint_command from each other, highest priority first; others have "
        "the lowest",
    )
    vendor_names: bool = param(
        False,
        "publish vendor/joint_states too, and take joint_command also under the names of the vendor's "
        "driver, ah_joint00 … ah_joint33 (Allegro)",
    )
    hold_time: float = param(60.0, "how long the hand holds after success [s]", 1.0, 3600.0)
    hold_temperature: int = param(60, "temperature of a sensor that ends holding [°C]", 20, 100)
    state_dir: str = param("", "folder of the hands' states, in memory; empty: /dev/shm/dexstack-UID")

    def __post_init__(self) -> None:
        check_names("consent", [self.consent], CONSENTS)


@dataclass(frozen=True)
class BusParams:
    """The bus of the hand."""

    interface: str = param(
        "",
        "socketcan, pcan, udp_multicast, virtual (CAN); serial, pty (serial line); empty: no bus, "
        "the hand is a topic",
    )
    channel: str = param(
        "",
        "e.g. can0, PCAN_USBBUS1, 239.74.163.2:6100, /dev/ttyUSB0; empty: the interface's first channel",
    )
    device: int = param(0, "device number of the hand on its bus", 0, 3)

    def __post_init__(self) -> None:
        check_names("interface", filter(None, [self.interface]), INTERFACES)

    @property
    def exclusive(self) -> bool:
        """True if only one process at a time can open the channel."""
        return self.interface == "pcan"

    @property
    def hardware(self) -> bool:
        """True if a hand on it may be a real one."""
        return self.interface in ("socketcan", "pcan", "serial")

    @property
    def where(self) -> str:
        """The channel, with its default."""
        if self.channel:
            return self.channel
        domain = os.environ.get("ROS_DOMAIN_ID", "0")
        number = int(domain) if domain.isdigit() else 0
        first = {
            "socketcan": "can0",
            "pcan": "PCAN_USBBUS1",
            "udp_multicast": f"{GROUP}:{FIRST_PORT + number}",
            "serial": "/dev/ttyUSB0",
            "pty": f"/tmp/dexstack-{os.getuid()}-leap-{number}",
        }
        return first.get(self.interface, "dexstack")

    def __str__(self) -> str:
        return f"{self.interface} {self.where}"


def needs_person(hand: HandParams, bus: BusParams) -> bool:
    """Return whether only a person may enable the hand.

    Raises:
        ConfigError: it can injure, and ``consent`` says otherwise.
    """
    if bus.hardware and hand.consent == "mode":
        raise ConfigError(f"a hand on {bus.interface} can injure: only a person may enable it (consent)")
    return bus.hardware or hand.consent == "person"


@dataclass(frozen=True)
class CanHandParams:
    """Driver of a hand on a bus; a LEAP hand uses those of time, temperature, priority and
    files."""

    hardware: str = param("V4", "generation of the hand: V3, V4 or V5")
    can_period: int = param(3, "time between two sets of joint angles [ms]", 1, 100)
    feedback_timeout: float = param(
        0.05, "servo off when no complete set of finger frames came for this long [s]", 0.01, 1.0
    )
    status_period: float = param(0.04, "time between two requests for the hand's status [s]", 0.01, 0.09)
    answer_timeout: float = param(
        0.03, "servo off when three answers in a row come later than this [s]", 0.005, 1.0
    )
    lost_share: float = param(
        0.5,
        "servo off when more than this share of the sets of angles in half a second was incomplete",
        0.01,
        1.0,
    )
    temperature_limit: int = param(
        70, "servo off when a sensor of the hand is hotter than this [°C]", 20, 100
    )
    temperature_period: int = param(
        200, "time between two messages of the hand about its temperatures [ms]; 0: none", 0, 10_000
    )
    status_faults: int = param(
        0x0A,
        "status bits that switch the servo off. Sources disagree: bit 2 is a temperature throttle or "
        "a communication "
        "fault and is set on hands in order; bit 3 is a communication fault, bit 4 over-temperature "
        "of the palm",
        0,
        254,
    )
    status_warnings: int = param(0x14, "status bits that are reported as warnings", 0, 254)
    guard: bool = param(True, "require a guard process that switches the servo off when this one dies")
    guard_timeout: float = param(0.05, "the guard acts when this process hangs for this long [s]", 0.02, 1.0)
    realtime_priority: int = param(40, "SCHED_FIFO priority of the process, where permitted; 0: none", 0, 90)
    calibration_dir: str = param(
        "", "folder of zero offsets by serial number; empty: $XDG_CONFIG_HOME/dexstack/hands"
    )


@dataclass(frozen=True)
class MotorParams:
    """The motors of a hand on a serial line (LEAP)."""

    motor: str = param("XC330-M288", "the hand's motors: XC330-M288, or XL330-M288 of the light version")
    baud_rate: int = param(4_000_000, "of the line and of every motor [bit/s]", 57_600, 4_000_000)
    motor_period: float = param(0.003, "time between two requests for all joint angles [s]", 0.001, 0.1)
    motor_timeout: float = param(
        0.012, "servo off when three sets of joint angles in a row took longer than this [s]", 0.002, 1.0
    )
    bus_watchdog: float = param(
        0.1, "the motors stop by themselves after this long without a packet [s]", 0.02, 2.54
    )
    current_limit: float = param(
        0.0,
        "largest current of a motor [A]; 0: the advice of the hand's makers, which is also the maximum",
        0.0,
        2.0,
    )
    lowest_supply: float = param(4.5, "servo off when a motor gets less than this [V]", 3.7, 6.0)
    highest_supply: float = param(6.0, "servo off when a motor gets more than this [V]", 3.7, 7.0)


@dataclass(frozen=True)
class MotorFaultParams:
    """Faults of the motors of an emulated hand on a serial line, in addition to
    :class:`FaultParams`; may change at any time."""

    missing_motor: int = param(-1, "joint whose motor does not answer; -1: none", -1, JOINTS - 1)
    wrong_model: int = param(-1, "joint whose motor is of another model; -1: none", -1, JOINTS - 1)
    reversed_motor: int = param(
        -1, "joint whose motor turns the other way (drive mode); -1: none", -1, JOINTS - 1
    )
    swapped_motors: tuple[int, ...] = param(
        (-1, -1), "two joints whose motors have each other's number; -1 -1: none", -1, JOINTS - 1
    )
    failing_motor: int = param(-1, "joint whose motor reports motor_error; -1: none", -1, JOINTS - 1)
    motor_error: int = param(
        0x20, "its error bits: 1 supply, 4 heat, 8 encoder, 16 shock, 32 overload", 0, 255
    )
    motor_celsius: int = param(40, "temperature of all motors [°C]", 0, 255)
    supply: float = param(5.0, "voltage of the supply [V]", 0.0, 25.0)
    corrupt: float = param(0.0, "share of answers of which a bit is wrong", 0.0, 1.0)
    lost_bytes: float = param(0.0, "share of answers of which a byte is missing", 0.0, 1.0)


@dataclass(frozen=True)
class EmulatedHandParams:
    """Identity of the emulated hand."""

    emulated_hardware: str = param("V4", "generation of the emulated hand: V3, V4 or V5")
    emulated_serial: str = param("EMU00001", "its serial number, up to 8 characters")
    zero_offsets: tuple[float, ...] = param(
        (0.0,) * JOINTS, "readings of its encoders at joint angle zero [rad]", -0.5, 0.5
    )
    emulator_priority: int = param(
        30, "SCHED_FIFO priority of the emulator's process, where permitted; 0: none", 0, 90
    )


@dataclass(frozen=True)
class FaultParams:
    """Faults of the emulated hand; may change at any time."""

    latency: float = param(0.0, "delay of every frame it sends [s]", 0.0, 1.0)
    jitter: float = param(0.0, "random further delay of every frame, up to this [s]", 0.0, 1.0)
    loss: float = param(0.0, "share of frames that get lost, in both directions", 0.0, 1.0)
    silent: bool = param(False, "it sends no joint angles")
    silent_finger: int = param(-1, "finger whose joint angles get lost; -1: none", -1, FINGERS - 1)
    over_temperature: bool = param(False, "it reports over-temperature")
    communication_fault: bool = param(False, "it reports an internal communication fault")
    silent_status: bool = param(False, "it never answers requests for its information, as some firmware")
    overloaded_motor: int = param(-1, "motor that reports an overload; a V5 can; -1: none", -1, JOINTS - 1)
    bus_off: bool = param(False, "the driver's CAN controller is off the bus: no frames in either direction")
    refuses_servo: bool = param(False, "its servo goes off and does not come on: the supply is too weak")
    motor_gain: tuple[float, ...] = param(
        (1.0,) * JOINTS, "torque of each motor as a share of the command: -1 inverted, 0 dead", -4.0, 4.0
    )
    encoder_gain: tuple[float, ...] = param(
        (1.0,) * JOINTS, "reading of each encoder as a share of the angle: -1 inverted", -4.0, 4.0
    )
    motor_order: tuple[int, ...] = param(
        (0, 1, 2, 3), "finger whose motors each finger's torques reach", 0, FINGERS - 1
    )
    encoder_order: tuple[int, ...] = param(
        (0, 1, 2, 3), "finger whose angles each finger's frames carry", 0, FINGERS - 1
    )
    frozen_joint: int = param(-1, "joint whose encoder is frozen; -1: none", -1, JOINTS - 1)
    encoder_noise: float = param(0.0, "standard deviation of each encoder [rad]", 0.0, 0.1)
    leap_joint: int = param(-1, "joint whose encoder has leapt by encoder_leap; -1: none", -1, JOINTS - 1)
    encoder_leap: float = param(0.5, "size of that leap [rad]", -3.2, 3.2)
    swapped_angle_bytes: bool = param(False, "the bytes of its angles come in the wrong order")
    swapped_torque_bytes: bool = param(False, "it reads the bytes of torques in the wrong order")
    celsius: tuple[int, ...] = param(
        (40, 41, 42, 43), "temperature that the sensors of each finger report [°C]", -128, 127
    )
    further_status: int = param(0, "further bits that are set in its status byte", 0, 254)
    silent_while_off: bool = param(
        False, "it sends joint angles by itself only while its servo is on; otherwise on request"
    )
