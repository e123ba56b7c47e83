"""Model files: MJCF, and URDF whose meshes are named by package."""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET
from pathlib import Path

import mujoco

from dexengines.concave import Shaped, shape
from dexengines.errors import EngineError

PACKAGE = "package://"


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
    for mesh in root.iter("mesh"):
        mesh.set("filename", str(_mesh_path(path, mesh.get("filename", ""))))
    if root.find("mujoco") is None:
        options = {"strippath": "false", "discardvisual": "true", "fusestatic": "false"}
        ET.SubElement(ET.SubElement(root, "mujoco"), "compiler", options)
    return mujoco.MjSpec.from_string(ET.tostring(root, encoding="unicode"))


def _mesh_path(urdf: Path, name: str) -> Path:
    """Return the path of a mesh that is named relative to the URDF, or to a package: a folder above
    the URDF, or one inside such a folder."""
    if not name.startswith(PACKAGE):
        return (urdf.parent / name.removeprefix("file://")).resolve()
    package, _, inside = name.removeprefix(PACKAGE).partition("/")
    for folder in urdf.resolve().parents:
        for base in (folder if folder.name == package else None, folder / package):
            if base is not None and (base / inside).is_file():
                return base / inside
    return urdf.parent / inside
