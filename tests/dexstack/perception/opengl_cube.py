"""Renders the tagged cube with MuJoCo's OpenGL renderer and writes the errors of the poses found
(n, 6); exit code 77: no OpenGL."""

import sys

import cv2
import numpy as np

try:
    import mujoco
except AttributeError:  # of PyOpenGL, where the library is missing
    print("the library cannot be loaded")
    sys.exit(77)

from studio import any_pose  # imports MuJoCo, too

from dexstack.perception.bundle import Tag, object_bundle
from dexstack.perception.camera import CameraModel
from dexstack.perception.pose import solve_bundle
from dexstack.perception.se3 import difference
from dexstack.perception.tags import TagDetector, bitmap

WIDTH, HEIGHT, FOCAL = 640, 480, 615.0


def add_tag(spec: mujoco.MjSpec, body: mujoco.MjsBody, tag: Tag) -> None:
    """A square sheet with the tag printed on it."""
    name = f"tag{tag.tag}"
    texels = np.repeat(np.kron(bitmap(tag.tag), np.ones((32, 32), np.uint8))[..., None], 3, axis=2)
    texture = spec.add_texture(
        name=name,
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        width=texels.shape[1],
        height=texels.shape[0],
        nchannel=3,
    )
    texture.data = texels.tobytes()
    material = spec.add_material(name=name, emission=1.0, specular=0.0)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = name
    h = tag.edge * 10 / 16
    corners = tag.X_OT.apply(np.array([[-h, -h, 0.0], [h, -h, 0.0], [h, h, 0.0], [-h, h, 0.0]]))
    spec.add_mesh(
        name=name,
        uservert=corners.ravel().astype(np.float32),
        userface=np.array([0, 1, 2, 0, 2, 3], np.int32),
        usertexcoord=np.array(
            [0, 1, 1, 1, 1, 0, 0, 0], np.float32
        ),  # MuJoCo's v counts down from the first row of the texture
        userfacetexcoord=np.array([0, 1, 2, 0, 2, 3], np.int32),
        inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,
    )
    body.add_geom(
        name=name, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name, material=name, contype=0, conaffinity=0
    )


def main(out: str) -> int:
    bundle = object_bundle("cube")
    spec = mujoco.MjSpec()
    spec.visual.global_.offwidth, spec.visual.global_.offheight = WIDTH, HEIGHT
    spec.visual.quality.offsamples = 4
    body = spec.worldbody.add_body(name="cube", mocap=True)
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.0277] * 3, rgba=[0.8, 0.8, 0.8, 1])
    for tag in bundle.tags.values():
        add_tag(spec, body, tag)
    fovy = np.degrees(2 * np.arctan(HEIGHT / 2 / FOCAL))
    spec.worldbody.add_camera(name="camera", quat=[0, 1, 0, 0], fovy=fovy)  # along +z, x right, y down
    model = spec.compile()
    try:
        renderer = mujoco.Renderer(model, HEIGHT, WIDTH)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return 77
    data = mujoco.MjData(model)
    camera, detector, rng = (
        CameraModel.ideal(WIDTH, HEIGHT, FOCAL),
        TagDetector(decimate=1.0),
        np.random.default_rng(0),
    )
    errors = []
    for _ in range(20):
        X = any_pose(rng)
        data.mocap_pos[0], data.mocap_quat[0] = X.pose[:3], X.pose[3:]
        mujoco.mj_forward(model, data)
        renderer.update_scene(data, camera="camera")
        grey = cv2.cvtColor(renderer.render(), cv2.COLOR_RGB2GRAY)
        seen = solve_bundle(detector.detect(grey), bundle, camera)
        if seen is not None and len(seen.tags) > 1:
            errors.append(difference(seen.X_CO, X))
    np.save(out, np.array(errors))
    cv2.imwrite(out + ".png", grey)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
