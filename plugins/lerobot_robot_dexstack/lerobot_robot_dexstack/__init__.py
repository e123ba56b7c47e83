"""The hands of dexstack as robots of LeRobot, ``--robot.type=dexstack``."""

from lerobot_robot_dexstack.hand import Dexstack, DexstackConfig

__all__ = ["Dexstack", "DexstackConfig"]
