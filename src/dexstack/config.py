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

from dexstack.errors import ConfigError, check_names

P = TypeVar("P")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe loader, ten times as fast with libyaml; every block reads its file again."""


# PyYAML reads 20e-6 (without a dot) as a string, ROS 2 as a number
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def param(
    default: Any, doc: str, lo: float | None = None, hi: float | None = None, choices: Collection[str] = ()
) -> Any:
    """Make a dataclass field with a description, and an inclusive range or all valid names.

    Lists are tuples, checked per entry; one with an empty default may have any length.
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
        if choices := field.metadata.get("choices"):
            check_names(name.replace("_", " "), [x], choices)
        if kind in (int, float) and ((lo is not None and x < lo) or (hi is not None and x > hi)):
            raise ConfigError(f"parameter '{name}' must lie in [{lo}, {hi}], got {x!r}")
        return x

    if typing.get_origin(annotation) is tuple:
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            raise ConfigError(f"parameter '{name}' must be a list, got {value!r}")
        value = tuple(value)
        if field.default and len(value) != len(field.default):
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
    if not ignore_unknown:
        check_names(f"parameter of {cls.__name__}", values, fields)
    return cls(**{k: coerce(k, v, fields[k], hints[k]) for k, v in values.items() if k in fields})


class Section(typing.NamedTuple):
    """One section of a ROS 2 parameter file."""

    key: str
    """Key as written in the file."""
    namespace: str
    """Namespace that the section is restricted to, without leading slash; empty: any."""
    node: str
    """Node name; ``**``: all nodes."""
    values: Mapping[str, Any]

    def matches(self, node: str, namespace: str) -> bool:
        """Return whether the section applies to ``node`` in ``namespace``."""
        return self.node in ("**", node) and self.namespace in ("", namespace.strip("/"))


def read_parameter_file(path: str | Path, node: str, namespace: str = "") -> dict[str, Any]:
    """Return the parameters that a ROS 2 YAML file gives to ``node`` in ``namespace``.

    A key without a namespace (``mpc``, ``/mpc``, ``/**/mpc``) matches the node in any namespace.
    The more specific section wins: all nodes, then the node in any namespace, then the node in its
    namespace.

    Raises:
        ConfigError: the file cannot be read or is not a ROS 2 parameter file.
    """
    matching = [section for section in read_sections(path) if section.matches(node, namespace)]
    matching.sort(key=lambda s: (s.node != "**", s.namespace != "", -s.key.count("/")))
    return {name: value for section in matching for name, value in section.values.items()}


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
        return parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {what}{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None


def read_sections(path: str | Path) -> list[Section]:
    """Return all sections of a ROS 2 parameter file.

    Raises:
        ConfigError: the file is missing or is not a ROS 2 parameter file.
    """
    document = read_yaml_file(Path(path), "the parameter file ")
    if not isinstance(document, dict):
        raise ConfigError(f"{path} holds no parameters (expected '/**:' or node names at the top)")
    return [_section(path, str(key), content or {}) for key, content in document.items()]


def _section(path: str | Path, key: str, content: Any) -> Section:
    if not isinstance(content, dict) or (content and "ros__parameters" not in content):
        raise ConfigError(f"section '{key}' of {path} has no 'ros__parameters'")
    namespace, _, node = key.strip("/").rpartition("/")
    return Section(key, "" if namespace == "**" else namespace, node, content.get("ros__parameters") or {})
