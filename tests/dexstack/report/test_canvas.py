"""Meshes and colours of the pages in the browser."""

import mujoco
import numpy as np

from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.model.scene import build_scene
from dexstack.report.canvas import body_meshes


def test_the_meshes_fill_the_bounding_boxes_of_the_geoms():
    """Each face of a geom's bounding box in MuJoCo touches the body's meshes."""
    model = build_scene(load_hand("right"), load_object("cube")).compile()
    bodies = body_meshes(model)
    assert set(bodies) == {int(b) for b in model.geom_bodyid if model.body(int(b)).name}
    for body, parts in bodies.items():
        vertices = np.vstack([mesh.vertices for _, mesh in parts])
        for g in np.flatnonzero(model.geom_bodyid == body):
            centre, half = model.geom_aabb[g, :3], model.geom_aabb[g, 3:]
            R = np.empty(9)
            mujoco.mju_quat2Mat(R, model.geom_quat[g])
            for axis in range(3):
                for side in (-1, 1):
                    point = model.geom_pos[g] + R.reshape(3, 3) @ (centre + side * half * np.eye(3)[axis])
                    direction = side * R.reshape(3, 3)[:, axis]
                    assert (vertices @ direction).max() >= point @ direction - 1e-3, model.geom(g).name
