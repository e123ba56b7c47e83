"""Pictures with known truth."""

import cv2
import numpy as np

from dexstack.model.objects import load_object
from dexstack.perception.bundle import object_bundle
from dexstack.perception.camera_params import SimulatedCameraParams
from dexstack.perception.se3 import Transform, exp
from dexstack.perception.simulated import SimulatedCamera


class Studio:
    """Takes grey pictures of one object alone, in front of a camera at the world's origin."""

    def __init__(self, name: str = "cube", **camera: float) -> None:
        self.bundle = object_bundle(name)
        self.params = SimulatedCameraParams(**camera)
        self._camera = SimulatedCamera(
            None, load_object(name), self.bundle, self.params, Transform(np.eye(3), np.zeros(3))
        )
        self.camera = self._camera.camera

    def grey(self, X_CO: Transform) -> np.ndarray:
        return cv2.cvtColor(self._camera.picture(np.zeros(0), X_CO.pose), cv2.COLOR_RGB2GRAY)


def any_pose(rng: np.random.Generator, distance: float = 0.4) -> Transform:
    axis = rng.normal(size=3)
    return Transform(
        exp(axis / np.linalg.norm(axis) * rng.uniform(0, np.pi)),
        np.array([*rng.uniform(-0.05, 0.05, 2), distance]),
    )


TILTED = Transform(
    exp(np.array([0.6, 0.0, 0.0])) @ exp(np.array([0.0, 0.7, 0.0])) @ np.diag([1.0, -1.0, -1.0]),
    np.array([0.01, -0.02, 0.4]),
)
"""The cube with three faces in view."""
FRONTAL = Transform(exp(np.array([0.25, 0.1, 0.0])) @ np.diag([1.0, -1.0, -1.0]), np.array([0.0, 0.0, 0.4]))
"""One face in view, nearly flat."""
