"""Hands of any number of fingers and joints, written as files: a square palm, fingers around it
that curl over it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import trimesh

RADIUS, SPACING, LENGTH, TIP = 0.05, 0.005, 0.03, 0.009
"""Of the ring on which the fingers stand, above the palm's top, of a link, of the fingertips
[m]."""


CUBE = """\
name: cube
mesh: cube.obj
mass: 0.1
friction: {sliding: 0.5, torsional: 0.005, rolling: 0.0001}
start:
  generated: {position: [0.0, 0.0, 0.0255], yaw: 0.0, noise_position: 0.002, noise_yaw: 0.1}
"""


def write_cube(folder: Path) -> str:
    """Write a cube of 50 mm that starts on the palm; return its file."""
    trimesh.creation.box(3 * [0.05]).export(folder / "cube.obj")
    (folder / "cube.yaml").write_text(CUBE)
    return str(folder / "cube.yaml")


def write_hand(folder: Path, fingers: Sequence[int]) -> Path:
    """Write YAML and URDF of a hand with the given number of joints in each finger. Joints turn about
    the palm's tangent, the first about it."""
    links = [_link("palm", '<box size="0.12 0.12 0.02"/>', (0, 0, -0.01), 0.4)]
    joints, tips, home = [], [], []
    for f, count in enumerate(fingers):
        angle = 2 * np.pi * f / len(fingers)
        parent, place, turn = "palm", (RADIUS * np.cos(angle), RADIUS * np.sin(angle), SPACING), angle
        for j in range(count):
            name = f"f{f}_{j}"
            links.append(
                _link(name, f'<capsule radius="{TIP}" length="{LENGTH}"/>', (0, 0, LENGTH / 2), 0.03)
            )
            joints.append(_joint(name, parent, place, turn))
            parent, place, turn = name, (0, 0, LENGTH), 0.0
        links.append(f'<link name="f{f}_tip"/>')
        joints.append(
            f'<joint name="f{f}_end" type="fixed"><parent link="{parent}"/><child link="f{f}_tip"/>'
            f'<origin xyz="0 0 {LENGTH}"/></joint>'
        )
        tips.append(f"f{f}_tip")
        home.append([-0.5] + [0.3] * (count - 1))
    (folder / "hand.urdf").write_text(f'<robot name="generated">{"".join(links)}{"".join(joints)}</robot>')
    file = folder / "hand.yaml"
    file.write_text(f"""\
urdf: hand.urdf
side: right
palm_link: palm
palm_mount: {{position: [0, 0, 0], quaternion: [1, 0, 0, 0]}}
fingertips: {{links: [{", ".join(tips)}], radius: {TIP}}}
friction: {{palm: 0.5, fingers: 1.0}}
poses: {{home: {home}}}
""")
    return file


def _link(name: str, shape: str, at: tuple[float, float, float], mass: float) -> str:
    if shape.startswith("<capsule"):
        ends = f'<collision><origin xyz="0 0 {{}}"/><geometry><sphere radius="{TIP}"/></geometry></collision>'
        middle = (
            f'<collision><origin xyz="0 0 {at[2]}"/><geometry>'
            f'<cylinder radius="{TIP}" length="{LENGTH}"/></geometry></collision>'
        )
        shapes = middle + ends.format(0.0) + ends.format(LENGTH)
    else:
        shapes = f'<collision><origin xyz="{at[0]} {at[1]} {at[2]}"/><geometry>{shape}</geometry></collision>'
    inertia = (
        f'<inertia ixx="{mass * 2e-4}" iyy="{mass * 2e-4}" izz="{mass * 2e-4}" ixy="0" ixz="0" iyz="0"/>'
    )
    inertial = f'<inertial><origin xyz="{at[0]} {at[1]} {at[2]}"/><mass value="{mass}"/>{inertia}</inertial>'
    return f'<link name="{name}">{inertial}{shapes}</link>'


def _joint(name: str, parent: str, place: tuple[float, float, float], turn: float) -> str:
    xyz = f"{place[0]} {place[1]} {place[2]}"
    ends = f'<parent link="{parent}"/><child link="{name}"/><origin xyz="{xyz}" rpy="0 0 {turn}"/>'
    limits = '<limit lower="-1.2" upper="1.2" effort="0.6" velocity="6"/><dynamics damping="0.1"/>'
    return f'<joint name="joint_{name}" type="revolute">{ends}<axis xyz="0 -1 0"/>{limits}</joint>'
