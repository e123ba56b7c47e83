"""Learning on policy: rollouts of the evaluated policy, held-out transitions, and parameters from
files."""

import math

import numpy as np
import pytest

from dexstack.control.base import SolveStatus
from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec
from dexstack.learning.loss import LearnerParams
from dexstack.learning.on_policy import (
    collect,
    evaluate,
    learn_from,
    learner_of,
    split,
    stack_recordings,
    uninformed_theta,
)
from dexstack.learning.transitions import check_recording
from dexstack.trials.sweep import loop_of

QUICK = (("model", "dsdf"), ("horizon", 2), ("iterations", 1), ("startup_time", 0.0))


@pytest.fixture(scope="module")
def loop():
    spec = Spec(overrides=(*QUICK, ("epochs", 1), ("learning_rate", 0.03), ("stall_window", 0.4)))
    return loop_of(spec)


@pytest.fixture(scope="module")
def rollout(loop):
    """Transitions, recordings and trials of one rollout."""
    return collect(loop, 1, 7, first_goal=2)


@pytest.mark.slow
def test_a_rollout_equals_the_trial_of_its_goal_and_seed(loop, rollout):
    """With planner, supervisor, latency and sensor."""
    data, recordings, trials = rollout
    trial = loop.run(2, 5, trials[0].seconds + 0.5 * loop.timing.pose_period)
    n = len(trial.recording["t"])
    for name in ("t", "pose_WO", "q", "q_command", "status"):
        np.testing.assert_array_equal(trials[0].recording[name][:n], trial.recording[name])
    assert trials[0].goal.label == next(loop.task.goals(2, 0)).label
    assert (trials[0].recording["status"] == SolveStatus.RETREAT).any() and trials[0].stalls > 0
    np.testing.assert_array_equal(trials[0].recording["latency"], loop.timing.latency)
    check_recording(recordings[0], 16, "a rollout")
    assert data.count > 50


def test_trials_with_a_theta_restore_the_planners(loop):
    before, theta = loop.planner.theta, uninformed_theta(loop)
    trials = evaluate(loop, theta, 1, 0, 0.1)
    assert len(trials) == 1 and loop.planner.theta is before


def test_a_recordings_end_is_held_out_and_the_rest_is_learned_from():
    recording = {"t": 0.1 * np.arange(10), "q": np.arange(20.0).reshape(10, 2), "summary": np.array("x")}
    kept, end = split(recording)
    np.testing.assert_allclose(np.concatenate([kept["t"], end["t"]]), recording["t"])
    assert len(kept["t"]) == 8 and end["q"].shape == (2, 2) and "summary" not in kept


@pytest.mark.slow
def test_learning_from_a_recording_is_scored_on_its_end(loop, rollout):
    _, recordings, _ = rollout
    first = uninformed_theta(loop)
    progress = learn_from(loop, first, {"one": recordings[0]}, seed=0, score_with=lambda theta: [])
    points = [point for point, _, _ in progress]
    assert len(points) == 2 and points[0].theta is first and points[0].update is None
    assert points[1].update.gradients > 0 and points[1].held_out != points[0].held_out
    assert points[1].held_out < points[0].held_out and math.isnan(points[0].success_rate)


def test_a_recording_that_is_too_short_is_rejected(loop):
    widths = {"pose_WO": 7, "q": 16, "q_command": 16}
    short = {"t": np.zeros(1)} | {name: np.zeros((1, n)) for name, n in widths.items()}
    with pytest.raises(ConfigError, match=r"too few samples of mine are 0\.1 s apart"):
        list(learn_from(loop, loop.planner.theta, {"mine": short}, seed=0, score_with=lambda theta: []))


def test_the_learners_parameters_come_from_the_files(loop):
    assert learner_of(loop, loop.planner.theta).params == loop.params[LearnerParams]
    assert (loop.params[LearnerParams].epochs, loop.params[LearnerParams].learning_rate) == (1, 0.03)


def test_recordings_are_stacked_with_their_number():
    stacked = stack_recordings([{"t": np.arange(3.0)}, {"t": np.arange(2.0)}])
    assert stacked["t"].tolist() == [0, 1, 2, 0, 1] and stacked["rollout"].tolist() == [0, 0, 0, 1, 1]
