"""Registers of all motors of a LEAP hand, read and written through ``dynamixel-sdk``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dexstack.errors import ConfigError
from dexstack.hand.bus_hand import ATTEMPTS
from dexstack.hand.leap.line import Line, LineError
from dexstack.hand.leap.protocol import ALERT, MOTOR_IDS, Register

JOINTS = range(len(MOTOR_IDS))
START_PATIENCE = 0.05
"""Time for an answer at the start, longer than a badly configured adapter delays it [s]."""


class MotorBus:
    """The 16 motors, by joint.

    Args:
        patience: how long an answer may take beyond the time of its bytes [s].

    Raises:
        ConfigError: dynamixel-sdk is not installed.
    """

    line: Line
    """The open line."""

    def __init__(self, patience: float) -> None:
        try:
            from dynamixel_sdk import COMM_RX_TIMEOUT, COMM_SUCCESS, PacketHandler
        except ImportError as error:
            raise ConfigError(f"{error}; install the extra: pip install 'dexstack[hardware]'") from None
        self._sdk, self._success, self._timeout = PacketHandler(2.0), COMM_SUCCESS, COMM_RX_TIMEOUT
        self.patience = patience
        self.bad_packets = 0
        self.spoke = 0.0
        """When a packet was last sent [s]."""

    def send(self, register: Register, values: Mapping[int, bytes]) -> None:
        """Write a register by joint (sync write). Raises LineError."""
        parameters = [byte for j, data in values.items() for byte in (MOTOR_IDS[j], *data)]
        self.spoke = self.line.monotonic()
        self._check(
            self._sdk.syncWriteTxOnly(self.line, register.address, register.size, parameters, len(parameters))
        )

    def ask(
        self, register: Register, joints: Sequence[int] = JOINTS, patience: float | None = None
    ) -> tuple[dict[int, bytes], list[int]]:
        """Read a register by joint (sync read). Raises LineError.

        Returns:
            The content by joint, without motors that do not answer correctly, and the joints whose
            motors have an alert.
        """
        by_id = {MOTOR_IDS[j]: j for j in joints}
        self.line.patience = self.patience if patience is None else patience
        self.spoke = self.line.monotonic()
        self._check(
            self._sdk.syncReadTx(self.line, register.address, register.size, list(by_id), len(by_id), False)
        )
        found: dict[int, bytes] = {}
        alerts = []
        while len(found) < len(by_id):
            packet, result = self._sdk.rxPacket(self.line, False)
            if result == self._timeout or (result != self._success and self.line.isPacketTimeout()):
                break
            if result != self._success:
                self.bad_packets += 1
                continue
            joint, length = by_id.get(packet[4]), packet[5] | packet[6] << 8
            # between header, number, length, instruction and error on one side, the CRC on the other
            data = bytes(packet[9 : 5 + length])
            if joint is None or len(data) != register.size or packet[8] & ~ALERT:
                self.bad_packets += 1
                continue
            found[joint] = data
            if packet[8] & ALERT:
                alerts.append(joint)
        return found, alerts

    def ask_all(self, register: Register) -> dict[int, bytes]:
        """Read a register of all motors, up to ATTEMPTS times. Raises LineError."""
        found: dict[int, bytes] = {}
        for _ in range(ATTEMPTS):
            if missing := [j for j in JOINTS if j not in found]:
                found |= self.ask(register, missing, START_PATIENCE)[0]
        return found

    def reboot(self, joints: Sequence[int]) -> None:
        """Reboot motors, which answer no more for some tenths of a second; lost answers are no error.
        Raises LineError."""
        self.line.patience = START_PATIENCE
        for joint in joints:
            self.spoke = self.line.monotonic()
            self._sdk.reboot(self.line, MOTOR_IDS[joint])

    def _check(self, result: int) -> None:
        if result != self._success:
            text = f"{self.line.where} takes no packets: {self._sdk.getTxRxResult(result)}"
            raise LineError(text, "is the adapter plugged in?")
