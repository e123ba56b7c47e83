"""A user's own task in a file: found, checked, parametrised, and run like those of dexstack."""

import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.tasks import TASKS, load_task, task_files
from dexstack.tasks.three_ball import ThreeBall
from dexstack.trials.sweep import loop_of

MINE = '''
from dataclasses import dataclass

import jax.numpy as jnp

from dexstack.config import param
from dexstack.model.objects import load_object
from dexstack.tasks.base import JudgeParams, Setup, Task


@dataclass(frozen=True)
class Weights:
    lift_weight: float = param(1e3, "weight of the height [1/m²]", 0.0, 1e7)
    contact_weight: float = param(3.0, "weight of the fingertips' distances [1/m²]", 0.0, 1e7)


@dataclass(frozen=True)
class Params(JudgeParams):
    height: float = param(0.02, "how high above its start [m]", 0.0, 0.1)


class Lift(Task):
    """Lift: stage ω_c Σ‖p_tip − p_o‖², terminal ω_h ‖p_o − p_goal‖²."""

    name = "lift"
    Weights = Weights
    Params = Params
    supervisor = "none"

    def setup(self, world=None):
        from dexstack.model.hand import load_hand

        obj, hand = load_object(self.object), load_hand(self.hand)
        return Setup(hand, obj, obj.start("allegro", hand.side))

    def stage(self, state, goal_WO, weights):
        return jnp.sqrt(weights.contact_weight) * (state.p_WTip - state.p_WO[None]).reshape(-1)

    def terminal(self, state, goal_WO, weights):
        return jnp.sqrt(weights.lift_weight) * (state.p_WO - goal_WO[:3])

    def goals(self, k, seed):
        goal = self.at_yaw(0.0)
        goal.pose_WO[2] += self.params.height
        yield goal


TASK = Lift
'''


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "my_task.py"
    path.write_text(MINE)
    return path


@pytest.mark.slow
def test_a_task_in_a_file_runs_a_trial(mine):
    """With its own weights, parameters and YAML file."""
    mine.with_suffix(".yaml").write_text(
        "task: {ros__parameters: {height: 0.03}}\nmpc: {ros__parameters: {lift_weight: 500.0}}\n"
    )
    spec = Spec(str(mine), overrides=(("horizon", 2), ("iterations", 1), ("contact_weight", 2.0)))
    loop = loop_of(spec)
    assert loop.task.params.height == 0.03
    assert (loop.planner.weights.lift_weight, loop.planner.weights.contact_weight) == (500.0, 2.0)
    trial = loop.run(0, 0, 0.1)
    assert len(trial.recording["t"]) == 5 and not trial.dropped
    assert trial.goal.pose_WO[2] == pytest.approx(loop.task.start().pose_WO[2] + 0.03)
    assert np.isfinite(trial.recording["q_command"]).all()


def test_a_file_is_loaded_again_only_after_a_change(mine):
    first = load_task(str(mine))
    assert load_task(str(mine)) is first
    mine.write_text(MINE.replace('name = "lift"', 'name = "hoist"') + "# longer\n")
    assert load_task(str(mine)).name == "hoist"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda text: text.replace("def terminal", "def final"), r"the task of .*my_task\.py lacks terminal"),
        (
            lambda text: text.replace("def goals", "def aims").replace("def stage", "def steps"),
            "lacks goals, stage",
        ),
        (
            lambda text: text.replace("TASK = Lift", ""),
            "must set TASK to a class derived from dexstack.tasks.base.Task",
        ),
        (lambda text: text.replace("TASK = Lift", "TASK = Lift()"), "must set TASK to a class|cannot be run"),
        (
            lambda text: "import nonsense_of_mine",
            "cannot be run: ModuleNotFoundError: No module named 'nonsense_of_mine'",
        ),
        (lambda text: "def (", "cannot be run: SyntaxError"),
    ],
)
def test_a_file_without_a_complete_task_is_rejected_in_one_sentence(mine, change, complaint):
    mine.write_text(change(MINE))
    with pytest.raises(ConfigError, match=complaint):
        load_task(str(mine))


def test_names_may_have_hyphens():
    assert load_task("three-ball") is ThreeBall


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_its_files_goals_and_judgement(name):
    task = load_task(name)
    assert task.name == name and [path.stem for path in task_files(name)][-1] == name
    spec = Spec(name)
    made = make_task(spec, read_settings(spec))
    first, again = (next(made.goals(1, 3)) for _ in range(2))
    assert first.label == again.label and np.array_equal(first.pose_WO, again.pose_WO)
    assert first.pose_WO.shape == (7,) and made.inside(first.pose_WO, first)
    assert made.seconds() > 0 and not made.dropped(made.start().pose_WO, made.start())


def test_a_task_inherits_the_parameter_files_of_its_base_class():
    assert [path.name for path in task_files("continuous")] == ["palm_turn.yaml", "continuous.yaml"]
