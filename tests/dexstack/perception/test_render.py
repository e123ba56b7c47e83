"""The painted pictures, against geometry and against the ray caster."""

import cv2
import mujoco
import numpy as np
import pytest

from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object, object_names
from dexstack.model.scene import OBJECT_BODY, build_scene
from dexstack.perception.bundle import base_bundle, object_bundle
from dexstack.perception.camera_params import MOUNT, SimulatedCameraParams
from dexstack.perception.pose import solve_bundle
from dexstack.perception.se3 import Transform, difference
from dexstack.perception.simulated import SimulatedCamera
from dexstack.perception.tags import TagDetector
from dexstack.report.render import Camera, Renderer


def scene(name: str, **camera: float) -> tuple[SimulatedCamera, np.ndarray, np.ndarray]:
    hand, obj = load_hand(), load_object(name)
    start = obj.start("allegro")
    params = SimulatedCameraParams(pixel_noise=0.0, lens_blur=0.0, **camera)
    return (
        SimulatedCamera(hand, obj, object_bundle(name), params, MOUNT, base=base_bundle()),
        hand.pose(start.hand_pose),
        start.pose_WO,
    )


@pytest.mark.parametrize("name", object_names())
def test_the_object_is_seen_where_rays_see_it(name):
    """The hand hides the same pixels of the object as it does for MuJoCo's own rays."""
    camera, q, pose = scene(name)
    obj = load_object(name)
    model = build_scene(load_hand(), obj).compile()
    markers = [g for g in range(model.ngeom) if model.geom(g).name.startswith(f"{OBJECT_BODY}/")]
    data = mujoco.MjData(model)
    data.qpos[:] = np.concatenate([q, pose])
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    c = camera.camera
    rays = Renderer(model, Camera(MOUNT.R, MOUNT.p, c.focal, c.width, c.height))
    geom = rays._cast(model, data, MOUNT.p, rays._rays)[0].reshape(c.height, c.width)
    on_object = np.isin(geom, [model.geom(OBJECT_BODY).id, *markers])
    with_object = camera.picture(q, pose).astype(int)
    without = camera.picture(q, np.array([0.0, 0.0, -5.0, 1.0, 0.0, 0.0, 0.0])).astype(int)
    painted = np.abs(with_object - without).max(axis=2) > 4
    assert on_object.sum() > 1000
    union = (painted | on_object).sum()
    assert (painted & on_object).sum() > 0.97 * union, (
        "but for pixels on the outline, and for colours that happen to agree"
    )


def test_shutter_blur_noise_and_delay_do_what_they_say():
    camera, q, pose = scene("cube")
    sharp = camera.picture(q, pose).astype(float)
    moved = pose.copy()
    moved[0] += 0.004
    streaked = camera.picture(q, moved, before=(q, pose)).astype(float)
    middle = pose.copy()
    middle[0] += 0.002
    assert np.abs(streaked - camera.picture(q, middle)).mean() < np.abs(streaked - sharp).mean()
    noisy = SimulatedCamera(
        load_hand(),
        load_object("cube"),
        object_bundle("cube"),
        SimulatedCameraParams(lens_blur=0.0, pixel_noise=4.0),
        MOUNT,
    )
    bare = SimulatedCamera(
        load_hand(),
        load_object("cube"),
        object_bundle("cube"),
        SimulatedCameraParams(lens_blur=0.0, pixel_noise=0.0),
        MOUNT,
    )
    difference_ = noisy.picture(q, pose).astype(float) - bare.picture(q, pose)
    assert difference_.std() == pytest.approx(4.0, rel=0.05)
    assert (noisy.picture(q, pose) != noisy.picture(q, pose)).any(), "every picture has noise of its own"


def test_the_hands_base_shows_where_the_camera_stands():
    camera, q, pose = scene("cube")
    found = TagDetector(decimate=1.0).detect(cv2.cvtColor(camera.picture(q, pose), cv2.COLOR_RGB2GRAY))
    seen = solve_bundle(found, base_bundle(), camera.camera)
    assert seen.tags == (40, 41, 42, 43)
    hand = load_hand()
    X_WC = Transform.of_pose([*hand.p_WP, *hand.quat_WP]).compose(seen.X_CO.inverse)
    way = difference(X_WC, MOUNT)
    assert np.linalg.norm(way[:3]) < 2e-3 and np.linalg.norm(way[3:]) < 5e-3
