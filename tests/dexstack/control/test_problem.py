"""The step problem in float64: contact rows against finite differences of distances, tangents, rotations,
and the meaning of θ."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexstack.contact.contact import GROUND, Contacts
from dexstack.control.problem import (
    FRICTION_DIRECTIONS,
    OBJECT_DOF,
    force,
    integrate_quaternion,
    physical_params,
    relative_jacobian,
    step_problem,
    tangents,
)
from dexstack.model.hand import load_hand
from dexstack.model.kinematics import KinematicTree
from dexstack.model.mount import DOWN, inclined

pytestmark = pytest.mark.usefixtures("x64")
LINKS = np.array([GROUND, 0, 4, 8, 11, 16, 14, 2])


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def moved(pose, dq):
    """Object pose after a small displacement: linear in the world, angular in the body."""
    turn = Rotation.from_quat(pose[3:], scalar_first=True) * Rotation.from_rotvec(dq[3:6])
    return np.concatenate([pose[:3] + dq[:3], turn.as_quat(scalar_first=True)])


class Scene:
    """Contacts between random planes of an object and points fixed to links, at a random state."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.hand = load_hand("right")
        self.tree = KinematicTree(self.hand)
        self.poses = jax.jit(self.tree.poses)
        self.q = rng.uniform(self.hand.lower, self.hand.upper)
        self.pose = np.concatenate([rng.uniform(-0.05, 0.05, 3), unit(rng.normal(size=4))])
        C = len(LINKS)
        self.nhat_O = unit(rng.normal(size=(C, 3)))
        self.surface_O = rng.uniform(-0.04, 0.04, (C, 3))
        phi = rng.uniform(-0.003, 0.02, C)
        R = self.rotation(self.pose)
        nhat_W = self.nhat_O @ R.T
        p_W = self.pose[:3] + self.surface_O @ R.T
        poses = self.poses(jnp.asarray(self.q))
        R_WB, p_WB = np.asarray(poses.R_WB), np.asarray(poses.p_WB)
        body = np.maximum(LINKS, 0)
        point_W = p_W + phi[:, None] * nhat_W
        self.point_B = np.einsum("cji,cj->ci", R_WB[body], point_W - p_WB[body])
        self.ground_W = point_W
        self.contacts = Contacts(p_W, nhat_W, phi, LINKS, np.arange(C) != 3)

    @staticmethod
    def rotation(pose):
        return Rotation.from_quat(pose[3:], scalar_first=True).as_matrix()

    def robot_points(self, dq):
        """Return the points fixed to the links after a displacement."""
        poses = self.poses(jnp.asarray(self.q + dq[OBJECT_DOF:]))
        body = np.maximum(LINKS, 0)
        p = np.asarray(poses.p_WB)[body] + np.einsum("cij,cj->ci", np.asarray(poses.R_WB)[body], self.point_B)
        return np.where((LINKS == GROUND)[:, None], self.ground_W, p)

    def distance(self, dq):
        """Signed distance of the robot's points to the object's planes after a displacement: the
        plane moves with the object."""
        pose = moved(self.pose, dq)
        x_O = (self.robot_points(dq) - pose[:3]) @ self.rotation(pose)
        return np.sum(self.nhat_O * (x_O - self.surface_O), axis=1)

    def problem(self, theta):
        poses = self.poses(jnp.asarray(self.q))
        return step_problem(
            self.tree, poses, jnp.asarray(self.pose), Contacts(*map(jnp.asarray, self.contacts)), theta, 0.1
        )


def some_theta(friction=0.7):
    hand = load_hand("right")
    theta = physical_params(
        0.2, np.diag([1e-4, 2e-4, 3e-4]), friction, np.full(16, 1.5), hand.damping, 0.1, 10.0, 100.0
    )
    return jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), theta)


def central(f, n, step=1e-6):
    return np.stack([(f(step * e) - f(-step * e)) / (2 * step) for e in np.eye(n)], axis=-1)


@pytest.mark.parametrize("seed", range(4))
def test_normal_rows_are_the_slopes_of_the_distances(seed):
    """Robot moves, object moves and turns: d(φ)/d(q) of a link's point to a plane of the object.
    Inactive contacts have no row."""
    scene = Scene(seed)
    np.testing.assert_allclose(scene.distance(np.zeros(22)), scene.contacts.phi, atol=1e-12)
    slope = central(scene.distance, 22)
    slope[~scene.contacts.active] = 0.0
    np.testing.assert_allclose(scene.problem(some_theta()).Jn, slope, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_relative_jacobian_is_the_slope_of_two_coinciding_points(seed):
    """Both materially at the contact point: one on the link, one on the object."""
    scene = Scene(seed)
    poses = scene.poses(jnp.asarray(scene.q))
    body = np.maximum(LINKS, 0)
    scene.point_B = np.einsum(
        "cji,cj->ci", np.asarray(poses.R_WB)[body], scene.contacts.p_W - np.asarray(poses.p_WB)[body]
    )
    scene.ground_W = scene.contacts.p_W

    def gap(dq):
        pose = moved(scene.pose, dq)
        return scene.robot_points(dq) - (pose[:3] + scene.surface_O @ scene.rotation(pose).T)

    np.testing.assert_allclose(gap(np.zeros(22)), 0.0, atol=1e-12)
    ours = relative_jacobian(
        scene.tree, poses, jnp.asarray(scene.pose), Contacts(*map(jnp.asarray, scene.contacts))
    )
    np.testing.assert_allclose(ours, central(gap, 22), atol=1e-8)


def test_rows_are_the_friction_pyramid():
    """J_ij = J_i^n − μ J_ij^d [6], contact-major; the four directions of a contact are two tangents
    and their opposites."""
    scene = Scene(0)
    theta = some_theta(friction=0.7)
    problem = scene.problem(theta)
    C = len(LINKS)
    J = np.asarray(problem.J).reshape(C, FRICTION_DIRECTIONS, 22)
    np.testing.assert_allclose(J.mean(axis=1), problem.Jn, atol=1e-12)
    np.testing.assert_allclose(J[:, 0] + J[:, 2], 2 * np.asarray(problem.Jn), atol=1e-12)
    poses = scene.poses(jnp.asarray(scene.q))
    relative = relative_jacobian(
        scene.tree, poses, jnp.asarray(scene.pose), Contacts(*map(jnp.asarray, scene.contacts))
    )
    for k, t in enumerate(np.moveaxis(np.asarray(tangents(jnp.asarray(scene.contacts.nhat_W))), 1, 0)):
        slide = np.einsum("ci,civ->cv", t, relative) * scene.contacts.active[:, None]
        np.testing.assert_allclose(
            J[:, k], np.asarray(problem.Jn) - float(theta.friction) * slide, atol=1e-12
        )
    assert not J[3].any()
    assert problem.phi[3] == 1.0 and np.all(
        np.asarray(problem.phi)[scene.contacts.active] == scene.contacts.phi[scene.contacts.active]
    )


NORMALS = [
    *((0, 0, 1), (0, 0, -1), (1, 1, 1), (1, 0, 0), (0, -1, 0)),
    *((1e-9, 0, -1), (-1e-9, 1e-9, 1), (0.6, 0, -0.8), (1e-4, 0, -1)),
    *np.random.default_rng(0).normal(size=(500, 3)),
]


@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 2e-6), (np.float64, 1e-12)])
def test_tangents_are_orthonormal_for_every_normal(dtype, error):
    n = unit(np.array(NORMALS, float)).astype(dtype)
    t = np.asarray(tangents(jnp.asarray(n)))
    frame = np.concatenate([t, n[:, None]], axis=1)
    gram = np.einsum("cik,cjk->cij", frame, frame)
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(3), frame.shape), atol=error)
    assert t.dtype == dtype


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-7, 1e-6, 1.9e-6, 2.1e-6, 1e-4, 0.1, 1.0, 3.0, np.pi, 6.0])
def test_integration_agrees_with_scipy(angle):
    """q ⊗ exp(ω): body-frame rotation, exact to rounding from nothing to nearly a full turn, of
    unit length."""
    rng = np.random.default_rng(3)
    for _ in range(5):
        quat, rotation = unit(rng.normal(size=4)), angle * unit(rng.normal(size=3))
        ours = np.asarray(integrate_quaternion(jnp.asarray(quat), jnp.asarray(rotation)))
        theirs = (Rotation.from_quat(quat, scalar_first=True) * Rotation.from_rotvec(rotation)).as_quat(
            scalar_first=True
        )
        assert np.linalg.norm(ours) == pytest.approx(1.0, abs=1e-14)
        np.testing.assert_allclose(ours * np.sign(ours @ theirs), theirs, atol=1e-12)


@pytest.mark.parametrize("angle", [0.0, 1e-7, 1e-3, 0.5])
def test_integration_has_the_derivative_of_the_exponential(angle):
    quat, rotation = unit(np.array([0.3, -0.5, 0.7, 0.2])), angle * unit(np.array([1.0, 2.0, -1.0]))

    def f(w):
        return integrate_quaternion(jnp.asarray(quat), w)

    def exact(w):
        turned = Rotation.from_quat(quat, scalar_first=True) * Rotation.from_rotvec(rotation + w)
        return turned.as_quat(scalar_first=True)

    ours = jax.jacfwd(f)(jnp.asarray(rotation))
    np.testing.assert_allclose(ours, central(exact, 3), atol=1e-7)
    np.testing.assert_allclose(jax.jacrev(f)(jnp.asarray(rotation)), ours, atol=1e-12)


def test_the_weight_of_the_object_has_the_direction_of_gravity():
    """Level: the same numbers to the bit as m_o (0, 0, −9.81)."""
    theta = physical_params(0.2, np.eye(3) * 1e-4, 0.5, np.ones(16), np.ones(16), 0.1, 1.0, 100.0)
    level, tilted = (
        np.asarray(force(theta, jnp.zeros(16, jnp.float32), g)) for g in (DOWN, inclined(30.0, "x"))
    )
    np.testing.assert_array_equal(level, np.float32([0, 0, np.float32(-9.81) * np.float32(0.2), *[0] * 19]))
    np.testing.assert_allclose(tilted[:3], 0.2 * 9.81 * np.array([0, -0.5, -np.sqrt(0.75)]), rtol=1e-6)
    assert not tilted[3:].any()


def test_a_free_joint_moves_as_its_spring_and_damper():
    """Q and b of [3] give dq = (1 − exp(−h k/d)) u: the overdamped joint's own motion in one
    step."""
    k, d, h, u = 1.5, 0.12, 0.1, 0.2
    theta = physical_params(0.2, np.eye(3) * 1e-4, 0.5, np.full(16, k), np.full(16, d), h, 1.0, 100.0)
    q, n = 0.0, 100000
    for _ in range(n):
        q += h / n * k * (u - q) / d
    b = force(theta, jnp.full(16, u), DOWN)
    assert float(b[OBJECT_DOF] / (theta.stiffness[0] / theta.cover[0])) == pytest.approx(q, rel=1e-4)
