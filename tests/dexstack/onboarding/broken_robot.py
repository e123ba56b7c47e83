"""Good robot files, broken at random: what users bring."""

import xml.etree.ElementTree as ElementTree

import mujoco
import numpy as np
import trimesh

from tests.dexstack.model.generated_hand import write_hand
from tests.dexstack.onboarding.broken import spoil

NUMBERS = ("nan", "inf", "-1", "0", "1e30", "1e-30", "", "many", "0 0", "0.1 0.2 0.3 0.4")
NAMES = ("", "palm", "f0_0", "f1_tip", "world", "nothing", "a b <c>")


def good(folder, rng):
    """A hand of two or three fingers as URDF with meshes for some of its shapes, or as MJCF; its
    path."""
    write_hand(folder, [int(n) for n in rng.integers(1, 4, rng.integers(2, 4))])
    text = (folder / "hand.urdf").read_text()
    if rng.random() < 0.4:
        spec = mujoco.MjSpec.from_string(text)
        spec.compiler.fusestatic = False
        spec.compile()
        file = folder / "robot.xml"
        file.write_text(spec.to_xml())
        return file
    trimesh.creation.box((0.12, 0.12, 0.02)).export(folder / "palm.stl")
    trimesh.creation.capsule(0.03, 0.009).export(folder / "link.obj")
    text = text.replace('<box size="0.12 0.12 0.02"/>', '<mesh filename="palm.stl"/>')
    if rng.random() < 0.5:
        text = text.replace(
            '<cylinder radius="0.009" length="0.03"/>', '<mesh filename="package://robot/link.obj"/>'
        )
    file = folder / "robot.urdf"
    file.write_text(text)
    return file


def _elements(root, rng):
    """An element that is not the root, and its parent."""
    pairs = [(parent, child) for parent in root.iter() for child in parent]
    return pairs[rng.integers(len(pairs))] if pairs else (None, None)


def _deleted(root, rng):
    parent, child = _elements(root, rng)
    if parent is not None:
        parent.remove(child)


def _doubled(root, rng):
    parent, child = _elements(root, rng)
    if parent is not None:
        parent.append(child)


def _moved(root, rng):
    _, child = _elements(root, rng)
    others = [e for e in root.iter() if child is not None and e not in list(child.iter())]
    if others:
        others[rng.integers(len(others))].append(child)


def _attribute(root, rng):
    owners = [e for e in root.iter() if e.attrib]
    owner = owners[rng.integers(len(owners))]
    return owner, sorted(owner.attrib)[rng.integers(len(owner.attrib))]


def _renumbered(root, rng):
    owner, key = _attribute(root, rng)
    owner.set(key, NUMBERS[rng.integers(len(NUMBERS))])


def _renamed(root, rng):
    owner, key = _attribute(root, rng)
    owner.set(key, NAMES[rng.integers(len(NAMES))])


def _unsaid(root, rng):
    owner, key = _attribute(root, rng)
    del owner.attrib[key]


def _scaled(root, rng):
    owners = [e for e in root.iter() if {"xyz", "pos", "size", "radius", "length"} & e.attrib.keys()]
    factor = 10.0 ** rng.uniform(-6, 6)
    for owner in owners[: rng.integers(1, len(owners) + 1)]:
        for key in {"xyz", "pos", "size", "radius", "length"} & owner.attrib.keys():
            owner.set(key, " ".join(f"{factor * float(word):g}" for word in owner.get(key).split()))


def _retyped(root, rng):
    joints = [e for e in root.iter("joint") if "type" in e.attrib]
    if joints:
        kinds = ("continuous", "prismatic", "fixed", "floating", "planar", "ball", "hinge")
        joints[rng.integers(len(joints))].set("type", kinds[rng.integers(len(kinds))])


def _coupled(root, rng):
    joints = list(root.iter("joint"))
    if joints:
        ElementTree.SubElement(joints[rng.integers(len(joints))], "mimic", joint=joints[0].get("name", ""))


MUTATIONS = (
    _deleted,
    _doubled,
    _moved,
    _renumbered,
    _renumbered,
    _renamed,
    _unsaid,
    _scaled,
    _retyped,
    _coupled,
)


def write(folder, seed):
    """A mutated robot file with one to three faults; every fourth with faults in its bytes or in a
    mesh of it."""
    rng = np.random.default_rng(20_000 + seed)
    file = good(folder, rng)
    tree = ElementTree.parse(file)
    if seed % 4:
        for fault in rng.integers(0, len(MUTATIONS), rng.integers(1, 4)):
            try:
                MUTATIONS[fault](tree.getroot(), rng)
            except ValueError:
                continue  # two faults in one place
        tree.write(file)
        return file
    broken = ([*folder.glob("*.stl"), *folder.glob("*.obj"), file])[
        rng.integers(0, 3 if file.suffix == ".urdf" else 1)
    ]
    spoil(broken, rng, 5)
    return file
