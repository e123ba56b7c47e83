"""A learned value: how long a state's goal still takes, by logged trials of one object in one hand.

    V(x, q, g) = E[1 − exp(−t_goal / τ)],      1 where the object is dropped before

with t_goal until the orientation error is below :data:`REACHED`. A plan ends after a second, and
the task's cost judges its end by the error that is left. V also knows how the fingers stand and
where in the hand the object lies. It is the mean of a few small networks (JSON), which ``python -m
experiments.orientation.fit_value`` fits. Of orientations it sees the turn that is left and nothing
else: for which side of the object is up there are too few trials.

A name is looked up as ``values/NAME.json`` in the working directory, then among the files that come
with dexstack; anything with a slash or ending in ``.json`` is a path.
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

from dexstack.errors import ConfigError, writing
from dexstack.model.description import data_dir
from dexstack.model.kinematics import quaternion_matrix

if TYPE_CHECKING:
    from jax import Array

    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot

AUTO = "auto"
"""The value of an object and a hand, one's own or one that comes with dexstack, or none."""
FOLDER = Path("values")
TIME = 4.0
"""τ, in which a goal not yet reached loses most of its worth [s]: about the mean time to a goal."""
REACHED = 0.4
"""Orientation error at which a goal counts as reached here, whatever a task asks for [rad]: nearer
to it V has nothing to tell."""
OF_POSE = 7
"""Features that do not depend on the joints."""
ERROR = 6
"""Which of them is the orientation's error alone."""

Layers = Sequence[tuple[Any, Any]]
"""Weights (E, in, out) and offsets (E, 1, out) of each layer of E networks."""


def features(pose_WO: Any, q: Any, goal_WO: Any) -> Array:
    """(7 + N,) of a state: the object's place from its goal's [m], the turn that is left as sine
    times axis, its angle [rad], and joints.

    Args:
        pose_WO: (7,) of the object.
        q: (N,) [rad, m].
        goal_WO: (7,) where the object is to be.
    """
    pose_WO, q, goal_WO = jnp.asarray(pose_WO), jnp.asarray(q), jnp.asarray(goal_WO)
    left = quaternion_matrix(goal_WO[3:]) @ quaternion_matrix(pose_WO[3:]).T
    turn = jnp.array([left[2, 1] - left[1, 2], left[0, 2] - left[2, 0], left[1, 0] - left[0, 1]]) / 2.0
    error = jnp.arctan2(jnp.linalg.norm(turn), (jnp.trace(left) - 1.0) / 2.0)
    return jnp.concatenate([pose_WO[:3] - goal_WO[:3], turn, error[None], q])


def networks(layers: Layers, x: Any) -> Array:
    """(E, S) what each of E networks says of scaled features (S, F), in (0, 1)."""
    h = jnp.asarray(x)[None]
    for weights, offsets in layers[:-1]:
        h = jax.nn.swish(h @ weights + offsets)
    weights, offsets = layers[-1]
    return jax.nn.sigmoid(h @ weights + offsets)[..., 0]


@dataclass(frozen=True, eq=False)
class LearnedValue:
    """V of one object in one hand. Compared by identity, since JAX hashes what it compiles."""

    object: str
    hand: str
    mean: np.ndarray
    """(F,) of the features that were learned from."""
    scale: np.ndarray
    """(F,) their spread."""
    layers: Layers
    learned: Mapping[str, Any] = field(default_factory=dict)
    """From what, and how well."""

    def __call__(self, pose_WO: Any, q: Any, goal_WO: Any) -> Array:
        """V () of a state, see :func:`features`; may be traced."""
        x = (features(pose_WO, q, goal_WO) - self.mean) / self.scale
        return jnp.mean(networks(self.layers, x[None]))


def _path(name: str) -> Path:
    if "/" in name or name.endswith(".json"):
        return Path(name)
    own = FOLDER / f"{name}.json"
    return own if own.is_file() else data_dir() / "values" / f"{name}.json"


def value_for(name: str, obj: ObjectModel, robot: Robot) -> LearnedValue | None:
    """What a planner's parameter asks for.

    Args:
        name: of a value, a path, :data:`AUTO`, or nothing.

    Raises:
        ConfigError: no such file, not a complete value, or one of another object or hand.
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
        said = json.loads(path.read_text())
        mean, scale = (np.asarray(said[name], np.float32) for name in ("mean", "scale"))
        layers = tuple((np.asarray(w, np.float32), np.asarray(b, np.float32)) for w, b in said["layers"])
        value = LearnedValue(
            str(said["object"]), str(said["hand"]), mean, scale, layers, dict(said["learned"])
        )
        for what, of, wanted in (("object", value.object, obj.name), ("hand", value.hand, robot.name)):
            if of != wanted:
                raise ConfigError(f"the learned value {path} is of the {what} {of!r}, not of {wanted!r}")
        n = OF_POSE + len(robot.joint_names)
        said_of_one = jax.eval_shape(networks, layers, np.zeros((1, n), np.float32)).shape
        if said_of_one != (len(layers[0][0]), 1) or not mean.shape == scale.shape == (n,):
            raise ValueError(f"networks of {n} features are needed")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"the learned value {path} cannot be read ({type(error).__name__}: {error})"
        ) from None
    return value


def _short(a: Any) -> Any:
    """Nested lists of an array, to four digits."""
    return np.vectorize(lambda x: float(f"{x:.4g}"))(np.asarray(a, float)).tolist()


def save_value(path: Path, value: LearnedValue) -> None:
    """Write a value that :func:`load_value` reads.

    Raises:
        ConfigError: it cannot be written.
    """
    said = {
        "object": value.object,
        "hand": value.hand,
        "learned": dict(value.learned),
        "mean": _short(value.mean),
        "scale": _short(value.scale),
        "layers": [[_short(w), _short(b)] for w, b in value.layers],
    }
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(said) + "\n")
