"""Batched rollouts against the traced detector and step model, one step at a time, and against
closed forms."""

from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dexstack.contact.detector import ContactDetector
from dexstack.control.factory import PlannerParams, make_model
from dexstack.control.problem import force, integrate_quaternion, step_problem
from dexstack.control.rollout.rollout import ContactRollouts
from dexstack.control.theta_file import make_theta
from dexstack.geometry.decomposition import Surface
from dexstack.model.objects import ObjectModel
from dexstack.tasks.palm_turn import PalmTurn
from dexstack.tasks.three_ball import ThreeBall

H, B, T = 0.05, 16, 8
CONVERGED = 12
"""Newton steps after which a step has converged."""
BALLS = ThreeBall().setup()


class Halved(ObjectModel):
    """An object as two convex parts, its lower and its upper half."""

    @property
    def parts(self):
        corners, faces = self.surface
        return tuple(
            Surface(corners * [1, 1, 0.5] + [0, 0, side * self.size[2] / 4], faces) for side in (-1, 1)
        )


def cases():
    def case(setup, name, obj=None, marks=()):
        values = setup.robot, obj or setup.obj, setup.start.pose_WO, setup.rest
        return pytest.param(*values, id=name, marks=marks)

    right, leap, left = (
        PalmTurn(obj=obj, hand=hand).setup()
        for hand, obj in (("right", "cube"), ("leap_right", "cube"), ("left", "stick"))
    )
    parts = Halved(**{f.name: getattr(right.obj, f.name) for f in fields(ObjectModel)})
    return [
        case(right, "right, cube"),
        case(leap, "leap, cube", marks=pytest.mark.slow),
        case(left, "left, stick", marks=pytest.mark.slow),
        case(right, "two parts", parts, marks=pytest.mark.slow),
        case(BALLS, "balls", marks=pytest.mark.slow),
    ]


def wander(robot, q, reach, seed):
    """Targets (B, T, N) around a posture."""
    rng = np.random.default_rng(seed)
    way = np.cumsum(rng.normal(scale=reach, size=(B, T, len(q))), axis=1)
    return np.clip(q + way, robot.lower, robot.upper)


def reference(robot, obj, params, theta, limits):
    """Return a compiled step: (pose, joints, target) → (pose, joints)."""
    detector, model, tree = ContactDetector(robot, obj), make_model(params, robot.chains), robot.kinematics()
    lower, upper = (jnp.asarray(limit, jnp.float32) for limit in limits)

    def step(pose, q, target):
        problem = step_problem(tree, tree.poses(q), pose, detector.trace(pose, q), theta, H)
        u = jnp.clip(target - q, lower - q, upper - q)
        start = model.initial_dual(problem)
        dq, _ = model.step(model.prepare(problem, theta), force(theta, u, robot.gravity), problem.phi, start)
        joints = jnp.clip(q + dq[6:], jnp.minimum(lower, q), jnp.maximum(upper, q))
        return jnp.concatenate([pose[:3] + dq[:3], integrate_quaternion(pose[3:], dq[3:6])]), joints

    return jax.jit(jax.vmap(step))


@pytest.mark.parametrize(("robot", "obj", "pose", "q"), cases())
def test_every_step_is_that_of_the_traced_model(robot, obj, pose, q):
    params = PlannerParams(implicit_steps=CONVERGED)
    theta = make_theta(robot, obj, params, H)
    rollouts = ContactRollouts(robot, [obj], H, newton=CONVERGED)
    targets = wander(robot, q, 0.003 if obj is BALLS.obj else 0.1, 3)
    joints, poses = rollouts.roll(pose, q, targets, theta)
    before = np.concatenate([np.broadcast_to(x, (B, 1, len(x))) for x in (pose, q)], axis=2)
    before = np.concatenate([before, np.concatenate([poses, joints], axis=2)[:, :-1]], axis=1).reshape(
        B * T, -1
    )
    found, theirs = reference(robot, obj, params, theta, (robot.lower, robot.upper))(
        before[:, :7].astype(np.float32),
        before[:, 7:].astype(np.float32),
        targets.reshape(B * T, -1).astype(np.float32),
    )
    np.testing.assert_allclose(joints.reshape(B * T, -1), theirs, atol=2e-4)
    np.testing.assert_allclose(poses.reshape(B * T, 7), found, atol=2e-4)
    assert np.abs(poses[:, -1] - pose).max() > 1e-3  # something was pushed


def test_an_object_without_contacts_falls_and_joints_follow_their_targets(resting):
    hand, obj = resting.hand, resting.obj
    rollouts = ContactRollouts(hand, [obj], H, momentum=1.0)
    params = PlannerParams(inertia_scale=1.0)
    theta = make_theta(hand, obj, params, H)
    pose, twist = np.array([0.0, 0.0, 5.0, 1.0, 0.0, 0.0, 0.0]), np.array([0.3, 0.0, 1.0, 0.0, 0.0, 0.4])
    targets = np.broadcast_to(resting.q + 0.05, (2, T, len(resting.q)))
    gravity = np.array([[0.0, 0.0, -9.81], [2.0, 0.0, 0.0]])
    joints, poses = rollouts.roll(pose, resting.q, targets, theta, gravity=gravity, twist_WO=twist)
    k = np.arange(1, T + 1)[:, None]
    fallen = pose[:3] + k * H * twist[:3] + k * (k + 1) / 2 * H**2 * gravity[:, None]
    np.testing.assert_allclose(poses[:, :, :3], fallen, atol=1e-5)
    half = k[:, 0] * H * 0.4 / 2
    np.testing.assert_allclose(poses[0, :, [3, 6]], [np.cos(half), np.sin(half)], atol=1e-6)
    left = (1.0 - np.asarray(theta.cover)) ** k
    np.testing.assert_allclose(joints[1], resting.q + 0.05 * (1.0 - left), atol=1e-6)


def test_physics_and_object_of_every_plan_are_its_own(resting):
    hand, cube, stick = resting.hand, resting.obj, PalmTurn(obj="stick").setup().obj
    rollouts = ContactRollouts(hand, [cube, stick], H)
    theta = make_theta(hand, cube, PlannerParams(), H)
    targets = wander(hand, resting.q, 0.1, 5)[:4]
    mass, friction, which = (
        np.array([0.1, 0.2, 0.3, 0.4]),
        np.array([0.2, 0.5, 0.8, 1.1]),
        np.array([0, 1, 0, 1]),
    )
    together = rollouts.roll(
        resting.pose_WO, resting.q, targets, theta._replace(mass=mass, friction=friction), which=which
    )
    for k in range(4):
        one = theta._replace(mass=mass[k], friction=friction[k])
        alone = rollouts.roll(resting.pose_WO, resting.q, targets[k : k + 1], one, which=which[k])
        for found, expected in zip(alone, together, strict=True):
            np.testing.assert_array_equal(found[0], expected[k])
