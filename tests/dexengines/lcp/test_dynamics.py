"""Kinematics, inertia and integration against MuJoCo; collision geometry against coal."""

import coal
import mujoco
import numpy as np
import pytest
from numba import njit

from dexengines.errors import EngineError
from dexengines.kernels import EntryCompiler
from dexengines.lcp import distance, dynamics, features, pairs, shapes
from dexengines.lcp.dynamics import make_motion, make_tree
from dexengines.lcp.features import DATA
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.model.scene import build_scene


def _called(kernel):
    """A kernel as Python can call it."""
    return njit(pipeline_class=EntryCompiler)(lambda *arguments: kernel(*arguments))


kinematics, inertia_and_bias, twists = (
    _called(dynamics.kinematics),
    _called(dynamics.inertia_and_bias),
    _called(dynamics.twists),
)
factorise, solve_mass, integrate = (
    _called(dynamics.factorise),
    _called(dynamics.solve_mass),
    _called(dynamics.integrate),
)
separation, contacts_of_pair = _called(distance.separation), _called(pairs.contacts_of_pair)
gap_of_features = _called(features.gap_of_features)


@pytest.fixture(scope="module")
def scene():
    model = build_scene(load_hand(), load_object("cube")).compile()
    return model, mujoco.MjData(model), make_tree(model)


@pytest.mark.parametrize("seed", range(5))
def test_dynamics_are_mujocos(scene, seed):
    model, data, tree = scene
    rng = np.random.default_rng(seed)
    q = np.concatenate([rng.normal(size=16), rng.normal(size=7)])
    q[19:] /= np.linalg.norm(q[19:])
    v = rng.normal(size=22)
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_fwdPosition(model, data)
    mujoco.mj_fwdVelocity(model, data)
    M = np.zeros((22, 22))
    mujoco.mj_fullM(model, data, M)
    m = make_motion(tree)
    kinematics(tree, q, m)
    inertia_and_bias(tree, np.array(model.body_mass), v, m)
    np.testing.assert_allclose(m.p, data.xpos, atol=1e-14)
    np.testing.assert_allclose(np.tril(m.M), np.tril(M), atol=1e-14)
    np.testing.assert_allclose(m.bias, data.qfrc_bias, atol=1e-13)
    V = m.V.copy()
    twists(tree, v, m)
    np.testing.assert_allclose(m.V, V, atol=1e-13)
    factorise(tree.dof_parent, m.M)
    x = v.copy()
    solve_mass(tree.dof_parent, m.M, x)
    np.testing.assert_allclose(M @ x, v, atol=1e-9)
    out, ours = q.copy(), q.copy()
    integrate(tree, q, v, 0.01, ours)
    mujoco.mj_integratePos(model, out, v, 0.01)
    np.testing.assert_allclose(ours, out, atol=1e-15)


def _turned(rng):
    q = rng.normal(size=4)
    R = np.empty(9)
    mujoco.mju_quat2Mat(R, q / np.linalg.norm(q))
    return R.reshape(3, 3)


HALF = np.array([0.03, 0.05, 0.02])
KINDS = {
    "box": (shapes.box("g", "b", HALF), coal.Box(*(2 * HALF))),
    "sphere": (shapes.sphere("g", "b", 0.04), coal.Sphere(0.04)),
    "capsule": (shapes.capsule("g", "b", 0.02, 0.03), coal.Capsule(0.02, 0.06)),
    "cylinder": (shapes.cylinder("g", "b", 0.03, 0.04), coal.Cylinder(0.03, 0.08)),
}


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_distances_are_coals(first, second):
    """The bound along GJK's direction is the distance; the features found have the same gap, and
    normals of unit length."""
    packed = shapes.pack([KINDS[first][0], KINDS[second][0]], {"b": 1}, np.array([[0, 1]]), np.array([0]))
    packed = packed._replace(body=np.array([1, 2]))
    rng = np.random.default_rng(7)
    feature, data = np.zeros((200, 7), np.int64), np.zeros((200, DATA))
    R, p, checked = np.zeros((3, 3, 3)), np.zeros((3, 3)), 0
    for _ in range(150):
        R[1], R[2], p[2] = _turned(rng), _turned(rng), rng.normal(size=3) * 0.08
        result = coal.DistanceResult()
        request = coal.DistanceRequest()
        request.gjk_tolerance = 1e-12
        pose = [coal.Transform3s(R[i], p[i]) for i in (1, 2)]
        true = coal.distance(KINDS[first][1], pose[0], KINDS[second][1], pose[1], request, result)
        n = np.zeros(3)
        gap = separation(packed, 0, 1, R[1], p[1], R[2], p[2], n, np.inf)
        if true <= 1e-6:
            assert gap <= 1e-6
            continue
        assert gap == pytest.approx(true, abs=2e-8)
        assert np.linalg.norm(n) == pytest.approx(1.0)
        checked += 1
        count = contacts_of_pair(packed, 0, 0, 1, R, p, n, gap, gap + 1e-6, feature, data, 0)
        gaps = []
        for k in range(count):
            a, b = feature[k, 0], feature[k, 1]
            normal, c = np.zeros(3), np.zeros(3)
            at = (R[1 + a], p[1 + a], R[1 + b], p[1 + b])
            gaps.append(gap_of_features(feature[k, 2], feature[k, 3], data[k], *at, normal, c))
            assert np.linalg.norm(normal) == pytest.approx(1.0)
        assert count > 0 and min(gaps) == pytest.approx(gap, abs=1e-6)
    assert checked > 50


@pytest.mark.parametrize(
    ("geometry", "words"),
    [
        (shapes.box("g", "nowhere", HALF), "body 'nowhere'"),
        (shapes.sphere("g", "b", -1.0), "not negative"),
        (shapes.sphere("g", "b", 1.0, restitution=2.0), "restitution of 0 to 1"),
        (shapes.Geometry("g", "b", np.zeros((1, 3))), "neither volume nor radius"),
        (shapes.Geometry("g", "b", np.array([[np.nan, 0, 0]]), 1.0), "finite corners"),
        (
            shapes.Geometry("g", "b", np.random.default_rng(0).normal(size=(9, 3)) * [1, 1, 0]),
            "span a volume",
        ),
    ],
)
def test_bad_geometries_are_refused(geometry, words):
    with pytest.raises(EngineError, match=words):
        shapes.pack([geometry], {"world": 0, "b": 1}, np.zeros((0, 2), int), np.zeros(0, int))
