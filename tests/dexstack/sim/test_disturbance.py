"""Pushes come at their times and change only the object's velocity, by ``push_speed``."""

import numpy as np
import pytest

from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.plants import make_plant
from dexstack.sim.disturbance import NONE, Pushes


def test_they_are_due_once_an_interval_and_never_at_the_start():
    pushes, dt = Pushes(push_interval=0.5, push_speed=0.1), 0.003
    times = np.arange(0, 2.2, dt)
    due = [t for t in times if pushes.due(t - dt, t)]
    np.testing.assert_allclose(due, [0.5, 1.0, 1.5, 2.0], atol=dt)
    assert not any(NONE.due(t - dt, t) for t in times)


def test_a_push_changes_the_speed_and_nothing_else():
    hand, obj = load_hand("right"), load_object("cube")
    plant, start = make_plant("mujoco", hand, obj), obj.start("allegro")
    plant.reset(hand.pose(start.hand_pose), start.pose_WO)
    for _ in range(50):
        plant.step(np.full(16, 0.05))
    q, v, pose, twist = plant.joint_position, plant.joint_velocity, plant.pose_WO, plant.twist_WO
    Pushes(push_speed=0.2).push(plant, np.random.default_rng(0))
    for before, after in (
        (q, plant.joint_position),
        (v, plant.joint_velocity),
        (pose, plant.pose_WO),
        (twist[2:], plant.twist_WO[2:]),
    ):
        np.testing.assert_allclose(after, before, atol=1e-12)
    assert np.linalg.norm(plant.twist_WO[:2] - twist[:2]) == pytest.approx(0.2)
