"""Contact engines behind one interface: :func:`load` for a scene, :func:`rollout` for many; engines
are imported on demand."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from typing import TYPE_CHECKING, Any

from dexengines.errors import EngineError as EngineError, unknown_name

if TYPE_CHECKING:
    from pathlib import Path

    import mujoco

    from dexengines.batch import rollout as rollout
    from dexengines.materials import Materials
    from dexengines.scene import Scene, State as State, stack as stack

ENGINES = {
    "mujoco": ("dexengines.mujoco", "MujocoScene"),
    "hydroelastic": ("dexengines.hydroelastic.scene", "HydroelasticScene"),
    "lcp": ("dexengines.lcp.scene", "LcpScene"),
    "soft": ("dexengines.soft.scene", "SoftScene"),
}
"""Module and :class:`~dexengines.scene.Scene` of each engine."""

COMPILED = ("hydroelastic", "lcp", "soft")
"""Engines whose kernels numba compiles; they need the extra ``engines``."""


def check_engine(name: str) -> None:
    """Reject an engine that is unknown or whose libraries are not installed; imports nothing of it.

    Raises:
        EngineError: no such engine, or the name of the extra to install.
    """
    if name not in ENGINES:
        raise unknown_name("engine", name, ENGINES)
    if name in COMPILED and importlib.util.find_spec("numba") is None:
        raise _missing(name, "numba")


def scene_class(name: str) -> type[Scene]:
    """Return the class of an engine.

    Raises:
        EngineError: see :func:`check_engine`.
    """
    check_engine(name)
    module, cls = ENGINES[name]
    try:
        return getattr(importlib.import_module(module), cls)
    except ModuleNotFoundError as error:
        if name not in COMPILED or (error.name or "").startswith("dexengines"):
            raise
        raise _missing(name, error.name) from None


def _missing(name: str, module: str | None) -> EngineError:
    return EngineError(f"the engine '{name}' needs {module}: pip install 'dexstack[engines]'")


def load(
    scene: str | Path | mujoco.MjSpec | mujoco.MjModel,
    engine: str = "mujoco",
    *,
    materials: Materials = None,
    dt: float | None = None,
    **options: Any,
) -> Scene:
    """Load any scene in any engine.

    Args:
        scene: an MJCF or URDF file, a spec, or a compiled model.
        engine: a name in :data:`ENGINES`.
        materials: surface properties that MuJoCo's fields lack; see
            :func:`dexengines.materials.read_materials`.
        dt: length of a step [s]; the model's if None.
        options: of the engine's class: ``scheme`` of hydroelastic, ``directions`` of lcp, …

    Meshes that are not convex collide as convex parts (mujoco, lcp, soft) or as they are
    (hydroelastic); :attr:`~dexengines.scene.Scene.notes` says what was done.

    Raises:
        EngineError: an unknown engine, or one whose libraries are not installed; a file that MuJoCo
            cannot read; a feature, shape or option that the engine does not take.
    """
    from dexengines.files import read_shaped

    cls = scene_class(engine)
    known = [name for name, p in inspect.signature(cls).parameters.items() if p.kind is p.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise unknown_name(f"option of the {engine} engine", name, known)
    shaped = read_shaped(scene, dt, cls.fills)
    if shaped.whole:
        options = {"whole": shaped.whole} | options
    made = cls(shaped.model, materials, **options)
    made.notes = (*shaped.notes, *made.notes)
    return made


_LAZY = {"rollout": "dexengines.batch", "stack": "dexengines.scene", "State": "dexengines.scene"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dexengines' has no attribute '{name}'")
    return getattr(importlib.import_module(_LAZY[name]), name)
