"""A hand of dexstack behind LeRobot's interface of robots."""

from dataclasses import dataclass, field
from typing import Any

from lerobot.cameras import CameraConfig, make_cameras_from_configs
from lerobot.robots import Robot, RobotConfig

from dexstack.config import read_parameter_file
from dexstack.hand.link import HandFault
from dexstack.hand.session import HandSession

POSITION = ".pos"
"""Suffix of a joint's position or target."""


@RobotConfig.register_subclass("dexstack")
@dataclass(kw_only=True)
class DexstackConfig(RobotConfig):
    """A hand and its cameras."""

    hand: str = "right"
    """Name, or path of a hand's YAML."""
    interface: str = "emulated"
    """``emulated``: a hand without object, simulated in a process of its own; ``auto``: the usual one of a
    real hand; or its name, e.g. ``socketcan``, ``serial``."""
    channel: str = ""
    """E.g. ``can0``, ``/dev/ttyUSB0``; empty: the interface's first."""
    params: str = ""
    """ROS 2 parameter file; the hand takes those of the node ``hand``."""
    cameras: dict[str, CameraConfig] = field(default_factory=dict)


class Dexstack(Robot):
    """A hand that takes joint targets and returns joint positions [rad], and pictures.

    A real hand must have been commissioned (``dexstack diagnose hand --all``), and moves only after a
    person has agreed on the terminal, at every :meth:`connect`.
    """

    config_class = DexstackConfig
    name = "dexstack"

    def __init__(self, config: DexstackConfig) -> None:
        """
        Raises:
            ConfigError: an unknown hand, interface or parameter.
        """
        super().__init__(config)
        self.config = config
        values = read_parameter_file(config.params, "hand") if config.params else {}
        own = {"hand": config.hand, "interface": config.interface, "channel": config.channel}
        self._session = HandSession({**values, **own})
        self._keys = [f"{joint}{POSITION}" for joint in self._session.model.joint_names]
        self.cameras = make_cameras_from_configs(config.cameras)

    @property
    def observation_features(self) -> dict[str, Any]:
        """Joint positions, and the shapes (height, width, 3) of the pictures."""
        pictures = {name: (c.height, c.width, 3) for name, c in self.config.cameras.items()}
        return {**self.action_features, **pictures}

    @property
    def action_features(self) -> dict[str, Any]:
        """Joint targets."""
        return dict.fromkeys(self._keys, float)

    @property
    def is_connected(self) -> bool:
        """True between :meth:`connect` and :meth:`disconnect`."""
        return self._session.is_open

    @property
    def is_calibrated(self) -> bool:
        """True: ``dexstack calibrate hand`` keeps the zero offsets by serial number."""
        return True

    def connect(self, calibrate: bool = True) -> None:
        """Find the hand, ask for consent, enable it, and open the cameras.

        Raises:
            ConnectionError: the hand cannot be driven, or consent was not given.
            ConfigError: a missing extra, or a real hand that was not commissioned.
        """
        try:
            self._session.open()
        except HandFault as fault:
            raise ConnectionError(fault.advice) from None
        try:
            for camera in self.cameras.values():
                camera.connect()
        except BaseException:
            self.disconnect()
            raise
        self.configure()

    def calibrate(self) -> None:
        """Do nothing; see :attr:`is_calibrated`."""

    def configure(self) -> None:
        """Do nothing; parameters are given before the hand is found."""

    def get_observation(self) -> dict[str, Any]:
        """Return the newest joint positions [rad] and pictures.

        Raises:
            ConnectionError: the hand is not driven.
        """
        try:
            q = self._session.q()
        except HandFault as fault:
            raise ConnectionError(fault.advice) from None
        pictures = {name: camera.read_latest() for name, camera in self.cameras.items()}
        return {**dict(zip(self._keys, q.tolist(), strict=True)), **pictures}

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Send joint targets [rad]; those outside the limits are clipped.

        Returns:
            The targets that were sent, the last ones if an action is not finite.

        Raises:
            ConnectionError: the hand is not driven.
            KeyError: a joint has no target.
        """
        try:
            sent = self._session.send([float(action[key]) for key in self._keys])
        except HandFault as fault:
            raise ConnectionError(fault.advice) from None
        return dict(zip(self._keys, sent.tolist(), strict=True))

    def disconnect(self) -> None:
        """Leave the hand limp and close the cameras."""
        self._session.close()
        for camera in self.cameras.values():
            if camera.is_connected:
                camera.disconnect()
