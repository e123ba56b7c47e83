"""The predictor against closed forms: fall, lag of a free joint, a sliding block, rest; its
contacts against finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dexstack.learning.transitions import at_rest, rotation_between
from dexstack.model.kinematics import KinematicTree
from experiments.contactsdf.pairs import OBJECT, PairDetector, empty_pairs, object_pairs
from experiments.contactsdf.predictor import (
    GRAVITY,
    Predictor,
    PredictorParams,
    joint_inertia,
    predictor_theta,
    project,
)

pytestmark = pytest.mark.slow

H = 0.1


@pytest.fixture(scope="module")
def setting(resting):
    """A function of a transition, compiled once, and the data-sheet parameters."""
    predictor = Predictor(resting.hand, resting.obj, H, PredictorParams(substeps=20, slew_rate=1e4))
    theta = predictor_theta(resting.hand, resting.obj, 1.0, 0.0)
    return jax.jit(predictor), theta


@pytest.fixture
def start(resting):
    """At rest, touching nothing."""
    one = at_rest(resting.pose_WO, resting.hand.home, resting.contacts)
    one = jax.tree.map(lambda leaf: leaf[0], one)
    return one._replace(contacts=empty_pairs(8))


def test_in_the_air_it_falls_and_keeps_its_velocity(setting, start):
    predict, theta = setting
    pose, q = predict(theta, start._replace(twist_WO=np.array([0.1, -0.2, 0, 0, 0, 2.0], np.float32)))
    fall = GRAVITY * H**2 / 2 * (1 + 1 / 20)  # implicit Euler in 20 substeps
    np.testing.assert_allclose(pose[:3] - start.pose_WO[:3], [0.01, -0.02, -fall], atol=1e-5)
    np.testing.assert_allclose(2 * np.arcsin(pose[6]), 0.2, atol=1e-4)
    np.testing.assert_allclose(q, start.q, atol=1e-6)


def test_a_free_joint_lags_its_command_as_the_servo_does(setting, start):
    """d q̇ = k (q_des − q) but for the finger's small inertia: 1 − exp(−h k/d) of the way."""
    predict, theta = setting
    joints = np.zeros(16, np.float32)
    joints[[3, 7, 11]] = -0.1
    _, q = predict(theta, start._replace(q_command=start.q + joints))
    share = (np.asarray(q) - start.q)[[3, 7, 11]] / -0.1
    np.testing.assert_allclose(share, 1 - np.exp(-H * theta.stiffness / theta.damping), atol=0.04)


def test_a_sliding_block_is_slowed_by_friction_and_not_lifted(setting, start):
    predict, theta = setting
    pairs = empty_pairs(8)
    pairs.p_W[0], pairs.phi[0], pairs.from_link[0] = (
        start.pose_WO[:3],
        0.0,
        OBJECT,
    )  # at the centre, so that it does not tip
    pairs.nhat_W[0] = 0, 0, -1
    v, mu = 0.4, float(theta.friction_palm)
    pose, _ = predict(
        theta, start._replace(contacts=pairs, twist_WO=np.array([v, 0, 0, 0, 0, 0], np.float32))
    )
    assert pose[0] - start.pose_WO[0] == pytest.approx(v * H - mu * GRAVITY * H**2 / 2, rel=0.06)
    assert -1.5e-3 < pose[2] - start.pose_WO[2] < 1e-4


def test_a_resting_cube_rests(setting, resting, start):
    predict, theta = setting
    pairs = PairDetector(resting.hand, resting.obj, capacity=40).detect(resting.pose_WO, resting.hand.home)
    pose, _ = predict(theta, start._replace(contacts=pairs))
    assert np.linalg.norm(pose[:3] - start.pose_WO[:3]) < 1.5e-3 and np.linalg.norm(pose[4:]) < 0.01


def test_a_cube_pushed_off_on_the_palm_goes_where_it_goes_in_mujoco(resting, start):
    """Slides, turns, hits fingers: against the plant from the same state, with contacts detected
    in every substep."""
    from dexstack.model.gravity import GravityCompensation
    from dexstack.plants import make_plant
    from experiments.contactsdf.prediction_error import predict_in_parts, with_pairs

    K, rng = 12, np.random.default_rng(0)
    plant = make_plant("mujoco", resting.hand, resting.obj)
    q, gravity = resting.hand.home, GravityCompensation(resting.hand)

    def advance(seconds: float) -> None:
        for _ in range(round(seconds / plant.dt)):
            plant.step(q - plant.joint_position + gravity(plant.joint_position))

    plant.reset(q, resting.pose_WO)
    advance(0.5)
    lying = plant.pose_WO
    angle, speed = rng.uniform(0, 2 * np.pi, K), rng.uniform(0.05, 0.4, K)
    twist = np.zeros((K, 6))
    twist[:, :2], twist[:, 5] = speed[:, None] * np.c_[np.cos(angle), np.sin(angle)], rng.uniform(-3, 3, K)
    arrived = []
    for one in twist:
        plant.reset(q, lying, np.concatenate([np.zeros(16), one]))
        advance(H)
        arrived.append(plant.pose_WO)
    arrived = np.array(arrived)

    at = jax.tree.map(
        lambda leaf: np.repeat(np.asarray(leaf)[None], K, axis=0),
        start._replace(pose_WO=lying.astype(np.float32)),
    )
    pairs = PairDetector(resting.hand, resting.obj)
    at = with_pairs(at._replace(twist_WO=twist.astype(np.float32)), pairs)
    theta = predictor_theta(resting.hand, resting.obj, 1.0, 0.0)
    pose, _ = predict_in_parts(Predictor(resting.hand, resting.obj, H), theta, at, pairs, 30, chunk=K)

    def away(a, b):
        return np.linalg.norm((a - b)[:, :3], axis=1).sum()

    def turned(a, b):
        return np.linalg.norm(rotation_between(a[:, 3:].astype(float), b[:, 3:].astype(float)), axis=1).sum()

    first = np.repeat(lying[None], K, axis=0)
    assert away(first, arrived) > 0.03 and turned(first, arrived) > 0.3
    assert away(pose, arrived) < 0.1 * away(first, arrived)
    assert turned(pose, arrived) < 0.25 * turned(first, arrived)


@pytest.mark.parametrize("creep", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("D", [2, 3])
def test_projects_on_the_cone_in_the_norm_of_the_contact(D, creep):
    """Against the definition: nothing in the cone is nearer; and the derivative against JAX's."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(300, 1 + D))
    mu = rng.uniform(0.2, 1.5, 300)
    with jax.enable_x64(True):
        f_n, f_t, slope = (np.asarray(a) for a in project(*map(jnp.asarray, (y[:, 0], y[:, 1:], mu)), creep))

        def one(y, mu):
            return jnp.append(*project(y[:1], y[None, 1:], mu[None], creep)[:2])

        expected = np.asarray(jax.vmap(jax.jacfwd(one))(jnp.asarray(y), jnp.asarray(mu)))
    np.testing.assert_allclose(slope, expected, atol=1e-9)
    assert np.all(np.linalg.norm(f_t, axis=1) <= mu * f_n + 1e-12)
    metric = np.array([1.0, *[creep] * D])  # R over R_n
    best = np.sum(metric * (np.c_[f_n, f_t] - y) ** 2, axis=1)
    kinds = np.array(
        [np.allclose(f, 0) + 2 * np.allclose(f, a) for f, a in zip(np.c_[f_n, f_t], y, strict=True)]
    )
    assert set(kinds) == {0, 1, 2}
    for _ in range(200):
        n = np.abs(rng.normal(size=300)) * rng.choice([0.0, 0.1, 1.0, 3.0])
        t = rng.normal(size=(300, D))
        t *= (mu * n * rng.uniform(0, 1, 300) ** 0.3 / np.linalg.norm(t, axis=1))[:, None]
        assert np.all(np.sum(metric * (np.c_[n, t] - y) ** 2, axis=1) >= best - 1e-12)


def test_distances_change_as_the_rows_say(resting):
    """d(phi)/d(q) of the pairs MuJoCo finds, fingers among themselves included, against detecting
    again a little later.

    Errors are relative to the sum of all terms' sizes, as the terms may cancel. In a few pairs the
    distance changes otherwise however small the step; supposedly MuJoCo's normal, found by
    iteration, is not exact there.
    """
    rng = np.random.default_rng(0)
    detector = PairDetector(resting.hand, resting.obj, capacity=1, margin=0.01)
    predictor = Predictor(resting.hand, resting.obj, H)
    theta = predictor_theta(resting.hand, resting.obj, 1.0, 0.0)
    tree = KinematicTree(resting.hand)
    kinds, errors = set(), []
    for _ in range(60):
        q = np.clip(resting.q + rng.uniform(-0.4, 0.4, 16), resting.hand.lower, resting.hand.upper)
        pose = resting.pose_WO + np.concatenate(
            [rng.normal(0, 0.01, 2), [rng.uniform(0.002, 0.03)], np.zeros(4)]
        )
        found = detector.detect(pose, q)
        if found.phi[0] == 1.0:
            continue
        example = at_rest(pose, q, resting.contacts)
        state = predictor.start(jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), example))
        row = np.asarray(
            predictor._rows(
                theta, tree.poses(jnp.asarray(q, jnp.float32)), state, jax.tree.map(jnp.asarray, found)
            ).n
        )[0]
        moved = 1e-4 * rng.normal(size=16)
        shift = 1e-5 * rng.normal(size=3)
        after = detector.detect(pose + np.concatenate([shift, np.zeros(4)]), q + moved)
        if (after.from_link[0], after.to_link[0]) != (found.from_link[0], found.to_link[0]):
            continue
        expected = np.concatenate([row[:3] * shift, row[6:] * moved])
        errors.append(abs(after.phi[0] - found.phi[0] - expected.sum()) / np.abs(expected).sum())
        kinds.add("object" if found.from_link[0] == OBJECT else "fingers")
    assert np.median(errors) < 1e-3 and np.quantile(errors, 0.9) < 0.01 and max(errors) < 0.2
    assert len(errors) > 40 and kinds == {"object", "fingers"}


def test_query_point_contacts_take_the_place_of_the_objects_pairs(resting):
    pairs = PairDetector(resting.hand, resting.obj).detect(resting.pose_WO, resting.q)
    both = object_pairs(resting.contacts, pairs)
    used = both.phi < 1
    mine = both.from_link == OBJECT
    assert np.count_nonzero(mine) == np.count_nonzero(resting.contacts.active)
    np.testing.assert_array_equal(both.phi[mine], resting.contacts.phi[resting.contacts.active])
    assert np.count_nonzero(used & ~mine) == np.count_nonzero((pairs.phi < 1) & (pairs.from_link != OBJECT))


def test_the_fingers_inertia_is_mujocos(resting):
    import mujoco

    from dexstack.model.scene import build_scene

    model = build_scene(resting.hand, None, camera=False).compile()
    data = mujoco.MjData(model)
    data.qpos[:] = resting.q
    mujoco.mj_forward(model, data)
    M = np.zeros((16, 16))
    mujoco.mj_fullM(model, data, M)
    tree = KinematicTree(resting.hand)
    ours = joint_inertia(resting.hand, tree, tree.poses(jnp.asarray(resting.q, jnp.float32)))
    np.testing.assert_allclose(ours, M, atol=1e-3 * np.abs(M).max())


def test_contacts_yield_by_the_mobilities_that_mujoco_has(resting):
    from dexstack.model.scene import build_scene

    model = build_scene(resting.hand, resting.obj, camera=False).compile()
    predictor, theta = (
        Predictor(resting.hand, resting.obj, H),
        predictor_theta(resting.hand, resting.obj, 1.0, 0.0),
    )
    pairs = empty_pairs(len(resting.hand.bodies))
    pairs.from_link[:], pairs.to_link[:] = OBJECT, np.arange(len(resting.hand.bodies))
    bodies = [model.body(body.name).id for body in resting.hand.bodies]
    expected = model.body_invweight0[bodies, 0] + 1 / resting.obj.mass
    ours = np.asarray(predictor._mobility(theta, pairs))
    np.testing.assert_allclose(ours[: len(bodies)], expected, rtol=2e-3)
    np.testing.assert_allclose(ours[len(bodies) :], np.tile(model.dof_invweight0[:16], 2), rtol=2e-3)


def test_a_thousand_at_once_in_float32_are_as_good_as_in_float64(resting, start):
    """XLA fuses sums over coordinates otherwise for large batches; the learner and the benchmark
    predict in batches."""
    K, rng = 1024, np.random.default_rng(0)
    predictor = Predictor(resting.hand, resting.obj, H, PredictorParams(substeps=2, iterations=20))
    theta = predictor_theta(resting.hand, resting.obj, 1.0, 0.1)
    found = PairDetector(resting.hand, resting.obj).detect(resting.pose_WO, resting.q)
    many = jax.tree.map(
        lambda leaf: np.repeat(np.asarray(leaf)[None], K, axis=0), start._replace(contacts=found)
    )
    noise = lambda a, size: (a + rng.normal(0, size, a.shape)).astype(np.float32)  # noqa: E731
    many = many._replace(
        q=noise(many.q, 0.05),
        q_command=noise(many.q, 0.05),
        qd=noise(many.qd, 0.2),
        twist_WO=noise(many.twist_WO, 0.05),
    )
    batched = lambda: jax.jit(jax.vmap(predictor, in_axes=(None, 0)))  # noqa: E731
    pose, q = batched()(theta, many)
    with jax.enable_x64(True):
        wide = jax.tree.map(
            lambda a: np.asarray(a, np.float64) if np.asarray(a).dtype.kind == "f" else a, (theta, many)
        )
        exact_pose, exact_q = (np.asarray(a) for a in batched()(*wide))
    assert pose.dtype == np.float32 and exact_pose.dtype == np.float64
    assert np.linalg.norm(exact_pose[:, :3] - many.pose_WO[:, :3], axis=1).max() > 1e-4
    # deep in each other, a few do not converge to the last digit in float32; what XLA got wrong was
    # wrong in most
    for ours, exact in ((pose, exact_pose), (q, exact_q)):
        error = np.abs(ours - exact).max(axis=1)
        assert np.quantile(error, 0.98) < 2e-5 and error.max() < 0.02
