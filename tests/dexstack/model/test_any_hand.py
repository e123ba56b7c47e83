"""Hands with other numbers of fingers and joints: read, rejected in one sentence, planned for and run."""

import jax.numpy as jnp
import numpy as np
import pytest
import trimesh

from dexstack.control.models.implicit import ImplicitModel, _Context
from dexstack.control.params import PlannerParams
from dexstack.control.problem import FRICTION_DIRECTIONS, StepProblem
from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.model.hand import load_hand
from dexstack.sim.loop import Loop
from tests.dexstack.model.generated_hand import LENGTH, RADIUS, SPACING, write_hand

CUBE = """\
name: cube
mesh: cube.obj
mass: 0.1
friction: {sliding: 0.5, torsional: 0.005, rolling: 0.0001}
start:
  generated: {position: [0.0, 0.0, 0.0255], yaw: 0.0, noise_position: 0.002, noise_yaw: 0.1}
"""


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
    ],
)
def test_a_yaml_that_does_not_fit_the_fingers_is_rejected_in_one_sentence(old, new, said, tmp_path):
    file = write_hand(tmp_path, (3, 3, 3))
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=said) as caught:
        load_hand(file)
    assert "\n" not in str(caught.value)


def test_a_finger_that_branches_is_rejected(tmp_path):
    file = write_hand(tmp_path, (3, 3))
    urdf = tmp_path / "hand.urdf"
    urdf.write_text(
        urdf.read_text().replace(
            '<parent link="f0_1"/><child link="f0_2"/>', '<parent link="f0_0"/><child link="f0_2"/>'
        )
    )
    with pytest.raises(
        ConfigError,
        match="'joint_f0_2' must follow the joint that moves its parent link, or begin at the palm",
    ):
        load_hand(file)


@pytest.mark.parametrize("chains", [(4, 4, 4, 4), (3, 3, 3), (2, 4, 3), (1,)])
def test_the_blocks_of_unequal_chains_invert_the_matrix(chains):
    """H has arrow form, with blocks of the object and each chain."""
    rng, n, each = np.random.default_rng(1), sum(chains), FRICTION_DIRECTIONS
    J = np.zeros((each * len(chains), 6 + n), np.float32)
    for f, (count, end) in enumerate(zip(chains, np.cumsum(chains), strict=True)):
        rows = slice(each * f, each * (f + 1))
        J[rows, :6], J[rows, 6 + end - count : 6 + end] = (
            rng.normal(size=(each, 6)),
            rng.normal(size=(each, count)),
        )
    Q, g = rng.uniform(1.0, 2.0, 6 + n).astype(np.float32), rng.normal(size=6 + n).astype(np.float32)
    slope = rng.uniform(0.1, 1.0, len(J)).astype(np.float32)
    model = ImplicitModel(PlannerParams(), chains)
    problem = StepProblem(*map(jnp.asarray, (Q, J[::each], J, np.zeros(len(chains), np.float32))))
    blocks = model._blocks(_Context(problem, jnp.ones(len(J))), jnp.asarray(slope))
    H = np.diag(Q) + J.T @ (slope[:, None] * J)
    np.testing.assert_allclose(
        model._apply(blocks, jnp.asarray(g)), np.linalg.solve(H, g), rtol=2e-3, atol=2e-4
    )


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
    trimesh.creation.box(3 * [0.05]).export(tmp_path / "cube.obj")
    (tmp_path / "cube.yaml").write_text(CUBE)
    spec = Spec("palm_turn", str(tmp_path / "cube.yaml"), str(write_hand(tmp_path, fingers)), plant=plant)
    settings = read_settings(spec)
    task = make_task(spec, settings)
    loop = Loop(task, settings, plant)

    def comes_nearer(seed: int, yaw: float) -> bool:
        trial = loop.run(seed, 0, 6.0, goals=iter([task.at_yaw(yaw)]))
        assert not trial.dropped and trial.recording["q"].shape[1] == sum(fingers)
        assert np.isfinite(trial.recording["q_command"]).all()
        return trial.recording["error"].min() < 0.8 * trial.recording["error"][0]

    assert any(comes_nearer(seed, yaw) for seed in range(4) for yaw in (0.5, -0.5))
