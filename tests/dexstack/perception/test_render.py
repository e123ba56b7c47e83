"""The renderer against geometry and a ray caster."""

import cv2
import mujoco
import numpy as np
import pytest

from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object, object_names
from dexstack.model.scene import build_scene
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
def test_the_object_is_visible_in_the_pixels_whose_rays_hit_it(name):
    """The hand hides the same pixels of the object as for MuJoCo's rays."""
    camera, q, pose = scene(name)
    obj = load_object(name)
    model = build_scene(load_hand(), obj).compile()
    data, c = mujoco.MjData(model), camera.camera
    rays = Renderer(model, Camera(MOUNT.R, MOUNT.p, c.focal, c.width, c.height))
    depths, pictures = [], []
    for place in (pose, np.array([0.0, 0.0, -50.0, 1.0, 0.0, 0.0, 0.0])):
        data.qpos[:] = np.concatenate([q, place])
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        depths.append(rays.depth(data).reshape(c.height, c.width))
        pictures.append(camera.picture(q, place).astype(int))
    on_object = depths[0] != depths[1]
    painted = np.abs(pictures[0] - pictures[1]).max(axis=2) > 4
    assert on_object.sum() > 1000
    union = (painted | on_object).sum()
    assert (painted & on_object).sum() > 0.97 * union, "all but outlines and equal colours"


def test_motion_blur_and_noise_have_their_size():
    camera, q, pose = scene("cube")
    sharp = camera.picture(q, pose).astype(float)
    moved = pose.copy()
    moved[0] += 0.004
    streaked = camera.picture(q, moved, before=(q, pose)).astype(float)
    middle = pose.copy()
    middle[0] += 0.002
    assert np.abs(streaked - camera.picture(q, middle)).mean() < np.abs(streaked - sharp).mean()
    noisy, bare = (
        SimulatedCamera(
            load_hand(),
            load_object("cube"),
            object_bundle("cube"),
            SimulatedCameraParams(lens_blur=0.0, pixel_noise=noise),
            MOUNT,
        )
        for noise in (4.0, 0.0)
    )
    difference_ = noisy.picture(q, pose).astype(float) - bare.picture(q, pose)
    assert difference_.std() == pytest.approx(4.0, rel=0.05)
    assert (noisy.picture(q, pose) != noisy.picture(q, pose)).any(), "the noise is independent"


def test_the_tags_on_the_base_give_the_cameras_pose():
    camera, q, pose = scene("cube")
    found = TagDetector(decimate=1.0).detect(cv2.cvtColor(camera.picture(q, pose), cv2.COLOR_RGB2GRAY))
    seen = solve_bundle(found, base_bundle(), camera.camera)
    assert seen.tags == (40, 41, 42, 43)
    hand = load_hand()
    X_WC = Transform.of_pose([*hand.p_WP, *hand.quat_WP]).compose(seen.X_CO.inverse)
    way = difference(X_WC, MOUNT)
    assert np.linalg.norm(way[:3]) < 2e-3 and np.linalg.norm(way[3:]) < 5e-3
