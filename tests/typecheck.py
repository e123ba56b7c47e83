"""The check of annotations that tests put on every function and class of the package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from beartype import BeartypeConf, FrozenDict, beartype

_NUMBERS = FrozenDict({int: int | np.integer, float: float | int | np.floating | np.integer})
check = beartype(conf=BeartypeConf(hint_overrides=_NUMBERS))
"""NumPy's scalars are numbers, and an int is good where a float is asked for."""


def modules() -> list[str]:
    """Every module of the package but those that hold kernels: numba compiles functions, not what wraps them."""
    package = Path(next(iter(find_spec("dexstack").submodule_search_locations)))
    files = (file for file in package.rglob("*.py") if file.name != "__init__.py" and "njit" not in file.read_text())
    return sorted(".".join(file.relative_to(package.parent).with_suffix("").parts) for file in files)
