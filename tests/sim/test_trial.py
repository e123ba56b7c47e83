"""The closed loop in one process: repeatable, with latency that is there, on a plant and a planner of straw and on the real ones."""

from types import SimpleNamespace

import numpy as np
import pytest
from dexstack.control.mpc import MpcParams, SolveStatus

from dexstack.contact.contact import empty_contacts
from dexstack.errors import ConfigError
from dexstack.hand.servo import ServoLaw, ServoMode, ServoParams
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.sim.loop import ClosedLoop, LoopParams, LoopSpec, read_blocks, read_parts
from dexstack.sim.sensor import PoseSensor
from dexstack.sim.trial import run_trial
from dexstack.tasks.continuous import ContinuousTask
from dexstack.tasks.palm_turn import AllegroTask


class StrawPlant:
    """The hand stays where it is; the object turns at a steady rate about the vertical."""

    dt = 0.002

    def __init__(self, rate=0.0, fall=0.0):
        self.rate, self.fall, self.steps, self.taus = rate, fall, 0, []

    def reset(self, q_hand, pose_WO, v=None):
        self.q, self.start, self.steps, self.taus = np.array(q_hand), np.array(pose_WO), 0, []

    def step(self, tau):
        self.steps += 1
        self.taus.append(np.array(tau))

    @property
    def time(self):
        return self.steps * self.dt

    @property
    def joint_position(self):
        return self.q.copy()

    @property
    def joint_velocity(self):
        return np.zeros_like(self.q)

    @property
    def pose_WO(self):
        turn = self.rate * self.time / 2
        w, _, _, z = self.start[3:]
        quat = [w * np.cos(turn) - z * np.sin(turn), 0, 0, w * np.sin(turn) + z * np.cos(turn)]
        return np.concatenate([self.start[:3] - [0, 0, self.fall * self.time], quat])


class StrawMpc:
    """Commands one step of every joint from the second solve on; the n-th solve fails if asked to."""

    def __init__(self, hand, fail=()):
        self.robot, self.fail, self.solves = hand, fail, 0

    def reset(self):
        self.solves = 0

    def solve(self, pose_WO, q, contacts, goal_WO, theta, weights, qd=None):
        self.solves += 1
        status = SolveStatus.BAD_INPUT if self.solves in self.fail else SolveStatus.OK
        q_des = self.robot.home + (0.1 if self.solves > 1 else 0.0)
        return SimpleNamespace(status=status, q_des=q_des, cpu_s=0.0, wall_s=0.0)


DETECTOR = SimpleNamespace(detect=lambda pose, q: empty_contacts(12))


@pytest.fixture(scope="module")
def hand():
    return load_hand("right")


def straw(hand, *, plant=None, mpc=None, goal=0.5, seconds=0.4, period=0.1, latency=0.03, **kw):
    plant, mpc = plant or StrawPlant(), mpc or StrawMpc(hand)
    servo = ServoLaw(hand, ServoParams(kp=1.0))
    task = AllegroTask(load_object("cube").start("allegro"), goal)
    trial = run_trial(
        plant, servo, DETECTOR, mpc, None, None, task, np.random.default_rng(0), seconds=seconds, period=period, latency=latency, **kw
    )
    return trial, plant, servo


def first_torque(plant):
    return next(k for k, tau in enumerate(plant.taus) if np.any(tau != 0)) * plant.dt


@pytest.mark.parametrize("latency", [0.0, 0.03, 0.08, 0.13])
def test_a_command_acts_one_latency_after_the_pose_it_answers(hand, latency):
    """The straw planner's second command, answering the pose at 0.1 s, is the first that pulls."""
    _, plant, _ = straw(hand, latency=latency)
    assert first_torque(plant) == pytest.approx(0.1 + latency, abs=plant.dt + ServoParams.period + 1e-9)


def test_poses_are_answered_at_the_period(hand):
    trial, plant, _ = straw(hand, period=0.05)
    np.testing.assert_allclose(trial.recording["t"], np.arange(0, 0.4, 0.05), atol=1e-9)
    assert len(plant.taus) == 200
    assert {len(v) for v in trial.recording.values()} == {8}
    np.testing.assert_array_equal(trial.recording["latency"], 0.03)


def test_a_failed_solve_commands_nothing(hand):
    _, plant, _ = straw(hand, mpc=StrawMpc(hand, fail=(2,)))
    assert first_torque(plant) == pytest.approx(0.2 + 0.03, abs=0.006)


def test_without_commands_the_servo_lets_go(hand):
    """Solves that fail for long: the hand holds, then is limp; nothing in the loop keeps it alive."""
    params = ServoParams()
    seconds = params.command_timeout + params.hold_timeout + 0.5
    _, plant, servo = straw(hand, mpc=StrawMpc(hand, fail=range(3, 999)), seconds=seconds)
    assert servo.mode == ServoMode.LIMP
    assert not np.any(plant.taus[-1])


def test_reached_means_inside_the_tolerance_for_the_hold_time(hand):
    """Turning at 1 rad/s towards 0.5 rad from within ±10°: inside from 0.4 rad on, out again at 0.6; held 0.3 s only if that fits."""
    trial, plant, _ = straw(hand, plant=StrawPlant(rate=0.5), seconds=3.0, period=0.02, stop_when_reached=True)
    start_yaw = AllegroTask(load_object("cube").start("allegro"), 0.5).yaw(trial.recording["pose_WO"][0])
    assert trial.reached and trial.reached_s == pytest.approx((0.4 - start_yaw) / 0.5 + 0.3, abs=0.05)
    assert plant.time == pytest.approx(trial.reached_s)  # it stops there
    fast, _, _ = straw(hand, plant=StrawPlant(rate=1.0), seconds=3.0, period=0.02)
    assert not fast.reached and np.isnan(fast.reached_s)


def test_the_error_is_that_of_the_last_moment(hand):
    trial, plant, _ = straw(hand, plant=StrawPlant(rate=0.5), seconds=3.0, period=0.02, stop_when_reached=False)
    task = AllegroTask(load_object("cube").start("allegro"), 0.5)
    assert trial.reached and plant.time == pytest.approx(3.0)
    assert trial.orientation_error == pytest.approx(task.orientation_error(plant.pose_WO))
    assert trial.orientation_error > 0.5


def test_a_dropped_object_ends_the_trial(hand):
    trial, plant, _ = straw(hand, plant=StrawPlant(fall=0.5), seconds=3.0, period=0.02)
    assert trial.dropped and not trial.reached
    assert plant.time == pytest.approx(0.16, abs=0.02)


# --- the real ones --------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loop():
    return ClosedLoop(LoopSpec(overrides=(("horizon", 2),)))


SAME = ("t", "pose_WO", "q", "q_des", "status", "contacts")


@pytest.mark.slow
def test_the_same_seed_gives_the_same_recording(loop):
    first, second, other = (loop.trial(np.pi / 2, seed, 0.6).recording for seed in (3, 3, 4))
    for name in SAME:
        np.testing.assert_array_equal(first[name], second[name])
    assert np.abs(first["pose_WO"][0] - other["pose_WO"][0]).max() > 1e-4


@pytest.mark.slow
def test_a_trial_leaves_nothing_behind_for_the_next(loop):
    alone = loop.trial(np.pi / 2, 5, 0.4).recording
    loop.trial(-np.pi / 2, 6, 0.6)
    after = loop.trial(np.pi / 2, 5, 0.4).recording
    for name in SAME:
        np.testing.assert_array_equal(alone[name], after[name])


@pytest.mark.slow
def test_measured_latency_is_each_computations_own(loop):
    trial = loop.trial(np.pi / 2, 0, 0.2, measured_latency=True)
    latency = trial.recording["latency"]
    assert np.all(latency > 0) and np.all(latency >= 0.5 * trial.recording["detect_s"]) and len(set(latency)) > 1


@pytest.mark.slow
def test_the_cube_turns(loop):
    """Two seconds towards 90°: on the way, in the hand, at the configured rate."""
    task = AllegroTask(loop.start, np.pi / 2)
    trial = loop.trial(np.pi / 2, 0, 2.0)
    r = trial.recording
    assert not trial.dropped
    assert task.yaw(r["pose_WO"][-1]) - task.yaw(r["pose_WO"][0]) > 0.3
    np.testing.assert_allclose(np.diff(r["t"]), loop.timing.pose_period, atol=2e-3 + 1e-9)
    assert not np.isin(r["status"], (SolveStatus.BAD_INPUT, SolveStatus.DIVERGED)).any()


def test_parameters_come_from_the_files_the_last_one_winning(tmp_path):
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("/**: {ros__parameters: {kp: 0.7, horizon: 3}}\nhand: {ros__parameters: {kp: 0.8}}\n")
    second.write_text("mpc: {ros__parameters: {horizon: 5, kd: 0.01}}\nsimulator: {ros__parameters: {pose_period: 0.03}}\n")
    blocks = read_blocks((first, second), {"latency": 0.004})
    assert blocks[ServoParams].kp == 0.8 and blocks[ServoParams].kd == ServoParams.kd
    assert blocks[MpcParams].horizon == 5
    assert blocks[LoopParams] == LoopParams(pose_period=0.03, latency=0.004)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (LoopSpec(object="duck"), "unknown object 'duck'"),
        (LoopSpec(hand="third"), "unknown hand 'third'"),
        (LoopSpec(files=("nowhere.yaml",)), "cannot read the parameter file nowhere.yaml"),
        (LoopSpec(overrides=(("model", "magic"),)), "unknown time-stepping model 'magic'"),
        (LoopSpec(overrides=(("horizon", 0),)), "'horizon' must lie in"),
        (LoopSpec(overrides=(("contact_set", "thawed"),)), "unknown contact set 'thawed'; known: frozen, propagated, detected"),
    ],
)
def test_what_cannot_be_built_is_said_at_once(spec, complaint):
    with pytest.raises(ConfigError, match=complaint):
        read_parts(spec)


def test_the_loop_and_the_nodes_agree_where_each_has_a_default():
    """The evaluation stands for the graph: poses as often."""
    pytest.importorskip("rclpy")
    from dexstack.nodes.simulator import SimulatorParams

    assert SimulatorParams.pose_period == LoopParams.pose_period
    assert SimulatorParams.feedback_period == ServoParams.period


def test_the_controller_sees_the_pose_late_and_the_score_sees_it_now(hand):
    seen = []

    class Watching(StrawMpc):
        def solve(self, pose_WO, *rest, **named):
            seen.append(pose_WO)
            return super().solve(pose_WO, *rest, **named)

    trial, _, _ = straw(hand, plant=StrawPlant(rate=1.0), mpc=Watching(hand), period=0.05, sensor=PoseSensor(pose_delay=0.03))
    task = AllegroTask(load_object("cube").start("allegro"), 0.0)
    actual = [task.yaw(pose) for pose in trial.recording["pose_WO"]]
    np.testing.assert_allclose(np.subtract(actual, [task.yaw(pose) for pose in seen])[1:], 0.03, atol=1e-9)


def test_a_reached_goal_is_followed_by_the_next(hand):
    start = load_object("cube").start("allegro")
    plant, servo = StrawPlant(rate=0.2), ServoLaw(hand, ServoParams(kp=1.0))
    task = ContinuousTask(start, 0.4, turn=0.4)
    trial = run_trial(
        plant, servo, DETECTOR, StrawMpc(hand), None, None, task, np.random.default_rng(0),
        seconds=7.0, period=0.02, latency=0.0, stop_when_reached=False,
    )  # fmt: skip
    first = AllegroTask(start, 0.0).yaw(trial.recording["pose_WO"][0])
    expected = [(goal - 0.1 - first) / 0.2 + 0.3 for goal in (0.4, 0.8, 1.2)]
    np.testing.assert_allclose(trial.reached_at, expected, atol=0.05)
