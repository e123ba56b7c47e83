"""``dexstack view``: a page with films and figures of a scene file."""

import pytest

from dexstack.cli.main import main
from experiments.engines.scenes import SCENES


def test_a_scene_file_becomes_a_page(tmp_path, outcome):
    scene, page = tmp_path / "scene.xml", tmp_path / "page.html"
    scene.write_text(SCENES["rest"].xml)
    argv = "view", scene, "--engine", "mujoco", "hydroelastic", "--seconds", "0.4", "--out", page
    code, results = outcome(main, *argv)
    text = page.read_text()
    assert code == 0 and text.count("data:image/gif;base64,R0lGOD") == 2
    assert "largest penetration" in text and "http" not in text
    for row in results["engines"]:
        assert row["contacts"] >= 1 and row["trouble"] == ""
        assert row["force_N"] == pytest.approx(0.5 * 9.81, rel=0.2)
        assert 0.0 < row["depth_m"] < 2e-3 and row["step_s"] > 0.0
