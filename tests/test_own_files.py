"""A user's planner, model, supervisor and plant, one file each, run like those of dexstack."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dexstack.control.base import SolveStatus
from dexstack.control.params import MpcParams
from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.plants import make_plant
from dexstack.sim.loop import Loop

MODELS = sorted((Path(__file__).parents[1] / "examples" / "models").glob("*.py"))
HEAD = """
from dataclasses import dataclass
import numpy as np
from dexstack.config import param
"""
PLANNER = (
    HEAD
    + """
from dexstack.control.base import LocalPlanner, Plan, SolveStatus

@dataclass(frozen=True)
class Params:
    curl: float = param(0.0, "bend of every joint from the robot's rest [rad]", -1.0, 1.0)

class Curl(LocalPlanner):
    Params = Params

    def __init__(self, problem, params):
        super().__init__(problem, params)
        self.curl = params[Params].curl

    def reset(self): pass
    def fork(self): return self
    def goal_cost(self, pose_WO, q, goal_WO): return 0.0

    def plan(self, observation, goal_WO, pull=None):
        target = self.robot.home + np.clip(self.curl, -self.u_max, self.u_max)
        n = len(target)
        return Plan(SolveStatus.OK, target, np.zeros((1, n)), np.zeros((2, 7 + n)), 0.0, 0.0, 0.0)

PLANNER = Curl
"""
)
SUPERVISOR = (
    HEAD
    + """
from dexstack.control.supervisors.base import Supervisor

@dataclass(frozen=True)
class Params:
    every: int = param(2, "every n-th plan counts as a stall", 1, 100)

class Counter(Supervisor):
    Params = Params

    def __init__(self, context, params):
        super().__init__(context, params)
        self.plans = 0

    def plan(self, observation, goal_WO):
        self.plans += 1
        self.stalls = self.plans // self.params.every
        return self.planner.plan(observation, goal_WO)

SUPERVISOR = Counter
"""
)
PLANT = (
    HEAD
    + """
from dexstack.plants.mujoco import MujocoPlant, MujocoPlantParams

@dataclass(frozen=True)
class Params(MujocoPlantParams):
    gravity: float = param(9.81, "how strongly things fall [m/s²]", 0.0, 100.0)

class Elsewhere(MujocoPlant):
    Params = Params

    def __init__(self, hand, obj, params=None):
        super().__init__(hand, obj, params)
        self.model.opt.gravity[2] = -(params or Params()).gravity

PLANT = Elsewhere
"""
)


@pytest.fixture
def file(tmp_path):
    def file(text: str) -> str:
        (path := tmp_path / f"my_{hash(text) % 10**8}.py").write_text(text)
        return str(path)

    return file


def test_all_three_run_a_trial(file):
    """With parameters of their own from the command line and from a file."""
    planner, supervisor, plant = map(file, (PLANNER, SUPERVISOR, PLANT))
    params = file("").replace(".py", ".yaml")
    with open(params, "w") as yaml:
        yaml.write("mpc: {ros__parameters: {every: 5}}\nsimulator: {ros__parameters: {gravity: 0.0}}\n")
    overrides = (("planner", planner), ("supervisor", supervisor), ("curl", 0.05))
    spec = Spec(plant=plant, files=(params,), overrides=overrides)
    settings = read_settings(spec)
    task = make_task(spec, settings)
    loop = Loop(task, settings, plant)
    trial = loop.run(0, 0, 0.2)
    np.testing.assert_allclose(trial.recording["q_command"][-1], loop.setup.robot.home + 0.05)
    assert trial.stalls == loop.supervisor.plans // 5 > 0
    assert loop.plant.model.opt.gravity[2] == 0.0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (PLANT.replace("PLANT = Elsewhere", ""), r"the plant file .*\.py must set PLANT to a class"),
        (PLANT.replace("    Params = Params\n", "    Params = None\n"), r"the plant of .*\.py lacks Params"),
        (
            PLANT.replace("(MujocoPlant):", ":").replace("super()", "#"),
            "lacks what dexstack.plants.base.Plant asks for|cannot be",
        ),
        ("import nonsense_of_mine", "the plant file .* cannot be run: ModuleNotFoundError"),
    ],
)
def test_what_is_no_plant_is_refused_in_one_sentence(file, text, complaint):
    text = text.replace("        self.model.opt", "        #") if "#" in text else text
    with pytest.raises(ConfigError, match=complaint):
        make_plant(file(text), load_hand(), load_object("cube"))


def test_an_own_planner_gets_every_live_parameter(file):
    spec = Spec(overrides=(("planner", file(PLANNER)), ("supervisor", "none"), ("curl", 0.1)))
    settings = read_settings(spec)
    loop = Loop(make_task(spec, settings), settings)
    assert loop.planner.params == settings[MpcParams] and loop.planner.u_max == settings[MpcParams].u_max
    loop.planner.params = replace(loop.planner.params, u_max=0.02)
    weights = loop.planner.weights = replace(loop.planner.weights, contact_weight=0.0)
    trial = loop.run(0, 0, 0.05)
    np.testing.assert_allclose(trial.recording["q_command"][-1], loop.setup.robot.home + 0.02)
    assert loop.supervisor.planner.weights is weights


@pytest.mark.slow
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_an_own_model_closes_the_loop(path):
    short = ("horizon", 2), ("iterations", 1), ("contact_set", "propagated")
    spec = Spec(overrides=(("model", str(path)), *short))
    settings = read_settings(spec)
    trial = Loop(make_task(spec, settings), settings).run(0, 0, 0.3)
    status = trial.recording["status"]
    assert not np.isin(status, (SolveStatus.BAD_INPUT, SolveStatus.DIVERGED)).any() and not trial.dropped
    assert np.abs(np.diff(trial.recording["q_command"], axis=0)).max() > 1e-3


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        (
            "supervisor",
            SUPERVISOR.replace("Counter(Supervisor)", "Counter"),
            r"must set SUPERVISOR to a class derived from dexstack\.control\.supervisors\.base\.Supervisor",
        ),
        ("supervisor", SUPERVISOR.replace("def plan", "def planned"), r"of .* lacks plan$"),
        ("supervisor", "gaits", r"supervisor 'gaits'.*gait"),
        ("planner", PLANNER.replace("def fork", "def spoon"), r"the planner of .* lacks fork$"),
        (
            "planner",
            PLANNER.replace("(LocalPlanner)", ""),
            r"derived from dexstack\.control\.base\.LocalPlanner",
        ),
        ("planner", "nowhere.py", r"there is no planner file .*nowhere\.py"),
        ("every", 3, "'every'"),
    ],
)
def test_unusable_planners_and_supervisors_are_refused_before_anything_starts(file, name, value, complaint):
    value = file(value) if isinstance(value, str) and "\n" in value else value
    with pytest.raises(ConfigError, match=complaint):
        read_settings(Spec(overrides=((name, value),)))
