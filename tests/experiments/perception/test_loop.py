"""The planner's loop through pictures, in one process."""

import numpy as np
import pytest

from dexstack.graph.settings import Spec, perception_file
from dexstack.trials.sweep import loop_of


@pytest.mark.slow
def test_a_turn_is_reached_through_pictures_and_is_repeatable():
    """Each trial has a new camera and estimator; another seed draws other noise."""
    loop = loop_of(Spec(files=(str(perception_file("camera")),)))
    assert loop.sensor.pose_delay == pytest.approx(0.0475)
    turn = loop.run(0, 0, loop.task.seconds(), goals=iter([loop.task.at_yaw(np.radians(30))]))
    assert turn.reached and not turn.dropped
    first, again, other = (loop.run(0, seed, 0.5).recording["q_command"] for seed in (3, 3, 4))
    assert 10 <= len(first) <= 15
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
