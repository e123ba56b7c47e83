"""Systems: the near set against the dense formulation, momentum, stability, derivatives of
rollouts, batches of different bodies."""

import dataclasses

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from dexengines.errors import EngineError
from dexengines.soft import cloud
from dexengines.soft.near import Room
from dexengines.soft.scm import ContactParams, paper_dissipation, smooth_dissipation
from dexengines.soft.system import Meeting, SoftSystem, Surface
from dexstack.process.compilation import jit
from experiments.soft import systems

pytestmark = pytest.mark.usefixtures("x64")

PAIR = """<mujoco><option gravity="0 0 0"/><worldbody>
  <body name="a"><freejoint/><geom type="box" size="0.03 0.02 0.04" mass="0.3"/></body>
  <body name="b"><freejoint/><geom type="sphere" size="0.03" mass="0.2"/></body></worldbody></mujoco>"""
LAW = ContactParams(stiffness=5e3, eps1=4e-6, eps2=4e-4, eps3=2e-4)


def free_pair(
    tolerance=1e-6, spacing=0.005, half=(0.03, 0.02, 0.04), dissipation=smooth_dissipation, room=None
):
    surfaces = Surface("a", "a", cloud.box(half, spacing)), Surface("b", "b", cloud.sphere(0.03, spacing))
    model = mujoco.MjModel.from_xml_string(PAIR)
    meeting = Meeting([surfaces[0]], [surfaces[1]], tolerance, LAW, room=room)
    return SoftSystem(model, [meeting], dissipation=dissipation)


def touching(seed, gap=-5e-4):
    """q, v of the free pair, the ball at the middle of a face of the turned box."""
    rng = np.random.default_rng(seed)
    quat = rng.normal(size=4)
    quat /= np.linalg.norm(quat)
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, quat)
    where = rng.uniform(-0.6, 0.6, 3) * [0.03, 0.02, 0.04]
    where[0] = 0.03 + 0.03 + gap
    q = np.concatenate([np.zeros(3), quat, R.reshape(3, 3) @ where, [1.0, 0, 0, 0]])
    return jnp.asarray(q), jnp.asarray(0.2 * rng.normal(size=12))


def wrenches(system):
    return jit(lambda q, v: system.contact(system.data, system.tree.motion(system.data.numbers, q, v)))


@pytest.mark.slow
def test_the_near_set_gives_the_dense_contact_to_its_tolerance():
    """Wrench, stiffness, damping and distance; points 5 mm apart, √ε1 = 2 mm, ε2 = 0.4 mm."""
    dense = wrenches(free_pair(None))
    exact = [dense(*touching(seed)) for seed in range(8)]
    for tolerance in (1e-3, 1e-9):
        near = wrenches(free_pair(tolerance))
        for seed, truth in enumerate(exact):
            ours = near(*touching(seed))
            for name in ("wrench", "stiffness", "damping", "distance"):
                x, y = (np.asarray(getattr(found, name)[0]) for found in (truth, ours))
                assert np.abs(x - y).max() <= tolerance * np.abs(x).max(), name


@pytest.mark.slow
def test_without_room_derivatives_are_nan_and_the_need_is_reported():
    q, v = touching(0)
    system = free_pair()
    (need,) = (np.asarray(x) for x in jit(system.needs)(system.data, q))
    assert need[0] == 1 and (need[1:] > 1).all() and (need <= np.array(system.room[0])).all()

    def derivative(s):
        """Return that of the stiffness along a direction; that of the wrench needs room for pairs only."""

        def stiffness(q):
            return s.contact(s.data, s.tree.motion(s.data.numbers, q, v)).stiffness

        return jit(lambda: jax.jvp(stiffness, (q,), (jnp.ones(14),))[1])()

    for which in (1, 2):
        tight = need.copy()
        tight[which] -= 1
        without = system.with_room([Room(*tight.tolist())])
        assert np.isnan(derivative(without)).any()
        np.testing.assert_array_equal(wrenches(without)(q, v).wrench, wrenches(system)(q, v).wrench)
    fits = derivative(system.with_room([Room(*tight.tolist()).for_all(need)]))
    assert np.isfinite(fits).all() and fits.any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dissipation", "real", "within"),
    [(paper_dissipation, jnp.float64, 1e-11), (smooth_dissipation, jnp.float32, 2e-4)],
)
def test_one_pass_equals_the_law_in_jax(dissipation, real, within):
    """All parts of the contact; in float32 the law in JAX has its own rounding."""
    system = free_pair(dissipation=dissipation)
    data = jax.tree.map(lambda x: x.astype(real) if x.dtype.kind == "f" else x, system.data)

    def both(q, v):
        m = system.tree.motion(data.numbers, q, v)
        return system.contact(data, m), system.law(0, data.meetings[0], m)

    for seed in range(4):
        found, law = jit(both)(*(x.astype(real) for x in touching(seed)))
        for name in ("wrench", "stiffness", "damping", "distance"):
            x, y = (np.asarray(getattr(c, name)) for c in (found, law))
            np.testing.assert_allclose(x, y, atol=within * np.abs(y).max(), rtol=0, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(("dissipation", "twice"), [(paper_dissipation, True), (smooth_dissipation, False)])
def test_jacobians_of_one_pass_are_the_derivatives_of_the_law(dissipation, twice):
    """By q, v, friction and stiffness, forward and backward; for one law also the second derivatives,
    which are those of the law in JAX, whichever it is, and take the longest to compile."""
    system = free_pair(dissipation=dissipation)
    x = (*touching(2), jnp.array([0.6, LAW.stiffness]))

    def felt(law):
        def pull(q, v, c):
            m, d = system.tree.motion(system.data.numbers, q, v), system.data.meetings[0]
            changed = d.params._replace(
                friction=d.params.friction * c[0], stiffness=c[1] * jnp.ones_like(d.params.stiffness)
            )
            d = d._replace(params=changed)
            data = system.data._replace(meetings=(d,))
            return (system.law(0, d, m) if law else system.contact(data, m)).wrench[0]

        every = range(3)
        forward, backward = jax.jacfwd(pull, every), jax.jacrev(pull, every)
        second = jax.jacfwd(jax.grad(lambda *x: jnp.sum(pull(*x) ** 2), every), every)
        return jit(lambda: [*forward(*x), *backward(*x), *(jax.tree.leaves(second(*x)) if twice else ())])()

    for found, law in zip(felt(False), felt(True), strict=True):
        np.testing.assert_allclose(found, law, rtol=0, atol=1e-7 * np.abs(law).max())


@pytest.mark.slow
def test_gradients_of_a_batch_are_those_one_by_one_with_room_for_much_more():
    """A batch computes empty chunks that a single state skips."""
    system = free_pair()
    wide = system.with_room([system.room[0]._replace(blocks=system.room[0].blocks + 40)])
    states = [touching(seed) for seed in range(3)]

    def pull(s):
        return lambda q, v: jnp.sum(s.contact(s.data, s.tree.motion(s.data.numbers, q, v)).wrench[0] ** 2)

    together = jit(jax.vmap(jax.grad(pull(wide), (0, 1))))(*(jnp.stack(x) for x in zip(*states, strict=True)))
    one = jit(jax.grad(pull(system), (0, 1)))
    for k, state in enumerate(states):
        for x, y in zip(together, one(*state), strict=True):
            np.testing.assert_allclose(x[k], y, rtol=1e-9, atol=1e-9 * np.abs(y).max())


@pytest.mark.slow
def test_derivatives_by_the_points_themselves_are_those_of_the_dense_formulation():
    """Change of the wrench with the size of one body."""
    q, v = touching(1)

    def grown(system):
        m, data = system.tree.motion(system.data.numbers, q, v), system.data

        def wrench(scale):
            meeting = data.meetings[0]
            rows = jnp.asarray(meeting.b.rows).at[..., :3].multiply(scale)
            changed = data._replace(meetings=(meeting._replace(b=meeting.b._replace(rows=rows)),))
            return system.contact(changed, m).wrench[0]

        return np.asarray(jit(jax.jacfwd(wrench))(1.0))

    exact = grown(free_pair(None))
    np.testing.assert_allclose(grown(free_pair(1e-9)), exact, rtol=1e-6, atol=1e-6 * np.abs(exact).max())


SLAB = (0.05, 0.05, 0.015)
HALF, SMALL = 0.0325, 0.012


def turned(degrees, *axis):
    quat = np.zeros(4)
    mujoco.mju_axisAngle2Quat(quat, np.array(axis) / np.linalg.norm(axis), np.radians(degrees))
    return quat


def standing(part, quat):
    """Return a place over the slab, into which the lowest point reaches half a millimetre."""
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, quat)
    return [0.0, 0.0, SLAB[2] - (R.reshape(3, 3) @ part.points.T)[2].min() - 5e-4]


def inner_corner():
    """Return a floor and a wall of one body."""
    wall = cloud.moved(cloud.box((0.015, 0.05, 0.03), 0.007), np.eye(3), np.array([-0.035, 0.0, 0.045]))
    floor = cloud.box(SLAB, 0.007)
    inside = (floor.points[:, 0] < -0.02) & (floor.normals[:, 2] > 0.5)
    return cloud.joined(
        cloud.Cloud(*(x[~inside] for x in floor)), cloud.Cloud(*(x[wall.normals[:, 2] > -0.5] for x in wall))
    )


CUBE, PLATE, BALL = cloud.box((HALF,) * 3, 0.007), cloud.box((0.04, 0.04, 0.01), 0.0025), SMALL / np.sqrt(3)
UPRIGHT = turned(0.0, 1, 0, 0)
SCENES = {
    "a tilted cube's lowest corner": (
        cloud.box(SLAB, 0.007),
        CUBE,
        [(standing(CUBE, quat), quat) for quat in (turned(d, 1, 1, 0) for d in (5, 10, 20, 45))],
    ),
    "a tilted face of a thousand points": (
        cloud.box(SLAB, 0.007),
        PLATE,
        [(standing(PLATE, quat), quat) for quat in (turned(d, 0, 1, 0) for d in (0.01, 1.0))],
    ),
    "a ball outside a corner, farther from its points than what carries force, and into the box, to 12 mm "
    "below its surface with all of itself": (
        CUBE,
        cloud.sphere(SMALL, 0.003),
        [
            ([HALF + BALL - 4e-4, HALF + BALL - 5e-4, HALF + BALL + 1e-4], UPRIGHT),
            *(([1e-3, 2e-3, z], UPRIGHT) for z in (0.0440, 0.040, 0.035, 0.030, 0.025, 0.020)),
        ],
    ),
    "a ball between a floor and a wall": (
        inner_corner(),
        cloud.sphere(0.02, 0.004),
        [([x, 0.002, 0.035 + z], UPRIGHT) for x, z in ((-3e-4, -3e-4), (-6e-4, -2e-4), (-2e-4, -6e-4))],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_the_near_set_gives_the_dense_wrench(name):
    a, b, states = SCENES[name]
    bodies = "".join(f'<body name="{n}"><freejoint/><geom size="0.03" mass="0.2"/></body>' for n in "ab")
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    surfaces = [Surface("a", "a", a)], [Surface("b", "b", b)]
    law = LAW._replace(eps1=0.0014**2, eps2=5e-4)
    dense, near = (wrenches(SoftSystem(model, [Meeting(*surfaces, t, law)])) for t in (None, 1e-6))
    for place, quat in states:
        q = jnp.array([0.0, 0, 0, 1, 0, 0, 0, *place, *quat])
        exact, ours = (np.asarray(f(q, jnp.zeros(12)).wrench[0]) for f in (dense, near))
        load = np.linalg.norm(exact[:3])
        assert load > 0.1
        np.testing.assert_allclose(ours, exact, atol=1e-6 * load)


@pytest.mark.slow
def test_a_free_pair_keeps_its_momentum():
    """Linear and angular, through a bounce, to 1e-10 of what was exchanged."""
    system = free_pair()
    step = jit(lambda q, v: system.euler(system.data, q, v, jnp.zeros(12), 1e-4))
    m, inertia = system.data.numbers.mass, system.data.numbers.inertia

    def momentum(q, v):
        total = np.zeros(6)
        for f in range(2):
            R = np.zeros(9)
            mujoco.mju_quat2Mat(R, np.array(q[7 * f + 3 : 7 * f + 7]))
            p = m[f] * v[6 * f : 6 * f + 3]
            total += np.concatenate(
                [
                    p,
                    np.cross(q[7 * f : 7 * f + 3], p)
                    + R.reshape(3, 3) @ (inertia[f] @ v[6 * f + 3 : 6 * f + 6]),
                ]
            )
        return total

    def rate(q, v):
        """Return the rate of momentum by the contact forces alone."""
        contact = system.contact(system.data, system.tree.motion(system.data.numbers, q, v))
        return system.tree.generalized(
            system.tree.motion(system.data.numbers, q, v), system.on_links(contact)
        )

    rate = jit(rate)
    q, v = touching(3, gap=1e-4)
    v = v.at[:].set(0.0).at[6:9].set(-0.3 * (q[7:10] / jnp.linalg.norm(q[7:10]))).at[9:].set(3.0)
    before, speed = momentum(np.asarray(q), np.asarray(v)), np.asarray(v)
    for k in range(150):
        if k == 20:  # the generalised forces as such: sums of forces and of moments about the origin vanish
            g, R = np.asarray(rate(q, v)), [np.zeros(9), np.zeros(9)]
            for f in range(2):
                mujoco.mju_quat2Mat(R[f], np.array(q[7 * f + 3 : 7 * f + 7]))
            forces, arms = [g[0:3], g[6:9]], [np.asarray(q[0:3]), np.asarray(q[7:10])]
            moment = sum(
                np.cross(a, f) + r.reshape(3, 3) @ g[6 * i + 3 : 6 * i + 6]
                for i, (a, f, r) in enumerate(zip(arms, forces, R, strict=True))
            )
            assert np.abs(forces[0]).max() > 1.0
            np.testing.assert_allclose(forces[0] + forces[1], 0.0, atol=1e-10)
            np.testing.assert_allclose(moment, 0.0, atol=1e-10)
        q, v = step(q, v)
    after = momentum(np.asarray(q), np.asarray(v))
    assert np.abs(np.asarray(v) - speed).max() > 0.1
    np.testing.assert_allclose(after[:3], before[:3], atol=1e-10)


@pytest.mark.slow
def test_inverse_dynamics_undoes_forward_dynamics():
    system = systems.pusher_system(26)
    q, v = (jnp.asarray(x) for x in systems.pusher_start())
    q = q.at[1].add(0.03)
    tau = jnp.asarray(np.random.default_rng(0).normal(size=8))
    a = jit(system.forward)(system.data, q, v, tau)
    np.testing.assert_allclose(jit(system.inverse)(system.data, q, v, a), tau, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("stiffness", [1e4, 1e5])
def test_the_implicit_step_is_stable_at_4_ms_under_a_squeeze_of_20_n(stiffness):
    """A ball of 200 g between two fingers on slides that press with 20 N each."""
    spec = mujoco.MjSpec()
    for name, side in (("left", -1.0), ("right", 1.0)):
        finger = spec.worldbody.add_body(name=name, pos=(side * 0.0395, 0, 0))
        finger.add_joint(type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(-side, 0, 0))
        finger.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=(0.01, 0.02, 0.02), mass=0.05)
    ball = spec.worldbody.add_body(name="ball")
    ball.add_freejoint()
    ball.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=(0.03, 0, 0), mass=0.2)
    model = spec.compile()
    fingers = [Surface(n, n, cloud.box((0.01, 0.02, 0.02), 0.004), 0.8) for n in ("left", "right")]
    law = LAW._replace(stiffness=stiffness, v_s=1e-3)
    system = SoftSystem(
        model, [Meeting(fingers, [Surface("ball", "ball", cloud.sphere(0.03, 0.004), 0.8)], params=law)]
    )
    tau = jnp.zeros(8).at[:2].set(20.0)
    step = jit(lambda q, v: system.implicit(system.data, q, v, tau, 4e-3))
    q, v = jnp.asarray(model.qpos0), jnp.zeros(8)
    for _ in range(250):
        q, v = step(q, v)
    assert bool(jnp.isfinite(v).all()) and float(jnp.abs(v[:5]).max()) < 0.01
    assert abs(float(q[4])) < 0.01  # held by friction for a second, against 2 N of weight


@pytest.mark.slow
def test_value_and_gradient_of_a_rollout_equal_finite_differences():
    """50 steps of the pushed T, with respect to where the pusher is sent."""
    system = systems.pusher_system(26, params=systems.pusher_params(26)._replace(eps2=2e-3))
    system.dissipation = smooth_dissipation
    q0, v0 = (jnp.asarray(x) for x in systems.pusher_start())

    def end(target):
        def step(state, _):
            return system.euler(system.data, *state, systems.pusher_force(*state, target), 2e-3), None

        (q, _), _ = jax.lax.scan(jax.checkpoint(step), (q0.at[1].set(-0.165), v0), None, length=50)
        return 10.0 * q[3] + q[2] + q[8]

    target = jnp.array([0.004, -0.11])
    gradient = jit(jax.grad(end))(target)
    end = jit(end)
    assert float(jnp.abs(gradient).max()) > 1e-2
    for k in range(2):
        e = 1e-5 * jnp.eye(2)[k]
        slope = (
            8 * (end(target + e) - end(target - e)) - (end(target + 2 * e) - end(target - 2 * e))
        ) / 12e-5
        assert float(gradient[k]) == pytest.approx(float(slope), rel=1e-6, abs=1e-8)


@pytest.mark.slow
def test_pairs_that_are_apart_take_no_room():
    """Three of the pair, of which two balls are a metre away."""
    balls = "".join(
        f'<body name="b{k}" pos="{k} 0 0"><freejoint/><geom size="0.03" mass="0.2"/></body>' for k in range(3)
    )
    text = PAIR.replace(
        '<body name="b"><freejoint/><geom type="sphere" size="0.03" mass="0.2"/></body>', balls
    )
    surfaces = [Surface(f"b{k}", f"b{k}", cloud.sphere(0.03, 0.005)) for k in range(3)]
    alone, q, v = free_pair(), *touching(2)
    meeting = Meeting(
        [Surface("a", "a", cloud.box((0.03, 0.02, 0.04), 0.005))], surfaces, params=LAW, room=alone.room[0]
    )
    three = SoftSystem(mujoco.MjModel.from_xml_string(text), [meeting], dissipation=smooth_dissipation)
    many = jnp.concatenate(
        [q, q[7:] + jnp.array([1.0, 0, 0, 0, 0, 0, 0]), q[7:] + jnp.array([2.0, 0, 0, 0, 0, 0, 0])]
    )
    a = jit(alone.forward)(alone.data, q, v, jnp.zeros(12))
    b = jit(three.forward)(three.data, many, jnp.concatenate([v, v[6:], v[6:]]), jnp.zeros(24))
    np.testing.assert_allclose(a, b[:12], rtol=1e-9, atol=1e-9)


def test_invalid_surfaces_are_rejected_by_name():
    model = mujoco.MjModel.from_xml_string(PAIR)
    ball = Surface("ball", "b", cloud.sphere(0.03, 0.01))
    with pytest.raises(EngineError, match="unknown body 'c'"):
        SoftSystem(model, [Meeting([dataclasses.replace(ball, body="c")], [ball])])
    with pytest.raises(EngineError, match="on one body"):
        SoftSystem(model, [Meeting([ball], [ball])])
    with pytest.raises(EngineError, match="between 0 and 1, got 0"):
        SoftSystem(model, [Meeting([ball], [dataclasses.replace(ball, body="a")], 0.0)])
    with pytest.raises(EngineError, match="normal_weight 2 needs a meeting with tolerance None"):
        SoftSystem(
            model,
            [Meeting([ball], [dataclasses.replace(ball, body="a")], params=LAW._replace(normal_weight=2.0))],
        )
    inward = cloud.Cloud(ball.cloud.points, -ball.cloud.normals)
    with pytest.raises(EngineError, match="point inwards"):
        SoftSystem(model, [Meeting([ball], [Surface("inward", "a", inward)])])
