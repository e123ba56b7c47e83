"""Surface properties that MuJoCo's own fields lack: moduli, stiffnesses, restitution,
resolution."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import mujoco
import yaml

from dexengines.errors import EngineError, unknown_name

DEFAULT = "default"
Materials: TypeAlias = Mapping[str, Mapping[str, float]] | str | Path | None
"""Fields of :class:`Material` by geom, or by "default" for all geoms; or a YAML file of that."""


@dataclass(frozen=True)
class Material:
    """Surface properties of a geom; each engine reads those it needs.

    A model sets them in ``<custom>``, for all geoms or for one: ``<numeric name="contact_modulus"
    data="1e6"/>``, ``contact_modulus:GEOM``.
    """

    modulus: float | None = None
    """hydroelastic: pressure in the core [Pa]; infinite: rigid. None: rigid if fixed to the world,
    else :data:`~dexengines.collision.MODULUS`, or what
    :data:`~dexengines.hydroelastic.scene.SUNK` asks for."""
    relaxation_time: float = 0.01
    """hydroelastic: time constant of dissipation, per body [s]."""
    stiffness: float | None = None
    """soft: contact stiffness; the smaller of two surfaces counts [N/m]. None: by weight and size
    (:mod:`dexengines.soft.scaling`)."""
    dissipation_speed: float | None = None
    """soft: approach speed at which dissipation doubles the force; the smaller of two surfaces counts
    [m/s]. None: by gravity and size."""
    restitution: float = 0.0
    """lcp: coefficient of restitution; the larger of two surfaces counts."""
    resolution: float | None = None
    """Longest edge of hydroelastic meshes, spacing of soft contact's points [m]. None: half of the
    geom's smallest half extent."""
    tets: float | None = None
    """hydroelastic: longest edge of tets that fill a mesh, concavities included [m]. None: the
    mesh's convex hull."""


_FIELDS = tuple(field.name for field in dataclasses.fields(Material))
_PREFIX = "contact_"
PART = "#"
"""Between the name of a mesh geom and the number of its convex part, which has the geom's
material; see :mod:`dexengines.concave`."""


def read_materials(model: mujoco.MjModel, given: Materials, names: set[str]) -> dict[str, dict[str, float]]:
    """Return the fields that a model's ``<custom>`` and ``given`` set, by geom or "default";
    ``given`` takes precedence.

    Args:
        names: of the model's geoms.

    Raises:
        EngineError: an unknown geom or field, or a number out of range.
    """
    where, result = "materials", {}
    for k in range(model.nnumeric):
        field, _, geom = model.numeric(k).name.removeprefix(_PREFIX).partition(":")
        if model.numeric(k).name.startswith(_PREFIX):
            result.setdefault(geom or DEFAULT, {})[field] = model.numeric(k).data[0]
    if isinstance(given, str | Path):
        where, given = str(given), _read_yaml(Path(given))
    for geom, fields in (given or {}).items():
        if not isinstance(fields, Mapping):
            raise EngineError(f"{where}: '{geom}' must map fields to numbers, got {fields!r}")
        result[geom] = result.get(geom, {}) | dict(fields)
    for geom, fields in result.items():
        if geom not in names | {DEFAULT}:
            raise unknown_name("geom", geom, names | {DEFAULT})
        for field in fields:
            if field not in _FIELDS:
                raise unknown_name("field of a material", field, _FIELDS)
        result[geom] = {field: _number(where, geom, field, value) for field, value in fields.items()}
    return result


def _number(where: str, geom: str, field: str, value: Any) -> float:
    try:
        number = float(value)  # YAML reads 1e7 as a string
    except (TypeError, ValueError):
        number = math.nan
    lowest = 0.0 if field in ("relaxation_time", "restitution") else 1e-12
    if not number >= lowest:
        raise EngineError(
            f"{where}: '{field}' of '{geom}' must be a number of at least {lowest:g}, got {value!r}"
        )
    return number


def _read_yaml(path: Path) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EngineError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise EngineError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, Mapping | None):
        raise EngineError(f"{path} must map geoms to fields")
    return found or {}
