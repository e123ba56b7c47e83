"""Valid ranges of θ, for learners, files and planners."""

from __future__ import annotations

import numpy as np

from dexstack.control.problem import ModelParams
from dexstack.errors import ConfigError

RANGES = ModelParams(
    inertia=(np.array([1e-3] * 3 + [1e-7] * 3), np.array([1e3] * 3 + [10.0] * 3)),
    stiffness=(1e-2, 1e2),
    cover=(1e-2, 0.9999),
    mass=(1e-9, 10.0),  # a parameter of the model: the published ones are far below the object's mass
    friction=(1e-2, 3.0),
    sigma=(1.0, 1e4),
)
"""Open interval of each number of θ, in the units of
:class:`~dexstack.control.problem.ModelParams`."""


def check_theta(theta: ModelParams, joints: int, where: str) -> ModelParams:
    """Return θ as float32 arrays.

    Args:
        where: description of its source, for messages.

    Raises:
        ConfigError: a number is missing, out of range, or an array has a wrong shape.
    """
    sizes = ModelParams((6,), (joints,), (joints,), (), (), ())
    out = {}
    for name, size in sizes._asdict().items():
        try:
            value = np.asarray(getattr(theta, name), np.float64)
        except (TypeError, ValueError):
            raise ConfigError(f"'{name}' of {where} is not made of numbers") from None
        lo, hi = getattr(RANGES, name)
        if value.shape != size:
            raise ConfigError(f"'{name}' of {where} has the shape {value.shape}, {size} expected")
        if not np.all((value > lo) & (value < hi)):
            raise ConfigError(f"'{name}' of {where} must lie between {np.min(lo):g} and {np.max(hi):g}")
        out[name] = value.astype(np.float32)
    return ModelParams(**out)
