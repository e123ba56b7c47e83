"""The same hand, object and checks in every plant."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand
from dexstack.model.mount import inclined
from dexstack.model.objects import load_object
from dexstack.plants import PLANTS, make_plant, plant_params

COMPILED = ("lcp", "soft")
"""Plants whose kernels take a minute to compile."""
HAND = replace(load_hand(), gravity=inclined(5.0, "x"))
"""A palm that is not level, on which friction holds the cube."""
FAR = np.array([0.0, 0.0, 0.6, 1.0, 0.0, 0.0, 0.0])


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] if name in COMPILED else []) for name in PLANTS],
)
def plant(request):
    return make_plant(request.param, HAND, load_object("cube"))


def test_the_object_falls_freely(plant):
    plant.reset(load_hand().home, FAR)
    n = 50
    for _ in range(n):
        plant.step(np.zeros(16))
    assert plant.time == pytest.approx(n * plant.dt)
    gravity = 9.81 * np.array([0.0, -np.sin(np.radians(5.0)), -np.cos(np.radians(5.0))])
    np.testing.assert_allclose(plant.twist_WO, [*(n * plant.dt * gravity), 0, 0, 0], atol=1e-9)
    fallen = plant.dt**2 * n * (n + 1) / 2 * gravity
    np.testing.assert_allclose(plant.pose_WO[:3], FAR[:3] + fallen, atol=1e-4)


def test_the_cube_rests_on_the_palm_of_a_hand_that_holds_its_pose(plant):
    hand, start = HAND, load_object("cube").start("allegro")
    gravity = GravityCompensation(hand)
    plant.reset(hand.home, start.pose_WO)
    for k in range(round(1.5 / plant.dt)):
        q = plant.joint_position
        plant.step(np.clip(1.0 * (hand.home - q) + gravity(q), -hand.effort, hand.effort))
        if k == round(1.0 / plant.dt):
            settled = plant.pose_WO
    np.testing.assert_allclose(settled[:3], start.pose_WO[:3], atol=0.002)
    np.testing.assert_allclose(plant.pose_WO[:3], settled[:3], atol=5e-4)
    assert np.linalg.norm(plant.twist_WO[:3]) < 0.002
    np.testing.assert_allclose(plant.joint_position, hand.home, atol=0.05)


ONE_SECOND = """
import sys
import numpy as np
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.plants import make_plant
plant = make_plant(sys.argv[1], load_hand(), load_object("cube"))
plant.reset(load_hand().home, load_object("cube").start("allegro").pose_WO)
plant.step(np.zeros(16))
before = set(sys.modules)
for _ in range(round(1.0 / plant.dt)):
    plant.step(np.zeros(16))
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "mujoco" else [pytest.mark.slow]) for name in PLANTS]
)
def test_steps_import_no_module(name):
    """An import may take longer than a hand waits for joint angles."""
    done = subprocess.run(
        [sys.executable, "-c", ONE_SECOND, name], capture_output=True, text=True, timeout=600, check=True
    )
    assert not done.stdout.split()


def test_the_same_torques_give_the_same_states(plant):
    start = load_object("cube").start("allegro")
    torques = np.random.default_rng(3).uniform(-0.1, 0.1, (100, 16))

    def run() -> np.ndarray:
        plant.reset(load_hand().home, start.pose_WO)
        for tau in torques:
            plant.step(tau)
        return np.concatenate([plant.joint_position, plant.joint_velocity, plant.pose_WO, plant.twist_WO])

    first = run()
    np.testing.assert_array_equal(run(), first)
    assert np.abs(first).max() > 0.1


Q, NAN = np.zeros(16), np.full(16, np.nan)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.reset(np.zeros(15), FAR), "'q_hand' must be 16 finite numbers"),
        (lambda p: p.reset(NAN, FAR), "'q_hand' must be 16 finite numbers"),
        (lambda p: p.reset(Q, FAR[:6]), "'pose_WO' must be 7 finite numbers"),
        (lambda p: p.reset(Q, np.array([0, 0, 0.1, 0, 0, 0, 0.0])), "must be a unit quaternion .* norm 0"),
        (lambda p: p.reset(Q, FAR, np.zeros(6)), "'v' must be 22 finite numbers"),
        (lambda p: p.step(np.zeros(15)), "16 finite torques"),
        (lambda p: p.step(NAN), "16 finite torques"),
        (lambda p: p.step(np.zeros((16, 1))), "16 finite torques"),
    ],
)
def test_bad_resets_and_torques_are_rejected(plant, call, message):
    with pytest.raises(ConfigError, match=message):
        call(plant)


def test_unknown_plants_and_parameters_are_rejected():
    with pytest.raises(ConfigError, match=r"unknown plant 'bullet'.*known: hydroelastic, lcp, mujoco, soft"):
        plant_params("bullet")
    for wrong in ({"scheme": "magic"}, {"object_kind": "liquid"}):
        with pytest.raises(ConfigError, match=r"of the hydroelastic (engine|plant) must be"):
            make_plant(
                "hydroelastic", load_hand(), load_object("cube"), plant_params("hydroelastic")(**wrong)
            )
