"""Articulated dynamics in JAX against MuJoCo and pinocchio."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from dexengines.errors import EngineError
from dexengines.soft.system import SoftSystem
from dexengines.soft.tree import Tree, solve_spd, turned
from dexstack.model.balls import Ball
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.model.scene import build_scene
from dexstack.process.compilation import jit
from experiments.soft import systems

pytestmark = pytest.mark.usefixtures("x64")

SCENES = {
    "right hand and cube": lambda: build_scene(load_hand("right"), load_object("cube")),
    "left hand": lambda: build_scene(load_hand("left"), None),
    "balls and stick": lambda: build_scene(
        None, load_object("stick"), balls=[Ball((0, 0, 0.1)), Ball((0.1, 0, 0.1))]
    ),
    "pusher": lambda: systems.pusher_spec(0.002),
    "uneven tree": lambda: mujoco.MjSpec.from_string(UNEVEN),
    "free bases and balls": lambda: mujoco.MjSpec.from_string(BASES),
}
BASES = """<mujoco><worldbody>
  <body pos="0.1 0 0.2"><freejoint/><geom type="box" size="0.02 0.03 0.04" pos="0.01 0.02 0" mass="0.3"/>
    <body pos="0 0.05 0.1" quat="0.8 0.6 0 0"><joint type="ball" pos="0.01 0 0.02" damping="0.1"/>
      <geom type="capsule" size="0.01 0.05" mass="0.2" pos="0 0 0.05"/>
      <body pos="0.03 0 0"><joint axis="1 0 0"/><joint type="slide" axis="0 1 0"/>
    <geom type="sphere" size="0.02" mass="0.1"/></body></body>
    <body pos="0 -0.05 0.1"><joint axis="0 1 0"/><geom type="box" size="0.02 0.03 0.04" mass="0.2"/></body>
    </body>
  <body pos="0 0 1"><joint type="hinge" axis="0 1 0"/><geom type="box" size="0.1 0.02 0.03" mass="0.5"/>
    <body pos="0 0 0.1"><joint type="ball"/>
    <geom type="box" size="0.1 0.02 0.03" mass="0.5" pos="0 0 0.1"/></body></body>
  <body pos="0 1 0"><joint type="free" armature="0.01" damping="0.2"/>
    <geom type="box" size="0.1 0.02 0.03" mass="0.5"/></body>
  <body pos="0 2 0"><freejoint/><geom type="box" size="0.1 0.02 0.03" mass="0.5"/></body>
</worldbody></mujoco>"""
UNEVEN = """<mujoco><worldbody>
  <body pos="0.1 0 0.2" quat="0.8 0.6 0 0"><joint type="slide" axis="1 0 0"/>
    <joint type="hinge" axis="0 0.6 0.8" pos="0.02 0.01 0"/>
    <geom type="box" size="0.02 0.03 0.04" pos="0.01 0.02 0" mass="0.3"/>
    <body pos="0 0.05 0.1"><geom type="sphere" size="0.02" mass="0.1"/>
      <body pos="0.03 0 0" quat="0.6 0 0.8 0"><joint type="hinge" axis="1 0 0" damping="0.3" armature="0.01"/>
        <geom type="capsule" size="0.01 0.05" mass="0.2" pos="0 0 0.05"/></body></body></body>
  <body pos="0 0 1"><joint type="hinge" axis="0 1 0"/><geom type="box" size="0.1 0.02 0.03" mass="0.5"/>
    </body>
  <body><freejoint/><geom type="box" size="0.1 0.02 0.03" mass="0.5"/></body>
</worldbody></mujoco>"""


@pytest.fixture(scope="module", params=list(SCENES))
def peers(request):
    model = SCENES[request.param]().compile()
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    return model, mujoco.MjData(model), Tree(model)


def random_state(model, rng):
    q, v = rng.uniform(-1, 1, model.nq), rng.normal(size=model.nv)
    for j in range(model.njnt):
        if model.jnt_type[j] in (mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL):
            at = model.jnt_qposadr[j] + (3 if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE else 0)
            q[at : at + 4] = rng.normal(size=4)
            q[at : at + 4] /= np.linalg.norm(q[at : at + 4])
    return q, v


def test_poses_mass_bias_and_acceleration_are_mujocos(peers):
    model, data, tree = peers
    rng = np.random.default_rng(0)

    @jit
    def ours(q, v, tau):
        m = tree.motion(tree.numbers, q, v)
        M, c = tree.mass_and_bias(tree.numbers, m, v)
        return (
            m,
            tree.full_mass(tree.numbers, M),
            c,
            tree.solve(tree.numbers, M, tau - c),
            tree.integrate(q, v, 0.1),
        )

    for _ in range(5):
        q, v = random_state(model, rng)
        tau = rng.normal(size=model.nv)
        data.qpos[:], data.qvel[:], data.qfrc_applied[:], data.ctrl[:] = q, v, tau, 0.0
        mujoco.mj_forward(model, data)
        full = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, full)
        m, M, c, a, moved = ours(jnp.asarray(q), jnp.asarray(v), jnp.asarray(tau + data.qfrc_actuator))
        np.testing.assert_allclose(M, full, atol=1e-12 * np.abs(full).max())
        np.testing.assert_allclose(c, data.qfrc_bias - data.qfrc_passive, atol=1e-12)
        np.testing.assert_allclose(a, data.qacc, atol=1e-9 * np.abs(data.qacc).max())
        mujoco.mj_integratePos(model, q, v, 0.1)
        np.testing.assert_allclose(moved, q, atol=1e-12)
        for b in range(1, model.nbody):
            if model.body_jntnum[b]:
                np.testing.assert_allclose(m.p[tree.link_of_body[b]], data.xpos[b], atol=1e-12)
                np.testing.assert_allclose(m.R[tree.link_of_body[b]], data.xmat[b].reshape(3, 3), atol=1e-12)


def test_the_hands_inverse_dynamics_is_pinocchios(pinocchio):
    hand = load_hand()
    model = build_scene(hand, None).compile()
    tree = Tree(model)
    robot = pinocchio.buildModelFromUrdf(str(hand.urdf_path))
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, np.asarray(hand.quat_WP, float))
    robot.gravity.linear = R.reshape(3, 3).T @ [0.0, 0.0, -9.81]
    data, order = (
        robot.createData(),
        [robot.joints[robot.getJointId(name)].idx_q for name in hand.joint_names],
    )
    rng = np.random.default_rng(1)
    for _ in range(3):
        q, v, a = rng.uniform(-1, 1, (3, 16))
        theirs = np.zeros((3, 16))
        theirs[:, order] = q, v, a
        tau = pinocchio.rnea(robot, data, *theirs)[order]
        m = tree.motion(tree.numbers, jnp.asarray(q), jnp.asarray(v))
        M, c = tree.mass_and_bias(tree.numbers, m, jnp.asarray(v))
        np.testing.assert_allclose(M @ a + c - hand.damping * v, tau, atol=1e-9)


def test_quaternions_turn_as_mujocos_and_smoothly():
    rng = np.random.default_rng(2)
    for scale in (1.0, 1e-2, 1e-9, 0.0):
        quat, angle = rng.normal(size=4), scale * rng.normal(size=3)
        quat /= np.linalg.norm(quat)
        expected = quat.copy()
        mujoco.mju_quatIntegrate(expected, angle, 1.0)
        np.testing.assert_allclose(turned(jnp.asarray(quat), jnp.asarray(angle)), expected, atol=1e-12)
    second = jax.jacfwd(jax.jacfwd(lambda a: turned(jnp.array([1.0, 0, 0, 0]), a)))(jnp.zeros(3))
    np.testing.assert_allclose(second[0], -0.25 * np.eye(3), atol=1e-12)


def test_small_systems_are_solved():
    rng = np.random.default_rng(3)
    for m in (1, 3, 6, 9):
        A = rng.normal(size=(4, m, m))
        A = A @ A.transpose(0, 2, 1) + np.eye(m)
        b = rng.normal(size=(4, m))
        np.testing.assert_allclose(
            solve_spd(jnp.asarray(A), jnp.asarray(b)), np.linalg.solve(A, b[..., None])[..., 0], rtol=1e-9
        )


def test_a_ball_joint_with_a_stop_is_rejected():
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint type="ball" range="0 1" limited="true"/><geom size="0.1"/></body>'
        "</worldbody></mujoco>"
    )
    with pytest.raises(EngineError, match="ball joint with a stop"):
        SoftSystem(model, [])
