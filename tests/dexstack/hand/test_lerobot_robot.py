"""The plugin for LeRobot, against the part of LeRobot's interface that a robot meets."""

import importlib
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from dexstack.errors import ConfigError
from tests.dexstack.hand.emulated import HAND, PUSH, until

pytestmark = pytest.mark.flaky(reruns=3)

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "plugins" / "lerobot_robot_dexstack"
SLOW = "hand: {ros__parameters: {command_timeout: 1.0, guard_timeout: 1.0, feedback_timeout: 1.0}}"


@pytest.fixture(scope="module")
def plugin():
    """The plugin with the stand-in for LeRobot, in place of LeRobot where that is installed."""
    paths = [str(PLUGIN), str(ROOT / "tests" / "fixtures" / "lerobot_interface")]
    sys.path[:0] = paths
    yield importlib.import_module("lerobot_robot_dexstack")
    for path in paths:
        sys.path.remove(path)
    for name in [n for n in sys.modules if n.split(".")[0] in ("lerobot", "lerobot_robot_dexstack")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def robot(plugin, tmp_path_factory):
    params = tmp_path_factory.mktemp("params") / "slow.yaml"
    params.write_text(SLOW)
    made = plugin.Dexstack(plugin.DexstackConfig(params=str(params), cameras={"top": camera(plugin)}))
    made.connect()
    yield made
    made.disconnect()


def camera(plugin):
    config = sys.modules["lerobot.cameras"].CameraConfig
    return config(fps=30, width=8, height=6)


def test_the_names_are_those_by_which_lerobot_finds_plugins(plugin):
    """By the distribution's name; then the robot's class in the parent of its configuration's module, by the
    name of that without "Config"."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    assert project["name"] == plugin.__name__ and project["name"].startswith("lerobot_robot_")
    config = sys.modules["lerobot.robots"].RobotConfig.registered["dexstack"]
    parent = importlib.import_module(config.__module__.rpartition(".")[0])
    robot = getattr(parent, config.__name__.removesuffix("Config"))
    assert robot.config_class is config and robot.name == "dexstack"


def test_features_are_known_before_the_hand_is_connected(plugin):
    robot = plugin.Dexstack(plugin.DexstackConfig(hand="leap_right"))
    assert len(robot.action_features) == 16 and set(robot.action_features.values()) == {float}
    assert not robot.is_connected and robot.is_calibrated
    with pytest.raises(ConnectionError, match="not open"):
        robot.get_observation()


def test_actions_move_joints_that_observations_contain(robot):
    """The servo balances the weight of the links, so that joints rest at their targets."""
    keys = [f"{name}.pos" for name in HAND.joint_names]
    assert list(robot.action_features) == keys and robot.is_connected

    def there() -> bool:
        sent = robot.send_action(dict(zip(keys, PUSH.tolist(), strict=True)))
        assert list(sent) == keys
        seen = robot.get_observation()
        return max(abs(seen[key] - sent[key]) for key in keys) < 0.02

    until(there, 10.0, "the joints at their targets")


def test_observations_are_what_the_features_say(robot):
    seen, features = robot.get_observation(), robot.observation_features
    assert seen.keys() == features.keys()
    for key, feature in features.items():
        assert type(seen[key]) is float if feature is float else np.shape(seen[key]) == feature


def test_a_bus_that_is_not_there_is_reported_with_its_remedy(plugin):
    line = {"interface": "serial", "channel": "/nonexistent"}
    robot = plugin.Dexstack(plugin.DexstackConfig(hand="leap_right", **line))
    with pytest.raises(ConnectionError, match=r"/nonexistent.*Remedy"):
        robot.connect()
    assert not robot.is_connected
    with pytest.raises(ConfigError, match="interfaces"):
        plugin.Dexstack(plugin.DexstackConfig(hand="leap_right", interface="socketcan"))
