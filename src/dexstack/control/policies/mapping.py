"""The file that says how a policy is connected: observations, history, actions, rate, joints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import yaml

from dexstack.config import make_params, param, read_yaml_file
from dexstack.control.policies.features import DEFAULT, FEATURES
from dexstack.errors import ConfigError, check_names
from dexstack.files import write_text
from dexstack.geometry.rotations import quaternion_product, rotate

TARGET, DISPLACEMENT, NORMALISED = "target", "displacement", "normalised"
ACTIONS = {
    TARGET: "joint target = scale · action [rad, m]",
    DISPLACEMENT: "joint target = last target + scale · action [rad, m]",
    NORMALISED: "joint target = the limits at actions of −1 and 1",
}
"""Kinds of action."""


@dataclass(frozen=True)
class PolicyMapping:
    """Connection of a policy to the hand; every field is an entry of the YAML file."""

    joints: tuple[str, ...] = param(
        (), "joints in the policy's order, for observations and actions; empty: the hand's"
    )
    rate: float = param(20.0, "actions a second [Hz]", 0.1, 1000.0)
    observations: tuple[str, ...] = param(
        (), "features of one moment; empty: the usual ones", choices=FEATURES
    )
    history: int = param(1, "moments in one observation, the oldest first", 1, 1000)
    mean: tuple[float, ...] = param((), "subtracted from the observation of one moment; empty: 0")
    std: tuple[float, ...] = param((), "divides the observation of one moment; empty: 1", 1e-9, 1e9)
    clip: float = param(0.0, "largest absolute value of an observation after scaling; 0: any", 0.0, 1e9)
    phase_period: float = param(1.0, "period of the feature 'phase' [s]", 1e-3, 1e6)
    world: tuple[float, ...] = param(
        (), "pose of this world in the policy's: position [m], quaternion wxyz; empty: the same", -1e3, 1e3
    )
    lower: tuple[float, ...] = param(
        (), "the policy's lower joint limits [rad, m]; empty: the hand's", -1e3, 1e3
    )
    upper: tuple[float, ...] = param(
        (), "the policy's upper joint limits [rad, m]; empty: the hand's", -1e3, 1e3
    )
    action: str = param(TARGET, "kind of action", choices=ACTIONS)
    action_limit: float = param(0.0, "largest absolute value of an action; 0: any", 0.0, 1e9)
    scale: float = param(1.0, "factor on actions, unless normalised [rad, m]", 1e-6, 1e6)
    smoothing: float = param(0.0, "share of the last target in the next", 0.0, 1.0)
    kp: float = param(
        0.0, "proportional gain in the policy's simulator, for identify [N·m/rad]; 0: unknown", 0.0, 1e3
    )
    kd: float = param(0.0, "derivative gain there [N·m·s/rad]", 0.0, 1e3)
    joint_damping: float = param(0.0, "joints' damping there [N·m·s/rad]; 0: the hand model's", 0.0, 1e3)

    def __post_init__(self) -> None:
        if len(self.world) not in (0, 7):
            raise ConfigError(f"'world' must have 7 numbers, got {len(self.world)}")
        if self.world and abs(np.linalg.norm(self.world[3:]) - 1.0) > 1e-3:
            raise ConfigError("the quaternion of 'world' must be of unit length")

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features of one moment."""
        return self.observations or DEFAULT

    def limits(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the joint limits (N,) that the policy knows; those of the hand are ``lower`` and
        ``upper`` (N,). All are in the policy's order [rad, m].

        Raises:
            ConfigError: they are not N, or not in order.
        """
        own = []
        for name, given, hand in (("lower", self.lower, lower), ("upper", self.upper, upper)):
            if given and len(given) != len(hand):
                raise ConfigError(f"'{name}' has {len(given)} numbers, the hand {len(hand)} joints")
            own.append(np.array(given or hand, float))
        if not np.less(*own).all():
            raise ConfigError(f"'lower' is not below 'upper' for joint {int(np.argmin(np.less(*own)))}")
        return own[0], own[1]

    def pose(self, pose_WO: np.ndarray) -> np.ndarray:
        """Return a pose (7,) in the policy's world."""
        if not self.world:
            return pose_WO
        world = np.array(self.world)
        p = world[:3] + rotate(world[3:], pose_WO[:3])
        return np.concatenate([p, quaternion_product(world[3:], pose_WO[3:])])

    def order(self, joint_names: Sequence[str]) -> np.ndarray:
        """Return the index (N,) into the robot's joints of each of the policy's.

        Raises:
            ConfigError: the joints are not those of the robot.
        """
        if not self.joints:
            return np.arange(len(joint_names))
        check_names("joint of the policy", self.joints, joint_names)
        if lacking := [name for name in joint_names if self.joints.count(name) != 1]:
            raise ConfigError(f"the policy's joints must name '{lacking[0]}' once")
        return np.array([list(joint_names).index(name) for name in self.joints])

    def scaled(self, observation: np.ndarray) -> np.ndarray:
        """Return the observation (history · D,) normalised and clipped, as float32.

        Raises:
            ConfigError: ``mean`` or ``std`` has another length than one moment.
        """
        rows = observation.reshape(self.history, -1)
        for name in ("mean", "std"):
            given = getattr(self, name)
            if given and len(given) != rows.shape[1]:
                raise ConfigError(f"'{name}' has {len(given)} numbers, an observation {rows.shape[1]}")
        rows = (rows - np.array(self.mean or 0.0)) / np.array(self.std or 1.0)
        rows = np.clip(rows, -self.clip, self.clip) if self.clip else rows
        return rows.ravel().astype(np.float32)

    def target(
        self, action: np.ndarray, last: np.ndarray, lower: np.ndarray, upper: np.ndarray
    ) -> np.ndarray:
        """Return the joint target (N,) [rad, m] of an action (N,), inside the limits; all in one
        order of joints. ``smoothing`` draws it towards ``last``.

        Args:
            last: target in force (N,).
        """
        if self.action_limit:
            action = np.clip(action, -self.action_limit, self.action_limit)
        if self.action == NORMALISED:
            target = lower + 0.5 * (action + 1.0) * (upper - lower)
        else:
            target = self.scale * action + (last if self.action == DISPLACEMENT else 0.0)
        if self.smoothing:
            target = self.smoothing * last + (1.0 - self.smoothing) * target
        return np.clip(target, lower, upper)


def read_mapping(path: Path) -> PolicyMapping:
    """Read a mapping.

    Raises:
        ConfigError: a missing or malformed file, or an unknown or invalid entry.
    """
    document = read_yaml_file(path)
    if not isinstance(document, Mapping):
        raise ConfigError(f"{path} must be a mapping of {', '.join(f.name for f in fields(PolicyMapping))}")
    try:
        return make_params(PolicyMapping, document)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def write_mapping(path: str | Path, mapping: PolicyMapping) -> None:
    """Write a mapping, as :func:`read_mapping` reads it.

    Raises:
        ConfigError: the file cannot be written.
    """
    plain = lambda x: x.item() if isinstance(x, np.generic) else x  # noqa: E731
    document = {n: [plain(x) for x in v] if isinstance(v, tuple) else v for n, v in asdict(mapping).items()}
    write_text(path, yaml.safe_dump(document, sort_keys=False))
