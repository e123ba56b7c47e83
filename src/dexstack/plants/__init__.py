"""Plants, robots and objects in a physics engine: the registry and :func:`make_plant`; each is
imported on demand."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dexengines
from dexengines.errors import EngineError
from dexstack.errors import ConfigError, check_names
from dexstack.lazy import Registry, is_own

if TYPE_CHECKING:
    from dexstack.model.hand import HandModel
    from dexstack.model.objects import ObjectModel
    from dexstack.plants.base import Plant
    from dexstack.plants.scene_plant import ScenePlant

PLANTS = Registry(
    "plant",
    {
        "mujoco": ("dexstack.plants.mujoco", "MujocoPlant", "MujocoPlantParams"),
        "hydroelastic": ("dexstack.plants.hydroelastic", "HydroelasticPlant", "HydroelasticPlantParams"),
        "lcp": ("dexstack.plants.lcp", "LcpPlant", "LcpPlantParams"),
        "soft": ("dexstack.plants.soft", "SoftPlant", "SoftPlantParams"),
    },
)
"""Module, class and parameter class of each plant; the class takes a robot, an object and its
parameters."""


def check_plant(name: str) -> None:
    """Reject an unknown plant; imports nothing of it except a user's own file.

    Raises:
        ConfigError: an unknown plant, or one whose libraries are not installed.
    """
    check_names("plant", [name], PLANTS)
    if is_own(name):
        PLANTS.load(name)
    else:
        with engine_errors():
            dexengines.check_engine(name)


def plant_params(name: str) -> type:
    """Return the parameter class of a plant.

    Raises:
        ConfigError: an unknown plant, or one whose libraries are not installed.
    """
    return _load(name)[1]


def make_plant(name: str, hand: HandModel, obj: ObjectModel, params: Any = None) -> Plant:
    """Return a plant of a robot and an object.

    Raises:
        ConfigError: see :func:`plant_params`; the plant rejects robot, object or parameters; or its
            class does not implement :class:`~dexstack.plants.base.Plant`.
    """
    from dexstack.plants.base import Plant

    plant = _load(name)[0](hand, obj, params)
    if not isinstance(plant, Plant):
        raise ConfigError(f"the plant '{name}' lacks what dexstack.plants.base.Plant asks for")
    return plant


def scene_plant_class(name: str) -> type[ScenePlant]:
    """Return the class of a plant, whose ``make_scene`` makes its scene from any spec of a robot
    and an object.

    Raises:
        ConfigError: see :func:`plant_params`; or a user's own plant does not derive from
            ScenePlant.
    """
    from dexstack.plants.scene_plant import ScenePlant

    plant = _load(name)[0]
    if not issubclass(plant, ScenePlant):
        raise ConfigError(
            f"the plant '{name}' has no make_scene: derive it from dexstack.plants.scene_plant.ScenePlant"
        )
    return plant


def _load(name: str) -> tuple[Any, ...]:
    check_plant(name)
    if not is_own(name):
        with engine_errors():
            dexengines.scene_class(name)
    return PLANTS.load(name)


@contextlib.contextmanager
def engine_errors() -> Iterator[None]:
    """Turn the engines' errors into :class:`~dexstack.errors.ConfigError`; also a decorator."""
    try:
        yield
    except EngineError as error:
        raise ConfigError(str(error)) from None
