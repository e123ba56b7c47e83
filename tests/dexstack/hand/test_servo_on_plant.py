"""The servo on the simulated hand: it holds against gravity, follows a step, and goes limp when
commands stop."""

import numpy as np
import pytest

from dexstack.hand.servo import ServoLaw, ServoMode, ServoParams
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.plants.mujoco import MujocoPlant

AWAY = np.array([0.0, 0.0, -1.0, 1.0, 0.0, 0.0, 0.0])  # the object is not part of these tests


@pytest.fixture(scope="module")
def hand():
    return load_hand()


def closed_loop(hand, params, q_des, seconds, last_command=np.inf, gravity=None):
    plant = MujocoPlant(hand, load_object("cube"))
    plant.reset(hand.home, AWAY)
    servo = ServoLaw(hand, params, gravity)
    outputs, ticks, tau = [], 0, np.zeros(16)
    for k in range(round(seconds / plant.dt)):
        t = k * plant.dt
        if t >= ticks * params.period - 1e-9:
            ticks += 1
            if t <= last_command:
                servo.set_command(q_des, t)
            outputs.append(servo.step(plant.joint_position, t))
            tau = outputs[-1].tau
        plant.step(tau)
    assert not any(servo.faults.values())
    return np.array(plant.joint_position), outputs


def test_gravity_compensation_removes_the_sag(hand):
    held, _ = closed_loop(hand, ServoParams(), hand.home, 2.0, gravity=GravityCompensation(hand))
    sagging, _ = closed_loop(
        hand, ServoParams(gravity_compensation=False), hand.home, 2.0, gravity=GravityCompensation(hand)
    )
    assert np.max(np.abs(held - hand.home)) < 2e-3
    assert np.max(np.abs(sagging - hand.home)) > 0.02


def test_a_step_is_followed_within_the_torque_limits(hand):
    q_des = np.clip(hand.home + 0.2, hand.lower, hand.upper)
    q, outputs = closed_loop(hand, ServoParams(), q_des, 2.0, gravity=GravityCompensation(hand))
    assert np.max(np.abs(q - q_des)) < 0.01
    assert all(np.all(np.abs(o.tau) <= hand.effort) for o in outputs)


def test_the_hand_holds_and_then_lets_go_when_commands_stop(hand):
    params = ServoParams(command_timeout=0.1, hold_timeout=0.3)
    _, outputs = closed_loop(
        hand, params, hand.home, 1.0, last_command=0.3, gravity=GravityCompensation(hand)
    )
    modes = [o.mode for o in outputs]
    held = params.period * modes.count(ServoMode.HOLD)
    assert held == pytest.approx(0.3, abs=2 * params.period)
    assert modes[-1] is ServoMode.LIMP and not outputs[-1].tau.any()
    assert np.abs(outputs[modes.index(ServoMode.HOLD) + 5].tau).max() > 0.01
