"""The mpc node: its inputs, parameters that change while it plans, and the same commands as a trial, bit for
bit, from the same recording.
"""

import dataclasses
import os
from typing import NamedTuple

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from harness import fed_mpc, put, spinning

from dexstack.contact.contact import nearest_contacts
from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.control.controller import Controller, Measurement
from dexstack.control.params import BlindParams, GaitParams, MpcParams, PlannerParams
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.nodes import mpc as module
from dexstack.nodes.mpc import MpcNode
from dexstack.nodes.wire import ContactSample, PoseSample
from dexstack.process.history import JointSample
from dexstack.sim.loop import Loop
from dexstack.tasks.palm_turn import PalmTurn, PalmWeights
from tests.dexstack.control.stubs import StubSupervisor, stub_controller

PERIOD = 0.02
HOME = PalmTurn().robot().home


def pose(t, x=0.0, deviation=0.0):
    return PoseSample(t, np.array([x, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0]), (deviation, 0.0))


class Bench:
    """The node with a supervisor that commands ``supervisor.target``."""

    def __init__(self, node, supervisor, predictor):
        self.node, self.supervisor, self.predictor = node, supervisor, predictor

    def goal(self, x, t):
        self.node.feed("task/goal", pose(t, x))

    def pose(self, t, x=0.0, deviation=0.0):
        self.node.feed("object_pose", pose(t, x, deviation))

    def joints(self, t, moved=0.0):
        self.node.feed("joint_states", JointSample(t, HOME + moved))

    def contacts(self, t):
        """Feed contacts of time t and let the node work; return what it asked the supervisor (pose, goal)
        and what it commanded (stamp, positions)."""
        up = np.array([[0.0, 0.0, 1.0]])
        self.node.feed("contacts", ContactSample(t, np.zeros((1, 3)), up, np.zeros(1), np.zeros(1, np.int32)))
        self.supervisor.asked.clear()
        self.node.work()
        return list(self.supervisor.asked), self.node.sent()

    def ask(self, t):
        """Feed joints and contacts of time t; return the observation and the goal that are planned."""
        self.joints(t)
        (asked,), _ = self.contacts(t)
        return asked


@pytest.fixture
def bench(domain, monkeypatch):
    supervisor = StubSupervisor(HOME)
    controller = stub_controller(supervisor)
    controller.warm_up = lambda: 0.0
    monkeypatch.setattr(module, "make_controller", lambda *_: controller)
    with fed_mpc(domain, monkeypatch) as node:
        made = Bench(node, supervisor, controller.predictor)
        made.goal(0.1, 1.0)
        yield made


def test_contacts_are_paired_with_the_pose_of_their_stamp_or_not_planned_from(bench):
    for k in range(4):  # the detector is three poses behind
        bench.pose(1.0 + k * PERIOD, x=float(k))
    for k in range(4):
        observation, goal_WO = bench.ask(1.0 + k * PERIOD)
        assert observation.pose_WO[0] == k and goal_WO[0] == 0.1
    bench.joints(5.0)
    assert bench.contacts(5.0) == ([], []), "no pose of that time"
    assert bench.node.status()[2]["without_input"] == 1
    before = bench.supervisor.rollouts
    bench.pose(0.5, x=10.0)
    bench.pose(0.5 + PERIOD, x=11.0)
    assert bench.ask(0.5 + PERIOD)[0].pose_WO[0] == 11.0, "poses from before a restart are discarded"
    assert bench.supervisor.rollouts == before + 1, "time went backwards: another rollout"


def test_another_goal_of_the_same_stamp_is_the_next_of_the_same_rollout(bench):
    bench.pose(1.0)
    assert bench.ask(1.0)[1][0] == 0.1
    rollouts = bench.supervisor.rollouts
    bench.goal(0.2, 1.0)
    assert bench.ask(1.0)[1][0] == 0.2 and bench.supervisor.rollouts == rollouts
    bench.goal(0.3, 2.0)
    assert bench.ask(1.0)[1][0] == 0.3 and bench.supervisor.rollouts == rollouts + 1


def test_a_proposed_theta_is_taken_when_a_goal_ends(bench):
    """After three goals without it; another activation keeps it and its version."""
    planner = bench.supervisor.planner
    bench.node.feed("learner/theta", ("second", 5))
    for k in range(4):
        assert planner.theta == "first"
        bench.goal(0.1 * k, 1.0)
        bench.pose(1.0 + 0.1 * k)
        bench.ask(1.0 + 0.1 * k)
    assert planner.theta == "second" and bench.node.status()[2]["theta_version"] == 5
    bench.node.begin()
    assert bench.node.status()[2]["theta_version"] == 5


def test_joint_angles_are_those_of_the_picture_and_the_state_is_predicted_to_the_newest(bench):
    # the pose is as old as its picture, the joints have moved on
    for t, moved in ((2.0, 0.0), (2.01, 0.02), (2.07, 0.5)):
        bench.joints(t, moved)
    bench.pose(2.005)
    ((observation, _),), _ = bench.contacts(2.005)
    np.testing.assert_allclose(observation.q - HOME, 0.01, atol=1e-9)
    t, q = bench.predictor.predicted[-1]
    np.testing.assert_allclose(q - HOME, 0.5, atol=1e-9)
    assert t == bench.predictor.commands[-1][0] == 2.07
    np.testing.assert_array_equal(bench.predictor.commands[-1][1], bench.supervisor.target)


def test_commands_slow_down_as_the_pose_gets_uncertain_and_never_stop(bench):
    limit = BlindParams().blind_position

    def command(t, target, deviation):
        """The first joint's command when the planner wants ``target`` [rad] from home."""
        bench.supervisor.target = HOME + target
        bench.pose(t, 0.0, deviation)
        bench.joints(t)
        _, ((stamp, positions),) = bench.contacts(t)
        assert stamp == pytest.approx(t)
        return positions[0] - HOME[0]

    first = command(1.0, 0.04, limit)
    assert first == pytest.approx(0.01), "a quarter of the way from where it is"
    assert "25 % of the speed" in bench.node.status()[1]
    assert command(1.1, 0.1, 0.5 * limit) == pytest.approx(0.1), "certain enough"
    assert command(1.2, 0.2, limit / np.sqrt(2.0)) == pytest.approx(0.15)
    assert command(1.3, 0.25, 5.0 * limit) == pytest.approx(0.151)


def test_without_contacts_the_last_target_is_held_for_blind_hold(bench):
    bench.pose(1.0)
    bench.ask(1.0)
    held = []
    for t in np.arange(1.0, 1.0 + BlindParams().blind_hold + 1.0, 0.01):
        bench.joints(t)
        bench.node.work()
        held += bench.node.sent()
    stamps = [t for t, _ in held]
    assert 1.0 < stamps[0] < 1.1 and stamps[-1] == pytest.approx(1.0 + BlindParams().blind_hold, abs=0.1)
    assert np.diff(stamps).max() < 0.05
    np.testing.assert_array_equal([q for _, q in held], [bench.supervisor.target] * len(held))


@pytest.mark.parametrize("seen", [1.2, 2.8])
def test_contacts_too_old_or_too_far_ahead_are_not_answered(bench, seen):
    """The hand refuses their answer, and a held command must not deliver it with a new stamp."""
    bench.pose(1.0)
    bench.ask(1.0)
    before = bench.supervisor.target
    bench.supervisor.target = before + 0.3
    for t in (seen - 0.01, seen + 0.01, 2.0):
        bench.joints(t)
    bench.pose(seen)
    asked, ((_, positions),) = bench.contacts(seen)
    assert asked == [] and bench.node.status()[2]["untimely"] == 1
    np.testing.assert_array_equal(positions, before)


def test_a_warning_of_the_planner_is_reported_while_it_lasts(bench):
    for k, warning in enumerate(("a search has 8 of 32 plans", "")):
        bench.supervisor.warning = warning
        bench.pose(1.0 + k)
        bench.ask(1.0 + k)
        level, message, _ = bench.node.status()
        assert (message == warning) if warning else "Hz" in message
        assert (level == DiagnosticStatus.WARN) == bool(warning)


CHANGES = {
    "orientation_weight": 300.0,
    "u_max": 0.02,
    "effort_weight": 0.5,
    "limit_margin": 0.05,
    "stall_window": 5.0,
    "damping": 0.05,
}


@pytest.mark.slow
def test_parameters_change_without_a_compilation_or_a_missed_cycle(domain, monkeypatch, compilations):
    task = PalmTurn()
    hand, obj, start = task.setup()
    found = ContactDetector(hand, obj, DetectorParams()).detect(start.pose_WO, hand.home)
    seen = [np.asarray(a)[np.asarray(found.active)] for a in found[:4]]
    with fed_mpc(domain, monkeypatch) as node:
        node.feed("task/goal", PoseSample(0.0, task.at_yaw(1.0).pose_WO))

        def change(k):
            """Feed contacts and return the change of the joints that the node commands."""
            t = PERIOD * k
            node.feed("object_pose", PoseSample(t, start.pose_WO))
            node.feed("joint_states", JointSample(t, hand.home))
            node.feed("contacts", ContactSample(t, *seen))
            node.work()
            ((stamp, positions),) = node.sent()
            assert stamp == pytest.approx(t)
            return np.array(positions) - hand.home

        before = [change(k) for k in range(1, 20)][-1]
        compiled, first = len(compilations), {name: node.get_parameter(name).value for name in CHANGES}
        for k in range(20, 61):  # every other cycle changes all parameters, there and back
            put(node, **(first if (k // 2) % 2 else CHANGES))
            for block in node.blocks().values():  # as the worker's thread does between two turns
                node.apply(block)
            change(k)
        after = [change(k) for k in range(61, 70)][-1]
    assert len(compilations) == compiled, "no compilation"
    # Joints near a limit are also drawn away from it.
    inside = (hand.home > hand.lower + 0.05) & (hand.home < hand.upper - 0.05)
    assert np.abs(before[inside]).max() > 0.05, "the old bound"
    assert np.abs(after[inside]).max() < 0.02 + 1e-6, "the new bound"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "SCHED_FIFO"), reason="no real-time scheduling here")
def test_plans_under_realtime_scheduling_where_permitted(domain):
    def policies() -> set[int]:
        return {os.sched_getscheduler(int(thread)) for thread in os.listdir("/proc/self/task")}

    with spinning(domain, MpcNode) as (node,):
        assert node.autostart()
        granted = node.status()[2]["realtime"]
        assert policies() == {os.SCHED_FIFO if granted else os.SCHED_OTHER}
        node.stop_worker()
        assert policies() == {os.SCHED_OTHER}


DELAY = 0.06
SPEC = Spec(
    overrides=(
        *(("horizon", 2), ("iterations", 1), ("command_delay", 0.03), ("pose_noise_position", 0.001)),
        *(("pose_delay", DELAY), ("pose_outage", 0.5), ("pose_outage_interval", 0.15)),
    )
)


class WireDetector(ContactDetector):
    """A detector whose contacts are in the order in which they come over the wire."""

    def __init__(self, detector):
        self.params, self.detector = detector.params, detector

    def detect(self, pose_WO, q):
        found = self.detector.detect(pose_WO, q)
        return nearest_contacts(self.params.capacity, *(a[np.asarray(found.active)] for a in found[:4]))


class Tick(NamedTuple):
    """One step of the plant."""

    now: float
    q: np.ndarray
    seen: Measurement | None
    goal_WO: np.ndarray | None
    target: np.ndarray | None


class Recorded(Controller):
    """Keeps what it is asked and what it commands, tick by tick."""

    def __init__(self, controller, plant):
        parts = controller.predictor, controller.supervisor, controller.tracker, controller.tracker.blind
        self.plant, self.ticks = plant, []
        super().__init__(WireDetector(controller.detector), *parts, step=controller.step)

    def answer(self, seen, goal_WO):
        answer = super().answer(seen, goal_WO)
        seen = seen._replace(contacts=answer.contacts)
        self.ticks.append(Tick(seen.now, seen.q_now, seen, goal_WO, answer.target))
        return answer

    def hold(self, now):
        target = super().hold(now)
        if not self.ticks or self.ticks[-1].now != now:
            self.ticks.append(Tick(now, self.plant.joint_position, None, None, target))
        return target


class Rounded:
    """A plant whose joint positions have so few digits that the node's interpolation is exact."""

    def __init__(self, plant):
        self.plant = plant

    def __getattr__(self, name):
        return getattr(self.plant, name)

    @property
    def joint_position(self):
        return np.round(self.plant.joint_position * 2**20) / 2**20


@pytest.fixture(scope="module")
def settings():
    return read_settings(SPEC)


@pytest.fixture
def node(domain, monkeypatch, settings):
    blocks = (MpcParams, PlannerParams, BlindParams, GaitParams, PalmWeights)
    given = {k: v for block in blocks for k, v in dataclasses.asdict(settings[block]).items() if v != ""}
    with fed_mpc(domain, monkeypatch, **given) as node:
        yield node


def test_a_trial_and_the_node_command_the_same(node, settings):
    loop = Loop(make_task(SPEC, settings), settings)
    loop.plant = Rounded(loop.plant)
    loop.controller = controller = Recorded(loop.controller, loop.plant)
    loop.run(0, 1, 1.2)

    dt, answers, holds = loop.plant.dt, 0, 0
    for k, (now, q, seen, goal_WO, target) in enumerate(controller.ticks):
        assert now == k * dt
        node.feed("joint_states", JointSample(now, q))
        if k == 0:
            node.feed("task/goal", PoseSample(0.0, goal_WO))
        if seen is not None:
            stamp, on = (k - round(DELAY / dt)) * dt, seen.contacts.active
            node.feed("object_pose", PoseSample(stamp, seen.pose_WO))
            node.feed("contacts", ContactSample(stamp, *(a[on] for a in seen.contacts[:4])))
        node.work()
        sent = node.sent()
        assert len(sent) == (target is not None), f"at {now:.3f} s"
        for _, positions in sent:
            np.testing.assert_array_equal(positions, target, err_msg=f"at {now:.3f} s")
        answers, holds = answers + len(sent) * (seen is not None), holds + len(sent) * (seen is None)
    assert answers > 10 and holds > 5
