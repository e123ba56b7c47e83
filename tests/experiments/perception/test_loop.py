"""The planner's loop through pictures, in one process."""

import numpy as np
import pytest

from dexstack.graph.settings import Spec
from dexstack.perception.camera_params import SimulatedCameraParams
from dexstack.trials.sweep import loop_of
from experiments.perception.pictures import PixelSensor


@pytest.mark.slow
def test_a_turn_is_reached_through_pictures():
    """As `experiments.perception.pictures --trials` does it, one short one."""
    loop = loop_of(Spec(overrides=(("pose_period", 1 / 30),)))
    sensor = PixelSensor(loop, SimulatedCameraParams(image_delay=0.03), seed=0)
    assert sensor.pose_delay == pytest.approx(0.0375)
    loop.sensor = sensor
    trial = loop.run(0, 0, 4.0, goals=iter([loop.task.at_yaw(np.radians(30))]))
    assert trial.reached and not trial.dropped
    errors = np.array(sensor.errors)
    assert len(errors) > 90, "a pose for nearly every picture"
    assert np.median(np.linalg.norm(errors[:, :3], axis=1)) < 1e-3
    assert np.abs(errors).min() > 0, "estimates, not the truth"
