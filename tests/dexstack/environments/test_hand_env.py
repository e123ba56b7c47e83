"""Environments: Gymnasium's own checker, and the same rollouts as trials."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dexstack.environments
from dexstack.control.policies.mapping import write_mapping
from dexstack.environments.hand import NOMINAL_WORLD
from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec
from dexstack.trials.sweep import loop_of


def palm_turn(**options):
    return gymnasium.make("dexstack/PalmTurn-v0", **options).unwrapped


@pytest.mark.parametrize("task", dexstack.environments.IDS)
@pytest.mark.filterwarnings("ignore:.*recommend using a symmetric.*", "ignore:.*Box observation space m.*")
def test_the_checker_of_gymnasium_passes(task):
    env = gymnasium.make(dexstack.environments.IDS[task], render_mode="rgb_array", seconds=1.0)
    check_env(env.unwrapped)


PICTURE = {"picture": (48, 64), "features": ("q", "target"), "seconds": 1.0}


@pytest.mark.filterwarnings("ignore:.*recommend using a symmetric.*", "ignore:.*Box observation space m.*")
def test_the_checker_of_gymnasium_passes_with_pictures():
    env = palm_turn(**PICTURE, render_mode="rgb_array")
    check_env(env)
    seen, _ = env.reset(seed=0)
    assert set(seen) == {"features", "picture"} and seen["picture"].std() > 20.0
    assert env.render().shape == (300, 400, 3)


def test_pictures_are_as_late_as_the_poses():
    """Without a controller that sees them, a delay of one period shifts the pictures by one step."""
    pictures = []
    for delay in (0.0, 0.05):
        env = palm_turn(**PICTURE, set={"pose_delay": delay})
        pictures.append([env.reset(seed=0)[0]["picture"]])
        for _ in range(5):
            pictures[-1].append(env.step(np.linspace(-1.0, 1.0, 16))[0]["picture"])
    now, late = pictures
    np.testing.assert_array_equal(late[1:], now[:-1])
    assert not np.array_equal(now[1], now[-1])


def test_pictures_show_the_object_of_the_world():
    """Another size is another picture; the same world again gives the same one."""
    env, shown = palm_turn(**PICTURE), []
    for size in (1.0, 1.3, 1.0):
        shown.append(env.reset(seed=0, options={"world": {"size": size}})[0]["picture"])
    np.testing.assert_array_equal(shown[0], shown[2])
    assert not np.array_equal(shown[0], shown[1])


def test_a_rollout_with_a_trials_commands_is_the_trial_to_the_bit():
    """The sensor is noisy and late, and the object starts off its place, so that seeds matter."""
    noisy = {"pose_noise_position": 0.001, "pose_noise_rotation": 0.01, "latency": 0.013, "horizon": 2}
    loop = loop_of(Spec(overrides=(*noisy.items(), ("iterations", 1))))
    recording = loop.run(2, seed=7, seconds=0.6).recording
    env = palm_turn(rate=50.0, seconds=0.6, action="target", set=noisy)
    _, info = env.reset(seed=7, options={"trial": 2})
    for k, target in enumerate(recording["q_command"]):
        np.testing.assert_array_equal(info["pose_WO"], recording["pose_WO"][k])
        np.testing.assert_array_equal(env.simulation.plant.joint_position, recording["q"][k])
        _, _, terminated, truncated, info = env.step(target)
    assert (terminated, truncated) == (False, True)


def test_dexstack_registers_its_environments_for_those_who_use_gymnasium():
    known = "getattr(sys.modules.get('gymnasium'), 'registry', ())"
    code = f"import sys, {{}}; print('dexstack/Reorient-v0' in {known})"
    for imports, registered in (("gymnasium, dexstack", "True"), ("dexstack", "False")):
        done = subprocess.run([sys.executable, "-c", code.format(imports)], capture_output=True, text=True)
        assert done.stdout.strip() == registered, done.stderr


def test_resets_of_one_seed_are_equal_and_the_next_differs():
    env = palm_turn(features=("position", "goal_quaternion"))
    first, again, other = (env.reset(seed=seed)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_dense_rewards_add_up_to_the_progress():
    env = palm_turn(seconds=1.0)
    _, before = env.reset(seed=0)
    total, ended = 0.0, False
    while not ended:
        _, reward, terminated, truncated, info = env.step(np.zeros(16))
        total, ended = total + reward, terminated or truncated
    assert total == pytest.approx(before["orientation_error"] - info["orientation_error"], abs=1e-9)


def test_a_dropped_object_ends_the_rollout_and_costs_one():
    """With the hand open and friction low the cube, pushed, leaves the palm."""
    env = palm_turn(reward="sparse", world={"friction": 0.1}, set={"push_speed": 2.0, "push_interval": 0.2})
    env.reset(seed=0)
    reward, terminated, steps = 0.0, False, 0
    while not terminated and steps < 100:
        _, reward, terminated, _, info = env.step(-np.ones(16))
        steps += 1
    assert (reward, info["dropped"]) == (-1.0, True)


def test_a_servo_that_trips_ends_the_rollout_and_says_why():
    env = palm_turn()
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(300):
        _, _, terminated, _, info = env.step(rng.uniform(-1, 1, 16))
        if terminated:
            break
    assert terminated and (info["dropped"] or "the servo is off" in info["trouble"])


def test_worlds_and_goals_are_options_of_reset():
    env = palm_turn()
    env.reset(seed=5, options={"world": "random"})
    drawn = env.simulation.world
    env.reset(seed=5, options={"world": "random"})
    assert env.simulation.world == drawn != NOMINAL_WORLD
    goal_WO = np.array([0.0, 0.0, 0.05, np.cos(0.4), 0.0, 0.0, np.sin(0.4)])
    _, info = env.reset(seed=5, options={"goals": [goal_WO], "world": {"mass": 2.0}})
    np.testing.assert_allclose(info["goal_WO"][3:], goal_WO[3:])
    assert env.simulation.world.mass == 2.0


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"reward": "dnse"}, "reward 'dnse'"),
        ({"features": ["qq"]}, "feature 'qq'"),
        ({"action": "x"}, "action 'x'"),
    ],
)
def test_unknown_names_are_refused(options, names):
    with pytest.raises(ConfigError, match=names):
        palm_turn(**options)


def test_an_unknown_option_of_reset_is_refused():
    with pytest.raises(ConfigError, match="option of reset 'trail'"):
        palm_turn().reset(seed=0, options={"trail": 1})


@pytest.mark.slow
@pytest.mark.parametrize(("options", "count"), [({}, 1000), ({"picture": (12, 16)}, 200)])
def test_resets_keep_the_memory(options, count):
    import psutil

    env, process = palm_turn(seconds=0.2, **options), psutil.Process()
    for k in range(count // 5):
        env.reset(seed=k)
    before = process.memory_info().rss
    for k in range(count):
        env.reset(seed=k)
        env.step(np.zeros(16))
    assert process.memory_info().rss - before < 20e6


@pytest.mark.slow
def test_a_vector_of_environments_in_processes_equals_single_ones():
    many = gymnasium.make_vec("dexstack/PalmTurn-v0", num_envs=2, vectorization_mode="async")
    seen, _ = many.reset(seed=[1, 2])
    for _ in range(5):
        seen, *_ = many.step(np.zeros((2, 16)))
    many.close()
    for row, seed in zip(seen, (1, 2), strict=True):
        env = palm_turn()
        alone, _ = env.reset(seed=seed)
        for _ in range(5):
            alone, *_ = env.step(np.zeros(16))
        np.testing.assert_array_equal(row, alone)


POLICY = """
import numpy as np
from dexstack.control.policies.planner import PolicyPlanner

SEEN = []

class Curl(PolicyPlanner):
    def act(self, observation):
        SEEN.append(observation)
        return np.tanh(3.0 * observation[16:32] + observation[-16:] - 0.4)

PLANNER = Curl
"""


def test_a_policy_sees_and_does_the_same_in_an_environment_and_in_a_trial(tmp_path):
    """With noisy and late poses; the policy closes the loop over velocities and orientation."""
    noisy = {"pose_noise_position": 0.001, "pose_noise_rotation": 0.01, "pose_delay": 0.03, "latency": 0.013}
    env = palm_turn(rate=25.0, seconds=0.8, history=2, set=noisy)
    path = tmp_path / "curl.py"
    path.write_text(POLICY)
    write_mapping(path.with_suffix(".yaml"), env.mapping)
    loop = loop_of(Spec(overrides=(*noisy.items(), ("pose_period", 0.04), ("planner", str(path)))))
    seen = sys.modules[type(loop.planner).__module__].SEEN
    seen.clear()
    recording = loop.run(0, seed=3, seconds=0.8).recording
    observation, info = env.reset(seed=3, options={"trial": 0})
    for k, deployed in enumerate(seen):
        np.testing.assert_allclose(observation, deployed, atol=1e-6)
        np.testing.assert_allclose(info["pose_WO"], recording["pose_WO"][k], atol=1e-9)
        observation, _, _, _, info = env.step(np.tanh(3.0 * observation[16:32] + observation[-16:] - 0.4))
    assert len(seen) == len(recording["t"]) == 20
