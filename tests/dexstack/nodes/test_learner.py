"""The learner node: what becomes a sample, θ on the wire, and the whole graph learning while it
runs."""

from __future__ import annotations

import json
import math
import re

import jax
import numpy as np
import pytest
import rclpy
import yaml
from harness import Run, wait_until
from std_msgs.msg import String

from dexstack.contact.contact import empty_contacts
from dexstack.control.factory import PlannerParams
from dexstack.control.theta_file import load_theta, make_theta
from dexstack.graph.modes import MODES
from dexstack.learning.transitions import cut
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.nodes.learner import LearnerNode
from dexstack.nodes.theta import ThetaReader, theta_message
from dexstack.nodes.wire import BadMessage, PoseSample
from dexstack.process.history import JointSample
from tests.acceptance.probe import Probe

ABOUT = {"object": "cube", "hand": "allegro", "model": "implicit", "step": 0.1}


@pytest.fixture
def theta():
    return jax.tree.map(np.asarray, make_theta(load_hand("right"), load_object("cube"), PlannerParams(), 0.1))


@pytest.fixture
def read():
    return ThetaReader("cube", "allegro", 0.1, 16)


def test_theta_comes_back_from_the_wire(theta, read):
    back = read(theta_message(theta, **ABOUT))
    jax.tree.map(np.testing.assert_array_equal, back, theta)


@pytest.mark.parametrize("key", ["object", "hand", "step"])
def test_a_theta_for_something_else_is_not_planned_with(key, theta, read):
    with pytest.raises(BadMessage, match=key):
        read(theta_message(theta, **{**ABOUT, key: 0.2 if key == "step" else "other"}))


def test_a_theta_that_is_none_is_refused(theta, read):
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
    for text in ("", "{", "[]", "7", '{"object": "cube"}'):
        with pytest.raises(BadMessage):
            read(String(data=text))


@pytest.fixture
def node(domain, monkeypatch):
    """A learner that only collects."""
    monkeypatch.setattr(LearnerNode, "_learn", lambda self: None)
    rclpy.init(domain_id=domain)
    made = LearnerNode()
    made._step = 0.1
    made.begin()
    yield made
    made.destroy_node()
    rclpy.shutdown()


def feed(node, t, x):
    """One object pose at time t, the object at x, joints and command with it."""
    node._angles.add(JointSample(t, np.full(16, x)))
    node._command = JointSample(t, np.full(16, x + 0.1))
    node._take_pose(PoseSample(t, np.array([x, 0, 0.04, 1, 0, 0, 0])))


def chunks(node):
    out = []
    while not node._chunks.empty():
        out.append(node._chunks.get())
    return out


def test_no_transition_is_lost_or_doubled_between_two_updates(node):
    node._take_state({"phase": "running", "attempt": 1, "t": 0.0})
    for k in range(220):
        feed(node, 0.02 * k, 1e-4 * k)
    node._take_state({"phase": "reached", "attempt": 1, "t": 4.4})
    cover, nothing = np.full(16, 0.6), lambda pose, q: empty_contacts(1)
    parts = [cut(chunk, 0.1, cover, nothing) for chunk in chunks(node)]
    starts = np.concatenate([part.q[:, 0] for part in parts]) / 1e-4
    # of 220 samples 215 have a later one 0.1 s away; the first has no velocity
    np.testing.assert_allclose(starts, np.arange(1, 215), atol=1e-2)


def test_a_reset_between_two_rollouts_is_never_kept(node):
    states = [
        ("waiting", 0),
        ("starting", 0),
        ("running", 1),
        ("timeout", 60),
        ("starting", 61),
        ("running", 90),
        ("dropped", 120),
    ]
    changes = {k: phase for phase, k in states}
    attempt = 0
    for k in range(150):
        if k in changes:
            attempt += changes[k] == "running"
            node._take_state({"phase": changes[k], "attempt": attempt, "t": 0.02 * k})
        feed(node, 0.02 * k, 1e-4 * k if 1 <= k < 60 or 90 <= k < 120 else 5.0)
    kept = chunks(node)
    assert kept and all(np.all(chunk["q"] < 1.0) for chunk in kept)
    t = np.concatenate([chunk["t"] for chunk in kept])
    assert not np.any((t > 1.2 - 1e-9) & (t < 1.8 - 1e-9))
    for chunk in kept:
        assert np.all(np.diff(chunk["t"]) < 0.03)


def test_joint_angles_are_those_of_the_poses_time(node):
    """A pose comes 10 ms late, when newer angles are there."""
    node._take_state({"phase": "running", "attempt": 1, "t": 0.0})
    node._command = JointSample(0.0, np.zeros(16))
    for k in range(20):
        node._angles.add(JointSample(0.003 * k, np.full(16, 0.003 * k)))
    node._take_pose(PoseSample(0.047, np.array([0, 0, 0.04, 1, 0, 0, 0])))
    np.testing.assert_allclose(node._samples[-1][2], 0.047)


def test_a_limp_hand_follows_no_command(node):
    node._take_state({"phase": "running", "attempt": 1, "t": 0.0})
    node._command = JointSample(0.0, np.zeros(16))
    for t, limp in ((0.1, False), (0.12, True)):
        node._angles.add(JointSample(t, np.zeros(16), limp))
        node._take_pose(PoseSample(t, np.array([0, 0, 0.04, 1, 0, 0, 0])))
    assert [bool(np.isfinite(sample[3]).all()) for sample in node._samples] == [True, False]


def test_stale_joint_angles_make_no_sample(node):
    node._take_state({"phase": "running", "attempt": 1, "t": 0.0})
    node._angles.add(JointSample(0.0, np.zeros(16)))
    node._command = JointSample(0.0, np.zeros(16))
    node._take_pose(PoseSample(0.2, np.array([0, 0, 0.04, 1, 0, 0, 0])))
    assert not node._samples


@pytest.mark.slow
def test_the_planner_uses_what_is_learned_while_it_runs(tmp_path):
    """The graph with a learner: θ reaches the planner, which goes on planning, and lies in the
    results, whole."""
    slow = (
        tmp_path / "slow.yaml"
    )  # a planner that is not in a hurry: the run must not end before anything is learned
    slow.write_text(
        yaml.safe_dump({"mpc": {"ros__parameters": {"orientation_weight": 0.0, "model": "dsdf"}}})
    )
    run = Run(tmp_path / "run", "--learn", "yes", "--seconds", "1000", "--params", str(slow))
    probe = None
    try:
        domain = int(wait_until(lambda: re.search(r"ROS domain (\d+)", run.err), 20, "the domain")[1])
        probe = Probe(domain)
        wait_until(lambda: int(probe.values("mpc").get("thetas_taken", 0)) >= 2, 300, "two θ in the planner")
        wait_until(
            lambda: int(probe.values("learner")["updates"]) >= 2,
            60,
            "the learner's own count, which comes once a second",
        )
        assert int(probe.values("learner")["refused_steps"]) == 0
        assert not [key for key in probe.values("mpc") if key.startswith(("dropped learner", "failed"))]
        learned = load_theta(str(tmp_path / "run" / "theta.yaml"), 16)
        assert learned.object == "cube" and learned.data["transitions"] > 20
        first = make_theta(load_hand("right"), load_object("cube"), PlannerParams(), 0.1)
        assert not np.allclose(learned.theta.inertia, first.inertia)
        assert run.interrupt() == 0, run.err
    finally:
        if probe:
            probe.close()
        run.close()


@pytest.mark.parametrize("planner", ["sampling", "gauss_newton"])
def test_the_learner_learns_by_the_planner_that_plans(planner):
    """Also where the command line chooses it, with what that planner has otherwise."""
    nodes = {n.name: n for n in MODES["sim"].describe({"planner": planner, "learn": "yes"})}
    told = nodes["learner"].parameters
    assert told["planner"] == nodes["mpc"].parameters["planner"] == planner
    assert (told.get("sampling_spread") is not None) == (planner == "sampling")
