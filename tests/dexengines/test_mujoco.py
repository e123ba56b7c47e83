"""MuJoCo's own parameters are kept, and joints that pass their stops are named."""

from __future__ import annotations

import mujoco
import numpy as np

from dexengines import load


def test_a_time_constant_of_the_model_is_kept():
    """10 kg on 0.1 kg."""
    boxes = "".join(
        f"<body pos='0 0 {z}'><freejoint/>"
        f"<geom type='box' size='.05 .05 .05' mass='{m}' solref='.021 1'/></body>"
        for z, m in ((0.0525, 0.1), (0.1525, 10.0))
    )
    floor = "<geom type='plane' size='0 0 1' solref='.021 1'/>"
    xml = f"<mujoco><option timestep='.001'/><worldbody>{floor}{boxes}</worldbody></mujoco>"
    made = load(mujoco.MjModel.from_xml_string(xml))
    assert made.rollout(made.reset(), np.zeros((1500, 0))).q[-1, 9] < 0.142


def test_a_joint_that_passes_its_stop_is_named():
    xml = """<mujoco><option timestep=".001"/><worldbody><body><joint name="j" type="slide" axis="1 0 0"
      limited="true" range="-1 .1003"/><geom type="box" size=".05 .05 .05" contype="0"/></body></worldbody>
      </mujoco>"""
    made = load(mujoco.MjModel.from_xml_string(xml))
    for speed in (0.1, 2.0):
        q = made.rollout(made.reset()._replace(v=np.array([speed])), np.zeros((1200, 0))).q
        passed = 1e3 * (q.max() - 0.1003)
        assert (made.trouble() != "") == (passed > 0.01 * 50 * (2 / 3) ** 0.5)
    assert made.trouble() == f"'j' passed its stop by {passed:.2g} mm"
