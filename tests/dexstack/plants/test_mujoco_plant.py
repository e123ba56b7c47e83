"""The MuJoCo plant against closed forms: spin, power balance, rest, and repeatability."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexstack.model import HANDS
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import HandModel, load_hand
from dexstack.model.objects import load_object, object_names
from dexstack.plants.base import Plant
from dexstack.plants.mujoco import MujocoPlant, MujocoPlantParams
from dexstack.tasks.palm_turn import PalmTurn

FAR = np.array([0.0, 0.0, 0.6, 1.0, 0.0, 0.0, 0.0])


@pytest.fixture(scope="module")
def hand() -> HandModel:
    return load_hand("right")


def hold(
    plant: Plant, hand: HandModel, gravity: GravityCompensation, q_des: np.ndarray, seconds: float
) -> None:
    for _ in range(round(seconds / plant.dt)):
        q = plant.joint_position
        plant.step(np.clip(1.0 * (q_des - q) + gravity(q), -hand.effort, hand.effort))


def test_a_tumbling_object_keeps_its_angular_momentum_and_energy_and_flies_on_a_parabola(hand):
    obj = load_object("foambrick")
    plant = MujocoPlant(hand, obj, MujocoPlantParams(dt=2e-4))
    v = np.zeros(22)
    v[16:] = (0.1, 0.2, 0.3, 3.0, 5.0, -4.0)
    plant.reset(hand.home, FAR, v)

    def momentum_and_energy() -> tuple[np.ndarray, float]:
        w_B = plant.twist_WO[3:]
        R_WO = Rotation.from_quat(plant.pose_WO[3:], scalar_first=True).as_matrix()
        return R_WO @ obj.inertia @ w_B, 0.5 * w_B @ obj.inertia @ w_B

    h0, e0 = momentum_and_energy()
    for _ in range(1000):
        plant.step(np.zeros(16))
    h1, e1 = momentum_and_energy()
    assert np.linalg.norm(plant.twist_WO[3:] - v[19:]) > 0.5  # it does tumble
    np.testing.assert_allclose(h1, h0, atol=2e-3 * np.linalg.norm(h0))
    assert e1 == pytest.approx(e0, rel=2e-3)
    flown = FAR[:3] + 0.2 * v[16:19] - [0.0, 0.0, 0.5 * 9.81 * 0.2 * (0.2 + plant.dt)]  # semi-implicit Euler
    np.testing.assert_allclose(plant.pose_WO[:3], flown, atol=1e-6)


def test_power_balance_of_the_hand(hand):
    """Energy gained = work of the torques − heat in the passive damping, with the hand swinging
    freely of contacts."""
    plant = MujocoPlant(hand, load_object("cube"), MujocoPlantParams(dt=2e-4))
    plant.reset(hand.pose("flat") + 0.05, FAR + np.array([0, 0, 1.0, 0, 0, 0, 0]))
    model, data = plant.model, plant.scene.data

    def energy() -> float:
        mujoco.mj_forward(model, data)
        mujoco.mj_energyPos(model, data)
        mujoco.mj_energyVel(model, data)
        return data.energy.sum()

    e0, work, heat = energy(), 0.0, 0.0
    tau = np.tile([0.0, 0.06, 0.03, 0.01], 4)
    for _ in range(500):
        qd = plant.joint_velocity
        plant.step(tau)
        mean = 0.5 * (qd + plant.joint_velocity)
        work += tau @ mean * plant.dt
        heat += hand.damping @ mean**2 * plant.dt
        assert not any(c.dist < 0 for c in data.contact)
    assert heat > 0.002
    assert energy() - e0 == pytest.approx(work - heat, abs=0.02 * (work + heat))


@pytest.mark.parametrize("side", HANDS)
@pytest.mark.parametrize("name", object_names())
def test_the_object_rests_for_two_seconds(side, name):
    hand, obj = load_hand(side), load_object(name)
    plant, gravity, start = (
        MujocoPlant(hand, obj),
        GravityCompensation(hand),
        PalmTurn(obj=name, hand=side).start(),
    )
    q_des = hand.pose(start.hand_pose)
    plant.reset(q_des, start.pose_WO)
    hold(plant, hand, gravity, q_des, 0.5)
    settled = plant.pose_WO
    hold(plant, hand, gravity, q_des, 2.0)
    np.testing.assert_allclose(settled[:3], start.pose_WO[:3], atol=0.002)
    np.testing.assert_allclose(plant.pose_WO[:3], settled[:3], atol=0.0005)
    assert abs(plant.pose_WO[3:] @ settled[3:]) > np.cos(0.01 / 2)
    assert np.linalg.norm(plant.twist_WO[:3]) < 0.002
    weight = np.zeros(3)
    force = np.zeros(6)
    for i, contact in enumerate(plant.scene.data.contact):
        bodies = [plant.model.body(plant.model.geom_bodyid[g]).name for g in contact.geom]
        if "object" in bodies:
            mujoco.mj_contactForce(plant.model, plant.scene.data, i, force)
            weight += (1 if bodies[1] == "object" else -1) * contact.frame.reshape(3, 3).T @ force[:3]
    np.testing.assert_allclose(weight, (0, 0, obj.mass * 9.81), atol=0.02 * obj.mass * 9.81)
