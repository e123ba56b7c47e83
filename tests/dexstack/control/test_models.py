"""The time-stepping models, those of dexstack and of examples/models, in float64: closed forms of a
block, the exact QP, and derivatives."""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import nnls

from dexstack.config import make_params
from dexstack.control.factory import make_model
from dexstack.control.models import MODELS
from dexstack.control.models.implicit import small_inverse
from dexstack.control.params import PlannerParams
from dexstack.control.problem import FRICTION_DIRECTIONS, ModelParams, StepProblem, force, step_problem
from dexstack.control.theta_file import make_theta
from dexstack.model.kinematics import KinematicTree
from dexstack.model.mount import DOWN
from tests.dexstack.control.planning import wide

pytestmark = pytest.mark.usefixtures("x64")

OWN = {path.stem: str(path) for path in (Path(__file__).parents[3] / "examples" / "models").glob("*.py")}
NAMES = (*MODELS, *OWN)
EXACT = {
    "implicit_stiffness": 1e6,
    "implicit_smoothing": 1e-5,
    "dsdf_sigma": 1e5,
    "cf_gain": 1.0,
    "cf_smoothing": 1e-5,
    "qp_steps": 40,
    "qp_barrier": 1e-12,
}
"""Parameters with which every model is as close to hard contact as it can be."""
EXPLICIT = ("dsdf", "dsdf-k", "cf")
"""Models that do not solve the step problem where several rows are active."""
SOLVED = 200
"""Calls of an iterative model, each warm-started by the last, after which a step counts as converged;
the others have no warm start."""


def a_theta(sigma=1e5):
    """Only σ is read by a model."""
    return wide(ModelParams(np.ones(6), np.ones(16), np.ones(16), 0.2, 0.5, sigma))


def made(name, **values):
    """The model of that name with these parameters, which may be those of other models too."""
    params = make_params(PlannerParams, {"model": OWN.get(name, name), **values}, ignore_unknown=True)
    _, block = MODELS.load(params.model)
    return make_model(params, blocks={block: make_params(block, values, ignore_unknown=True)})


@functools.cache
def _stepper(name, calls, values):
    model = made(name, **dict(values))

    @jax.jit
    def run(problem, theta, b, phi):
        context = model.prepare(problem, theta)
        first = model.step(context, b, phi, model.initial_dual(problem))
        return jax.lax.fori_loop(1, calls, lambda _, last: model.step(context, b, phi, last[1]), first)

    return run


def stepper(name, calls=None, **values):
    """Compiled: a model's step from its initial dual, repeated so that an iterative model
    converges."""
    calls = calls or (SOLVED if name == "implicit" else 1)
    return _stepper(name, calls, tuple(values.items()))


def solve(name, problem, b, phi, theta=None, calls=None, **values):
    theta = a_theta() if theta is None else theta
    return np.asarray(stepper(name, calls, **values)(problem, theta, jnp.asarray(b), jnp.asarray(phi))[0])


def exact_qp(problem, b, phi):
    """min ½ dqᵀQ dq − bᵀdq  s.t.  J dq + φ ≥ 0, as Lawson and Hanson's least-distance problem,
    whose dual is an NNLS."""
    root = np.sqrt(np.asarray(problem.Q))
    J = np.asarray(problem.J)
    phi = np.repeat(phi, FRICTION_DIRECTIONS)
    used = np.abs(J).sum(axis=1) > 0
    G = J[used] / root
    length = np.linalg.norm(G, axis=1)
    free = b / root
    G, h = G / length[:, None], -(phi[used] / length) - (G / length[:, None]) @ free
    if np.all(h <= 0):
        return b / np.asarray(problem.Q)
    size = np.abs(h).max()
    E = np.vstack([G.T, h / size])
    u, _ = nnls(E, np.append(np.zeros(len(root)), 1.0), maxiter=100 * E.shape[1])
    r = E @ u
    r[-1] -= 1.0
    z = -size * r[:-1] / r[-1]
    assert np.min(G @ z - h) > -1e-7 * size
    return (free + z) / root


# --- a block on a plane ---------------------------------------------------------------------------

MASS_TERM = 50.0
WEIGHT = 2.0


def block(mu, contacts=1):
    """A block that can only slide and lift, on a plane under it; joints of the hand are there and
    touch nothing."""
    Q = np.concatenate([np.full(3, MASS_TERM), np.full(3, 1e9), np.ones(16)])
    Jn = np.zeros((contacts, 22))
    Jn[:, 2] = 1.0
    t = np.zeros((2, 22))
    t[0, 0] = t[1, 1] = 1.0
    rows = np.stack([Jn[0] - mu * s * t[k] for s in (1, -1) for k in (0, 1)])
    J = np.tile(rows, (contacts, 1))
    return wide(StepProblem(Q=Q, Jn=Jn, J=J, phi=np.zeros(contacts)))


def push(bx, by=0.0, weight=WEIGHT):
    b = np.zeros(22)
    b[:3] = bx, by, -weight
    return b


@pytest.mark.parametrize("name", NAMES)
def test_without_contact_displacement_is_force_over_stiffness(name):
    problem = block(0.5)
    b = np.random.default_rng(0).normal(size=22)
    dq = solve(name, problem, b, np.array([10.0]), **EXACT)
    np.testing.assert_allclose(dq, b / np.asarray(problem.Q), atol=1e-9)


SLIDES = (3.0 - 0.5 * WEIGHT) / (MASS_TERM * (1 + 0.5**2))
"""Displacement of a block with μ = 0.5 under a force of 3: (F − μW) / (M (1 + μ²))."""


@pytest.mark.parametrize(
    ("name", "mu", "b", "gap", "expected"),
    [
        # without friction it slides freely and comes down by its gap
        *((name, 0.0, push(1.0), 0.01, (1.0 / MASS_TERM, 0.0, -0.01)) for name in NAMES),
        # sliding, it loses the friction of its weight: one face of the pyramid with the plane's
        # reaction of the convex friction model, along (1, μ)
        *((name, 0.5, push(3.0), 0.0, (SLIDES, 0.0, 0.5 * SLIDES)) for name in NAMES if name != "cf"),
        # |F| < μ W sticks, which closed forms cannot hold: several faces are active
        *((name, 0.5, push(0.6, -0.2), 0.0, (0.0, 0.0, 0.0)) for name in NAMES if name not in EXPLICIT),
    ],
)
def test_a_block_on_a_plane(name, mu, b, gap, expected):
    """It slides freely, loses the friction of its weight, or sticks."""
    exact = EXACT if mu else EXACT | {"cf_gain": 0.25}
    dq = solve(name, block(mu), b, np.array([gap]), **exact)
    np.testing.assert_allclose(dq[:3], expected, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_unused_slots_change_nothing(name):
    """An inactive contact has zero rows and φ = 1."""
    one, two = block(0.5), block(0.5, contacts=2)
    two = two._replace(J=two.J.at[FRICTION_DIRECTIONS:].set(0.0), Jn=two.Jn.at[1].set(0.0))
    dq_one = solve(name, one, push(3.0), np.array([0.001]), **EXACT)
    dq_two = solve(name, two, push(3.0), np.array([0.001, 1.0]), **EXACT)
    np.testing.assert_allclose(dq_two, dq_one, atol=1e-8)


# --- hand and cube --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grasps(resting):
    """Step problems of the cube among the fingers, with forces, distances and θ: random commands
    from random states around rest."""
    rng = np.random.default_rng(0)
    states = []
    for _ in range(6):
        q = np.clip(resting.q + rng.uniform(-0.2, 0.3, 16), resting.hand.lower, resting.hand.upper)
        pose = resting.pose_WO + np.concatenate(
            [rng.normal(0, 0.004, 2), [rng.uniform(-5e-4, 1e-3)], np.zeros(4)]
        )
        states.append((pose, q, resting.detector.detect(pose, q)))
    cases = []
    with jax.enable_x64(True):
        tree = KinematicTree(resting.hand)
        theta = wide(make_theta(resting.hand, resting.obj, PlannerParams(), 0.1))
        for pose, q, found in states:
            problem = step_problem(
                tree, tree.poses(jnp.asarray(q)), jnp.asarray(pose), wide(found), theta, 0.1
            )
            b = np.asarray(force(theta, jnp.asarray(rng.uniform(-0.1, 0.2, 16)), DOWN))
            cases.append((problem, b, np.asarray(problem.phi), theta))
    return cases


def test_the_reference_solves_the_qp(grasps):
    """Its solution obeys the optimality conditions: feasible, and the constraint force is a
    non-negative sum of touching rows."""
    for problem, b, phi, _ in grasps:
        dq = exact_qp(problem, b, phi)
        J, gap = np.asarray(problem.J), np.asarray(problem.J) @ dq + np.repeat(phi, FRICTION_DIRECTIONS)
        assert gap.min() > -1e-8
        touching = J[gap < 1e-6]
        _, residual = nnls(touching.T, np.asarray(problem.Q) * dq - b, maxiter=1000)
        assert residual < 1e-5 * np.linalg.norm(b)


@pytest.mark.parametrize("name", NAMES)
def test_with_one_active_face_every_model_is_the_exact_qp(name, grasps):
    """A single row of a real grasp, pushed into."""
    for problem, b, phi, _ in grasps:
        touching = int(np.argmin(phi))
        row = np.zeros((problem.J.shape[0], 22))
        row[FRICTION_DIRECTIONS * touching] = problem.J[FRICTION_DIRECTIONS * touching]
        single = problem._replace(J=jnp.asarray(row))
        pressed = b - 5.0 * row[FRICTION_DIRECTIONS * touching]
        exact = exact_qp(single, pressed, phi)
        assert np.abs(exact - pressed / np.asarray(problem.Q)).max() > 1e-4  # the row does something
        dq = solve(name, single, pressed, phi, **EXACT)
        np.testing.assert_allclose(dq, exact, atol=2e-4)


BOUND = {"implicit": 0.05, "qp": 1e-4}
"""Largest error of a model made as exact as it can be, against the exact QP, relative to the motion
the contacts take away."""


def relative_error(problem, b, dq, exact):
    """In the norm of the kinetic metric Q, in which the QP is a projection."""
    norm = lambda x: np.sqrt(np.sum(np.asarray(problem.Q) * x**2))  # noqa: E731
    return norm(dq - exact) / norm(b / np.asarray(problem.Q) - exact)


@pytest.mark.parametrize("name", BOUND)
def test_with_many_active_faces_the_error_is_bounded(name, grasps):
    errors = []
    for problem, b, phi, _ in grasps:
        exact = exact_qp(problem, b, phi)
        gap = np.asarray(problem.J) @ exact + np.repeat(phi, FRICTION_DIRECTIONS)
        assert np.count_nonzero(gap < 1e-7) >= 3
        errors.append(relative_error(problem, b, solve(name, problem, b, phi, **EXACT), exact))
    assert max(errors) < BOUND[name]


@pytest.mark.parametrize(("name", "steps"), [("dsdf", 1), ("dsdf-k", PlannerParams.dsdf_steps)])
def test_the_closed_forms_project_on_the_most_violated_face_once_a_step(name, steps, grasps):
    """Their limit for σ → ∞, in the metric Q; faces that are violated alike within 1/σ share the
    projection."""
    for problem, b, phi, _ in grasps:
        root = np.sqrt(np.asarray(problem.Q))
        rows = np.asarray(problem.J) / root
        length = np.linalg.norm(rows, axis=1)
        used = length > 1e-6
        normals, offsets = (
            -rows[used] / length[used, None],
            -np.repeat(phi, FRICTION_DIRECTIONS)[used] / length[used],
        )
        z = b / root
        for _ in range(steps):
            outside = normals @ z + offsets
            z = z - max(outside.max(), 0.0) * normals[np.argmax(outside)]
        dq = solve(name, problem, b, phi, **EXACT)
        assert relative_error(problem, b, dq, z / root) < 0.02


def test_the_complementarity_free_step_is_its_closed_form(grasps):
    """λ = K max(0, −(J Q⁻¹ b + φ)) in the limit of no smoothing; a block pressed down at rest stays
    down and creeps."""
    own = made("cf").gain
    for problem, b, phi, _ in grasps:
        J, Q = np.asarray(problem.J), np.asarray(problem.Q)
        compliance = np.sum(J**2 / Q, axis=1)
        gain = np.divide(own, compliance, out=np.zeros_like(compliance), where=compliance > 1e-12)
        lam = gain * np.maximum(0, -(J @ (b / Q) + np.repeat(phi, FRICTION_DIRECTIONS)))
        assert np.count_nonzero(lam) >= 3
        np.testing.assert_allclose(
            solve("cf", problem, b, phi, cf_smoothing=1e-7), (b + lam @ J) / Q, atol=1e-5
        )
    dq = solve("cf", block(0.5), push(0.6), np.zeros(1), cf_smoothing=1e-7)
    assert 1e-4 < dq[0] < 0.6 / MASS_TERM  # friction slows it; only the exact step holds it


def test_the_implicit_model_minimises_its_energy(grasps):
    """Solved to the end, forces balance: Q dq = b + Jᵀ f, f the smooth ramp of the module's
    docstring; four steps come near."""
    p = PlannerParams(model="implicit")
    for problem, b, phi, _ in grasps:
        dq = solve("implicit", problem, b, phi)
        gap = np.asarray(problem.J) @ dq + np.repeat(phi, FRICTION_DIRECTIONS)
        f = p.implicit_stiffness * p.implicit_smoothing * np.logaddexp(0, -gap / p.implicit_smoothing)
        f[np.abs(problem.J).sum(axis=1) == 0] = 0
        np.testing.assert_allclose(np.asarray(problem.Q) * dq, b + f @ np.asarray(problem.J), atol=1e-8)
        short = solve("implicit", problem, b, phi, calls=4)
        assert relative_error(problem, b, short, dq) < 0.25


@pytest.mark.parametrize(
    "name", ["implicit", *(pytest.param(n, marks=pytest.mark.slow) for n in NAMES if n != "implicit")]
)
def test_sensitivities_are_the_slopes_of_the_step(name, grasps):
    """∂dq/∂b and ∂dq/∂φ against central differences of the solved step; the step sizes stay on one
    side of every kink."""
    model = made(name)
    many = jax.jit(jax.vmap(stepper(name), in_axes=(None, None, 0, 0)))
    for problem, b, phi, theta in grasps[:3]:
        n, m = len(b), len(phi)
        size = np.concatenate([np.full(n, 1e-6), np.full(m, 1e-9)])
        moves = np.concatenate([np.diag(size), -np.diag(size)])
        dq = np.asarray(
            many(problem, theta, jnp.asarray(b + moves[:, :n]), jnp.asarray(phi + moves[:, n:]))[0]
        )
        slope = (dq[: n + m] - dq[n + m :]).T / (2 * size)
        dual = stepper(name)(problem, theta, jnp.asarray(b), jnp.asarray(phi))[1]
        ours = model.sensitivity(model.prepare(problem, theta), jnp.asarray(b), jnp.asarray(phi), dual)
        for by, finite in ((ours.force, slope[:, :n]), (ours.phi, slope[:, n:])):
            np.testing.assert_allclose(by, finite, atol=2e-4 * np.abs(finite).max())


@pytest.mark.parametrize("name", NAMES)
def test_extreme_forces_and_depths_give_finite_numbers(name):
    """In float32, as the controller calls it: 10 kN, a decimetre deep, all rows zero."""
    model = made(name)
    f32 = lambda tree: jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), tree)  # noqa: E731
    theta = f32(a_theta(120.0))

    @jax.jit
    def run(problem, b, phi):
        context = model.prepare(problem, theta)
        dq, dual = model.step(context, b, phi, model.initial_dual(problem))
        return dq, model.sensitivity(context, b, phi, dual)

    for problem in (block(0.5), block(0.0), block(0.5)._replace(J=jnp.zeros((4, 22)), Jn=jnp.zeros((1, 22)))):
        for b in (push(1e4), push(-1e4, 1e4, -1e4), np.zeros(22)):
            for phi in (-0.1, 0.0, 1.0):
                dq, slopes = run(f32(problem), jnp.asarray(b, jnp.float32), jnp.full(1, phi, jnp.float32))
                assert dq.dtype == jnp.float32 and all(np.all(np.isfinite(x)) for x in (dq, *slopes))


@pytest.mark.parametrize("m", range(1, 8))
def test_small_inverse_inverts(m):
    """Of batches of positive definite matrices as unevenly scaled as metres and radians make
    them."""
    rng = np.random.default_rng(m)
    B = rng.normal(size=(50, m, m))
    scale = 10.0 ** rng.uniform(-2, 2, (50, m))
    A = (B @ np.swapaxes(B, 1, 2) + 0.1 * np.eye(m)) * scale[:, :, None] * scale[:, None, :]
    X = np.asarray(small_inverse(jnp.asarray(A)))
    residual = (A @ X - np.eye(m)) / scale[:, :, None] * scale[:, None, :]
    np.testing.assert_allclose(residual, 0.0, atol=1e-8)
