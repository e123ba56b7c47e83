"""The check of annotations that tests put on every function and class of the package."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import jax
import numpy as np
from beartype import BeartypeConf, FrozenDict, beartype
from numpy.typing import ArrayLike

_INT, _FLOAT = int | np.integer, float | int | np.floating | np.integer
_READ_AS = FrozenDict(
    {
        bool: bool | np.bool_,
        int: _INT,
        float: _FLOAT,
        jax.Array: jax.Array | np.ndarray,
        ArrayLike: Sequence | np.ndarray | jax.Array | _FLOAT,
    }
)
check = beartype(conf=BeartypeConf(hint_overrides=_READ_AS))
"""NumPy's scalars are numbers, its arrays good where JAX's are asked for, an int is a float; NumPy's ArrayLike itself cannot be checked."""


NOT_YET = (
    *("cli.eval", "cli.learn", "cli.up", "engines", "learning"),
    *("nodes.learner", "nodes.mpc", "nodes.simulator", "nodes.task"),
)
"""Modules and folders whose annotations do not hold yet; to be emptied."""


def modules() -> list[str]:
    """Every module of the package but those that hold kernels: numba compiles functions, not what wraps them."""
    package = Path(next(iter(find_spec("dexstack").submodule_search_locations)))
    files = (file for file in package.rglob("*.py") if file.name != "__init__.py" and "njit" not in file.read_text())
    names = sorted(".".join(file.relative_to(package).with_suffix("").parts) for file in files)
    return [f"dexstack.{name}" for name in names if not any(name == later or name.startswith(f"{later}.") for later in NOT_YET)]
