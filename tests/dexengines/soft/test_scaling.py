"""Scenes behave alike at any size; stops follow the joint's inertia; programs do not
grow with the number of bodies."""

import jax
import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexengines import load, rollout
from dexengines.collision import read_collision
from dexengines.errors import EngineError
from dexengines.scene import State
from dexengines.soft import cloud, scaling
from dexengines.soft.system import Ground, Meeting, SoftSystem, Surface


def box_on_plane(half, dt=1e-3, height=1.1, count=1):
    """Return boxes of water's density over a plane, side by side."""
    bodies = "".join(
        f'<body pos="{4 * half * k} 0 {height * half}"><freejoint/>'
        f'<geom name="box{k}" type="box" size="{half} {half} {half}" density="1000"/></body>'
        for k in range(count)
    )
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{dt}"/><worldbody><geom name="floor" type="plane" size="0 0 1"/>'
        f"{bodies}</worldbody></mujoco>"
    )


@pytest.mark.parametrize("scale", [1e-2, 1e2])
def test_contact_parameters_scale_as_gravity_makes_motion_scale(scale):
    """Lengths as L, speeds as √L, weights as L³ and stiffnesses as L²."""
    laws = []
    for half in (0.03, 0.03 * scale):
        model = box_on_plane(half)
        laws.append(scaling.law(model, read_collision(model, None).geoms))
    small, large = laws
    assert large.stiffness / small.stiffness == pytest.approx(scale**2)
    assert [large.eps2 / small.eps2, large.eps3 / small.eps3] == pytest.approx([scale, scale])
    assert [large.v_d / small.v_d, large.v_s / small.v_s] == pytest.approx([scale**0.5] * 2)


@pytest.mark.slow
def test_boxes_of_a_millimetre_and_of_ten_metres_fall_alike_and_rest_at_the_depth_of_their_law():
    """Time scales as √L; at rest φ = −ε3 log(e^(W/(k ε3)) − 1)."""
    eps3, depth, tracks = scaling.ONSET, scaling.DEPTH, []
    for half in (5e-4, 0.05, 5.0):
        scene = load(box_on_plane(half, dt=1e-3 * (half / 0.05) ** 0.5), "soft")
        tracks.append(scene.rollout(scene.reset(), np.zeros((2000, 0))).q[:, :3] / half)
        assert scene.trouble() == ""
    # an impact between two steps magnifies the solver's tolerance, which differs with the processor
    np.testing.assert_allclose(tracks[0], tracks[1], atol=1e-4)
    np.testing.assert_allclose(tracks[2], tracks[1], atol=1e-4)
    expected = 1.0 - eps3 * np.log(np.expm1(depth / eps3))
    np.testing.assert_allclose(tracks[1][-1], [0.0, 0.0, expected], atol=1e-5)


PENDULUM = """<mujoco><option timestep="0.001"/><worldbody><body pos="0 0 {length}">
  <joint axis="0 1 0" limited="true" range="-100 20"/>
  <geom type="capsule" fromto="0 0 0 0 0 {end}" size="{radius}" density="1000" contype="0"
    conaffinity="0"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("length", [0.05, 5.0])
def test_a_pendulum_falls_into_its_stop_and_goes_at_most_a_step_farther(length):
    speed = np.sqrt(3.0 * 9.81 / length * (np.cos(np.radians(20.0)) - np.cos(np.radians(80.0))))  # of a rod
    text = PENDULUM.format(length=2 * length, end=-length, radius=0.04 * length)
    scene = load(mujoco.MjModel.from_xml_string(text), "soft")
    start = scene.reset()._replace(q=np.radians([-80.0]))
    angles = np.degrees(scene.rollout(start, np.zeros((round(4.0 * length**0.5 / scene.dt), 0))).q)
    assert 19.0 < angles.max() < 20.0 + np.degrees(speed * scene.dt) and angles.min() > -81.0


def test_scenes_of_many_bodies_are_refused_in_one_sentence():
    with pytest.raises(EngineError, match="at most 300 pairs of them that may touch, this one has 325"):
        load(box_on_plane(0.05, count=26), "soft")


@pytest.mark.slow
def test_the_program_of_a_step_does_not_grow_with_the_number_of_bodies():
    sizes = []
    for count in (2, 12):
        model, box = box_on_plane(0.05, count=count), cloud.box((0.05, 0.05, 0.05), 0.05)
        boxes = [Surface(f"box{k}", f"body {k + 1}", box) for k in range(count)]
        pairs = [(i, j, 0.5) for i in range(count) for j in range(i)]
        system = SoftSystem(model, [Meeting(boxes, boxes, pairs=pairs)], [Ground(b) for b in boxes])
        at = [np.zeros(n, np.float32) for n in (model.nq, model.nv, model.nv)]
        lowered = jax.jit(lambda d, *x, s=system: s.implicit(d, *x, 1e-3)).lower(system.data, *at)
        sizes.append(len(lowered.as_text().splitlines()))
    assert sizes[1] < 1.5 * sizes[0]  # the stacking of each body's numbers is all that is added


def test_the_softer_and_slower_material_of_a_contact_replaces_the_rule():
    materials = {
        "floor": {"stiffness": 3e4, "dissipation_speed": 0.2},
        "box0": {"stiffness": 1e4, "dissipation_speed": 0.3},
    }
    (ground,) = load(box_on_plane(0.05), "soft", materials=materials).system.grounds
    assert (float(ground.params.stiffness), float(ground.params.v_d)) == (1e4, 0.2)


def test_a_box_falls_freely_where_its_contact_forces_underflow():
    """e^(−φ/ε3) is denormal at 700 to 750 ε3; damping is not definite there."""
    scene, n, rng = load(box_on_plane(0.05), "soft"), 64, np.random.default_rng(0)
    eps3 = scaling.ONSET * 0.05
    R = Rotation.random(n, rng=rng)
    down = 0.05 * np.abs(R.as_matrix()[:, 2]).sum(axis=1)
    q = np.zeros((n, 7))
    q[:, 2], q[:, 3:] = down + eps3 * rng.uniform(690.0, 750.0, n), R.as_quat(scalar_first=True)
    v = rng.normal(size=(n, 6)) * [0.0, 0.0, 0.5, 3.0, 3.0, 3.0]
    start = State(np.zeros(n), q, v, np.zeros((n, 0)))
    after = rollout([scene] * n, start, np.zeros((1, 0))).v[:, 1]
    np.testing.assert_allclose(after[:, 2], v[:, 2] - 9.81 * scene.dt, atol=1e-12)
