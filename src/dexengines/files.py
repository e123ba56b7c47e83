"""Model files, as people have them: MJCF, and URDF whose meshes are named by package."""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET
from pathlib import Path

import mujoco

from dexengines.errors import EngineError

PACKAGE = "package://"


def read_model(scene: str | Path | mujoco.MjSpec | mujoco.MjModel, dt: float | None = None) -> mujoco.MjModel:
    """A compiled model; ``dt`` [s] takes the place of its time step.

    Raises:
        EngineError: no such file, or one that MuJoCo cannot read or compile.
    """
    if isinstance(scene, mujoco.MjModel):
        model = copy.copy(scene)
    else:
        where = "the spec" if isinstance(scene, mujoco.MjSpec) else str(scene)
        text = None if isinstance(scene, mujoco.MjSpec) else _text(Path(scene))
        try:
            model = (
                scene
                if text is None
                else mujoco.MjSpec.from_string(text)
                if text
                else mujoco.MjSpec.from_file(where)
            ).compile()
        except ValueError as error:
            raise EngineError(f"{where}: MuJoCo says: {' '.join(str(error).split())}") from None
    if dt is not None:
        if not dt > 0.0:
            raise EngineError(f"the time step must be positive, got {dt!r} s")
        model.opt.timestep = dt
    return model


def _text(path: Path) -> str:
    """Of a URDF, with its meshes found; empty for an MJCF."""
    if not path.is_file():
        raise EngineError(f"there is no model file {path}")
    try:
        root = ET.parse(path).getroot()
    except ET.ParseError as error:
        raise EngineError(f"{path} is not valid XML: {error}") from None
    if root.tag != "robot":
        return ""
    for mesh in root.iter("mesh"):
        mesh.set("filename", str(_found(path, mesh.get("filename", ""))))
    if root.find("mujoco") is None:
        ET.SubElement(
            ET.SubElement(root, "mujoco"),
            "compiler",
            strippath="false",
            discardvisual="true",
            fusestatic="false",
        )
    return ET.tostring(root, encoding="unicode")


def _found(urdf: Path, name: str) -> Path:
    """A mesh named relative to the URDF, or to a package: one of the folders above the URDF, or one
    that lies in such a folder."""
    rest = name.removeprefix("file://")
    if not name.startswith(PACKAGE):
        return (urdf.parent / rest).resolve()
    package, _, inside = name.removeprefix(PACKAGE).partition("/")
    for folder in urdf.resolve().parents:
        for base in (folder if folder.name == package else None, folder / package):
            if base is not None and (base / inside).is_file():
                return base / inside
    return urdf.parent / inside
