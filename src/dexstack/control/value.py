"""A learned value function: the remaining time to the goal, from logged trials of one object in one
hand.

    V(x, q, g) = E[1 − exp(−t_goal / τ)],      1 if the object is dropped before

with t_goal until the orientation error is below :data:`REACHED`. A plan ends after a second, where the
task's cost depends only on the remaining error; V depends also on the fingers and the object's place
in the hand. It is the mean of a few small networks (JSON), fitted by ``python -m
experiments.orientation.fit_value``. Its only orientation input is the remaining turn: there are too few
trials to distinguish the sides of the object.

A name refers to ``values/NAME.json`` in the working directory, or else to a file of dexstack; anything
with a slash or ending in ``.json`` is a path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dexstack.errors import ConfigError
from dexstack.files import write_text
from dexstack.model.description import data_dir
from dexstack.model.kinematics import quaternion_matrix

if TYPE_CHECKING:
    from jax import Array

    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot

AUTO = "auto"
"""Name of the value of object and hand, if there is one."""
FOLDER = Path("values")
TIME = 4.0
"""τ, about the mean time to a goal [s]."""
REACHED = 0.4
"""Orientation error at which V counts a goal as reached, independent of the task [rad]."""
OF_POSE = 7
"""Number of features that do not depend on the joints."""
ERROR = 6
"""Index of the feature with the orientation error."""

Layers = Sequence[tuple[Any, Any]]
"""Weights (E, in, out) and offsets (E, 1, out) of each layer of E networks."""


def features(pose_WO: Any, q: Any, goal_WO: Any) -> Array:
    """Return the features (7 + N,) of a state: the object's position relative to its goal [m], the remaining
    turn as sine times axis, its angle [rad], and the joints.

    Args:
        pose_WO: (7,) of the object.
        q: (N,) [rad, m].
        goal_WO: (7,) goal pose.
    """
    pose_WO, q, goal_WO = jnp.asarray(pose_WO), jnp.asarray(q), jnp.asarray(goal_WO)
    left = quaternion_matrix(goal_WO[3:]) @ quaternion_matrix(pose_WO[3:]).T
    turn = jnp.array([left[2, 1] - left[1, 2], left[0, 2] - left[2, 0], left[1, 0] - left[0, 1]]) / 2.0
    error = jnp.arctan2(jnp.linalg.norm(turn), (jnp.trace(left) - 1.0) / 2.0)
    return jnp.concatenate([pose_WO[:3] - goal_WO[:3], turn, error[None], q])


def networks(layers: Layers, x: Any) -> Array:
    """Evaluate E networks at scaled features (S, F); return (E, S) in (0, 1)."""
    h = jnp.asarray(x)[None]
    for weights, offsets in layers[:-1]:
        h = jax.nn.swish(h @ weights + offsets)
    weights, offsets = layers[-1]
    return jax.nn.sigmoid(h @ weights + offsets)[..., 0]


@dataclass(frozen=True, eq=False)
class LearnedValue:
    """V of one object in one hand, compared by identity because JAX hashes it."""

    object: str
    hand: str
    mean: np.ndarray
    """(F,) mean of the training features."""
    scale: np.ndarray
    """(F,) standard deviation of the training features."""
    layers: Layers
    learned: Mapping[str, Any] = field(default_factory=dict)
    """Provenance and accuracy."""

    def __call__(self, pose_WO: Any, q: Any, goal_WO: Any) -> Array:
        """Return V () of a state, see :func:`features`; may be traced."""
        x = (features(pose_WO, q, goal_WO) - self.mean) / self.scale
        return jnp.mean(networks(self.layers, x[None]))


def _path(name: str) -> Path:
    if "/" in name or name.endswith(".json"):
        return Path(name)
    own = FOLDER / f"{name}.json"
    return own if own.is_file() else data_dir() / "values" / f"{name}.json"


def value_for(name: str, obj: ObjectModel, robot: Robot) -> LearnedValue | None:
    """Return the value that a planner's parameter names.

    Args:
        name: name or path of a value, :data:`AUTO`, or empty.

    Raises:
        ConfigError: missing or incomplete file, or one of another object or hand.
    """
    if name == AUTO:
        own = _path(f"{obj.name}-{robot.name}")
        return load_value(own, obj, robot) if own.is_file() else None
    return load_value(_path(name), obj, robot) if name else None


def load_value(path: Path, obj: ObjectModel, robot: Robot) -> LearnedValue:
    """Read a value for an object and a robot.

    Raises:
        ConfigError: see :func:`value_for`.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        mean, scale = (np.asarray(document[name], np.float32) for name in ("mean", "scale"))
        layers = tuple((np.asarray(w, np.float32), np.asarray(b, np.float32)) for w, b in document["layers"])
        value = LearnedValue(
            str(document["object"]), str(document["hand"]), mean, scale, layers, dict(document["learned"])
        )
        for what, of, wanted in (("object", value.object, obj.name), ("hand", value.hand, robot.name)):
            if of != wanted:
                raise ConfigError(f"the learned value {path} is of the {what} {of!r}, not of {wanted!r}")
        n = OF_POSE + len(robot.joint_names)
        output = jax.eval_shape(networks, layers, np.zeros((1, n), np.float32)).shape
        if output != (len(layers[0][0]), 1) or not mean.shape == scale.shape == (n,):
            raise ValueError(f"networks of {n} features are needed")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"the learned value {path} cannot be read ({type(error).__name__}: {error})"
        ) from None
    return value


def _short(a: Any) -> Any:
    """Return an array as nested lists of four significant digits."""
    return np.vectorize(lambda x: float(f"{x:.4g}"))(np.asarray(a, float)).tolist()


def save_value(path: Path, value: LearnedValue) -> None:
    """Write a value for :func:`load_value`.

    Raises:
        ConfigError: the file cannot be written.
    """
    document = {
        "object": value.object,
        "hand": value.hand,
        "learned": dict(value.learned),
        "mean": _short(value.mean),
        "scale": _short(value.scale),
        "layers": [[_short(w), _short(b)] for w, b in value.layers],
    }
    write_text(path, json.dumps(document) + "\n")
