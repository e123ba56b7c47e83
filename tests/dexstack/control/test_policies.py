"""Policies in a planner's place: observations, actions, rates, and refusals by name."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dexstack.api import closed_loop
from dexstack.contact.contact import empty_contacts
from dexstack.control.base import Observation, Problem, SolveStatus
from dexstack.control.controller import Measurement
from dexstack.control.params import MpcParams, PlannerParams
from dexstack.control.policies.features import FEATURES, FeatureStack, Sight
from dexstack.control.policies.mapping import PolicyMapping, read_mapping, write_mapping
from dexstack.control.policies.planner import OnnxPolicy
from dexstack.errors import ConfigError
from dexstack.geometry.rotations import quaternion_product
from dexstack.hand.servo import ServoMode
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object

HAND = load_hand("right")
POSE = np.array([0.01, 0.0, 0.04, 1.0, 0.0, 0.0, 0.0])
TURNED = np.array([0.01, 0.0, 0.04, np.cos(0.3), 0.0, 0.0, np.sin(0.3)])
ZEROS = np.zeros(16)


def write_policy(folder: Path, weights, bias, **mapping) -> Path:
    """Write the policy ``observation @ weights + bias`` and its mapping; return its file."""
    weights, bias = np.asarray(weights, np.float32), np.asarray(bias, np.float32)
    rows, columns = weights.shape
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["seen", "w", "b"], ["action"])],
        "linear",
        [helper.make_tensor_value_info("seen", TensorProto.FLOAT, [1, rows])],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, [1, columns])],
        [onnx.numpy_helper.from_array(weights, "w"), onnx.numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = folder / "policy.onnx"
    onnx.save(model, path)
    write_mapping(path.with_suffix(".yaml"), PolicyMapping(**mapping))
    return path


def planner(path: Path) -> OnnxPolicy:
    blocks = {MpcParams: MpcParams(), PlannerParams: PlannerParams(planner=str(path))}
    return OnnxPolicy(Problem(HAND, load_object("cube"), None, None, None), blocks)


def observation(t=0.0, q=None, pose_WO=POSE):
    return Observation(t, pose_WO, HAND.home if q is None else q, empty_contacts(0))


def test_the_relative_rotation_turns_the_object_to_the_goal():
    """R_WO R_OG = R_WG for the quaternion, and the vector's norm is the angle."""
    sight = Sight(0.0, HAND.home, TURNED, POSE, HAND.home, ZEROS)
    stack = FeatureStack(["relative_quaternion", "relative_rotation_vector"], HAND.lower, HAND.upper)
    seen = stack.add(sight)
    np.testing.assert_allclose(quaternion_product(TURNED[3:], seen[:4]), POSE[3:], atol=1e-12)
    np.testing.assert_allclose(seen[4:], [0.0, 0.0, -0.6], atol=1e-12)


def test_velocities_are_differences_and_history_starts_with_the_first_moment():
    stack = FeatureStack(["q", "qd"], HAND.lower, HAND.upper, history=2)
    first = stack.add(Sight(1.0, np.zeros(16), POSE, POSE, HAND.home, ZEROS))
    np.testing.assert_array_equal(first, 0.0)
    second = stack.add(Sight(1.5, np.ones(16), POSE, POSE, HAND.home, ZEROS))
    np.testing.assert_allclose(second, np.repeat([0.0, 0.0, 1.0, 2.0], 16))


def test_velocities_of_the_object_and_the_phase_of_a_known_motion():
    """A turn of 0.6 rad about z and 10 mm along x in 0.5 s, a quarter of the phase's period."""
    names = ["linear_velocity", "angular_velocity", "phase", "last_action", "relative_quaternion_W"]
    stack = FeatureStack(names, HAND.lower, HAND.upper, phase_period=2.0)
    first = stack.add(Sight(3.0, HAND.home, POSE, POSE, HAND.home, ZEROS))
    np.testing.assert_allclose(first, [*[0.0] * 6, 0.0, 1.0, *[0.0] * 16, 1.0, 0.0, 0.0, 0.0], atol=1e-12)
    moved = TURNED + np.array([0.01, *[0.0] * 6])
    seen = stack.add(Sight(3.5, HAND.home, moved, POSE, HAND.home, np.arange(16.0)))
    np.testing.assert_allclose(seen[:6], [0.02, 0.0, 0.0, 0.0, 0.0, 1.2], atol=1e-12)
    np.testing.assert_allclose(seen[6:8], [1.0, 0.0], atol=1e-12)
    np.testing.assert_array_equal(seen[8:24], np.arange(16.0))
    np.testing.assert_allclose(quaternion_product(seen[24:], POSE[3:]), TURNED[3:], atol=1e-12)


@pytest.mark.parametrize("name", FEATURES)
def test_every_feature_is_a_finite_vector(name):
    sight = Sight(0.0, HAND.home, POSE, TURNED, HAND.home, ZEROS)
    seen = FeatureStack([name], HAND.lower, HAND.upper).add(sight)
    assert seen.ndim == 1 and np.isfinite(seen).all()


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("target", lambda a, last: 0.5 * a),
        ("displacement", lambda a, last: last + 0.5 * a),
        ("normalised", lambda a, last: HAND.lower + (a + 1) / 2 * (HAND.upper - HAND.lower)),
    ],
)
def test_actions_are_joint_targets_inside_the_limits(tmp_path, action, expected):
    rng = np.random.default_rng(0)
    bias = rng.uniform(-0.5, 0.5, 16)
    made = planner(
        write_policy(tmp_path, np.zeros((16, 16)), bias, observations=("q",), action=action, scale=0.5)
    )
    plan = made.plan(observation(), POSE)
    target = np.clip(expected(bias, HAND.home), HAND.lower, HAND.upper)
    np.testing.assert_allclose(plan.q_des, target, atol=1e-6)
    assert plan.status == SolveStatus.OK


def test_actions_are_limited_and_smoothed_within_the_limits_that_the_policy_knows(tmp_path):
    """Its limits hold joints at 0.1 rad at most; the hand's, beyond which nothing goes, are others."""
    upper, lower = np.full(16, 0.1), HAND.lower - 1.0
    mapping = {"action_limit": 1.0, "smoothing": 0.5, "lower": tuple(lower), "upper": tuple(upper)}
    q = np.clip(np.zeros(16), HAND.lower, HAND.upper)
    for bias in (-3.0, 3.0):
        made = planner(
            write_policy(tmp_path, np.zeros((16, 16)), np.full(16, bias), observations=("q",), **mapping)
        )
        target = np.clip(0.5 * q + 0.5 * np.sign(bias), lower, upper)
        np.testing.assert_allclose(
            made.plan(observation(q=q), POSE).q_des, np.clip(target, HAND.lower, HAND.upper), atol=1e-6
        )


def test_a_normalised_action_of_one_is_the_limit_that_the_policy_knows(tmp_path):
    upper = tuple(HAND.lower + 0.5 * (HAND.upper - HAND.lower))
    path = write_policy(
        tmp_path, np.zeros((16, 16)), np.ones(16), observations=("q",), action="normalised", upper=upper
    )
    np.testing.assert_allclose(planner(path).plan(observation(), POSE).q_des, upper, atol=1e-6)


def test_a_policy_sees_poses_in_its_own_world(tmp_path):
    """Its world lies 0.5 m below this one and is turned by half a turn about x."""
    mapping = PolicyMapping(world=(0.0, 0.0, 0.5, 0.0, 1.0, 0.0, 0.0))
    seen = mapping.pose(np.array([0.1, 0.2, 0.3, 1.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(seen, [0.1, -0.2, 0.2, 0.0, 1.0, 0.0, 0.0], atol=1e-12)
    path = write_policy(
        tmp_path, np.eye(3, 16), np.zeros(16), observations=("position",), world=mapping.world
    )
    q_des = planner(path).plan(observation(), POSE).q_des
    np.testing.assert_allclose(
        q_des, np.clip([0.01, 0.0, 0.46, *ZEROS[3:]], HAND.lower, HAND.upper), atol=1e-6
    )


def test_the_last_action_is_the_policys_own(tmp_path):
    """An action of twice the last one plus a tenth: 0.1, 0.3."""
    made = planner(
        write_policy(
            tmp_path, 2.0 * np.eye(16), np.full(16, 0.1), observations=("last_action",), action="displacement"
        )
    )
    first = made.plan(observation(0.0), POSE).q_des
    second = made.plan(observation(0.05), POSE).q_des
    inside = (second < HAND.upper) & (first < HAND.upper)
    np.testing.assert_allclose((second - first)[inside], 0.3, atol=1e-6)
    assert inside.any()


def test_joints_are_ordered_as_the_policy_names_them(tmp_path):
    """A policy that holds its joints, in reverse order, holds the hand's."""
    names = tuple(reversed(HAND.joint_names))
    path = write_policy(tmp_path, np.eye(16), np.zeros(16), observations=("q",), joints=names)
    q = np.clip(HAND.home + np.linspace(0.0, 0.1, 16), HAND.lower, HAND.upper)
    np.testing.assert_allclose(planner(path).plan(observation(q=q), POSE).q_des, q, atol=1e-6)


def test_between_two_moments_the_target_stays(tmp_path):
    made = planner(write_policy(tmp_path, np.eye(16), np.zeros(16), observations=("q",), rate=10.0))
    first = made.plan(observation(0.0), POSE).q_des
    moved = HAND.home + 0.01
    np.testing.assert_array_equal(made.plan(observation(0.05, moved), POSE).q_des, first)
    np.testing.assert_allclose(made.plan(observation(0.1, moved), POSE).q_des, moved, atol=1e-6)


def test_an_action_that_is_not_finite_keeps_the_target_and_is_not_usable(tmp_path):
    """1e38 · 1e3 overflows float32."""
    made = planner(write_policy(tmp_path, 1e38 * np.eye(16), np.zeros(16), observations=("q",)))
    plan = made.plan(observation(q=np.full(16, 1e3)), POSE)
    assert plan.status == SolveStatus.DIVERGED and not plan.status.usable
    np.testing.assert_array_equal(plan.q_des, np.full(16, 1e3))


def test_observations_are_normalised_and_clipped():
    mapping = PolicyMapping(observations=("q",), mean=(1.0, 2.0), std=(2.0, 4.0), clip=1.0, history=2)
    np.testing.assert_array_equal(
        mapping.scaled(np.array([3.0, 4.0, 0.0, 99.0])), np.float32([1.0, 0.5, -0.5, 1.0])
    )


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ({"observations": ("q", "qd")}, "an observation of 32 numbers"),
        ({"observations": ("q",), "joints": ("thumb",)}, "joint of the policy 'thumb'"),
        ({"observations": ("q",), "joints": HAND.joint_names[:15]}, f"name '{HAND.joint_names[15]}' once"),
        ({"observations": ("q",), "mean": (0.0,) * 3}, "'mean' has 3 numbers, an observation 16"),
        ({"observations": ("q",), "upper": (1.0,) * 3}, "'upper' has 3 numbers, the hand 16 joints"),
        ({"observations": ("q",), "upper": (-3.0,) * 16}, "'lower' is not below 'upper' for joint 0"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path, mapping, says):
    with pytest.raises(ConfigError, match=says):
        planner(write_policy(tmp_path, np.eye(16), np.zeros(16), **mapping))


def test_a_policy_with_too_few_actions_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="must return 16 numbers"):
        planner(write_policy(tmp_path, np.ones((16, 3)), np.zeros(3), observations=("q",)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("observation: [q]", "unknown parameter of PolicyMapping 'observation'; did you mean 'observations'"),
        ("observations: [qq]", "unknown observations 'qq'"),
        ("action: torque", "unknown action 'torque'"),
        ("rate: fast", "'rate' must be float"),
        ("world: [0.0, 1.0]", "'world' must have 7 numbers, got 2"),
        ("world: [0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]", "must be of unit length"),
        ("- q", "must be a mapping of joints"),
    ],
)
def test_a_malformed_mapping_is_refused_with_its_path(tmp_path, text, says):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says) as error:
        read_mapping(path)
    assert str(path) in str(error.value)


def test_what_is_no_model_is_refused(tmp_path):
    path = tmp_path / "policy.onnx"
    path.write_text("<html>")
    write_mapping(path.with_suffix(".yaml"), PolicyMapping())
    with pytest.raises(ConfigError, match="not a usable ONNX model"):
        planner(path)


def test_a_policy_in_python_is_a_planner(tmp_path):
    path = tmp_path / "hold.py"
    path.write_text(
        "from dexstack.control.policies.planner import PolicyPlanner\n"
        "class Hold(PolicyPlanner):\n"
        "    def act(self, observation):\n"
        "        return observation[:16]\n"
        "PLANNER = Hold\n"
    )
    write_mapping(path.with_suffix(".yaml"), PolicyMapping(observations=("q", "displacement")))
    loop = closed_loop(set={"planner": str(path)})
    assert type(loop.supervisor).__name__ == "NoSupervisor"
    trial = loop.run(0, 0, 0.3)
    assert set(trial.recording["status"]) == {0} and not trial.dropped


FAILING = """
import numpy as np
from dexstack.control.policies.planner import PolicyPlanner

class Failing(PolicyPlanner):
    acts = 0
    def act(self, observation):
        self.acts += 1
        return {answer} if self.acts > 20 else observation[:16]

PLANNER = Failing
"""


def modes_with(tmp_path, answer, seconds=1.5):
    """Run a policy whose answer changes at 1 s; return times, servo modes and torques from then on."""
    path = tmp_path / "failing.py"
    path.write_text(FAILING.format(answer=answer))
    write_mapping(path.with_suffix(".yaml"), PolicyMapping(observations=("q",), rate=20.0))
    loop = closed_loop(set={"planner": str(path)})
    controller, rows = loop.controller, []
    rollout = loop.rollout(loop.task.goals(0, 0), 0, seconds, hold=controller.hold)
    goal_WO = rollout.judge.goal.pose_WO
    for t, sample, _ in rollout.sights():
        target = controller.answer(Measurement(sample.pose_WO, sample.q, t, sample.q_now), goal_WO).target
        if target is not None:
            rollout.command(target, t + loop.timing.latency)
        tripped = loop.servo.trip is not None
        rows.append((t, loop.servo.mode, tripped, np.array(loop.plant.joint_velocity)))
    return [row for row in rows if row[0] >= 1.0]


def test_the_hand_holds_within_a_tenth_of_a_second_of_an_action_that_is_not_finite(tmp_path):
    rows = modes_with(tmp_path, "np.full(16, np.nan)")
    late = [mode for t, mode, _, _ in rows if t > 1.0 + 0.1 + 0.05]  # after the last good command's timeout
    assert set(late) == {ServoMode.HOLD} and not any(tripped for _, _, tripped, _ in rows)


def test_a_policy_that_throws_its_targets_from_limit_to_limit_moves_no_joint_too_fast(tmp_path):
    """The servo slews targets; its watch takes the torque away, or no joint exceeds its speed limit."""
    rows = modes_with(tmp_path, "np.full(16, 10.0 * (-1) ** self.acts)", seconds=3.0)
    fastest = max(np.abs(v).max() / HAND.velocity.min() for _, _, tripped, v in rows if not tripped)
    assert any(tripped for _, _, tripped, _ in rows) or fastest < 1.0
    off = [mode for _, mode, tripped, _ in rows if tripped]
    assert set(off) <= {ServoMode.LIMP}
