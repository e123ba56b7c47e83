"""The servo law: closed forms of every term, every way to zero torque, and the torque limit under
any stream of inputs."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from dexstack.errors import ConfigError
from dexstack.hand.servo import Fault, ServoLaw, ServoMode, ServoParams
from dexstack.hand.watch import TripKind, WatchParams

N = 16
PERIOD = 0.003
HAND = SimpleNamespace(
    lower=np.full(N, -0.5),
    upper=np.linspace(1.0, 1.75, N),
    effort=np.linspace(0.24, 0.56, N),
    velocity=np.full(N, 7.0),
    damping=np.full(N, 0.1),
)
PLAIN = ServoParams(slew_rate=100.0, startup_time=0.0)
Q0 = np.full(N, 0.2)
STUCK = WatchParams(frozen_ticks=1_000_000)
"""For joints that stand still to the last bit whatever the torque, as they do in these tests."""


def run(servo, q, t0, t1):
    """Ticks at the nominal period over [t0, t1) with constant angles; the last output."""
    out = None
    for k in range(round((t1 - t0) / PERIOD)):
        out = servo.step(q, t0 + k * PERIOD)
    return out


def tracking(params=PLAIN, q_des=Q0 + 0.1, gravity=None, q=Q0):
    """A servo that tracks ``q_des`` and has reached it with its applied target, at t = 0.09 s."""
    servo = ServoLaw(HAND, params, gravity, STUCK)
    servo.step(q, 0.0)
    assert servo.set_command(q_des, 0.0) is None
    assert run(servo, q, PERIOD, 0.09).mode is ServoMode.TRACK
    return servo


# --- the law


def test_torque_is_the_pd_law_plus_gravity():
    params = replace(PLAIN, kp=0.7, kd=0.02, velocity_cutoff_hz=1000.0, feedback_velocity=100.0)
    servo = tracking(params, gravity=lambda q: 0.1 * q)
    speed = 0.5  # rad/s, for long enough that the low-pass has settled
    for k in range(1, 20):
        out = servo.step(Q0 + speed * k * PERIOD, 0.087 + k * PERIOD)
    q = Q0 + speed * 19 * PERIOD
    np.testing.assert_allclose(out.qd, speed, rtol=1e-6)
    np.testing.assert_allclose(out.tau, 0.7 * (Q0 + 0.1 - q) - 0.02 * speed + 0.1 * q, atol=1e-6)


def test_velocity_low_pass_is_first_order():
    params = replace(PLAIN, velocity_cutoff_hz=20.0)
    servo = ServoLaw(HAND, params)
    servo.step(Q0, 0.0)
    for k in range(1, 11):
        out = servo.step(Q0 + 1.0 * k * PERIOD, k * PERIOD)
        np.testing.assert_allclose(out.qd, 1.0 - math.exp(-2 * math.pi * 20.0 * k * PERIOD), rtol=1e-9)


def test_bunched_up_stamps_do_not_make_velocity_spikes():
    servo = ServoLaw(HAND, PLAIN)
    servo.step(Q0, 0.0)
    out = servo.step(Q0 + 0.003, 1e-5)
    assert np.all(out.qd < 0.003 * 2 * math.pi * PLAIN.velocity_cutoff_hz)
    assert np.all(np.isfinite(servo.step(Q0 + 0.003, 1e-5).qd))


def test_target_is_slew_limited_and_starts_at_the_measured_angle():
    params = ServoParams(slew_rate=4.0, startup_slew_rate=1.0, startup_time=0.03)
    servo = ServoLaw(HAND, params, watch=STUCK)
    servo.step(Q0, 0.0)
    servo.set_command(Q0 + 0.5, 0.0)
    out = servo.step(Q0, PERIOD)
    np.testing.assert_allclose(out.q_applied, Q0 + 1.0 * PERIOD)
    previous = out.q_applied
    for k in range(2, 40):
        out = servo.step(Q0, k * PERIOD)
        rate = 1.0 if k <= 10 else 4.0
        np.testing.assert_allclose(out.q_applied - previous, rate * PERIOD, rtol=1e-9)
        previous = out.q_applied


def test_a_gap_in_the_feedback_does_not_become_a_leap():
    servo = ServoLaw(HAND, ServoParams(slew_rate=10.0, startup_time=0.0))
    servo.step(Q0, 0.0)
    servo.set_command(Q0 + 0.7, 0.0)
    before = servo.step(Q0, PERIOD).q_applied
    after = servo.step(Q0, PERIOD + 0.1).q_applied
    np.testing.assert_allclose(after - before, 10.0 * 5 * PERIOD)


def test_commands_slightly_outside_the_joint_limits_are_clipped():
    servo = tracking(replace(PLAIN, feedback_velocity=1000.0), q_des=HAND.upper + 0.04, q=HAND.upper - 0.1)
    np.testing.assert_array_equal(servo.step(HAND.upper - 0.1, 0.09).q_applied, HAND.upper)


def test_measured_angle_outside_the_limits_starts_at_the_limit():
    servo = ServoLaw(HAND, ServoParams(startup_slew_rate=0.01))
    q = HAND.lower - 0.1
    servo.step(q, 0.0)
    servo.set_command(HAND.lower, 0.0)
    np.testing.assert_array_equal(servo.step(q, PERIOD).q_applied, HAND.lower)


def test_torque_is_clipped_last():
    servo = tracking(replace(PLAIN, kp=10.0), gravity=lambda q: np.full(N, 5.0))
    np.testing.assert_array_equal(servo.step(Q0, 0.09).tau, HAND.effort)
    servo = tracking(replace(PLAIN, kp=10.0), gravity=lambda q: np.full(N, -5.0))
    np.testing.assert_array_equal(servo.step(Q0, 0.09).tau, -HAND.effort)


def test_the_output_is_not_overwritten_by_the_next_tick():
    servo = tracking()
    first = servo.step(Q0, 0.09)
    kept = [np.array(x) for x in first[:3]]
    servo.step(Q0 + 0.01, 0.093)
    for x, y in zip(first[:3], kept, strict=True):
        np.testing.assert_array_equal(x, y)


# --- modes and watchdog


def test_limp_until_the_first_command():
    servo = ServoLaw(HAND, PLAIN, gravity=lambda q: np.ones(N))
    out = run(servo, Q0, 0.0, 0.1)
    assert out.mode is ServoMode.LIMP
    assert not out.tau.any() and np.isnan(out.q_applied).all()
    assert servo.set_command(np.full(N, np.nan), 0.1) is None, "as a node sends before its first target"
    assert servo.step(Q0, 0.1).mode is ServoMode.LIMP and not any(servo.faults.values())


def test_stale_command_holds_then_goes_limp():
    params = replace(PLAIN, command_timeout=0.15, hold_timeout=0.3)
    servo = tracking(params)
    for k in range(30, 170):
        t = k * PERIOD + 1e-4  # off the timeouts, which rounding would decide
        out = servo.step(Q0, t)
        expected = ServoMode.TRACK if t <= 0.15 else ServoMode.HOLD if t <= 0.45 else ServoMode.LIMP
        assert out.mode is expected is servo.mode, t
        if expected is ServoMode.LIMP:
            assert not out.tau.any()
        else:
            np.testing.assert_allclose(out.tau, 0.1)


def test_hold_stops_at_the_last_applied_target_and_a_new_command_resumes_without_a_leap():
    servo = ServoLaw(HAND, ServoParams(slew_rate=0.5, startup_time=0.0, command_timeout=0.03))
    servo.step(Q0, 0.0)
    servo.set_command(Q0 + 0.5, 0.0)
    applied = run(servo, Q0, PERIOD, 0.03).q_applied
    held = run(servo, Q0, 0.033, 0.5)
    assert held.mode is ServoMode.HOLD
    np.testing.assert_allclose(held.q_applied, applied, atol=0.5 * 0.0031)
    assert servo.set_command(Q0 - 0.1, 0.5) is None
    out = servo.step(Q0, 0.5)
    assert out.mode is ServoMode.TRACK
    assert np.max(np.abs(out.q_applied - held.q_applied)) <= 0.5 * PERIOD + 1e-12


def test_disable_drops_the_command_and_refuses_new_ones():
    servo = tracking()
    servo.disable()
    assert not servo.step(Q0, 0.09).tau.any()
    assert servo.set_command(Q0, 0.09) is Fault.COMMAND_WHILE_DISABLED
    servo.enable()
    assert servo.step(Q0, 0.093).mode is ServoMode.LIMP
    assert servo.set_command(Q0, 0.093) is None
    assert servo.step(Q0, 0.096).mode is ServoMode.TRACK


def test_clock_going_backwards_means_limp_until_a_new_command():
    servo = tracking()
    for t in (0.01, 0.013, 0.05):
        out = servo.step(Q0, t)
        assert out.mode is ServoMode.LIMP and not out.tau.any()
    assert servo.faults[Fault.CLOCK_BACKWARDS] == 1
    assert servo.set_command(Q0 + 0.1, 0.05) is None
    assert servo.step(Q0, 0.053).mode is ServoMode.TRACK


def test_clock_leaping_ahead_drops_the_command():
    servo = tracking()
    out = servo.step(Q0, 1e6)
    assert out.mode is ServoMode.LIMP and not out.tau.any()


def test_feedback_lost_for_longer_than_the_timeout_starts_over():
    servo = tracking(ServoParams(slew_rate=100.0, startup_slew_rate=0.1, startup_time=0.1))
    servo.set_command(Q0 + 0.1, 0.087)
    servo.set_command(Q0 + 0.1, 0.20)
    out = servo.step(Q0 + 0.05, 0.30)
    assert out.mode is ServoMode.TRACK
    np.testing.assert_allclose(out.q_applied, Q0 + 0.05, atol=0.1 * 5 * PERIOD)


# --- bad input

BAD_COMMANDS = [
    (np.zeros(15), Fault.COMMAND_WRONG_SIZE),
    (np.zeros((16, 1)), Fault.COMMAND_WRONG_SIZE),
    (None, Fault.COMMAND_WRONG_SIZE),
    ("sixteen", Fault.COMMAND_WRONG_SIZE),
    (np.array([math.nan] + [0.0] * 15), Fault.COMMAND_NON_FINITE),
    (np.array([math.inf] + [0.0] * 15), Fault.COMMAND_NON_FINITE),
    (np.array([2.0] + [0.0] * 15), Fault.COMMAND_OUT_OF_RANGE),
    (np.array([-0.6] + [0.0] * 15), Fault.COMMAND_OUT_OF_RANGE),
]


@pytest.mark.parametrize(("command", "fault"), BAD_COMMANDS)
def test_bad_commands_are_counted_and_change_nothing(command, fault):
    servo = tracking()
    before = servo.step(Q0, 0.09)
    assert servo.set_command(command, 0.09) is fault
    after = servo.step(Q0, 0.093)
    assert servo.faults[fault] == 1 == sum(servo.faults.values())
    np.testing.assert_array_equal(after.q_applied, before.q_applied)


def test_commands_out_of_their_time_are_refused():
    servo = tracking()
    assert servo.set_command(Q0, -0.1) is Fault.COMMAND_STALE
    assert servo.set_command(Q0, 0.087 + 0.16) is Fault.COMMAND_FROM_FUTURE
    assert servo.set_command(Q0, math.nan) is Fault.COMMAND_NON_FINITE
    assert servo.set_command(Q0, 0.08) is None
    assert servo.set_command(Q0, 0.07) is Fault.COMMAND_STALE


BAD_FEEDBACK = [
    (np.full(N, np.nan), Fault.FEEDBACK_NON_FINITE),
    (np.array([math.inf, -math.inf] + [0.2] * 14), Fault.FEEDBACK_NON_FINITE),
    (np.array([1e308] * N), Fault.FEEDBACK_OUT_OF_RANGE),
    (np.zeros(15), Fault.FEEDBACK_WRONG_SIZE),
    (0.2, Fault.FEEDBACK_WRONG_SIZE),
    (np.array([3.0] + [0.2] * 15), Fault.FEEDBACK_OUT_OF_RANGE),
    (np.array([0.5] + [0.2] * 15), Fault.FEEDBACK_JUMP),
]


@pytest.mark.parametrize(("q", "fault"), BAD_FEEDBACK)
def test_bad_feedback_gives_zero_torque_for_that_tick_only(q, fault):
    servo = tracking()
    out = servo.step(q, 0.09)
    assert not out.tau.any()
    assert servo.faults[fault] == 1 == sum(servo.faults.values())
    np.testing.assert_allclose(servo.step(Q0, 0.093).tau, 0.1)


def test_a_lasting_jump_is_final_at_default_parameters():
    servo = tracking(ServoParams())
    q = Q0 + 0.5
    for k in range(30, 200):
        servo.set_command(Q0 + 0.4, k * PERIOD)
        assert not servo.step(q, k * PERIOD).tau.any()
        assert (servo.trip is not None) == (k >= 32), "three in a row"
    assert servo.trip.kind is TripKind.ENCODER and not servo.enabled
    servo.enable()
    assert servo.set_command(q, 0.6) is None
    out = servo.step(q, 0.6)
    assert out.mode is ServoMode.TRACK
    np.testing.assert_allclose(out.q_applied, q, atol=1e-12)


def test_a_single_leap_does_not_widen_the_gate():
    servo = tracking(ServoParams())
    servo.step(Q0 + 0.5, 0.09)
    servo.step(Q0 + 0.17, 0.093)  # allowed after two periods, not after one
    assert servo.faults[Fault.FEEDBACK_JUMP] == 2
    servo.step(Q0, 0.096)
    servo.step(Q0 + 0.5, 0.099)
    assert servo.trip is None, "in a row they were two"


def test_bad_clock_gives_zero_torque():
    servo = tracking()
    assert not servo.step(Q0, math.nan).tau.any()
    assert servo.faults[Fault.CLOCK_NON_FINITE] == 1
    assert servo.step(Q0, 0.09).mode is ServoMode.TRACK


@pytest.mark.parametrize("gravity", [lambda q: np.full(N, np.nan), lambda q: 1 / 0, lambda q: np.zeros(3)])
def test_a_failing_gravity_model_gives_zero_torque(gravity):
    servo = tracking(gravity=gravity)
    assert not servo.step(Q0, 0.09).tau.any()
    assert servo.faults[Fault.GRAVITY] > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("lower", np.zeros(15)),
            ("upper", np.full(N, -1.0)),
            ("upper", np.full(N, np.nan)),
            ("effort", np.full(N, -1.0)),
        ),
        *(
            ("velocity", np.full(N, np.inf)),
            ("velocity", 7.0),
            ("damping", np.zeros(N)),
            ("damping", np.full(N, np.nan)),
        ),
    ],
)
def test_impossible_hands_are_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name}|limits must"):
        ServoLaw(SimpleNamespace(**{**vars(HAND), name: value}))


# --- properties

ANY_FLOAT = st.floats(width=64) | st.floats(-2.0, 2.0)
ANY_VECTOR = arrays(float, st.sampled_from([N, N, N, N, 0, 15, (4, 4)]), elements=ANY_FLOAT)
EVENT = st.one_of(
    st.tuples(st.just("command"), ANY_VECTOR, ANY_FLOAT),
    st.tuples(st.just("feedback"), ANY_VECTOR, ANY_FLOAT),
    st.tuples(st.just("tick"), arrays(float, N, elements=st.floats(-0.4, 0.9)), st.floats(0.0, 0.3)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENT, max_size=30), st.floats(0.0, 10.0), st.floats(0.0, 1.0))
def test_no_input_stream_raises_or_exceeds_a_limit(events, kp, kd):
    servo = ServoLaw(HAND, ServoParams(kp=kp, kd=kd), gravity=lambda q: np.tan(100 * q))
    t = 0.0
    for kind, vector, time in events:
        if kind == "command":
            servo.set_command(vector, time)
            servo.set_command(vector, t)
            continue
        t = t + time if kind == "tick" else time
        check_limits(servo.step(vector, t))
        t = t if math.isfinite(t) and abs(t) < 1e6 else 0.0


def check_limits(out):
    assert np.all(np.abs(out.tau) <= HAND.effort)  # false for NaN too
    if out.mode is ServoMode.LIMP:
        assert not out.tau.any()
    else:
        assert np.all((out.q_applied >= HAND.lower) & (out.q_applied <= HAND.upper))
