"""The learner node: samples, θ as a message, and a whole graph that learns."""

import json
import math

import jax
import numpy as np
import pytest
from harness import wait_until
from std_msgs.msg import String

from dexstack.contact.contact import empty_contacts
from dexstack.control.factory import PlannerParams
from dexstack.control.theta_file import load_theta, make_theta
from dexstack.graph.modes import MODES
from dexstack.learning.transitions import cut
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.nodes.learner import Samples
from dexstack.nodes.theta import ThetaReader, theta_message
from dexstack.nodes.wire import BadMessage, PoseSample
from dexstack.process.history import JointSample
from tests.acceptance.probe import call

ABOUT = {"object": "cube", "hand": "allegro", "model": "implicit", "step": 0.1, "updates": 7}


@pytest.fixture
def theta():
    return jax.tree.map(np.asarray, make_theta(load_hand("right"), load_object("cube"), PlannerParams(), 0.1))


@pytest.fixture
def read():
    return ThetaReader("cube", "allegro", 0.1, 16)


def test_theta_survives_the_message_and_is_rejected_if_invalid_or_for_other_conditions(theta, read):
    back, version = read(theta_message(theta, **ABOUT))
    assert version == 7
    jax.tree.map(np.testing.assert_array_equal, back, theta)
    for key, other in (("object", "other"), ("hand", "other"), ("step", 0.2)):
        with pytest.raises(BadMessage, match=key):
            read(theta_message(theta, **{**ABOUT, key: other}))
    good = json.loads(theta_message(theta, **ABOUT).data)
    for name, value in (
        ("mass", math.nan),
        ("mass", -1.0),
        ("mass", "heavy"),
        ("mass", None),
        ("cover", [0.5] * 9),
        ("inertia", 1.0),
    ):
        with pytest.raises(BadMessage):
            read(String(data=json.dumps({**good, "theta": {**good["theta"], name: value}})))
    for version in (-1, 2**32, 1.5, "7", None, math.inf):
        with pytest.raises(BadMessage):
            read(String(data=json.dumps({**good, "updates": version})))
    for text in ("", "{", "[]", "7", '{"object": "cube"}'):
        with pytest.raises(BadMessage):
            read(String(data=text))


def recorded(phases: dict[int, str], x, count: int = 220) -> list[dict[str, np.ndarray]]:
    """Return the chunks of a recording at 50 Hz, cut every 50 samples.

    Args:
        phases: phase of the task from a sample on; each ``running`` is a new attempt.
        x: position of object and joints at a sample.
    """
    samples, chunks, attempt = Samples(0.1), [], 0
    for k in range(count):
        if k in phases:
            attempt += phases[k] == "running"
            chunks.append(samples.take_state({"phase": phases[k], "attempt": attempt, "t": 0.02 * k}))
        take(samples, 0.02 * k, x(k))
        if samples.fresh >= 50:
            chunks.append(samples.chunk(keep=True))
    return [chunk for chunk in [*chunks, samples.chunk(keep=False)] if chunk is not None]


def take(samples: Samples, t: float, x: float = 0.0, *, limp: bool = False) -> None:
    samples.joints.add(JointSample(t, np.full(16, x), limp))
    samples.command = JointSample(t, np.full(16, x + 0.1))
    samples.take_pose(PoseSample(t, np.array([x, 0, 0.04, 1, 0, 0, 0])), 0.05)


@pytest.fixture
def samples() -> Samples:
    """Samples of a running rollout."""
    made = Samples(0.1)
    made.take_state({"phase": "running", "attempt": 1, "t": 0.0})
    return made


def test_no_transition_is_lost_or_doubled_between_two_updates():
    chunks = recorded({0: "running"}, lambda k: 1e-4 * k)
    assert len(chunks) == 5
    cover, nothing = np.full(16, 0.6), lambda pose, q: empty_contacts(1)
    starts = np.concatenate([cut(chunk, 0.1, cover, nothing).q[:, 0] for chunk in chunks]) / 1e-4
    # of 220 samples 215 have a later one 0.1 s away; the first has no velocity
    np.testing.assert_allclose(starts, np.arange(1, 215), atol=1e-2)


def test_a_reset_between_two_rollouts_is_never_kept():
    phases = {0: "starting", 1: "running", 60: "timeout", 61: "starting", 90: "running", 120: "dropped"}
    rollouts = lambda k: 1 <= k < 60 or 90 <= k < 120  # noqa: E731
    kept = recorded(phases, lambda k: 1e-4 * k if rollouts(k) else 5.0, 150)
    assert kept and all(np.all(chunk["q"] < 1.0) for chunk in kept)
    t = np.concatenate([chunk["t"] for chunk in kept])
    assert not np.any((t > 1.2 - 1e-9) & (t < 1.8 - 1e-9))
    assert all(np.all(np.diff(chunk["t"]) < 0.03) for chunk in kept)


def test_a_limp_hand_has_no_command(samples):
    take(samples, 0.1)
    take(samples, 0.12, limp=True)
    assert np.isfinite(samples.chunk(keep=False)["q_command"]).all(axis=1).tolist() == [True, False]


@pytest.mark.slow
def test_the_planner_uses_a_learned_theta_between_goals(start, probe, tmp_path):
    """θ reaches the planner at the end of a goal, which plans on, and is complete in the results."""
    slow = tmp_path / "slow.yaml"  # without a weight on the goal the run does not end early
    slow.write_text("mpc: {ros__parameters: {orientation_weight: 0.0, model: dsdf, judged_goals: 1}}")
    run = start("--learn", "yes", "--seconds", "1000", "--params", str(slow))
    wait_until(lambda: int(probe.values("learner").get("proposals", 0)) >= 1, 300, "a proposed θ")
    assert probe.values("mpc")["theta_version"] == "0", "θ changes between goals only"
    assert call(probe.node, "task/restart").success
    wait_until(lambda: int(probe.values("mpc")["thetas_taken"]) >= 1, 60, "a learned θ in the planner")
    assert int(probe.values("learner")["refused_steps"]) == 0
    assert not [key for key in probe.values("mpc") if key.startswith(("dropped learner", "failed"))]
    learned = load_theta(str(run.folder / "theta.yaml"), 16)
    assert learned.object == "cube" and learned.data["transitions"] > 20
    first = make_theta(load_hand("right"), load_object("cube"), PlannerParams(), 0.1)
    assert not np.allclose(learned.theta.inertia, first.inertia)
    assert run.interrupt() == 0, run.err


@pytest.mark.parametrize("planner", ["sampling", "gauss_newton"])
def test_the_learner_gets_the_parameters_of_the_planner(planner):
    nodes = {n.name: n for n in MODES["sim"].describe({"planner": planner, "learn": "yes"})}
    given = nodes["learner"].parameters
    assert given["planner"] == nodes["mpc"].parameters["planner"] == planner
    assert (given.get("sampling_spread") is not None) == (planner == "sampling")
