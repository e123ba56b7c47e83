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
    action: str = param(TARGET, "kind of action", choices=ACTIONS)
    scale: float = param(1.0, "factor on actions, unless normalised [rad, m]", 1e-6, 1e6)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features of one moment."""
        return self.observations or DEFAULT

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
        order of joints.

        Args:
            last: target in force (N,).
        """
        if self.action == NORMALISED:
            target = lower + 0.5 * (action + 1.0) * (upper - lower)
        else:
            target = self.scale * action + (last if self.action == DISPLACEMENT else 0.0)
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
    document = {n: list(v) if isinstance(v, tuple) else v for n, v in asdict(mapping).items()}
    write_text(path, yaml.safe_dump(document, sort_keys=False))
