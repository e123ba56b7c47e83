"""Good robot files, broken at random: what users bring."""

import xml.etree.ElementTree as ElementTree

import mujoco
import numpy as np
import trimesh

from tests.dexstack.model.generated_hand import write_hand
from tests.dexstack.onboarding.broken import spoil

WORDS = (
    *("nan", "inf", "-1", "0", "1e30", "1e-30", "", "many", "0 0", "0.1 0.2 0.3 0.4"),
    *("palm", "f0_0", "f1_tip", "world", "nothing", "a b <c>"),
    *("continuous", "prismatic", "fixed", "floating", "planar", "ball", "hinge"),
)
"""Values of attributes: numbers, names and types of joints."""


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


def _removed(root, rng):
    """Remove an element and what it contains."""
    pairs = [(parent, child) for parent in root.iter() for child in parent]
    parent, child = pairs[rng.integers(len(pairs))]
    parent.remove(child)


def _repeated(root, rng):
    """Put a copy of an element into another."""
    elements = list(root.iter())
    copy = ElementTree.fromstring(ElementTree.tostring(elements[rng.integers(1, len(elements))]))
    elements[rng.integers(len(elements))].append(copy)


def _changed(root, rng):
    """Change or remove an attribute."""
    owners = [e for e in root.iter() if e.attrib]
    owner = owners[rng.integers(len(owners))]
    key = sorted(owner.attrib)[rng.integers(len(owner.attrib))]
    if rng.random() < 0.2:
        del owner.attrib[key]
    else:
        owner.set(key, WORDS[rng.integers(len(WORDS))])


MUTATIONS = (_removed, _repeated, _changed, _changed)


def write(folder, seed):
    """A mutated robot file with one to three faults; every fourth with faults in its bytes or in a
    mesh of it."""
    rng = np.random.default_rng(20_000 + seed)
    file = good(folder, rng)
    tree = ElementTree.parse(file)
    if seed % 4:
        for fault in rng.integers(0, len(MUTATIONS), rng.integers(1, 4)):
            MUTATIONS[fault](tree.getroot(), rng)
        tree.write(file)
        return file
    broken = ([*folder.glob("*.stl"), *folder.glob("*.obj"), file])[
        rng.integers(0, 3 if file.suffix == ".urdf" else 1)
    ]
    spoil(broken, rng, 5)
    return file
