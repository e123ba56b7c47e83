"""The `ros2` command on a running graph: lists, parameters, topics and services."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from harness import NODES, wait_until

from tests.acceptance.probe import Probe
from tests.acceptance.programs import up

WHY = "ros2cli comes with a ROS 2 installation only; .ci/genuine-ros.sh runs these tests without one"
pytest.importorskip("ros2param.api", reason=WHY)
pytestmark = pytest.mark.slow


def ros2(*arguments: str, timeout: float = 60.0) -> str:
    """Return the output of the command; fail the test if it fails."""
    done = subprocess.run([program(), *arguments], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"ros2 {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def listed(*arguments: str) -> set[str]:
    """Return the output lines of the command after enough time for discovery."""
    return set(ros2(*arguments, "--no-daemon", "--spin-time", "10").splitlines())


def program() -> str:
    """Return the program next to the interpreter, or on the path."""
    local = Path(sys.executable).with_name("ros2")
    return str(local) if local.exists() else "ros2"


@pytest.fixture(scope="module", autouse=True)
def stop_daemon(domain):
    yield
    subprocess.run([program(), "daemon", "stop"], capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def running(domain, tmp_path_factory):
    """A probe of a graph that runs as long as the tests of this module."""
    arguments = "--goal-yaw", "170", "--seconds", "3000", "--stay", "--trajectories"
    with up("sim", tmp_path_factory.mktemp("run"), *arguments), contextlib.closing(Probe(domain)) as probe:
        wait_until(
            lambda: set(probe.reports) >= set(NODES) and probe.phase() == "running", 180, "the rollout"
        )
        yield probe


def test_nodes_topics_and_services_are_listed(running):
    assert listed("node", "list") >= {f"/{name}" for name in NODES}
    assert listed("topic", "list", "-t") >= {
        "/joint_states [sensor_msgs/msg/JointState]",
        "/goal_pose [geometry_msgs/msg/PoseStamped]",
    }
    assert listed("service", "list", "-t") >= {"/hand/stop [std_srvs/srv/Trigger]"}
    assert ros2("lifecycle", "get", "/mpc", "--no-daemon", "--spin-time", "10").startswith("active")


def test_a_parameter_is_set_and_got(running):
    name = "/mpc", "orientation_weight"
    assert "successful" in ros2("param", "set", *name, "200.0", "--no-daemon", "--spin-time", "10")
    assert "200.0" in ros2("param", "get", *name, "--no-daemon", "--spin-time", "10")


def test_the_hand_is_stopped_and_enabled_from_the_command_line(running):
    assert "success=True" in ros2("service", "call", "/hand/stop", "std_srvs/srv/Trigger")
    wait_until(lambda: running.values("hand").get("enabled") == "False", 20, "the servo to be off")
    assert "success=True" in ros2("service", "call", "/hand/enable", "std_srvs/srv/Trigger")
    wait_until(lambda: running.values("hand").get("enabled") == "True", 20, "the servo to be on")
