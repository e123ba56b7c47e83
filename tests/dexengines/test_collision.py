"""Collision geometry: pairs against MuJoCo's contacts, and materials from all three sources."""

import itertools

import mujoco
import numpy as np
import pytest

from dexengines.collision import read_collision
from dexengines.errors import EngineError

KINDS = {
    "sphere": "0.1",
    "capsule": "0.05 0.1",
    "box": "0.1 0.1 0.1",
    "cylinder": "0.1 0.1",
    "ellipsoid": "0.1 0.1 0.1",
}


def model(body: str, more: str = "") -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{body}</worldbody>{more}</mujoco>")


def names(collision) -> set[frozenset[str]]:
    return {frozenset((collision.geoms[p.a].name, collision.geoms[p.b].name)) for p in collision.pairs}


def test_the_pairs_are_those_of_mujoco():
    """With all geoms at one point, MuJoCo finds a contact in every pair that it does not filter."""
    rng = np.random.default_rng(1)
    for _ in range(30):
        text, open_bodies = '<geom name="w" type="plane" size="1 1 1"/>', 0
        for k in range(8):
            kind = rng.choice(list(KINDS))
            while open_bodies and rng.random() < 0.4:
                text, open_bodies = text + "</body>", open_bodies - 1
            joint = (
                "<freejoint/>"
                if not open_bodies and rng.random() < 0.5
                else "<joint/>"
                if rng.random() < 0.7
                else ""
            )
            bits = (
                f'contype="{rng.integers(4)}" conaffinity="{rng.integers(4)}" '
                f'priority="{rng.integers(2)}" condim="{rng.choice([1, 3])}"'
            )
            friction = f'friction="{rng.uniform(0.1, 1.0):.3f}"'
            text += (
                f'<body name="b{k}">{joint}<geom name="g{k}" type="{kind}" size="{KINDS[kind]}" {bits} '
                f"{friction}/>"
            )
            open_bodies += 1
        m = model(
            text + "</body>" * open_bodies,
            '<contact><exclude body1="b0" body2="b5"/><pair geom1="g1" geom2="g6" friction="2 2"/></contact>',
        )
        data = mujoco.MjData(m)
        mujoco.mj_fwdPosition(m, data)
        ours = read_collision(m)
        seen = {frozenset(m.geom(g).name for g in c.geom): c for c in data.contact}
        nested = {frozenset(name.replace("b", "g") for name in pair) for pair in ours.nested}
        assert names(ours) >= seen.keys() - nested
        seen = {pair: contact for pair, contact in seen.items() if pair not in nested or pair == {"g1", "g6"}}
        friction = {frozenset((ours.geoms[p.a].name, ours.geoms[p.b].name)): p.friction for p in ours.pairs}
        for pair, contact in seen.items():
            assert friction[pair] == pytest.approx(contact.friction[0] if contact.dim > 1 else 0.0)
        for a, b in itertools.combinations(
            [f"g{k}" for k in range(8)], 2
        ):  # all of these are at one place, and seen if they may touch
            assert (frozenset((a, b)) in names(ours)) == (frozenset((a, b)) in seen)


def test_links_that_overlap_as_built_do_not_collide_but_fingers_and_the_world_do():
    m = model(
        '<geom type="plane" size="1 1 1"/><body name="palm" pos="0 0 0.09"><freejoint/><geom size="0.1"/>'
        '<body name="knuckle"><joint/><geom size="0.02" contype="0" conaffinity="0"/>'
        '<body name="left" pos="0.13 0 0"><joint/><geom name="left" size="0.05"/></body>'
        '<body name="right" pos="0.2 0 0"><joint/><geom name="right" size="0.05"/></body>'
        '<body name="far" pos="0 0.2 0"><joint/><geom name="far" size="0.05"/></body></body></body>'
    )
    ours = read_collision(m)
    assert ours.nested == (("palm", "left"),)
    found = {frozenset(pair) for pair in names(ours)}
    assert frozenset(("left", "right")) in found and frozenset(("world/geom 0", "palm/geom 1")) in found
    assert frozenset(("palm/geom 1", "far")) in found and frozenset(("palm/geom 1", "left")) not in found


def test_geoms_fixed_to_the_world_are_in_its_frame():
    m = model(
        '<body pos="1 0 0" euler="0 0 90"><body pos="1 0 0"><geom name="far" type="box" size=".1 .2 .3" '
        'pos="0 0 1"/></body></body>'
        '<body><freejoint/><geom size=".1"/></body>'
    )
    data = mujoco.MjData(m)
    mujoco.mj_kinematics(m, data)
    far, ball = read_collision(m).geoms
    assert far.body == 0 and ball.body == 3 and ball.name == "body 3/geom 1"
    np.testing.assert_allclose(far.p, data.geom("far").xpos, atol=1e-12)
    np.testing.assert_allclose(far.R.ravel(), data.geom("far").xmat, atol=1e-12)


def test_materials_come_from_the_model_then_from_the_caller(tmp_path):
    text = (
        '<geom name="floor" type="plane" size="1 1 1"/><body><freejoint/><geom name="ball" size=".1"/></body>'
    )
    m = model(
        text,
        '<custom><numeric name="contact_modulus" data="1e6"/><numeric name="contact_modulus:ball" '
        'data="2e5"/></custom>',
    )
    floor, ball = read_collision(m).geoms
    assert (floor.modulus, ball.modulus, ball.resolution) == (1e6, 2e5, 0.05)
    file = tmp_path / "materials.yaml"
    file.write_text("default: {stiffness: 5000}\nball: {modulus: 3.0e+5, resolution: 0.01}\n")
    floor, ball = read_collision(m, file).geoms
    assert (floor.modulus, ball.modulus, ball.resolution, floor.material.stiffness) == (1e6, 3e5, 0.01, 5000)
    assert read_collision(model(text)).geoms[0].modulus == np.inf
    for wrong, message in (
        ({"bal": {}}, "unknown geom 'bal'"),
        ({"ball": {"hardness": 1.0}}, "unknown field of a material 'hardness'"),
        ({"ball": {"modulus": -1.0}}, "'modulus' of 'ball' must be a number"),
    ):
        with pytest.raises(EngineError, match=message):
            read_collision(m, wrong)
    file.write_text("ball: 3.0\n")
    with pytest.raises(EngineError, match=r"materials.yaml: 'ball' must map fields to numbers"):
        read_collision(m, file)
