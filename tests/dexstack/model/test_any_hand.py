"""Hands with other numbers of fingers and joints: read, rejected in one sentence, planned for and run."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from dexstack.control.models.implicit import ImplicitModel
from dexstack.control.params import PlannerParams
from dexstack.control.problem import FRICTION_DIRECTIONS, ModelParams, StepProblem
from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec
from dexstack.model.hand import load_hand
from dexstack.trials.sweep import loop_of
from tests.dexstack.model.generated_hand import LENGTH, RADIUS, SPACING, write_cube, write_hand


@pytest.mark.parametrize("fingers", [(3, 3, 3), (4, 4, 4, 4, 4), (2, 4, 3)])
def test_fingers_and_joints_are_counted(fingers, tmp_path):
    hand = load_hand(write_hand(tmp_path, fingers))
    assert (
        hand.chains == fingers
        and len(hand.joint_names) == sum(fingers) == len(hand.home)
        and len(hand.bodies) == sum(fingers) + 1
    )
    tree = hand.kinematics()
    found = np.asarray(tree.fingertips(tree.poses(jnp.zeros(sum(fingers)))))
    for f, (p_WTip, count) in enumerate(zip(found, fingers, strict=True)):
        angle = 2 * np.pi * f / len(fingers)
        np.testing.assert_allclose(
            p_WTip, [RADIUS * np.cos(angle), RADIUS * np.sin(angle), SPACING + count * LENGTH], atol=1e-6
        )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "links: [f0_tip, f1_tip, f2_tip]",
            "links: [f0_tip, f1_tip]",
            "must name 3 links, one for each finger",
        ),
        (
            "links: [f0_tip, f1_tip, f2_tip]",
            "links: [f1_tip, f0_tip, f2_tip]",
            "'f1_tip' must be fixed to 'f0_2', the last link of its finger",
        ),
        ("[-0.5, 0.3, 0.3]]", "[-0.5, 0.3]]", "'poses.home' must be 9 finite numbers"),
        (
            '<parent link="f0_1"/><child link="f0_2"/>',
            '<parent link="f0_0"/><child link="f0_2"/>',
            "'joint_f0_2' must follow the joint that moves its parent link, or begin at the palm",
        ),
    ],
)
def test_files_that_do_not_fit_the_fingers_are_rejected_in_one_sentence(old, new, said, tmp_path):
    file = write_hand(tmp_path, (3, 3, 3))
    edited = file if old in file.read_text() else tmp_path / "hand.urdf"
    assert old in edited.read_text()
    edited.write_text(edited.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=said) as caught:
        load_hand(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "chains", [(2, 4, 3), *(pytest.param(c, marks=pytest.mark.slow) for c in ((4, 4, 4, 4), (3, 3, 3), (1,)))]
)
def test_the_implicit_model_inverts_the_matrix_of_unequal_chains(chains, x64):
    """∂dq/∂b = H⁻¹ with H = Q + Jᵀ diag(k σ(−s/ε)) J, which has blocks of the object and each chain."""
    rng, n, each, p = np.random.default_rng(1), sum(chains), FRICTION_DIRECTIONS, PlannerParams()
    J = np.zeros((each * len(chains), 6 + n))
    for f, (count, end) in enumerate(zip(chains, np.cumsum(chains), strict=True)):
        rows = slice(each * f, each * (f + 1))
        J[rows, :6] = rng.normal(size=(each, 6))
        J[rows, 6 + end - count : 6 + end] = rng.normal(size=(each, count))
    Q, dq = p.implicit_stiffness * rng.uniform(1.0, 2.0, 6 + n), rng.normal(0, p.implicit_smoothing, 6 + n)
    phi, model = np.zeros(len(chains)), ImplicitModel(p, chains)
    theta = ModelParams(*map(jnp.asarray, (np.ones(6), np.ones(n), np.ones(n), 0.2, 0.5, 100.0)))
    context = model.prepare(StepProblem(*map(jnp.asarray, (Q, J[::each], J, phi))), theta)
    found = model.sensitivity(context, *map(jnp.asarray, (np.zeros(6 + n), phi, dq))).force
    slope = p.implicit_stiffness * expit(-(J @ dq) / p.implicit_smoothing)
    np.testing.assert_allclose(found @ (np.diag(Q) + J.T @ (slope[:, None] * J)), np.eye(6 + n), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fingers", "plant"),
    [
        ((3, 3, 3), "mujoco"),
        ((4, 4, 4, 4, 4), "mujoco"),
        ((2, 4, 3, 3), "mujoco"),
        ((2, 4, 3, 3), "lcp"),
        ((3, 3, 3), "hydroelastic"),
    ],
)
def test_the_loop_runs_with_any_hand(fingers, plant, tmp_path):
    """Every plan is usable, the object stays on the palm, and at least one of eight goals comes a fifth
    nearer within six seconds; which ones depends on rounding.
    """
    spec = Spec("palm_turn", write_cube(tmp_path), str(write_hand(tmp_path, fingers)), plant=plant)
    loop = loop_of(spec)

    def comes_nearer(seed: int, yaw: float) -> bool:
        trial = loop.run(seed, 0, 6.0, goals=iter([loop.task.at_yaw(yaw)]))
        assert not trial.dropped and trial.recording["q"].shape[1] == sum(fingers)
        assert np.isfinite(trial.recording["q_command"]).all()
        return trial.recording["error"].min() < 0.8 * trial.recording["error"][0]

    assert any(comes_nearer(seed, yaw) for seed in range(4) for yaw in (0.5, -0.5))
