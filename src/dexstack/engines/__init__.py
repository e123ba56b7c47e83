"""Engines: :func:`load` for a scene, :func:`rollout` for many, :func:`make_plant` for a robot and an object; imported on demand."""

from __future__ import annotations

import importlib.util
import inspect
from typing import TYPE_CHECKING, Any

from dexstack.errors import ConfigError, unknown_name
from dexstack.lazy import Registry, is_own

if TYPE_CHECKING:
    from pathlib import Path

    import mujoco

    from dexstack.engines.base import Plant
    from dexstack.engines.common.batch import rollout as rollout
    from dexstack.engines.common.collision import Materials
    from dexstack.engines.common.plant import ScenePlant
    from dexstack.engines.common.scene import Scene
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

ENGINES = Registry(
    "engine",
    {
        "mujoco": ("dexstack.engines.mujoco", "MujocoScene"),
        "hydroelastic": ("dexstack.engines.hydroelastic.plant", "HydroelasticScene"),
        "lcp": ("dexstack.engines.lcp.plant", "LcpScene"),
        "soft": ("dexstack.engines.soft.plant", "SoftScene"),
    },
)
"""Module and :class:`~dexstack.engines.common.scene.Scene` of every engine."""

EXTRAS = {name: (name, "numba") for name in ("hydroelastic", "lcp", "soft")}
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


def load(
    scene: str | Path | mujoco.MjSpec | mujoco.MjModel,
    engine: str = "mujoco",
    *,
    materials: Materials = None,
    dt: float | None = None,
    **options: Any,
) -> Scene:
    """Any scene in any engine.

    Args:
        scene: an MJCF or URDF file, a spec, or a compiled model.
        engine: a name in :data:`ENGINES`.
        materials: what MuJoCo's fields do not say; see :func:`dexstack.engines.common.collision.read_collision`.
        dt: length of a step [s]; the model's own if None.
        options: of the engine's class: ``scheme`` of hydroelastic, ``directions`` of lcp, …

    Raises:
        ConfigError: an unknown engine, or one whose libraries are not installed; a file that MuJoCo cannot read; a feature, shape or
            option that the engine does not take.
    """
    from dexstack.engines.common.files import read_model

    if engine not in ENGINES or is_own(engine):
        raise unknown_name("engine", engine, ENGINES)
    (made,) = _load(engine, ENGINES)
    known = [name for name, p in inspect.signature(made).parameters.items() if p.kind is p.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise unknown_name(f"option of the {engine} engine", name, known)
    return made(read_model(scene, dt), materials, **options)


def __getattr__(name: str) -> Any:
    if name != "rollout":
        raise AttributeError(name)
    from dexstack.engines.common.batch import rollout

    return rollout


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


def scene_plant(name: str) -> type[ScenePlant]:
    """The class of a plant, whose ``make_scene`` makes its scene of any spec of a robot and an object.

    Raises:
        ConfigError: see :func:`plant_params`; or it is a user's own without a scene.
    """
    from dexstack.engines.common.plant import ScenePlant

    plant = _load(name)[0]
    if not issubclass(plant, ScenePlant):
        raise ConfigError(f"the plant '{name}' makes no scene of a model: it does not derive from dexstack.engines.common.plant.ScenePlant")
    return plant


def _load(name: str, registry: Registry = PLANTS) -> tuple[Any, ...]:
    check_plant(name)
    try:
        return registry.load(name)
    except ModuleNotFoundError as error:
        if name not in EXTRAS or (error.name or "").startswith("dexstack"):
            raise
        raise _missing(name, error.name) from None


def _missing(name: str, module: str | None) -> ConfigError:
    return ConfigError(f"the plant '{name}' needs {module}: pip install 'dexstack[{EXTRAS[name][0]}]'")
