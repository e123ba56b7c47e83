"""A trial and the mpc node command the same from the same recording, bit for bit."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
from harness import fed_mpc

from dexstack.contact.contact import nearest_contacts
from dexstack.contact.detector import ContactDetector
from dexstack.control.controller import Controller, Measurement
from dexstack.control.params import BlindParams, GaitParams, MpcParams, PlannerParams
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.nodes.wire import ContactSample, PoseSample
from dexstack.process.history import JointSample
from dexstack.sim.loop import Loop
from dexstack.tasks.palm_turn import PalmWeights

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
        detector, rest = WireDetector(controller.detector), (controller.predictor, controller.supervisor)
        self.plant, self.ticks = plant, []
        super().__init__(detector, *rest, controller.blind, step=controller.step)

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
