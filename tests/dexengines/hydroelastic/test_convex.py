"""The convex solver: its cost, gradient and Hessian against each other, random problems, and closed
forms."""

import numpy as np
import pytest

from dexengines.hydroelastic import convex
from dexengines.hydroelastic.problem import LAGGED, SAP, Problem, SolveStatus, make_problem, make_workspace
from dexengines.kernels import KERNEL, entry

SCHEMES = (SAP, LAGGED)


def random_problem(
    rng: np.random.Generator, bodies: int = 4, pairs: int = 5, faces: int = 20, limits: int = 3
) -> Problem:
    """Free bodies, some pairs with the ground, stiffnesses over eight decades."""
    nv = 6 * bodies
    p = make_problem(nv, pairs, pairs * faces, limits)
    for b in range(bodies):
        X = rng.normal(size=(6, 6))
        p.A[6 * b : 6 * b + 6, 6 * b : 6 * b + 6] = X @ X.T + 0.1 * np.eye(6)
        p.first[6 * b : 6 * b + 6] = 6 * b
    p.v_star[:] = rng.normal(size=nv)
    p.counts[:] = pairs, pairs * faces, limits
    p.pair_start[:] = faces * np.arange(pairs + 1)
    for k in range(pairs):
        touching = np.sort(rng.choice(bodies, 1 if k % 3 == 0 else 2, replace=False))
        dofs = np.concatenate([6 * b + np.arange(6) for b in touching])
        p.pair_ndof[k] = dofs.size
        p.pair_dof[k, : dofs.size] = dofs
        p.pair_J[k, :, : dofs.size] = rng.normal(size=(6, dofs.size))
    n = rng.normal(size=(pairs * faces, 3))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    p.faces[:, :3] = 0.3 * rng.normal(size=n.shape)
    p.faces[:, 3:6] = n
    p.faces[:, 6] = 10 ** rng.uniform(-2, 6, len(n))
    p.faces[:, 7] = rng.normal(size=len(n))
    p.faces[:, 8] = 10 ** rng.uniform(0, 4, len(n))
    p.faces[:, 9] = rng.uniform(0, 1.2, len(n))
    p.faces[:, 10] = rng.uniform(0, 0.3, len(n))
    p.pair_turns[::2] = 1
    p.faces[:, 11:] = 0.1 * rng.normal(size=n.shape) * np.repeat(p.pair_turns, faces)[:, None]
    p.limit_dof[:] = rng.choice(nv, limits, replace=False)
    p.limit_sign[:] = rng.choice([-1.0, 1.0], limits)
    p.limit_row[:] = np.column_stack([10 ** rng.uniform(0, 5, limits), rng.normal(size=limits)])
    return p


def cost(p: Problem, scheme: int, v: np.ndarray) -> float:
    """Return the objective from its definition, face by face."""
    A = np.tril(p.A) + np.tril(p.A, -1).T
    total = 0.5 * (v - p.v_star) @ A @ (v - p.v_star)
    for k in range(p.counts[0]):
        m = p.pair_ndof[k]
        V = p.pair_J[k, :, :m] @ v[p.pair_dof[k, :m]]
        for f in p.faces[p.pair_start[k] : p.pair_start[k + 1]]:
            r, n, (cn, vhat, ct, mu, n0), q = f[:3], f[3:6], f[6:11], f[11:]
            vc = V[:3] + np.cross(V[3:], r)
            vn = n @ vc
            vt = vc - vn * n
            vn -= q @ V[3:]
            yn, yt = cn * (vhat - vn), -ct * vt
            s = np.linalg.norm(yt)
            if scheme == SAP:
                if s <= mu * yn:
                    gn, gt = yn, s
                else:
                    gn = max((yn + mu * cn / ct * s) / (1 + mu**2 * cn / ct), 0.0)
                    gt = mu * gn
                total += 0.5 * (gn**2 / cn + gt**2 / ct)
            else:
                total += 0.5 * max(yn, 0.0) ** 2 / cn
                slip = np.linalg.norm(vt)
                total += 0.5 * ct * slip**2 if s <= mu * n0 else mu * n0 * slip - 0.5 * (mu * n0) ** 2 / ct
    for dof, sign, (c, vhat) in zip(p.limit_dof, p.limit_sign, p.limit_row, strict=True):
        total += 0.5 * c * max(vhat - sign * v[dof], 0.0) ** 2
    return total


@entry(cache=False, **KERNEL)
def solve(p, scheme, v, w):
    return convex.solve(p, scheme, v, w)


@entry(cache=False, **KERNEL)
def _evaluate(p, scheme, v, w):
    convex.pair_twists(p, v, w.V)
    convex.pair_gradient_hessian(p, scheme, w.V, w.G)
    convex.cost_gradient(p, v, w.gradient, w.net)
    convex.find_envelope(p, w)
    convex.assemble_hessian(p, v, w)


def evaluate(p: Problem, scheme: int, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    w = make_workspace(v.size, p.pair_ndof.size)
    _evaluate(p, scheme, v, w)
    inside = np.arange(v.size)[None, :] >= w.envelope[:, None]
    H = np.tril(np.where(inside, w.H, 0.0))
    return w.gradient.copy(), H + np.tril(H, -1).T


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gradient_and_hessian_are_derivatives_of_the_cost(scheme):
    rng = np.random.default_rng(1)
    for _ in range(5):
        p = random_problem(rng)
        p.faces[:, 6] = 10 ** rng.uniform(-1, 1, len(p.faces))
        p.faces[:, 8] = 10 ** rng.uniform(-1, 1, len(p.faces))
        v = rng.normal(size=p.v_star.size)
        gradient, H = evaluate(p, scheme, v)
        h = 1e-6
        for i in range(v.size):
            e = np.zeros(v.size)
            e[i] = h
            assert (cost(p, scheme, v + e) - cost(p, scheme, v - e)) / (2 * h) == pytest.approx(
                gradient[i], rel=1e-6, abs=1e-6
            )
            column = (evaluate(p, scheme, v + e)[0] - evaluate(p, scheme, v - e)[0]) / (2 * h)
            np.testing.assert_allclose(H[:, i], column, rtol=1e-5, atol=1e-4 * np.abs(H).max())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_random_problem_is_solved(scheme):
    rng = np.random.default_rng(2)
    for _ in range(400):
        p = random_problem(rng)
        v = rng.normal(size=p.v_star.size)
        w = make_workspace(v.size, p.pair_ndof.size)
        assert solve(p, scheme, v, w) == SolveStatus.SOLVED
        gradient, _ = evaluate(p, scheme, v)
        d = 1 / np.sqrt(np.diag(p.A))
        A = np.tril(p.A) + np.tril(p.A, -1).T
        scale = max(np.linalg.norm(d * (A @ p.v_star)), np.linalg.norm(d * (A @ (v - p.v_star))))
        assert np.linalg.norm(d * gradient) <= 1.01e-8 * scale
        if scheme == LAGGED:  # the n₀ are the solution's normal impulses, or the problem counts as unsettled
            normal = np.maximum(normal_impulses(p, v), 0.0)
            lag = (p.faces[:, 9] * np.abs(normal - p.faces[:, 10])).sum() / (p.faces[:, 9] * normal).sum()
            assert w.info[3] == pytest.approx(lag, rel=1e-6) and w.unsettled[0] == (lag > convex.LAG)


def normal_impulses(p: Problem, v: np.ndarray) -> np.ndarray:
    """Return y_n of each face (faces,)."""
    y = np.empty(len(p.faces))
    for k in range(p.counts[0]):
        V = p.pair_J[k, :, : p.pair_ndof[k]] @ v[p.pair_dof[k, : p.pair_ndof[k]]]
        for i in range(p.pair_start[k], p.pair_start[k + 1]):
            f = p.faces[i]
            y[i] = (f[7] - f[3:6] @ (V[:3] + np.cross(V[3:], f[:3])) + f[11:] @ V[3:]) * f[6]
    return y


def block_on_the_ground(speed: float, stiffness: float, dt: float, mu: float, faces: int = 4) -> Problem:
    """A block of 1 kg that slides along x on ``faces`` faces at its corners, pressed in by its
    weight."""
    p = make_problem(6, 1, faces, 0)
    p.A[:] = np.diag([1, 1, 1, 0.1, 0.1, 0.1])
    p.first[:] = np.arange(6)
    p.v_star[:3] = speed, 0, -9.81 * dt
    p.counts[:] = 1, faces, 0
    p.pair_start[:] = 0, faces
    p.pair_J[0, :, :6] = np.eye(6)
    p.pair_dof[0, :6] = np.arange(6)
    p.pair_ndof[0] = 6
    k = stiffness / faces
    depth = 9.81 / stiffness
    angle = 2 * np.pi * np.arange(faces) / faces
    p.faces[:, :2] = 0.1 * np.column_stack([np.cos(angle), np.sin(angle)])
    p.faces[:, 3:6] = (0, 0, 1)
    p.faces[:, 6] = dt * k * dt
    p.faces[:, 7] = depth / dt
    p.faces[:, 8] = 1e3
    p.faces[:, 9] = mu
    p.faces[:, 10] = 9.81 * dt / faces
    return p


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_sliding_block_slows_by_mu_g_and_only_sap_lifts_it(scheme):
    dt, mu, speed, stiffness = 1e-3, 0.4, 0.5, 1e6
    p = block_on_the_ground(speed, stiffness, dt, mu)
    v = np.array([speed, 0, 0, 0, 0, 0])
    assert solve(p, scheme, v, make_workspace(6, 1)) == SolveStatus.SOLVED
    if scheme == LAGGED:
        np.testing.assert_allclose(v, [speed - mu * 9.81 * dt, 0, 0, 0, 0, 0], atol=1e-9)
    else:
        c = dt * stiffness * dt  # all of μ‖v_t‖ when the contact is stiff against the mass, here half of it
        assert v[2] == pytest.approx(mu * v[0] * c / (1.0 + c), rel=1e-3)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_block_at_rest_stays(scheme):
    p = block_on_the_ground(0.0, 1e6, 1e-3, 0.4)
    p.v_star[0] = 0.2 * 9.81e-3  # pushed with half of what friction holds
    v = np.zeros(6)
    w = make_workspace(6, 1)
    assert solve(p, scheme, v, w) == SolveStatus.SOLVED
    assert np.abs(v).max() < 1e-6
    assert w.info[0] <= 2


def test_a_limit_stops_a_joint():
    p = make_problem(1, 0, 0, 1)
    p.A[0, 0] = 2.0
    p.v_star[0] = -1.0
    p.counts[:] = 0, 0, 1
    p.limit_sign[0] = 1.0
    p.limit_row[0] = 1e9, 0.0
    v = np.zeros(1)
    assert solve(p, SAP, v, make_workspace(1, 0)) == SolveStatus.SOLVED
    assert abs(v[0]) < 1e-8
    assert p.limit_impulse[0] == pytest.approx(2.0)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_unsolvable_problems_are_reported(scheme):
    p = block_on_the_ground(0.5, 1e6, 1e-3, 0.4)
    w = make_workspace(6, 1)
    p.v_star[1] = np.nan
    assert solve(p, scheme, np.zeros(6), w) == SolveStatus.NOT_FINITE
    p = block_on_the_ground(0.5, 1e6, 1e-3, 0.4)
    p.A[0, 0] = -1.0
    assert solve(p, scheme, np.zeros(6), w) == SolveStatus.NOT_FINITE
