"""Whole runs: to the goal, interrupted, every task, and the loss of every node by SIGKILL."""

import json
import math
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import rclpy
from geometry_msgs.msg import PoseStamped
from harness import HAND, NODES, pose_message, wait_until
from rosbags.highlevel import AnyReader
from sensor_msgs.msg import JointState

from dexstack.bags.file import BagReader
from dexstack.bags.samples import read_samples
from dexstack.cli import main as cli
from dexstack.cli.main import main
from dexstack.config import make_params, read_parameter_file
from dexstack.hand.servo import ServoParams
from dexstack.model.hand import load_hand
from dexstack.nodes.wire import STATE, seconds
from dexstack.tasks import task_files
from tests.acceptance.probe import Probe, call, put_from
from tests.acceptance.programs import alive

# in real time: a node may wait too short on a busy machine
pytestmark = [pytest.mark.slow, pytest.mark.flaky(reruns=3)]


def test_the_plant_is_identified_from_the_bag_of_a_run(start, tmp_path):
    """The simulator runs in a world that the other nodes do not know."""
    world, bag, out = tmp_path / "world.yaml", tmp_path / "run.mcap", tmp_path / "found.json"
    world.write_text("torque: 0.8\njoint_friction: 0.01\n")
    run = start("--goal-yaw", "180", "--seconds", "10", "--world", str(world), "--record", str(bag))
    assert run.wait(120) in (0, 1), run.err
    unknowns = "torque", "joint_friction", "joint_damping", "delay"
    assert (
        main(["identify", str(bag), "--only", *unknowns, "--json", str(out), "--results", str(tmp_path)]) == 0
    )
    found = {u["name"]: u["value"] for u in json.loads(out.read_text())["results"]["unknowns"]}
    assert found["torque"] == pytest.approx(0.8, rel=0.1) and found["joint_friction"] == pytest.approx(
        0.01, rel=0.4
    )


def test_a_forgotten_publisher_beside_the_planner_is_named_within_a_second_and_takes_nothing(start, probe):
    """As ``ros2 topic pub -r 20 joint_command``: unstamped, and before and after the planner's own."""
    run = start("--goal-yaw", "90", "--json", "-", "--seconds", "60", "--real-time-factor", "0.2")
    forgotten = rclpy.create_node("forgotten", context=probe.context)
    publisher = forgotten.create_publisher(JointState, "joint_command", STATE)
    wait_until(lambda: probe.phase() == "running" and publisher.get_subscription_count(), 120, "the rollout")
    wait_until(
        lambda: any(np.isfinite(m.position[0]) for _, m in probe.applied), 30, "a command of the planner"
    )
    owners, named, first = set(), math.inf, time.monotonic()
    while run.poll() is None and time.monotonic() < first + 60.0:
        publisher.publish(JointState(name=list(HAND.joint_names), position=list(HAND.lower)))
        if probe.phase() == "running":
            owners.add(probe.values("hand").get("command_owner", ""))
        said = probe.reports["hand"].message if "hand" in probe.reports else ""
        if "belongs to mpc; commands of forgotten are refused" in said:
            named = min(named, time.monotonic() - first)
        time.sleep(0.05)
    forgotten.destroy_node()
    assert run.wait(60) == 0 and json.loads(run.out)["results"]["reached"], run.err
    assert "mpc" in owners and owners <= {"mpc", "", "an unknown node"}
    assert named < 1.5, "reports come once per second"


def test_a_small_turn_is_reached_and_recorded(start, tmp_path):
    run = start("--goal-yaw", "20", "--json", "-", "--record", str(tmp_path / "run.mcap"))
    assert run.wait(90) == 0, run.err
    results = json.loads(run.out)["results"]
    assert results["reached"] and not results["stopped"] and results["restarts"] == {}
    assert results["orientation_error_rad"] < 0.1 and results["goal_yaw"] == pytest.approx(math.radians(20))
    assert 0 < results["first_command_s"] < 30 and results["solve_s"]["n"] >= 5
    with np.load(run.folder / "recording.npz") as data:
        n = len(data["t"])
        assert (
            n > 20
            and data["pose_WO"].shape == (n, 7)
            and data["q"].shape == data["q_command"].shape == (n, 16)
        )
        assert np.all(np.diff(data["t"]) > 0) and data["t"][0] < 0.1
        assert np.isfinite(data["q"][5:]).all() and np.isfinite(data["goal_WO"]).all()
        commanded = int(np.isfinite(data["q_command"]).all(axis=1).sum())
        moved = np.linalg.norm(data["q"][-1] - data["q"][0])
        assert moved > 0.05, "the hand never moved"
    bag = BagReader(tmp_path / "run.mcap")
    times = [entry.t for entry in bag]
    assert times == sorted(times) and not bag.cut
    topics = bag.topics()
    assert {
        "/object_pose",
        "/joint_states",
        "/joint_command",
        "/contacts",
        "/task/goal",
        "/rollout/state",
        "/diagnostics",
    } <= set(topics)
    assert "transient_local" in topics["/task/goal"].qos and "best_effort" in topics["/object_pose"].qos
    with AnyReader([tmp_path / "run.mcap"]) as reader:  # an independent reader of the format
        read = [(c.topic, t, raw) for c, t, raw in reader.messages()]
        poses = [
            reader.deserialize(raw, c.msgtype) for c, _, raw in reader.messages() if c.topic == "/object_pose"
        ]
    assert sorted(read) == sorted((e.topic.name, e.t, e.data) for e in bag)
    assert all(p.header.frame_id == "world" and 0.0 < p.pose.pose.position.z < 0.3 for p in poses)
    samples = read_samples(tmp_path / "run.mcap", load_hand("right").joint_names)
    assert abs(len(samples["t"]) - commanded) <= 50, "either may discover the planner a second late"
    assert len(samples["t"]) >= 5 and samples["q_command"].shape == (len(samples["t"]), 16)


@pytest.mark.parametrize("mode", ["sim", "mock"])
def test_two_tasks_run_one_after_the_other_on_one_robot(mode, start, probe):
    robot = start("--part", "robot", "--discovery", "localhost", mode=mode)
    for yaw in ("20", "-20"):
        arguments = ("--part", "planner", "--discovery", "localhost", "--goal-yaw", yaw, "--json", "-")
        task = start(*arguments, mode=mode)
        assert task.wait(300) == 0, task.err
        results = json.loads(task.out)["results"]
        assert results["reached"] and results["goals_reached"] == 1
        assert results["goal_yaw"] == pytest.approx(math.radians(float(yaw)))
        assert robot.poll() is None, robot.err
    pids = [probe.pid(name) for name in ("simulator", "hand")]
    assert robot.interrupt() == 0
    wait_until(lambda: not any(map(alive, pids)), 10, "its nodes to end")


def test_a_graph_with_stay_pursues_requested_poses_and_changes_its_plant(start, probe):
    run = start("--goal-yaw", "10", "--stay", "--json", "-")

    def reached(attempt: int) -> None:
        wait_until(lambda: probe.states and probe.states[-1]["attempt"] >= attempt, 60, f"attempt {attempt}")
        wait_until(lambda: probe.phase() not in ("waiting", "starting", "running"), 180, "its end")
        assert probe.phase() == "reached" and run.poll() is None, run.err

    reached(1)
    message = pose_message([0, 0, 0, math.cos(0.25), 0, 0, math.sin(0.25)], kind=PoseStamped)
    to_goal = probe.node.create_publisher(PoseStamped, "goal_pose", 10)
    wait_until(lambda: to_goal.get_subscription_count() == 1, 30, "the task to listen")
    for _ in range(20):  # the task may discover this publisher late
        to_goal.publish(message)
        time.sleep(1.0)
        if probe.states[-1]["attempt"] > 1:
            break
    reached(2)
    assert put_from(probe.node, "simulator", "plant", "lcp").successful
    wait_until(lambda: probe.values("simulator").get("plant") == "lcp", 10, "the report")
    assert call(probe.node, "task/restart").success
    assert put_from(probe.node, "task", "goal_yaw", math.radians(15)).successful
    reached(probe.states[-1]["attempt"])
    assert run.interrupt() == 0
    assert json.loads(run.out)["results"]["restarts"] == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_during_start_up_is_clean(start, number):
    run = start()
    started = wait_until(
        lambda: p if len(p := run.children()) == len(NODES) else None, 20, "the nodes' processes"
    )
    run.send_signal(number)
    assert run.wait(20) == 0
    assert not any(alive(pid) for pid in started)
    assert "stopped" in run.out


BALLS = {*NODES, "servo"} - {"hand"}
OWN_TASK = '''"""Turn the cube a little, then back."""
from dataclasses import dataclass

from dexstack.config import param
from dexstack.tasks.palm_turn import PalmParams, PalmTurn


@dataclass(frozen=True)
class Params(PalmParams):
    """Parameters of the task."""

    there: float = param(0.5, "first turn [rad]", -1.0, 1.0)


class ThereAndBack(PalmTurn):
    """The cost of a turn on the palm towards two goals, one after the other."""

    name = "there_and_back"
    Params = Params
    opening_yaw = None

    def goals(self, k, seed):
        yield self.at_yaw(self.params.there)
        yield self.at_yaw(0.0)


TASK = ThereAndBack
'''


def test_three_balls_run_in_the_graph_and_can_be_drawn_again(start, probe, tmp_path, capsys):
    run = start("--task", "three_ball", "--seed", "1", "--json", "-")
    wait_until(lambda: probe.phase() == "running" and set(probe.reports) >= BALLS, 180, "the rollout")
    wait_until(
        lambda: probe.values("mpc").get("realtime") in ("True", "False"),
        60,
        "the report of a planner that plans",
    )
    assert "hand" not in probe.reports
    assert run.wait(600) == 0, run.err
    results = json.loads(run.out)["results"]
    assert (
        results["reached"]
        and results["restarts"] == {}
        and results["task"] == "three_ball"
        and results["goals_reached"] == 1
    )
    with np.load(run.folder / "recording.npz") as data:
        assert data["q"].shape[1:] == (9,) and np.isfinite(data["q"][5:]).all()
        assert np.abs(np.diff(data["goal_WO"], axis=0)).max() == 0.0, "one target"
    film = tmp_path / "again.gif"
    assert cli.main(["replay", str(run.folder), "--film", str(film)]) == 0
    assert "three_ball with cube: reached" in capsys.readouterr().out
    assert film.stat().st_size > 1000 and (run.folder / "run.png").stat().st_size > 1000


def test_a_stream_of_goals_goes_on_in_one_rollout_until_somebody_sets_another(start, probe):
    run = start("--task", "continuous", "--seconds", "600", "--json", "-")
    wait_until(
        lambda: probe.states and probe.states[-1]["goals_reached"] >= 1, 400, "the first goal to be reached"
    )
    running = [s for s in probe.states if s["phase"] == "running"]
    assert {s["attempt"] for s in running} == {1}, "the next goal is one of the same rollout"
    assert probe.states[-1]["goal_yaw"] == pytest.approx(math.pi) or probe.states[-1]["goals_reached"] > 1
    yaw = probe.states[-1]["yaw"] + 0.3 - 2 * math.pi * (probe.states[-1]["yaw"] + 0.3 > math.pi)
    result = put_from(probe.node, "task", "goal_yaw", yaw)
    assert result.successful, result.reason
    wait_until(lambda: probe.states[-1]["attempt"] == 2, 60, "a rollout towards it")
    assert probe.states[-1]["goal_yaw"] == pytest.approx(yaw) and probe.states[-1]["goals_reached"] == 0
    assert run.wait(400) == 0, run.err  # one goal ends the rollout, as a stream does not
    results = json.loads(run.out)["results"]
    assert (
        results["reached"]
        and results["attempt"] == 2
        and results["goal_yaw"] == pytest.approx(yaw)
        and results["restarts"] == {}
    )


def test_a_task_of_ones_own_runs_in_the_graph(start, probe, tmp_path: Path):
    file = tmp_path / "there_and_back.py"
    file.write_text(OWN_TASK)
    file.with_suffix(".yaml").write_text(
        "task: {ros__parameters: {there: 0.3}}\nmpc: {ros__parameters: {horizon: 4}}\n"
    )
    run = start("--task", str(file), "--seconds", "120", "--json", "-")
    assert run.wait(900) == 0, run.err
    results = json.loads(run.out)["results"]
    assert results["reached"] and results["goals_reached"] == 2 and results["task"] == str(file)
    asked = list(dict.fromkeys(s["goal"] for s in probe.states))
    assert asked == ["+17°", "+0°"], "0.3 rad, as the file beside the task says, then back"
    assert {s["attempt"] for s in probe.states} == {1}


SAFE_WITHIN = 0.1
HOLD_TIMEOUT = 0.5
"""[s]; shorter than a restart (about 1 s), and long enough to observe the hand holding."""


def check_hand_holds_then_goes_limp(probe: Probe, t_kill: float) -> None:
    """Without commands the target is constant from SAFE_WITHIN on, and gone after the configured time."""
    given = read_parameter_file(*task_files("palm_turn"), "hand")
    servo = make_params(ServoParams, given, ignore_unknown=True)
    assert servo.command_timeout <= SAFE_WITHIN
    limp_at = t_kill + servo.command_timeout + HOLD_TIMEOUT
    rows = lambda: [(seconds(m.header.stamp), m.position) for _, m in list(probe.applied)]  # noqa: E731
    wait_until(lambda: rows()[-1][0] > limp_at + 0.2, 15, "the hand to go limp")
    # a target is NaN while the hand is limp
    held = [q for t, q in rows() if t_kill + SAFE_WITHIN < t < limp_at - 0.1]
    gone = [q for t, q in rows() if limp_at + 0.1 < t < limp_at + 0.2]
    assert len(held) > 20 and np.ptp(held, axis=0).max() == 0.0, "the target moved"
    assert gone and np.isnan(gone).all(), "the hand did not go limp"


@pytest.mark.parametrize("victim", NODES)
def test_the_run_survives_the_loss_of(victim, start, probe, tmp_path):
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text(f"/**: {{ros__parameters: {{hold_timeout: {HOLD_TIMEOUT}, blind_hold: 0.0}}}}")
    # Half a turn: the goal is not reached before the node is back.
    run = start("--goal-yaw", "175", "--seconds", "12", "--json", "-", "--params", str(parameters))
    wait_until(lambda: probe.phase() == "running" and probe.states[-1]["elapsed"] > 0.4, 60, "the rollout")
    wait_until(lambda: set(probe.reports) >= set(NODES), 5, "diagnostics of every node")
    pids = {name: probe.pid(name) for name in NODES}

    t_kill = seconds(probe.applied[-1][1].header.stamp)
    os.kill(pids[victim], signal.SIGKILL)
    if victim in ("mpc", "contact_detector"):
        check_hand_holds_then_goes_limp(probe, t_kill)

    wait_until(
        lambda: probe.pid(victim) not in (0, pids[victim]) or run.poll() is not None,
        40,
        f"{victim} to be restarted",
    )
    survivors = {name: pid for name, pid in pids.items() if name != victim}
    assert {name: probe.pid(name) for name in survivors} == survivors and all(
        alive(pid) for pid in survivors.values()
    )
    assert run.wait(90) in (0, 1)
    assert not any(alive(pid) for pid in (*survivors.values(), probe.pid(victim))), "a node outlived the run"
    results = json.loads(run.out)["results"]
    assert results["restarts"] == {victim: 1}
    assert results["phase"] in ("reached", "timeout", "dropped") and results["seconds"] > 0.3
