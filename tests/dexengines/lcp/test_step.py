"""Steps: resting contact, friction, impacts, limits; no intersection, no gain of energy."""

import mujoco
import numpy as np
import pytest

from dexengines import load
from dexengines.errors import EngineError
from dexengines.lcp import record
from dexengines.lcp.shapes import box, plane, sphere
from dexengines.lcp.system import LcpSystem
from experiments.lcp import systems as scenes
from experiments.lcp.check import SubstepCheck


@pytest.mark.parametrize("dt", (0.002, 0.01))
@pytest.mark.parametrize("count", (1, 5))
def test_boxes_stay_where_they_rest(count, dt):
    system = scenes.stack(count, dt=dt)
    q, energy, steps = system.q.copy(), system.energy(), round(1.0 / dt)
    for _ in range(steps):
        system.step()
        assert system.energy() <= energy + 1e-12
    assert np.abs(system.q - q).max() <= 1e-10
    assert system.counts[record.SUBSTEPS] <= 1.01 * steps
    assert system.counts[record.UNSOLVED] == system.counts[record.OVERLAPS] == 0


@pytest.mark.parametrize(("half", "gap"), [(5e-4, 5e-6), (5e-2, 1e-5)])
def test_the_gap_at_rest_is_small_against_the_body(half, gap):
    body = f"<body pos='0 0 {1.02 * half}'><freejoint/><geom type='box' size='{half} {half} {half}'/></body>"
    xml = f"<mujoco><worldbody><geom type='plane' size='0 0 1'/>{body}</worldbody></mujoco>"
    made = load(mujoco.MjModel.from_xml_string(xml), "lcp")
    height = made.rollout(made.reset(), np.zeros((100, 0))).q[-1, 2]
    assert height - half == pytest.approx(gap, rel=1e-3)


@pytest.mark.parametrize("sides", (3, 4, 7))
@pytest.mark.parametrize("heading", (0.0, 0.4))
def test_prisms_slow_down_by_mu_g(sides, heading):
    system = scenes.sliding_prism(sides, heading)
    for _ in range(20):
        before = np.linalg.norm(system.v[:2])
        system.step()
        assert np.linalg.norm(system.v[:2]) - before == pytest.approx(-0.0144, abs=1e-9)


def test_many_directions_do_not_depend_on_alignment():
    """The friction polygon bears μ f_n along its first direction, whatever the number of
    directions."""
    for directions in (3, 4):
        system = scenes.sliding_prism(4, 0.3, directions=directions)
        system.step()
        assert np.linalg.norm(system.v[:2]) == pytest.approx(2.0 - 0.0144, abs=1e-9)


def test_a_box_holds_on_a_slope_within_the_cone_and_slides_beyond():
    for mu, slides in ((0.5, True), (0.7, False)):  # tan 30° = 0.577
        system = scenes.boxes(1, friction=mu)
        system = LcpSystem(
            system.model,
            [
                plane("slope", normal=(0.5, 0, np.sqrt(0.75)), friction=mu),
                box("box", "box0", (0.1,) * 3, friction=mu),
            ],
        )
        half = np.pi / 12
        system.q[:7] = *((0.1 + 1e-5) * np.array([0.5, 0, np.sqrt(0.75)])), np.cos(half), 0, np.sin(half), 0
        for _ in range(50):
            system.step()
        speed = np.linalg.norm(system.v[:3])
        expected = 0.5 * 9.81 * (0.5 - mu * np.sqrt(0.75)) if slides else 0.0
        assert speed == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("e", (0.5, 1.0))
def test_a_ball_bounces_back(e):
    system = scenes.bouncing_ball(restitution=e)
    system.q[0], system.v[0] = 0.205, -1.0
    for _ in range(20):
        system.step()
    assert system.v[0] == pytest.approx(e, abs=1e-12)
    assert system.q[0] == pytest.approx(0.1 + e * (0.2 - 0.105), abs=1e-11)


def test_momentum_is_kept_between_bodies():
    system = scenes.boxes(2, restitution=0.5, gravity=0.0)
    system = LcpSystem(system.model, system.geometries[1:])
    system.q[7:10] = 0.5, 0.03, 0.02
    system.v[:6], system.v[6:] = (3.0, 0.1, 0, 1, 2, 3), (-1.0, 0, 0, 0.5, 0, 0)
    before = system.v[:3] + system.v[6:9]
    for _ in range(30):
        system.step()
    assert system.counts[record.IMPACTS] > 0
    np.testing.assert_allclose(system.v[:3] + system.v[6:9], before, atol=1e-9)


def test_tumbling_boxes_never_meet_and_gain_no_energy():
    system = scenes.boxes(3, dt=0.01)
    rng = np.random.default_rng(4)
    for i in range(3):
        quat = rng.normal(size=4)
        system.q[7 * i : 7 * i + 7] = 0.0, 0.05 * i, 0.3 + 0.4 * i, *(quat / np.linalg.norm(quat))
    system.v[:] = rng.normal(size=18) * 2
    check, start = SubstepCheck(system), system.energy()
    for _ in range(150):
        system.step()
        check.after_step()
        assert system.energy() <= start + 1e-9
    assert check.smallest > 0.0 and check.checked > 150
    assert system.counts[record.UNSOLVED] == system.counts[record.OVERLAPS] == 0


def test_a_ball_set_in_motion_within_a_step_stops_at_the_next_one():
    """Only a contact force of the same step brings the last two within reach."""
    names = ("first", "second", "third")
    model = scenes.free_bodies({n: (1.0, (1e-3,) * 3) for n in names}, dt=0.01, gravity=0.0)
    system = LcpSystem(model, [sphere(n, n, 0.01) for n in names])
    system.q[0], system.q[7], system.q[14] = 0.0, 0.0205, 0.0435
    system.v[0] = 8.0
    for _ in range(3):
        system.step()
        assert min(system.gaps().values()) > 0.0
    np.testing.assert_allclose(system.v[[0, 6, 12]], 8.0 / 3.0, atol=1e-9)


def test_a_spinning_body_gains_no_energy():
    """A pin that tumbles about its middle axis of inertia, 30 rad/s, without contact."""
    model = scenes.free_bodies({"pin": (1.5, (0.011, 0.010, 0.0015))}, dt=0.01, gravity=0.0)
    system = LcpSystem(model, [])
    system.v[3:] = 0.1, 30.0, 0.1
    start = system.energy()
    for _ in range(200):
        system.step()
        assert system.energy() == pytest.approx(start, rel=1e-9)


@pytest.mark.parametrize("thickness", (0.02, 0.002))
def test_a_grip_that_is_strong_enough_holds_still(thickness):
    """Eight corners bear 1 N from either side: 1.6 N of friction for 0.8 N of weight if shared by
    all."""
    system = scenes.gripper(thickness)
    for k in range(60):
        system.tau[:] = 0.0
        system.tau[0] = 0.8 * 8.0 - 400.0 * (system.q[0] - 5e-4 * max(k - 20, 0)) - 40.0 * system.v[0]
        system.tau[1:3] = 10.0 if k < 20 else 1.0
        system.step()
        if k == 20:
            held = system.q[5] - system.q[0]
    assert system.q[5] > 0.052
    assert system.q[5] - system.q[0] == pytest.approx(held, abs=1e-9)
    np.testing.assert_allclose(system.q[7:10], 0.0, atol=1e-9)


def test_joint_limits_are_exact():
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(
        name="arm", mass=1.0, inertia=(0.1, 0.1, 0.1), ipos=(0.5, 0, 0), explicitinertial=True
    )
    spec.compiler.degree = False
    body.add_joint(name="hinge", axis=(0, 1, 0), range=(-1.0, 0.3), limited=True)
    system = LcpSystem(spec.compile(), [])
    for _ in range(600):
        system.step(dt=0.005)
        assert -1.0 - 1e-12 <= system.q[0] <= 0.3 + 1e-12
    assert system.q[0] == pytest.approx(0.3) and system.v[0] == pytest.approx(0.0, abs=1e-12)


def test_two_directions_are_the_least():
    with pytest.raises(EngineError, match="at least 2 directions"):
        scenes.boxes(1, directions=1)
