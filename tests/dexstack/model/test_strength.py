"""The largest mass by levers and friction, and rejection of heavier objects."""

from dataclasses import replace

import numpy as np
import pytest

from dexstack.cli.main import main
from dexstack.config import share_dir
from dexstack.errors import ConfigError
from dexstack.model.hand import load_hand
from dexstack.model.mount import inclined
from dexstack.model.objects import load_object
from dexstack.model.strength import check_weight, finger_forces, heaviest

HAND, CUBE = load_hand("right"), load_object("cube")


def test_a_finger_pushes_with_its_weakest_joint():
    """Index of the Allegro: the first joint's torque over the stretched finger, by hand: 54, 38.4
    and 26.7 mm and the base's 16.4 mm."""
    lever = sum(np.linalg.norm(HAND.bodies[k].p_PB) for k in (2, 3, 4)) + np.linalg.norm(
        HAND.fingertips[0].p_BT
    )
    assert finger_forces(HAND)[0] == pytest.approx(HAND.effort[0] / lever)
    stronger = replace(HAND, effort=2.0 * HAND.effort)
    np.testing.assert_allclose(finger_forces(stronger), 2.0 * finger_forces(HAND))


def test_a_rough_palm_lowers_the_largest_mass():
    rough = replace(HAND, friction_palm=2.0 * max(HAND.friction_palm, CUBE.friction[0]))
    assert heaviest(rough, CUBE) == pytest.approx(
        0.5 * heaviest(replace(HAND, friction_palm=0.01), CUBE), rel=1e-6
    )


def test_the_fingers_of_an_inclined_palm_bear_what_it_does_not():
    """30°: the palm bears cos 30° of the weight, which rubs, and the fingers sin 30°; downwards they
    bear all of it."""

    def at(degrees):
        return heaviest(replace(HAND, gravity=inclined(degrees)), CUBE)

    friction = max(HAND.friction_palm, CUBE.friction[0])
    assert at(30.0) == pytest.approx(at(0.0) * friction / (friction * np.cos(np.pi / 6) + 0.5))
    assert at(180.0) == pytest.approx(at(0.0) * friction)
    assert heaviest(replace(HAND, gravity=(0.0, 0.0, 0.0)), CUBE) == np.inf


def test_packaged_hands_turn_packaged_objects():
    for hand in ("right", "left", "leap_right", "leap_left"):
        for name in ("cube", "foambrick", "stick"):
            check_weight(load_hand(hand), load_object(name))
    with pytest.raises(
        ConfigError,
        match=r"'cube' is too heavy for the hand .*: 5 kg, and its fingers turn 0\.\d+ kg at most",
    ):
        check_weight(HAND, replace(CUBE, mass=5.0))


def test_the_command_rejects_a_heavy_object_before_a_trial(tmp_path, capsys):
    folder = next(share_dir().rglob("objects/cube"))
    text = (folder / "cube.yaml").read_text().replace("mass: 0.2 ", "mass: 5.0 ")
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "cube.yaml").write_text(text)
    assert main(["eval", "palm_turn", "--object", str(tmp_path / "cube.yaml"), "--trials", "1"]) == 2
    assert "is too heavy for the hand" in capsys.readouterr().err
