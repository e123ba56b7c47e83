"""Check of annotations, which tests apply to every function and class of the package."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any

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
_beartype = beartype(conf=BeartypeConf(hint_overrides=_READ_AS))
"""NumPy's scalars are numbers, its arrays good where JAX's are asked for, an int is a float;
NumPy's ArrayLike itself cannot be checked."""
_KERNELS = re.compile("njit|kernels import")
"""Found in the text of modules with kernels."""
CALLS = 20
"""Calls of one function that are checked in one test."""
_counted: Counter[str] = Counter()
_silent: list[Callable] = []


def check(function: Callable) -> Callable:
    """Return the function with its annotations checked, as jaxtyping's type checker."""
    checked = _beartype(function)
    if not isinstance(function, FunctionType):
        return checked
    key = f"{function.__module__}.{function.__qualname__}"

    @functools.wraps(checked)
    def counted(*args: Any, **kwargs: Any) -> Any:
        _counted[key] += 1
        if _counted[key] == 2 * CALLS:  # arguments and result
            _silence(function.__module__, function.__qualname__)
        return checked(*args, **kwargs)

    return counted


def _silence(module: str, name: str) -> None:
    """Stop checking a function until the next test; one that is defined in another function is not
    found, and stays checked."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = inspect.getattr_static(found, part, None)
    found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    if isinstance(found, FunctionType):
        found.__no_type_check__ = True
        _silent.append(found)


def begin() -> None:
    """Check everything again: at the start of a test."""
    _counted.clear()
    while _silent:
        del _silent.pop().__no_type_check__


def modules() -> list[str]:
    """Return every module but those with kernels, since numba compiles no wrapped functions."""
    source = Path(next(iter(find_spec("dexstack").submodule_search_locations))).parent
    files = (file for package in ("dexstack", "dexengines") for file in (source / package).rglob("*.py"))
    checked = (file for file in files if file.name != "__init__.py" and not _KERNELS.search(file.read_text()))
    return sorted(".".join(file.relative_to(source).with_suffix("").parts) for file in checked)
