"""Pose sensor of pictures: the simulated camera and the pose estimator of the graph, in simulated time."""

from __future__ import annotations

import cv2
import numpy as np

from dexstack.model.hand import HandModel
from dexstack.model.objects import ObjectModel
from dexstack.perception.bundle import TagBundle, base_bundle
from dexstack.perception.camera_params import EstimatorParams, SimulatedCameraParams
from dexstack.perception.estimator import PoseEstimator
from dexstack.perception.mount_watch import MountWatch
from dexstack.perception.se3 import Transform, largest_deviations
from dexstack.perception.simulated import SimulatedCamera
from dexstack.sim.sensor import Look, Measure, Measured

ESTIMATE = 0.005
"""Time from a picture's arrival to its pose [s]."""


class CameraSensor:
    """A picture of the simulated camera at every pose, from which the pose estimator estimates it; see
    :class:`~dexstack.sim.sensor.Sensor`. Fingers hide tags where they are. The camera's jitter is left
    out: pictures arrive after their least delay."""

    pose_jitter = pose_drift = pose_outage = 0.0
    pose_outage_interval = 1.0

    def __init__(
        self,
        hand: HandModel,
        obj: ObjectModel,
        bundle: TagBundle,
        X_WC: Transform,
        camera: SimulatedCameraParams,
        estimator: EstimatorParams,
    ) -> None:
        """
        Args:
            bundle: tags of the object.
            X_WC: the optical frame in the world.
        """
        cv2.setNumThreads(1)  # as in the nodes; trials run side by side
        self._hand, self._obj, self._bundle, self._X_WC = hand, obj, bundle, X_WC
        self._params, self._estimator = camera, estimator
        self.pose_delay = camera.exposure_time / 2 + camera.image_delay + ESTIMATE

    def begin(self, period: float, rng: np.random.Generator) -> Measure:
        """Return the measurement of one trial; camera, estimator and the watch over the mount are new."""
        base, X_WP = base_bundle(), Transform.of_pose([*self._hand.p_WP, *self._hand.quat_WP])
        camera = SimulatedCamera(
            self._hand,
            self._obj,
            self._bundle,
            self._params,
            self._X_WC,
            base=base,
            seed=int(rng.integers(2**31)),
        )
        estimator = PoseEstimator(self._bundle, camera.camera, self._X_WC, self._estimator)
        watch = MountWatch(base, X_WP, self._X_WC, self._estimator)
        half, count = self._params.exposure_time / 2, 0

        def measure(look: Look) -> Measured | None:
            nonlocal count
            (pose_WO, q), before = look(half), look(-half)
            image = camera.picture(q, pose_WO, (before[1], before[0]))
            t, grey = count * period, cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
            count += 1
            outcome = estimator.process(t, grey)
            watch.follow(t, grey, estimator, outcome.sight)
            found = outcome.estimate
            return found and Measured(found.X_WO.pose, largest_deviations(found.covariance))

        return measure
