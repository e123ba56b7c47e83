"""Writing of the YAML and URDF of a hand."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dexstack.model.objects import UNTUNED
from dexstack.model.urdf import Joint, Link, Shape
from dexstack.onboarding.hand_draft import Draft

FRICTION_PALM, FRICTION_FINGERS = 0.5, 1.0
"""Sliding friction of an added hand [-]: the Allegro's."""


@dataclass(frozen=True)
class Rest:
    """Mount and poses of a hand, which are not in a robot file."""

    side: str
    quat_WP: np.ndarray
    """(4,) wxyz"""
    p_WP: np.ndarray
    """(3,) [m]"""
    poses: dict[str, np.ndarray]
    """Joint angles (N,) [rad] by name."""
    swing_joints: Sequence[str] = ()
    ignored_contacts: Sequence[tuple[str, str]] = field(default_factory=tuple)


def write_hand(folder: Path, name: str, draft: Draft, rest: Rest, source: str) -> Path:
    """Write both files; return the YAML's path."""
    (folder / f"{name}.urdf").write_text(urdf(name, draft), encoding="utf-8")
    file = folder / f"{name}.yaml"
    text = f"""\
# From {source}.
urdf: {json.dumps(f"{name}.urdf")}
side: {rest.side}
palm_link: {json.dumps(draft.links[0].name)}

# Pose of the palm frame in the world: palm up, fingers to +x, origin on the palm below the grasp.
palm_mount:
  position: {_numbers(rest.p_WP, 6)}   # m
  quaternion: {_numbers(rest.quat_WP, 15)}   # w x y z

# Frames of the fingertips, the thumb's last.
fingertips:
  links: {json.dumps(draft.tips)}
  radius: {draft.radius:.6g}   # m

# Sliding friction [-]; between two surfaces the larger value counts. The Allegro's values: measure yours.
friction:
  palm: {FRICTION_PALM}
  fingers: {FRICTION_FINGERS}

# Joints that swing a finger from side to side: after a stall the next grasp begins at the other side.
swing_joints: {json.dumps(list(rest.swing_joints))}

planner: {UNTUNED}   # for objects without a start for this hand, in place of the task's

# Pairs of links that do not collide because their shapes overlap at rest; neighbours never collide.
ignored_contacts: {json.dumps([list(pair) for pair in rest.ignored_contacts])}

# Joint angles [rad] in joint order, a finger per line. "home" is the resting pose; objects may use others.
poses:
{_poses(draft, rest)}
"""
    file.write_text(text, encoding="utf-8")
    return file


def urdf(name: str, draft: Draft) -> str:
    """Return the links and joints of a draft as a URDF for :func:`~dexstack.model.urdf.read_urdf`."""
    robot = ET.Element("robot", name=name)
    for link in draft.links:
        _add_link(robot, link)
    for joint in draft.joints:
        _add_joint(robot, joint)
    ET.indent(robot)
    return '<?xml version="1.0"?>\n' + ET.tostring(robot, encoding="unicode") + "\n"


def _add_link(robot: ET.Element, link: Link) -> None:
    element = ET.SubElement(robot, "link", name=link.name)
    if link.mass > 0.0:
        inertial = ET.SubElement(element, "inertial")
        ET.SubElement(inertial, "origin", xyz=_text(link.com))
        ET.SubElement(inertial, "mass", value=f"{link.mass:.12g}")
        entries = {
            f"i{'xyz'[a]}{'xyz'[b]}": f"{link.inertia[a, b]:.15g}" for a in range(3) for b in range(a, 3)
        }
        ET.SubElement(inertial, "inertia", entries)
    for shape in link.shapes:
        for tag, size, p in _primitives(shape):
            for use in ("visual", "collision"):
                made = ET.SubElement(element, use)
                ET.SubElement(made, "origin", xyz=_text(p), rpy=_text(_rpy(shape.R)))
                ET.SubElement(ET.SubElement(made, "geometry"), tag, size)


def _primitives(shape: Shape) -> list[tuple[str, dict[str, str], np.ndarray]]:
    """Return the URDF's elements for a shape; a capsule is a cylinder with a sphere on each end,
    which :func:`~dexstack.model.urdf.join_capsules` recognises."""
    if shape.kind == "box":
        return [("box", {"size": _text(2.0 * shape.size)}, shape.p)]
    sphere = {"radius": f"{shape.size[0]:.12g}"}
    if shape.kind == "sphere":
        return [("sphere", sphere, shape.p)]
    middle = ("cylinder", sphere | {"length": f"{2.0 * shape.size[1]:.12g}"}, shape.p)
    if shape.kind == "cylinder":
        return [middle]
    return [
        middle,
        *(("sphere", sphere, shape.p + side * shape.size[1] * shape.R[:, 2]) for side in (-1.0, 1.0)),
    ]


def _add_joint(robot: ET.Element, joint: Joint) -> None:
    element = ET.SubElement(robot, "joint", name=joint.name, type=joint.kind)
    ET.SubElement(element, "parent", link=joint.parent)
    ET.SubElement(element, "child", link=joint.child)
    ET.SubElement(element, "origin", xyz=_text(joint.p_PC), rpy=_text(_rpy(joint.R_PC)))
    if joint.kind == "fixed":
        return
    ET.SubElement(element, "axis", xyz=_text(joint.axis))
    limits = {key: f"{getattr(joint, key):.12g}" for key in ("lower", "upper", "effort", "velocity")}
    ET.SubElement(element, "limit", limits)
    ET.SubElement(element, "dynamics", damping=f"{joint.damping:.12g}", friction="0")
    if joint.mimic is not None:
        ratio, offset = f"{joint.mimic.ratio:.12g}", f"{joint.mimic.offset:.12g}"
        ET.SubElement(element, "mimic", joint=joint.mimic.joint, multiplier=ratio, offset=offset)


def _rpy(R: np.ndarray) -> np.ndarray:
    """Return roll, pitch and yaw (3,) with Rz(yaw) Ry(pitch) Rx(roll) = R [rad]."""
    pitch = np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))
    if abs(R[2, 0]) > 1.0 - 1e-12:  # only the sum or difference of roll and yaw is defined
        return np.array([np.arctan2(-np.sign(R[2, 0]) * R[0, 1], R[1, 1]), pitch, 0.0])
    return np.array([np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])])


def _text(numbers: np.ndarray) -> str:
    return " ".join(f"{float(x) + 0.0:.12g}" for x in np.round(numbers, 13))


def _numbers(numbers: np.ndarray, digits: int) -> list[float]:
    return [round(float(x), digits) + 0.0 for x in numbers]


def _poses(draft: Draft, rest: Rest) -> str:
    """Return the poses' lines, one line per finger."""
    ends = [k for k, joint in enumerate(draft.joints) if joint.kind == "fixed"]  # one ends each finger
    own = np.cumsum([joint.kind == "revolute" and joint.mimic is None for joint in draft.joints])
    starts = own[ends[:-1]]
    lines = []
    for name, q in rest.poses.items():
        lines += [f"  {name}:", *(f"    - {_numbers(part, 4)}" for part in np.split(q, starts))]
    return "\n".join(lines)
