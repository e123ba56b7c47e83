"""Tunable parameters, declared once for the library, the YAML files and the ROS nodes.

A parameter block is a frozen dataclass whose fields are made with :func:`param`, which carries
description and valid range. It is filled from a ROS 2 parameter file (``/**: ros__parameters:
{...}``), so that an evaluation without ROS and a node read the same file.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml

from dexstack.errors import ConfigError, unknown_name

P = TypeVar("P")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader, ten times as fast with libyaml; every block reads its file again."""


# PyYAML reads 20e-6 (without a dot) as a string, ROS 2 as a number
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def param(
    default: Any, doc: str, lo: float | None = None, hi: float | None = None, choices: Collection[str] = ()
) -> Any:
    """Make a dataclass field with a description, and an inclusive range or all valid names.

    Lists are tuples, checked per entry.
    """
    return dataclasses.field(default=default, metadata={"doc": doc, "lo": lo, "hi": hi, "choices": choices})


def numbers(block: Any) -> dict[str, Any]:
    """Return the numbers of a parameter block as float32 scalars, for a compiled function."""
    return {f.name: np.float32(getattr(block, f.name)) for f in dataclasses.fields(block)}


def share_dir() -> Path:
    """Return the folder of ``config/`` and ``launch/``: the checkout, or ``share/dexstack`` of the
    installation.

    Raises:
        ConfigError: there is no such folder.
    """
    here, share = Path(__file__).resolve(), Path("share", "dexstack")
    for root in (here.parents[2], Path(sys.prefix) / share, *(folder / share for folder in here.parents)):
        if (root / "config").is_dir():
            return root
    raise ConfigError(
        f"found no config folder near {here.parent} or in {Path(sys.prefix) / share}; reinstall dexstack"
    )


def coerce(name: str, value: Any, field: dataclasses.Field, annotation: Any) -> Any:
    """Check and convert one value.

    Raises:
        ConfigError: wrong type, non-finite, or outside the field's range.
    """
    lo, hi = field.metadata.get("lo"), field.metadata.get("hi")

    def scalar(kind: type, x: Any) -> Any:
        if kind is float and isinstance(x, int | float) and not isinstance(x, bool):
            x = float(x)
        if not isinstance(x, kind) or (kind is int and isinstance(x, bool)):
            raise ConfigError(f"parameter '{name}' must be {kind.__name__}, got {x!r}")
        if kind is float and not math.isfinite(x):
            raise ConfigError(f"parameter '{name}' must be finite, got {x!r}")
        if (choices := field.metadata.get("choices")) and x not in choices:
            raise unknown_name(f"{name.replace('_', ' ')}", x, choices)
        if kind in (int, float) and ((lo is not None and x < lo) or (hi is not None and x > hi)):
            raise ConfigError(f"parameter '{name}' must lie in [{lo}, {hi}], got {x!r}")
        return x

    if typing.get_origin(annotation) is tuple:
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            raise ConfigError(f"parameter '{name}' must be a list, got {value!r}")
        value = tuple(value)
        if len(value) != len(field.default):
            raise ConfigError(f"parameter '{name}' must have {len(field.default)} entries, got {len(value)}")
        return tuple(scalar(typing.get_args(annotation)[0], x) for x in value)
    return scalar(annotation, value)


def make_params(cls: type[P], values: Mapping[str, Any], *, ignore_unknown: bool = False) -> P:
    """Build a parameter block from a flat mapping.

    Raises:
        ConfigError: an unknown name, or a value that :func:`coerce` refuses.
    """
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - set(fields))
    if unknown and not ignore_unknown:
        raise unknown_name(f"parameter of {cls.__name__}", unknown[0], fields)
    return cls(**{k: coerce(k, v, fields[k], hints[k]) for k, v in values.items() if k in fields})


def read_parameter_file(path: str | Path, node: str) -> dict[str, Any]:
    """Read the parameters of ``node`` in a ROS 2 YAML file: those of all nodes, overridden by those of
    the node in any namespace, then by its own.

    Raises:
        ConfigError: the file cannot be read or is not a ROS 2 parameter file.
    """
    path = Path(path)
    document = _read_document(path)
    values: dict[str, Any] = {}
    for key in ("/**", f"/**/{node}", f"/{node}", node):
        values.update(_section(path, document, key))
    return values


def parse_yaml(text: str) -> Any:
    """Parse YAML, with numbers as ROS 2 reads them (20e-6).

    Raises:
        yaml.YAMLError: the text is not valid YAML.
    """
    return yaml.load(text, _Loader)


def read_yaml_file(path: Path, what: str = "") -> Any:
    """Read a YAML file; ``what`` precedes its path in an error.

    Raises:
        ConfigError: the file cannot be read or is not valid YAML.
    """
    try:
        return parse_yaml(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read {what}{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None


def _read_document(path: Path) -> dict[str, Any]:
    document = read_yaml_file(path, "the parameter file ")
    if not isinstance(document, dict):
        raise ConfigError(f"{path} holds no parameters (expected '/**:' or node names at the top)")
    return document


def _section(path: Path, document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = document.get(key) or {}
    if not isinstance(section, dict) or (section and "ros__parameters" not in section):
        raise ConfigError(f"section '{key}' of {path} has no 'ros__parameters'")
    return section.get("ros__parameters") or {}


def read_sections(path: str | Path) -> dict[str, set[str]]:
    """Return the parameter names in each section of a ROS 2 parameter file, by node; ``**`` stands for
    all nodes.

    Raises:
        ConfigError: see :func:`read_parameter_file`.
    """
    document = _read_document(Path(path))
    nodes = {key: key.strip("/").removeprefix("**/").rpartition("/")[2] or "**" for key in document}
    return {node: set(_section(Path(path), document, key)) for key, node in nodes.items()}
