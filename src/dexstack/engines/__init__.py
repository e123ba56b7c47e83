"""Physics engines: one interface (:mod:`.base`), one entry per plant in :data:`PLANTS`; nothing is imported before it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from dexstack.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from dexstack.engines.base import Plant
    from dexstack.model.hand import HandModel
    from dexstack.model.objects import ObjectModel

PLANTS: dict[str, tuple[str, str, str]] = {
    "mujoco": ("dexstack.engines.mujoco", "MujocoPlant", "MujocoPlantParams"),
    "hydroelastic": ("dexstack.engines.hydroelastic.plant", "HydroelasticPlant", "HydroelasticPlantParams"),
    "lcp": ("dexstack.engines.lcp.plant", "LcpPlant", "LcpPlantParams"),
    "soft": ("dexstack.engines.soft.plant", "SoftPlant", "SoftPlantParams"),
}
"""Module, class and parameter class of every plant; the class takes a hand, an object and its parameters."""

EXTRAS = {"hydroelastic": ("hydroelastic", "numba"), "lcp": ("lcp", "numba")}
"""The extra of dexstack that a plant needs, where it needs one, and the module by which to know it."""


def check_plant(name: str) -> None:
    """Whether there is such a plant here; nothing of it is imported.

    Raises:
        ConfigError: an unknown plant, or one whose libraries are not installed.
    """
    if name not in PLANTS:
        raise unknown_name("plant", name, PLANTS)
    if name in EXTRAS and importlib.util.find_spec(EXTRAS[name][1]) is None:
        raise _missing(name, EXTRAS[name][1])


def plant_params(name: str) -> type:
    """The parameter class of a plant.

    Raises:
        ConfigError: an unknown plant, or one whose libraries are not installed.
    """
    return _load(name, 2)


def make_plant(name: str, hand: HandModel, obj: ObjectModel, params: Any = None) -> Plant:
    """A plant of a hand and an object.

    Raises:
        ConfigError: see :func:`plant_params`; or the plant refuses hand, object or parameters.
    """
    return _load(name, 1)(hand, obj, params)


def _load(name: str, entry: int) -> Any:
    check_plant(name)
    try:
        module = importlib.import_module(PLANTS[name][0])
    except ModuleNotFoundError as error:
        if name not in EXTRAS or (error.name or "").startswith("dexstack"):
            raise
        raise _missing(name, error.name) from None
    return getattr(module, PLANTS[name][entry])


def _missing(name: str, module: str | None) -> ConfigError:
    return ConfigError(f"the plant '{name}' needs {module}: pip install 'dexstack[{EXTRAS[name][0]}]'")
