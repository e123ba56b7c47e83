"""Writing of the YAML and mesh of an object, and replacement of its start."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dexstack.errors import ConfigError
from dexstack.geometry.symmetry import NONE, Symmetry
from dexstack.model.hand import ALLEGRO
from dexstack.model.objects import Start

if TYPE_CHECKING:
    import trimesh


@dataclass(frozen=True)
class Facts:
    """Contents of the YAML besides the start."""

    mass: float
    parts: int
    source: str
    size: str
    alike: Symmetry = NONE


def write_object(folder: Path, name: str, body: trimesh.Trimesh, facts: Facts, start: Start) -> Path:
    """Write both files; return the YAML's path."""
    lines = [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in body.vertices]
    lines += [f"f {a} {b} {c}" for a, b, c in body.faces + 1]
    (folder / f"{name}.obj").write_text("\n".join(lines) + "\n", encoding="utf-8")
    file = folder / f"{name}.yaml"
    text = f"""\
# {facts.size} mm, from {facts.source}.
name: {name}
mesh: {name}.obj
mass: {facts.mass:.6g}   # kg, at uniform density
parts: {facts.parts}   # largest number of convex parts of the mesh

# Between two surfaces the larger value of each counts.
friction:
  sliding: 0.5            # -
  torsional: 0.005        # m, against spinning on a contact
  rolling: 0.0001         # m, against rolling over a contact
contact_dimension: 6      # 3: sliding friction only; 4: with torsional; 6: with rolling
{_symmetry(facts.alike)}
# Start of the object in a right hand (in a left one: at −y), and the random offset that a trial adds to it.
start:
{chr(10).join(_start_lines(start))}
"""
    file.write_text(text, encoding="utf-8")
    return file


def with_start(text: str, start: Start) -> str:
    """Return the text of an object's YAML with its start for turning on a palm replaced.

    Raises:
        ConfigError: it has no such start.
    """
    lines = text.splitlines()
    at = next((k for k, line in enumerate(lines) if re.match(rf"\s+{ALLEGRO}\s*:", line)), None)
    if at is None:
        raise ConfigError(f"the object's YAML has no start '{ALLEGRO}'")
    indent = re.match(r"\s*", lines[at]).group()
    end = at + 1
    while end < len(lines) and (lines[end].strip() == "" or re.match(rf"{indent}\s", lines[end])):
        end += 1
    gap = [""] if end < len(lines) else []
    return "\n".join([*lines[:at], *_start_lines(start, indent), *gap, *lines[end:]]) + "\n"


def plain_name(text: str, what: str) -> str:
    """Return the text as a file name: letters, digits, _ and -.

    Raises:
        ConfigError: If it has no such character.
    """
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")
    if not name:
        raise ConfigError(f"'{text}' is not a name for {what}: use letters, digits, _ and -")
    return name


def _symmetry(alike: Symmetry) -> str:
    """Return the YAML's lines of a symmetry."""
    if not alike:
        return ""
    lines = [
        "",
        "# Rotations about axes of the mesh after which the object looks alike: order n: by 360°/n, 0: by "
        "any angle.",
        "symmetry:",
    ]
    for axis in alike.axes:
        direction = ", ".join(f"{x:.6g}" for x in axis.ahat_B + 0.0)
        lines.append(f"  - {{axis: [{direction}], order: {axis.order}}}   # {axis}")
    return "\n".join(lines) + "\n"


def _start_lines(start: Start, indent: str = "  ") -> list[str]:
    x, y, z = (round(float(v), 4) + 0.0 for v in start.pose_WO[:3])
    yaw = 2.0 * float(np.arctan2(start.pose_WO[6], start.pose_WO[3]))
    return [
        f"{indent}{ALLEGRO}:",
        f"{indent}  position: [{x}, {y}, {z}]   # m, of the centre of mass, in the world (origin on the "
        "palm, z up)",
        f"{indent}  yaw: {yaw:.6f}                # rad, about world z",
        f"{indent}  noise_position: {start.noise_position:g}   # m, standard deviation in x and in y",
        f"{indent}  noise_yaw: {start.noise_yaw:g}        # rad, largest turn in either direction",
        f"{indent}  hand_pose: {start.hand_pose}          # a pose of the hand's YAML",
        *([f"{indent}  planner: {start.planner}        # in place of the task's"] if start.planner else []),
    ]
