"""The closed loop in one process: repeatable and with latency, with stand-ins for plant and planner and
with the real ones."""

from dataclasses import replace

import numpy as np
import pytest

from dexstack.control.base import SolveStatus
from dexstack.control.params import BlindParams
from dexstack.geometry.rotations import yaw_of
from dexstack.graph.settings import Spec
from dexstack.hand.servo import ServoLaw, ServoMode, ServoParams
from dexstack.learning.transitions import RECORDED, check_recording, cut
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.plants import make_plant
from dexstack.report.plot import write_plot
from dexstack.sim.disturbance import Pushes
from dexstack.sim.loop import Loop
from dexstack.sim.params import LoopParams
from dexstack.sim.sensor import PoseSensor
from dexstack.sim.trial import run_trial
from dexstack.tasks.base import Setup
from dexstack.tasks.palm_turn import PalmTurn
from dexstack.trials.keep import keep_trial
from dexstack.trials.sweep import loop_of
from tests.dexstack.control.stubs import StubSupervisor, stub_controller

TASK, DAMPING = PalmTurn(), load_hand("right").damping


class StubPlant:
    """The hand does not move; the object turns at a constant rate about the vertical."""

    dt, joint_velocity = 0.002, np.zeros(16)

    def __init__(self, rate=0.0, fall=0.0):
        self.rate, self.fall, self.twist_WO = rate, fall, np.array([0, 0, -fall, 0, 0, rate], float)

    def reset(self, q_hand, pose_WO, v=None):
        self.joint_position, self.start, self.taus = np.array(q_hand), np.array(pose_WO), []

    def step(self, tau):
        self.taus.append(np.array(tau))

    @property
    def time(self):
        return len(self.taus) * self.dt

    @property
    def pose_WO(self):
        turn = self.rate * self.time / 2
        w, _, _, z = self.start[3:]
        quat = [w * np.cos(turn) - z * np.sin(turn), 0, 0, w * np.sin(turn) + z * np.cos(turn)]
        return np.concatenate([self.start[:3] - [0, 0, self.fall * self.time], quat])


class Stepping(StubSupervisor):
    """Commands one step of every joint from the second plan on; the plans numbered ``fail`` fail."""

    def __init__(self, hand, fail=(), step=0.1):
        super().__init__(hand.home)
        self.home, self.fail, self.step = hand.home, fail, step

    def plan(self, observation, goal_WO):
        n = len(self.asked) + 1
        self.status = SolveStatus.BAD_INPUT if n in self.fail else SolveStatus.OK
        self.target = self.home + (self.step if n > 1 else 0.0)
        return super().plan(observation, goal_WO)


@pytest.fixture(scope="module")
def hand():
    return load_hand("right")


class StubLoop(Loop):
    """A loop of given parts."""

    watch = None

    def __init__(self, hand, plant, supervisor, timing, sensor):
        start = TASK.start()
        self.task, self.plant, self.timing, self.sensor = TASK, plant, timing, sensor
        self.setup, self.plant_start = Setup(hand, load_object("cube"), start), start
        self.servo, self.pushes, self.supervisor = ServoLaw(hand, ServoParams(kp=1.0)), Pushes(), supervisor
        self.controller = stub_controller(supervisor)


def run_stub(
    hand,
    *,
    plant=None,
    supervisor=None,
    yaws=(0.5,),
    seconds=0.4,
    period=0.1,
    latency=0.03,
    sensor=PoseSensor(),
    **kw,
):
    timing = LoopParams(pose_period=period, latency=latency)
    loop = StubLoop(hand, plant or StubPlant(), supervisor or Stepping(hand), timing, sensor)
    trial = run_trial(loop, map(TASK.at_yaw, yaws), 0, seconds, **kw)
    return trial, loop.plant, loop.servo


def first_torque(plant):
    return next(k for k, tau in enumerate(plant.taus) if np.any(tau != 0)) * plant.dt


@pytest.mark.parametrize("latency", [0.0, 0.03, 0.08, 0.13])
def test_a_command_acts_one_latency_after_the_pose_it_answers(hand, latency):
    """The stub planner's second command, answering the pose at 0.1 s, is the first that pulls."""
    _, plant, _ = run_stub(hand, latency=latency)
    assert first_torque(plant) == pytest.approx(0.1 + latency, abs=plant.dt + ServoParams.period + 1e-9)


def test_poses_are_answered_at_the_period(hand):
    trial, plant, _ = run_stub(hand, period=0.05)
    np.testing.assert_allclose(trial.recording["t"], np.arange(0, 0.4, 0.05), atol=1e-9)
    assert len(plant.taus) == 200
    assert {len(v) for v in trial.recording.values()} == {8}
    np.testing.assert_array_equal(trial.recording["latency"], 0.03)
    assert set(trial.recording) > set(RECORDED)
    assert trial.recording["twist_WO"].shape == (8, 6) and trial.recording["goal_WO"].shape == (8, 7)


def test_a_failed_solve_commands_nothing(hand):
    _, plant, _ = run_stub(hand, supervisor=Stepping(hand, fail=(2,)))
    assert first_torque(plant) == pytest.approx(0.2 + 0.03, abs=0.006)


@pytest.mark.parametrize(("after", "mode"), [(-0.1, ServoMode.HOLD), (0.1, ServoMode.LIMP)])
def test_without_commands_the_servo_holds_and_then_goes_limp(hand, after, mode):
    """While solves fail, the hand first holds and then goes limp; the loop does not keep it alive."""
    p, last = ServoParams(), 0.1 + 0.03
    push = Stepping(
        hand, fail=range(3, 999), step=0.02
    )  # too small for the watch to notice that the stub does not follow
    _, plant, servo = run_stub(
        hand, supervisor=push, seconds=last + p.command_timeout + p.hold_timeout + after
    )
    assert (servo.mode, servo.trip) == (mode, None)
    assert np.any(plant.taus[-1]) == (mode is ServoMode.HOLD)


class Pushed(StubPlant):
    """The hand moves against its torque, as a miswired one does, or for a moment one on which an object
    is laid."""

    def step(self, tau):
        super().step(tau)
        self.joint_position = self.joint_position - self.dt * np.clip(tau / DAMPING, -1.0, 1.0)


def test_the_trial_reports_why_the_servo_tripped(hand):
    trial, _, servo = run_stub(hand, plant=Pushed())
    assert servo.trip is not None and trial.trouble == f"the servo is off: {servo.trip}"
    followed = np.isfinite(trial.recording["q_command"]).all(axis=1)
    assert followed[0] and not followed[-1], "no target is in force"


def test_the_servo_of_a_trial_does_not_take_a_push_for_wrong_wiring(hand):
    loop = StubLoop(hand, Pushed(), Stepping(hand), LoopParams(pose_period=0.1, latency=0.03), PoseSensor())
    loop.servo = TASK.servo(hand, ServoParams(kp=1.0))
    trial = run_trial(loop, iter([TASK.at_yaw(0.5)]), 0, 0.25)
    assert trial.trouble == "" and np.abs(loop.plant.joint_position - hand.home).max() > 0.08


@pytest.mark.parametrize(
    ("seconds", "mode"), [(3.0, ServoMode.TRACK), (BlindParams().blind_hold + 2.0, ServoMode.LIMP)]
)
def test_without_poses_the_servo_holds_its_last_target_for_blind_hold(hand, seconds, mode):
    out = PoseSensor(pose_delay=0.06, pose_outage=60.0, pose_outage_interval=0.3)
    still = Stepping(hand, step=0.0)  # the stub does not move, which the watch would notice
    trial, _, servo = run_stub(
        hand, supervisor=still, period=0.0334, latency=0.01, sensor=out, seconds=seconds
    )
    assert trial.recording["t"][-1] < 0.5, "no pose came from here on"
    assert servo.mode == mode


def test_reached_means_inside_the_tolerance_for_the_hold_time(hand):
    """Turning at 1 rad/s towards 0.5 rad from within ±10°: inside from 0.4 rad on, out again at
    0.6; held 0.3 s only if that fits."""
    trial, plant, _ = run_stub(hand, plant=StubPlant(rate=0.5), seconds=3.0, period=0.02, until="reached")
    start_yaw = yaw_of(trial.recording["pose_WO"][0, 3:])
    assert trial.reached and trial.reached_s == pytest.approx((0.4 - start_yaw) / 0.5 + 0.3, abs=0.05)
    assert plant.time == pytest.approx(trial.reached_s)  # it stops there
    fast, _, _ = run_stub(hand, plant=StubPlant(rate=1.0), seconds=3.0, period=0.02)
    assert not fast.reached and np.isnan(fast.reached_s)


def test_the_error_is_that_of_the_last_moment(hand):
    trial, plant, _ = run_stub(hand, plant=StubPlant(rate=0.5), seconds=3.0, period=0.02)
    assert trial.reached and plant.time == pytest.approx(3.0)
    assert trial.orientation_error == pytest.approx(TASK.orientation_error(plant.pose_WO, TASK.at_yaw(0.5)))
    assert trial.orientation_error > 0.5


def test_a_dropped_object_ends_the_trial(hand):
    trial, plant, _ = run_stub(hand, plant=StubPlant(fall=0.5), seconds=3.0, period=0.02)
    assert trial.dropped and not trial.reached
    assert plant.time == pytest.approx(0.16, abs=0.02)


def test_the_controller_sees_the_pose_late_and_the_score_sees_it_now(hand):
    supervisor = Stepping(hand)
    trial, _, _ = run_stub(
        hand,
        plant=StubPlant(rate=1.0),
        supervisor=supervisor,
        period=0.05,
        sensor=PoseSensor(pose_delay=0.03),
    )
    actual = [yaw_of(pose[3:]) for pose in trial.recording["pose_WO"]]
    seen = [yaw_of(observation.pose_WO[3:]) for observation, _ in supervisor.asked]
    np.testing.assert_allclose(np.subtract(actual, seen)[1:], 0.03, atol=1e-9)
    np.testing.assert_allclose([observation.t for observation, _ in supervisor.asked], trial.recording["t"])


# --- pushes -----------------------------------------------------------------------------------------


def test_pushes_are_due_once_an_interval_and_never_at_the_start():
    pushes, dt = Pushes(push_interval=0.5, push_speed=0.1), 0.003
    times = np.arange(0, 2.2, dt)
    due = [t for t in times if pushes.due(t - dt, t)]
    np.testing.assert_allclose(due, [0.5, 1.0, 1.5, 2.0], atol=dt)
    assert not any(Pushes().due(t - dt, t) for t in times)


def test_a_push_changes_the_speed_and_nothing_else(hand):
    start, plant = TASK.start(), make_plant("mujoco", hand, load_object("cube"))
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


# --- the real ones --------------------------------------------------------------------------------


SPEC = Spec(overrides=(("horizon", 2), ("iterations", 1)))


@pytest.fixture(scope="module")
def loop():
    return loop_of(SPEC)


SAME = ("t", "pose_WO", "q", "q_command", "status", "contacts")


def test_the_same_seed_gives_the_same_recording_whatever_ran_before(loop):
    first = loop.run(0, 3, 0.2).recording
    other = loop.run(1, 3, 0.3).recording
    again = loop.run(0, 3, 0.2).recording
    for name in SAME:
        np.testing.assert_array_equal(first[name], again[name])
    assert np.abs(first["pose_WO"][0] - other["pose_WO"][0]).max() > 1e-4
    assert not np.isin(first["status"], (SolveStatus.BAD_INPUT, SolveStatus.DIVERGED)).any()
    np.testing.assert_allclose(np.diff(first["t"]), loop.timing.pose_period, atol=2e-3 + 1e-9)


def test_measured_latency_is_each_computations_own(loop):
    latency = loop.run(0, 0, 0.1, measured_latency=True).recording["latency"]
    assert np.all(latency > 0) and len(set(latency)) > 1
    np.testing.assert_array_equal(loop.run(0, 0, 0.1).recording["latency"], loop.timing.latency)


def test_a_trial_kept_can_be_read_drawn_and_learned_from(loop, tmp_path):
    trial = loop.run(0, 0, 0.3)
    path = keep_trial(tmp_path / "kept", SPEC, trial, 0)
    with np.load(path) as archive:
        recording = {name: archive[name] for name in archive.files if name != "summary"}
        assert "summary" in archive.files
    check_recording(recording, 16, str(path))
    np.testing.assert_array_equal(recording["q_command"], trial.recording["q_command"])
    part = cut(recording, loop.controller.step, np.asarray(loop.planner.theta.cover), loop.detector.detect)
    assert part is not None and part.count == 10
    assert write_plot(tmp_path / "run.png", recording).read_bytes().startswith(b"\x89PNG")


def test_a_world_applies_to_the_plant_and_not_to_the_controller(loop, monkeypatch):
    monkeypatch.setattr("dexstack.control.planners.gauss_newton.Mpc.warm_up", lambda *_: 0.0)
    other = Loop(loop.task, loop.params, world=replace(SPEC.world, mass=2.0, friction=0.5, size=1.05))
    told, actual = loop.plant.model, other.plant.model
    assert actual.body("object").mass[0] == pytest.approx(2.0 * told.body("object").mass[0])
    touching = told.geom_contype > 0
    np.testing.assert_allclose(actual.geom_friction[touching, 0], 0.5 * told.geom_friction[touching, 0])
    assert other.plant_start.pose_WO[2] > loop.plant_start.pose_WO[2]
    for a, b in zip(other.planner.theta, loop.planner.theta, strict=True):
        np.testing.assert_array_equal(a, b)
    assert other.setup.obj.mass == loop.setup.obj.mass
    np.testing.assert_array_equal(other.detector.planes.offset, loop.detector.planes.offset)
