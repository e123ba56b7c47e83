"""Physics engines: one interface (:mod:`.base`), one entry per plant in :data:`PLANTS`; nothing is imported before it is asked for."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from dexstack.errors import ConfigError, unknown_name
from dexstack.lazy import Registry, is_own

if TYPE_CHECKING:
    from dexstack.engines.base import Plant
    from dexstack.model.hand import HandModel
    from dexstack.model.objects import ObjectModel

PLANTS = Registry(
    "plant",
    {
        "mujoco": ("dexstack.engines.mujoco", "MujocoPlant", "MujocoPlantParams"),
        "hydroelastic": ("dexstack.engines.hydroelastic.plant", "HydroelasticPlant", "HydroelasticPlantParams"),
        "lcp": ("dexstack.engines.lcp.plant", "LcpPlant", "LcpPlantParams"),
        "soft": ("dexstack.engines.soft.plant", "SoftPlant", "SoftPlantParams"),
    },
)
"""Module, class and parameter class of every plant; the class takes a hand, an object and its parameters."""

EXTRAS = {"hydroelastic": ("hydroelastic", "numba"), "lcp": ("lcp", "numba")}
"""The extra of dexstack that a plant needs, where it needs one, and the module by which to know it."""


def check_plant(name: str) -> None:
    """Whether there is such a plant here; nothing of it is imported, but for a user's own file.

    Raises:
        ConfigError: an unknown plant, or one whose libraries are not installed.
    """
    if name not in PLANTS:
        raise unknown_name("plant", name, PLANTS)
    if is_own(name):
        PLANTS.load(name)
    if name in EXTRAS and importlib.util.find_spec(EXTRAS[name][1]) is None:
        raise _missing(name, EXTRAS[name][1])


def plant_params(name: str) -> type:
    """The parameter class of a plant.

    Raises:
        ConfigError: an unknown plant, or one whose libraries are not installed.
    """
    return _load(name)[1]


def make_plant(name: str, hand: HandModel, obj: ObjectModel, params: Any = None) -> Plant:
    """A plant of a hand and an object.

    Raises:
        ConfigError: see :func:`plant_params`; or the plant refuses hand, object or parameters, or is none.
    """
    from dexstack.engines.base import Plant

    plant = _load(name)[0](hand, obj, params)
    if not isinstance(plant, Plant):
        raise ConfigError(f"the plant '{name}' lacks what dexstack.engines.base.Plant asks for")
    return plant


def _load(name: str) -> tuple[Any, ...]:
    check_plant(name)
    try:
        return PLANTS.load(name)
    except ModuleNotFoundError as error:
        if name not in EXTRAS or (error.name or "").startswith("dexstack"):
            raise
        raise _missing(name, error.name) from None


def _missing(name: str, module: str | None) -> ConfigError:
    return ConfigError(f"the plant '{name}' needs {module}: pip install 'dexstack[{EXTRAS[name][0]}]'")
