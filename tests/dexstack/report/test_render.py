"""Ray-cast pictures against closed forms, and cached tiles against full renders."""

import mujoco
import numpy as np
import pytest

from dexstack.report.render import Camera, Renderer

SCENE = """
<mujoco>
  <worldbody>
    <camera name="film" pos="0 -1 1" xyaxes="1 0 0 0 0.70710678 0.70710678" fovy="40"/>
    <geom name="floor" type="plane" size="2 2 .1" rgba=".8 .8 .8 1"/>
    <geom name="post" type="box" pos="-.2 0 .05" size=".03 .03 .05" rgba=".2 .2 .2 1"/>
    <body name="ball" pos="0 0 .1">
      <freejoint/><geom name="ball" type="sphere" size=".05" rgba="1 0 0 1"/>
    </body>
    <body name="stick" pos=".2 0 .1"><freejoint/><geom type="capsule" size=".01 .08" rgba="0 0 1 1"/></body>
  </worldbody>
</mujoco>
"""
LIGHT = (0.0, 0.0, 1.5)


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(SCENE)


@pytest.fixture(scope="module")
def renderer(model):
    return Renderer(model, Camera.of_model(model, "film", width=160, height=120), light=LIGHT)


def state(model, **positions):
    data = mujoco.MjData(model)
    for name, p in positions.items():
        data.joint(model.body(name).jntadr[0]).qpos[:3] = p
    mujoco.mj_forward(model, data)
    return data


def pixel(renderer, image, p_W):
    u, v = renderer.camera.project(np.array([p_W]))[0]
    return image[int(v), int(u)].astype(int)


def test_a_camera_has_the_pose_of_the_scene(model):
    camera = Camera.of_model(model, "film", width=160, height=120)
    np.testing.assert_allclose(
        camera.project(np.array([[0.0, 0.0, 0.0], [0.0, -0.5, 0.5]])), [[80, 60], [80, 60]], atol=1e-6
    )
    forward, up = np.array([0.0, 1.0, -1.0]) / np.sqrt(2), np.array([0.0, 1.0, 1.0]) / np.sqrt(2)
    edge = np.array([0.0, -1.0, 1.0]) + forward + np.tan(np.radians(20.0)) * up
    np.testing.assert_allclose(
        camera.project(edge[None]), [[80, 0]], atol=1e-6
    )  # half the field of view upwards: the top edge


def test_rays_and_projection_are_inverse(renderer):
    uv = np.array([[0.5, 0.5], [80.0, 60.0], [159.5, 3.25]])
    points = renderer.camera.p_WC + 0.7 * renderer.camera.rays(uv)
    np.testing.assert_allclose(renderer.camera.project(points), uv, atol=1e-9)


def test_depth_of_sphere_and_floor(model, renderer):
    depth = renderer.depth(state(model, ball=(0.0, 0.0, 0.1)))
    v, u = np.mgrid[:120, :160]
    rays = renderer.camera.rays(np.stack([u.ravel(), v.ravel()], axis=1) + 0.5)
    origin, along = renderer.camera.p_WC, rays @ renderer.camera.R_WC[:, 2]
    to_centre = np.array([0.0, 0.0, 0.1]) - origin
    b = rays @ to_centre
    disc = b**2 - to_centre @ to_centre + 0.05**2
    sphere = np.where(disc >= 0, b - np.sqrt(np.maximum(disc, 0)), np.inf) * along
    floor = -origin[2] / rays[:, 2] * along
    expected = np.minimum(sphere, floor).reshape(depth.shape)
    plain = np.ones_like(depth, bool)  # away from post and stick
    plain[:, :60] = plain[:, 100:] = False
    assert np.isfinite(sphere).sum() > 50
    np.testing.assert_allclose(depth[plain], expected[plain], atol=1e-6)


def test_colour_and_shadow(model, renderer):
    image = renderer.render(state(model, ball=(0.0, 0.0, 0.3)))
    red, green, blue = pixel(renderer, image, (0.0, -0.03, 0.33))
    assert red > 150 > 2 * max(green, blue)
    shadow, open_floor = pixel(renderer, image, (0.0, 0.0, 0.0)), pixel(renderer, image, (0.0, 0.15, 0.0))
    assert shadow.sum() < 0.75 * open_floor.sum()
    gone = renderer.render(state(model, ball=(0.0, 0.0, 5.0)))
    assert pixel(renderer, gone, (0.0, 0.0, 0.0)).sum() > 0.9 * open_floor.sum()


def test_only_tiles_that_may_change_are_cast_again(model, renderer, monkeypatch):
    rng = np.random.default_rng(3)
    states = [
        state(
            model,
            ball=rng.uniform((-0.4, -0.4, 0.0), (0.4, 0.4, 0.5)),
            stick=rng.uniform((-0.3, -0.3, 0.0), (0.3, 0.3, 0.6)),
        )
        for _ in range(8)
    ]
    quick = [renderer.render(s) for s in states]
    shares = [len(renderer.changed_pixels(s)) / quick[0][..., 0].size for s in states]
    monkeypatch.setattr(renderer, "changed_pixels", lambda data: np.arange(quick[0][..., 0].size))
    for picture, s in zip(quick, states, strict=True):
        np.testing.assert_allclose(
            picture.astype(int), renderer.render(s), atol=4
        )  # one of four samples on a border between squares may round the other way
    assert 0.02 < np.mean(shares) < 0.7
