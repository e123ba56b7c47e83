"""Validated reading of the YAML files that describe hands and objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dexstack.config import read_yaml_file
from dexstack.errors import ConfigError, check_names
from dexstack.files import write_text


def data_dir() -> Path:
    """Return the folder of the packaged hands and objects."""
    return Path(__file__).resolve().parent / "data"


def read_yaml(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Read a YAML mapping with all ``required`` keys and any of the ``optional`` ones.

    Raises:
        ConfigError: missing file, malformed YAML, a missing or an unknown key.
    """
    document = read_yaml_file(path)
    if not isinstance(document, dict):
        raise ConfigError(f"{path} must contain the keys {', '.join(required)}")
    for key in required:
        if key not in document:
            raise ConfigError(f"{path} lacks the key '{key}'")
    check_names(f"key of {path}", document, (*required, *optional))
    return document


def write_yaml(path: Path, comment: str, document: Mapping[str, Any]) -> None:
    """Write a YAML mapping under a comment of one line; an older file is replaced as a whole.

    Raises:
        ConfigError: the file cannot be written.
    """
    write_text(path, f"# {comment}\n{yaml.safe_dump(document, sort_keys=False)}")


def number_list(where: object, key: str, value: Any, count: int) -> np.ndarray:
    """Return the numbers as float64 (count,).

    Raises:
        ConfigError: not a list of ``count`` finite numbers.
    """
    sized = isinstance(value, list | tuple | np.ndarray) and len(value) == count
    if not sized or not all(
        isinstance(x, int | float | np.number) and not isinstance(x, bool) and np.isfinite(x) for x in value
    ):
        wanted = "a finite number" if count == 1 else f"{count} finite numbers"
        raise ConfigError(f"{where}: '{key}' must be {wanted}, got {value!r}")
    return np.array(value, dtype=float)


def quaternion(where: object, key: str, value: Any) -> np.ndarray:
    """Return the unit quaternion wxyz (4,), normalised if it is off by rounding.

    Raises:
        ConfigError: not four finite numbers, or a norm that differs from 1 by more than 1e-3.
    """
    quat = number_list(where, key, value, 4)
    norm = float(np.linalg.norm(quat))
    if abs(norm - 1.0) > 1e-3:
        raise ConfigError(
            f"{where}: '{key}' must be a unit quaternion (w, x, y, z), got one of norm {norm:.4g}"
        )
    return quat / norm
