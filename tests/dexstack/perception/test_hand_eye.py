"""Camera pose and joint zeros from tags on the fingertips, against ground truth."""

import re

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from dexstack.cli.main import main
from dexstack.errors import ConfigError
from dexstack.hand.calibration import load_offsets
from dexstack.model.hand import load_hand
from dexstack.perception.calibration import load_mount
from dexstack.perception.camera_params import usual_mount
from dexstack.perception.hand_eye import FIRST_TAG, Look, calibrate_hand_eye, fingertip_bundle, postures
from dexstack.perception.se3 import Transform, difference, exp
from dexstack.perception.sources import FINE
from dexstack.perception.tags import Detection
from tests.dexstack.model.tree import body_poses

HAND = load_hand("right")
X_WP = Transform.of_pose([*HAND.p_WP, *HAND.quat_WP])


def links_P(q: np.ndarray) -> list[Transform]:
    """Return the last links in the palm frame, independently of the tested code."""
    R, p = body_poses(HAND, q)
    return [Transform(R[tip.body], p[tip.body]) for tip in HAND.fingertips]


def looks(
    X_PC: Transform,
    zeros: np.ndarray,
    count: int = 60,
    noise: float = 0.06,
    seed: int = 0,
) -> list[Look]:
    """Return a camera's pictures."""
    rng, tags, found = np.random.default_rng(seed), fingertip_bundle(HAND).tags.values(), []
    for q in postures(count, rng):
        here = []
        for tag, X_PL in zip(tags, links_P(q), strict=True):
            X_CL = X_PC.inverse.compose(X_PL)
            normal, centre = X_CL.R @ tag.normal, X_CL.apply(tag.X_OT.p[None])[0]
            uv = FINE.camera.project(X_CL.apply(tag.corners))
            inside = uv.min() > 0 and (uv < [FINE.image_width, FINE.image_height]).all()
            if normal @ centre < -0.4 * np.linalg.norm(centre) and inside:
                here.append(Detection(tag.tag, uv + rng.normal(0.0, noise, (4, 2)), 99.0, np.ones(4, bool)))
        found.append(Look(q + zeros, here))
    return found


def somewhere(seed: int) -> Transform:
    rng, usual = np.random.default_rng(seed), X_WP.inverse.compose(usual_mount("right"))
    return Transform(usual.R @ exp(rng.uniform(-0.1, 0.1, 3)), usual.p + rng.uniform(-0.02, 0.02, 3))


def test_camera_and_zeros_are_found_within_a_millimetre_and_a_quarter_degree():
    zeros, X_PC = np.random.default_rng(100).uniform(-0.1, 0.1, 16), somewhere(0)
    c = calibrate_hand_eye(looks(X_PC, zeros), HAND, FINE.camera)
    way = difference(c.X_PC, X_PC)
    assert np.linalg.norm(way[:3]) < 1e-3 and np.linalg.norm(way[3:]) < np.radians(0.25)
    assert np.abs(c.zeros - zeros).max() < np.radians(0.25)
    assert not c.trouble and c.errors[0] < 1.0 and c.errors[1] < 0.5


def test_a_camera_that_was_moved_is_rejected():
    X_PC, zeros = somewhere(2), np.zeros(16)
    moved = Transform(X_PC.R @ exp(np.array([0.0, 0.04, 0.0])), X_PC.p)
    both = looks(X_PC, zeros)
    both[1::2] = looks(moved, zeros)[1::2]
    assert "held-out pictures are off" in calibrate_hand_eye(both, HAND, FINE.camera).trouble


def test_a_sweep_with_too_few_pictures_of_a_finger_is_rejected():
    found = looks(somewhere(3), np.zeros(16))
    found = [look._replace(found=[d for d in look.found if d.tag != FIRST_TAG + 3]) for look in found]
    with pytest.raises(ConfigError, match=r"did not see enough of tag 53 \(thumb\): 0 of 60"):
        calibrate_hand_eye(found, HAND, FINE.camera)


@pytest.mark.slow
def test_the_command_moves_the_emulated_hand_and_keeps_both(tmp_path, outcome):
    """Its zeros and the camera's pose are not the defaults, and unknown to the command."""
    zeros = np.linspace(-0.1, 0.1, 16)[np.random.default_rng(0).permutation(16)]
    mount = tmp_path / "mount.yaml"
    command = ["calibrate", "hand-eye", "--interface", "emulated", "--yes", "--seed", "5"]
    command += ["--calibration-dir", str(tmp_path)]
    wrong = f"--emulator-arguments=--zero-offsets {' '.join(f'{x:.4f}' for x in zeros)}"
    code, found = outcome(main, *command, wrong, "--output", mount)
    assert code == 0 and found["true_error_mm"] < 1.0 and found["true_error_deg"] < 0.25
    np.testing.assert_allclose(load_offsets(tmp_path, "EMU00001"), zeros, atol=np.radians(0.25))
    way = difference(load_mount(mount, HAND), usual_mount("right"))
    assert np.linalg.norm(way[:3]) > 0.005, "the camera's pose was not the default"
    assert main([*command, "--postures", "8", "--output", str(mount)]) != 0, "too few pictures"


def test_the_carriers_of_tags_are_drawn(tmp_path):
    """The drawings' numbers agree with the tags' places, and their braces match."""
    for name in ("base", "fingertips"):
        assert main(["calibrate", "sheet", "--object", name, "--output", str(tmp_path / f"{name}.scad")]) == 0
    plate, cap = ((tmp_path / f"{name}.scad").read_text() for name in ("base", "fingertips"))
    for text in (plate, cap):
        assert all(text.count(a) == text.count(b) for a, b in ("{}", "[]", "()"))
    found = re.findall(r"translate\(\[(.*?),(.*?),.*// tag 4", plate)
    places = np.array(found, float)
    # palm y and z [mm], hardware/tags.md
    expected = np.array([[-22.0, -125.0], [22.0, -125.0], [-22.0, -165.0], [22.0, -165.0]])
    np.testing.assert_allclose(pdist(places), pdist(expected), atol=0.01)
    assert places[1, 0] > 0.0, "seen from the front, along −x with z up, palm y points to the right"
    assert "cube([25.000, 25.000, 2])" in cap and "sphere(r = 12.250" in cap
    assert main(["calibrate", "sheet", "--object", "cube", "--output", str(tmp_path / "cube.scad")]) != 0
