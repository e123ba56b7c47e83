"""One robot in many spellings of URDF and MJCF gives the same hand; what is not a spelling of it ends in
one sentence."""

import re
import xml.etree.ElementTree as ET

import mujoco
import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.onboarding.hand_draft import draft_hand
from dexstack.onboarding.robot_file import read_robot
from tests.dexstack.model.generated_hand import write_hand

TIPS = ("f0_tip", "f1_tip", "f2_tip")


@pytest.fixture
def urdf(tmp_path):
    write_hand(tmp_path, (2, 2, 2))
    return (tmp_path / "hand.urdf").read_text()


@pytest.fixture
def mjcf(urdf):
    """The URDF as MuJoCo writes it, with angles in radians."""
    spec = mujoco.MjSpec.from_string(urdf)
    spec.compiler.fusestatic = False
    spec.compile()
    return spec.to_xml()


def drafted(file):
    return draft_hand(read_robot(file), "palm", TIPS, 0.6)


def assert_same(one, other):
    assert [j.name for j in one.joints] == [j.name for j in other.joints]
    for a, b in zip(one.joints, other.joints, strict=True):
        for key in ("lower", "upper", "p_PC", "axis"):
            np.testing.assert_allclose(getattr(a, key), getattr(b, key), atol=1e-5)
    for a, b in zip(one.links, other.links, strict=True):
        np.testing.assert_allclose(
            [a.mass, *a.com, *a.inertia.ravel()], [b.mass, *b.com, *b.inertia.ravel()], atol=1e-6
        )
        assert [s.kind for s in a.shapes] == [s.kind for s in b.shapes]


def in_degrees(folder, text):
    root = ET.fromstring(text)
    root.find("compiler").set("angle", "degree")
    for joint in root.iter("joint"):
        limits = np.degrees([float(x) for x in joint.get("range").split()])
        joint.set("range", " ".join(f"{x:.12g}" for x in limits))
    return ET.tostring(root, encoding="unicode")


def with_include(folder, text):
    root = ET.fromstring(text)
    world = root.find("worldbody")
    part = ET.Element("mujocoinclude")
    for child in list(world):
        world.remove(child)
        part.append(child)
    (folder / "parts").mkdir()
    (folder / "parts" / "bödies.xml").write_bytes(ET.tostring(part, encoding="utf-8"))
    ET.SubElement(world, "include", file="parts/bödies.xml")
    return ET.tostring(root, encoding="unicode")


def with_defaults(folder, text):
    root = ET.fromstring(text)
    joints = list(root.iter("joint"))
    default = ET.SubElement(root, "default")
    own = ET.SubElement(default, "default", {"class": "finger"})
    ET.SubElement(own, "joint", {key: joints[0].get(key) for key in ("range", "damping")})
    for joint in joints:
        for key in ("range", "damping"):
            del joint.attrib[key]
        joint.set("class", "finger")
    return ET.tostring(root, encoding="unicode")


def with_other_things(folder, text):
    """A cloth, replicated balls and a floor next to the hand."""
    root = ET.fromstring(text)
    world = root.find("worldbody")
    cloth = {"name": "cloth", "type": "grid", "count": "3 3 1", "spacing": ".05 .05 .05", "radius": "0.005"}
    ET.SubElement(world, "flexcomp", cloth, pos="1 0 0")
    balls = ET.SubElement(world, "replicate", count="3", offset="0.1 0 0")
    ET.SubElement(ET.SubElement(balls, "body", pos="0 1 0"), "geom", size="0.01")
    ET.SubElement(world, "geom", type="plane", size="1 1 0.1", pos="0 0 -1")
    return ET.tostring(root, encoding="unicode")


@pytest.mark.parametrize("spelling", [in_degrees, with_include, with_defaults, with_other_things])
def test_spellings_of_an_mjcf_give_the_same_hand(spelling, mjcf, tmp_path):
    (tmp_path / "plain.xml").write_text(mjcf)
    folder = tmp_path / "other place"
    folder.mkdir()
    (folder / "robot é.xml").write_text(spelling(folder, mjcf), encoding="utf-8")
    assert_same(drafted(folder / "robot é.xml"), drafted(tmp_path / "plain.xml"))


URDF_SPELLINGS = {
    "an unused xacro name space": lambda text: text.replace(
        "<robot ", '<robot xmlns:xacro="http://www.ros.org/wiki/xacro" ', 1
    ),
    "comments and a declaration": lambda text: '<?xml version="1.0" encoding="utf-8"?>\n<!-- ö -->\n' + text,
    "elements for other programs": lambda text: text.replace(
        "</robot>",
        '<gazebo reference="palm"><material>Grey</material></gazebo><transmission name="t"/>'
        '<ros2_control name="c" type="system"/></robot>',
    ),
    "axes of another length": lambda text: text.replace('<axis xyz="0 -1 0"/>', '<axis xyz="0 -2.5 0"/>'),
    "white space in numbers": lambda text: text.replace('xyz="0 -1 0"', 'xyz="  0\n-1.0\t0 "'),
}


@pytest.mark.parametrize("name", URDF_SPELLINGS)
def test_spellings_of_a_urdf_give_the_same_hand(name, urdf, tmp_path):
    changed = URDF_SPELLINGS[name](urdf)
    assert changed != urdf
    (tmp_path / "plain.urdf").write_text(urdf)
    (tmp_path / "other.urdf").write_text(changed, encoding="utf-8")
    assert_same(drafted(tmp_path / "other.urdf"), drafted(tmp_path / "plain.urdf"))


def test_missing_inertias_are_those_of_the_shapes_and_said(urdf, tmp_path):
    """At the density of water; a capsule is a cylinder and two spheres in the file."""
    (tmp_path / "robot.urdf").write_text(re.sub(r"<inertial>.*?</inertial>", "", urdf, flags=re.S))
    draft = drafted(tmp_path / "robot.urdf")
    moving = [link for link in draft.links[1:] if link.shapes]
    (shape,) = moving[0].shapes
    radius, half = shape.size
    volume = np.pi * radius**2 * 2 * half + 2 * 4 / 3 * np.pi * radius**3
    np.testing.assert_allclose([link.mass for link in moving], 1000.0 * volume, rtol=1e-3)
    assert any("no inertia in the file" in note and "f0_0" in note for note in draft.notes)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('xyz="0 -1 0"', 'xyz="${axis}"', r"robot.urdf holds '\$\{axis\}'.* xacro"),
        (
            '<box size="0.12 0.12 0.02"/>',
            '<mesh filename="$(find hand)/palm.stl"/>',
            r"holds '\$\(find hand\).* xacro",
        ),
        (
            '<box size="0.12 0.12 0.02"/>',
            '<mesh filename="file:///no/palm.stl"/>',
            "palm.stl' of the link 'palm' is missing",
        ),
    ],
)
def test_leftovers_of_xacro_are_named(old, new, said, urdf, tmp_path):
    (tmp_path / "robot.urdf").write_text(urdf.replace(old, new, 1))
    with pytest.raises(ConfigError, match=said) as caught:
        drafted(tmp_path / "robot.urdf")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<worldbody>", '<worldbody><include file="no.xml"/>', "no.xml"),
        ('type="cylinder"', 'type="mesh" mesh="no"', "no"),
        ("<worldbody>", '<worldbody><body><composite type="grid"/></body>', "MuJoCo cannot read"),
    ],
)
def test_an_incomplete_mjcf_is_named(old, new, said, mjcf, tmp_path):
    assert old in mjcf
    (tmp_path / "robot.xml").write_text(mjcf.replace(old, new, 1))
    with pytest.raises(ConfigError, match=said) as caught:
        drafted(tmp_path / "robot.xml")
    assert "\n" not in str(caught.value)
