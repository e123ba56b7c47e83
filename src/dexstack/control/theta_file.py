"""θ as a YAML file with units and provenance, written atomically.

A name refers to ``theta/NAME.yaml`` in the working directory, or else to a file of dexstack; anything
with a slash or ending in ``.yaml`` is a path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from dexstack.config import read_yaml_file
from dexstack.control.problem import ModelParams, physical_params
from dexstack.control.theta import check_theta
from dexstack.errors import ConfigError
from dexstack.files import write_text
from dexstack.model.description import data_dir

if TYPE_CHECKING:
    from dexstack.control.factory import PlannerParams
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot

FOLDER = Path("theta")
UNITS = {
    "inertia": "kg (x, y, z), kg m^2 (about the object's axes)",
    "stiffness": "N m/rad, N/m for sliding joints",
    "cover": "share of a commanded displacement that a free joint covers in one step",
    "mass": "kg",
    "friction": "-",
    "sigma": "1/sqrt(J)",
}


@dataclass(frozen=True)
class ThetaFile:
    """Content of a θ file."""

    theta: ModelParams
    object: str
    """Name of the object."""
    hand: str
    """Name of the hand."""
    model: str
    """Name of the time-stepping model."""
    step: float
    """h of that model [s]; M_o/h² and the joints' lag depend on it."""
    seed: int
    date: str
    """ISO 8601, UTC."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """``transitions``, ``sha256`` of the numbers, ``source``."""
    metrics: Mapping[str, float] = field(default_factory=dict)


def theta_path(name: str) -> Path:
    """Return the existing file of a name or path.

    Raises:
        ConfigError: there is none.
    """
    is_path = "/" in name or name.endswith(".yaml")
    candidates = [Path(name)] if is_path else [FOLDER / f"{name}.yaml", data_dir() / "theta" / f"{name}.yaml"]
    for path in candidates:
        if path.is_file():
            return path
    known = sorted({p.stem for c in candidates for p in c.parent.glob("*.yaml")})
    raise ConfigError(
        f"there is no θ '{name}' (no file {' or '.join(map(str, candidates))}); "
        f"known: {', '.join(known) or 'none'}"
    )


def new_theta_path(name: str) -> Path:
    """Return the path at which to save a θ of a name or path."""
    return Path(name) if "/" in name or name.endswith(".yaml") else FOLDER / f"{name}.yaml"


def save_theta(path: Path, content: ThetaFile) -> None:
    """Write a θ file atomically: a temporary file, flushed to the disk and renamed.

    Raises:
        ConfigError: a number is out of its range, or the folder cannot be written.
    """
    joints = np.size(content.theta.stiffness)
    theta = check_theta(content.theta, joints, f"the θ to be saved as {path}")
    document = {
        "object": content.object,
        "hand": content.hand,
        "model": content.model,
        "step": {"value": float(content.step), "unit": "s"},
        "theta": {
            name: {
                "value": [float(f"{x:.9g}") for x in value]
                if (value := getattr(theta, name)).ndim
                else float(f"{value:.9g}"),
                "unit": unit,
            }
            for name, unit in UNITS.items()
        },
        "learned": {
            "date": content.date,
            "seed": int(content.seed),
            "data": dict(content.data),
            "metrics": {k: float(v) for k, v in content.metrics.items()},
        },
    }
    text = "# θ of a time-stepping model, from `dexstack learn` or `identify`, for the parameter `theta`.\n"
    text += yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
    write_text(path, text)


def load_theta(name: str, joints: int) -> ThetaFile:
    """Read the θ of a name or path for a hand with a number of joints.

    Raises:
        ConfigError: missing or incomplete file, or a number out of range.
    """
    path = theta_path(name)
    document = read_yaml_file(path)
    try:
        theta = ModelParams(**{name: document["theta"][name]["value"] for name in UNITS})
        learned = document["learned"]
        content = ThetaFile(
            theta=theta,
            object=str(document["object"]),
            hand=str(document["hand"]),
            model=str(document["model"]),
            step=float(document["step"]["value"]),
            seed=int(learned["seed"]),
            date=str(learned["date"]),
            data=dict(learned["data"]),
            metrics=dict(learned["metrics"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path} is not a complete θ file ({type(error).__name__}: {error})") from None
    return ThetaFile(**{**content.__dict__, "theta": check_theta(theta, joints, str(path))})


def theta_for(name: str, *, object_name: str, robot_name: str, step: float, joints: int) -> ModelParams:
    """Read the θ of a name or path for a planner.

    Raises:
        ConfigError: see :func:`load_theta`, or it is for another object, hand or step.
    """
    content = load_theta(name, joints)
    for what, learned, wanted in (
        ("object", content.object, object_name),
        ("hand", content.hand, robot_name),
        ("step", content.step, step),
    ):
        if learned != wanted:
            raise ConfigError(f"the θ '{name}' was learned for the {what} {learned!r}, not for {wanted!r}")
    return content.theta


def make_theta(robot: Robot, obj: ObjectModel, params: PlannerParams, step: float) -> ModelParams:
    """Return θ of a model with a step [s]: the learned one if the parameters name one, otherwise that of
    physical quantities.

    Raises:
        ConfigError: see :func:`theta_for`.
    """
    if params.theta:
        return theta_for(
            params.theta,
            object_name=obj.name,
            robot_name=robot.name,
            step=step,
            joints=len(robot.joint_names),
        )
    return physical_params(
        mass=obj.mass,
        inertia=obj.inertia,
        friction=params.planned_friction,
        stiffness=np.full(len(robot.joint_names), params.kp),
        damping=robot.damping + params.kd,
        h=step,
        inertia_scale=params.inertia_scale,
        sigma=params.dsdf_sigma,
    )
