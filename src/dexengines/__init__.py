"""Contact engines behind one interface: :func:`load` for a scene, :func:`rollout` for many; each is
imported on demand."""

from __future__ import annotations

import importlib.util
import inspect
from typing import TYPE_CHECKING, Any

from dexstack.errors import ConfigError, unknown_name
from dexstack.lazy import Registry, is_own

if TYPE_CHECKING:
    from pathlib import Path

    import mujoco

    from dexengines.batch import rollout as rollout
    from dexengines.collision import Materials
    from dexengines.scene import Scene

ENGINES = Registry(
    "engine",
    {
        "mujoco": ("dexengines.mujoco", "MujocoScene"),
        "hydroelastic": ("dexengines.hydroelastic.plant", "HydroelasticScene"),
        "lcp": ("dexengines.lcp.plant", "LcpScene"),
        "soft": ("dexengines.soft.plant", "SoftScene"),
    },
)
"""Module and :class:`~dexengines.scene.Scene` of every engine."""

EXTRAS = {name: (name, "numba") for name in ("hydroelastic", "lcp", "soft")}
"""The extra that an engine needs, where it needs one, and the module by which to know it."""


def check_engine(name: str) -> None:
    """Reject an engine whose libraries are not installed; nothing of it is imported.

    Raises:
        ConfigError: the libraries of the engine are not installed.
    """
    if name in EXTRAS and importlib.util.find_spec(EXTRAS[name][1]) is None:
        raise missing_library(name, EXTRAS[name][1])


def missing_library(name: str, module: str | None) -> ConfigError:
    """Return the error that names the extra of an engine."""
    return ConfigError(f"the engine '{name}' needs {module}: pip install 'dexstack[{EXTRAS[name][0]}]'")


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
        materials: what MuJoCo's fields do not say; see :func:`dexengines.collision.read_collision`.
        dt: length of a step [s]; the model's own if None.
        options: of the engine's class: ``scheme`` of hydroelastic, ``directions`` of lcp, …

    Raises:
        ConfigError: an unknown engine, or one whose libraries are not installed; a file that MuJoCo
            cannot read; a feature, shape or option that the engine does not take.
    """
    from dexengines.files import read_model

    if engine not in ENGINES or is_own(engine):
        raise unknown_name("engine", engine, ENGINES)
    check_engine(engine)
    try:
        (made,) = ENGINES.load(engine)
    except ModuleNotFoundError as error:
        if engine not in EXTRAS or (error.name or "").startswith(("dexstack", "dexengines")):
            raise
        raise missing_library(engine, error.name) from None
    known = [name for name, p in inspect.signature(made).parameters.items() if p.kind is p.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise unknown_name(f"option of the {engine} engine", name, known)
    return made(read_model(scene, dt), materials, **options)


def __getattr__(name: str) -> Any:
    if name != "rollout":
        raise AttributeError(name)
    from dexengines.batch import rollout

    return rollout
