"""Physics engines: one interface (:mod:`.base`), one entry per plant in :data:`PLANTS`; nothing is imported before it is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dexstack.errors import ConfigError

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

EXTRAS = {"hydroelastic": "hydroelastic", "lcp": "lcp"}
"""The extra of dexstack that a plant needs, where it needs one."""


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
    if name not in PLANTS:
        raise ConfigError(f"unknown plant '{name}'; known: {', '.join(PLANTS)}")
    try:
        module = importlib.import_module(PLANTS[name][0])
    except ModuleNotFoundError as error:
        if name not in EXTRAS or (error.name or "").startswith("dexstack"):
            raise
        raise ConfigError(f"the plant '{name}' needs {error.name}: pip install 'dexstack[{EXTRAS[name]}]'") from None
    return getattr(module, PLANTS[name][entry])
