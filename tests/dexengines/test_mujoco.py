"""MuJoCo's contacts at the default of ``solref``: stiff enough for what they carry."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexengines import load


def heights(masses: list[float], half: float, dt: float, solref: str = "") -> np.ndarray:
    """Return the heights at which boxes come to rest on each other."""
    boxes = "".join(
        f"<body pos='0 0 {(2 * k + 1.05) * half}'><freejoint/>"
        f"<geom type='box' size='{half} {half} {half}' mass='{m}' {solref}/></body>"
        for k, m in enumerate(masses)
    )
    xml = f"<mujoco><option timestep='{dt}'/><worldbody><geom type='plane' size='0 0 1' {solref}/>{boxes}"
    made = load(mujoco.MjModel.from_xml_string(f"{xml}</worldbody></mujoco>"))
    return made.rollout(made.reset(), np.zeros((round(1.5 / dt), 0))).q[-1, 2::7]


@pytest.mark.parametrize(
    ("masses", "half", "dt"), [([0.1, 10.0], 0.05, 1e-3), ([6e-5], 0.002, 2e-3), ([0.5], 0.05, 1e-3)]
)
def test_boxes_rest_where_they_touch(masses, half, dt):
    expected = half * (1 + 2 * np.arange(len(masses)))
    np.testing.assert_allclose(heights(masses, half, dt), expected, atol=0.02 * half * len(masses))


def test_a_time_constant_of_the_model_is_kept():
    assert heights([0.1, 10.0], 0.05, 1e-3, "solref='.021 1'")[1] < 0.142


def test_a_joint_stops_at_its_stop():
    xml = """<mujoco><option timestep=".001"/><worldbody><body pos="0 0 1"><joint axis="0 1 0" limited="true"
      range="-100 20"/><geom type="capsule" fromto="0 0 0 0 0 -.5" size=".02" mass="1" contype="0"/></body>
      </worldbody></mujoco>"""
    made = load(mujoco.MjModel.from_xml_string(xml))
    states = made.rollout(made.reset()._replace(q=np.radians([-80.0])), np.zeros((1500, 0)))
    assert np.degrees(states.q.max()) == pytest.approx(20.0, abs=0.1)
