"""Model files: MJCF, and URDF whose meshes are named by package."""

from __future__ import annotations

import copy
import os
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import mujoco

from dexengines.concave import Shaped, shape
from dexengines.errors import EngineError

SCHEMES = ("package://", "model://")
"""Prefixes of names that begin with a package."""


Source = str | Path | mujoco.MjSpec | mujoco.MjModel
"""Of a model: an MJCF or URDF file, a spec, or a compiled model."""


def read_model(scene: Source, dt: float | None = None) -> mujoco.MjModel:
    """Return a compiled model; ``dt`` [s] replaces its time step.

    Raises:
        EngineError: the file does not exist, or MuJoCo cannot read or compile it.
    """
    return read_shaped(scene, dt, None).model


def read_shaped(scene: Source, dt: float | None, fills: bool | None) -> Shaped:
    """:func:`read_model` whose concave meshes collide as such; see :func:`dexengines.concave.shape`.

    Args:
        fills: the engine takes concave meshes as they are; None: all meshes are left alone.
    """
    spec = None
    if isinstance(scene, mujoco.MjModel):
        model = copy.copy(scene)
    else:
        where = "the spec" if isinstance(scene, mujoco.MjSpec) else str(scene)
        try:
            spec = scene.copy() if isinstance(scene, mujoco.MjSpec) else _spec(Path(scene))
            model = spec.compile()
        except EngineError:
            raise
        except ValueError as error:
            raise EngineError(f"{where}: MuJoCo says: {' '.join(str(error).split())}") from None
    shaped = Shaped(model, [], []) if fills is None else shape(spec, model, fills)
    if dt is not None:
        if not dt > 0.0:
            raise EngineError(f"the time step must be positive, got {dt!r} s")
        shaped.model.opt.timestep = dt
    return shaped


def _spec(path: Path) -> mujoco.MjSpec:
    """Read an MJCF, or a URDF after its meshes are found."""
    if not path.is_file():
        raise EngineError(f"there is no model file {path}")
    try:
        root = ET.parse(path).getroot()
    except ET.ParseError as error:
        raise EngineError(f"{path} is not valid XML: {error}") from None
    if root.tag != "robot":
        return mujoco.MjSpec.from_file(str(path))
    if repeated := repeated_name(root):
        raise EngineError(f"{path} has several {repeated}; names must be unique")
    for mesh in root.iter("mesh"):
        name = mesh.get("filename", "")
        mesh.set("filename", str(mesh_path(path, name) or name))
    if root.find("mujoco") is None:
        options = {"strippath": "false", "discardvisual": "true", "fusestatic": "false"}
        ET.SubElement(ET.SubElement(root, "mujoco"), "compiler", options)
    return mujoco.MjSpec.from_string(ET.tostring(root, encoding="unicode"))


def repeated_name(urdf: ET.Element) -> str:
    """Return the kind and the name of elements of a URDF that share one name; empty without any."""
    for kind in ("link", "joint"):
        for name, count in Counter(element.get("name", "") for element in urdf.findall(kind)).items():
            if count > 1:
                return f"{kind}s named '{name}'"
    return ""


def mesh_path(urdf: Path, name: str) -> Path | None:
    """Return the path of a mesh that is named relative to a URDF or to a package; None if it is
    missing.

    A package is a folder of its name above the URDF or inside such a folder, or installed under a
    prefix in AMENT_PREFIX_PATH. If there is none of its name, the URDF's own folders take its place.
    """
    above = [*urdf.resolve().parents]
    if not name.startswith(SCHEMES):
        plain = (urdf.parent / name.removeprefix("file://")).resolve()
        return plain if plain.is_file() else None
    package, _, inside = name.partition("://")[2].partition("/")
    prefixes = filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep))
    named = [folder if folder.name == package else folder / package for folder in above]
    named += [Path(prefix) / "share" / package for prefix in prefixes]
    bases = [folder for folder in named if folder.is_dir()] or above[:4]
    return next((base / inside for base in bases if (base / inside).is_file()), None)
