"""Parameters of a run: precedence of files and overrides, and the rejection of unknown names."""

from dataclasses import replace

import numpy as np
import pytest

from dexstack.control.factory import check_planner
from dexstack.control.params import PlannerParams
from dexstack.control.planners import PLANNERS
from dexstack.control.planners.gauss_newton import MpcParams
from dexstack.errors import ConfigError
from dexstack.graph.modes import MODES
from dexstack.graph.parameters import SimulatorParams
from dexstack.graph.settings import (
    Spec,
    chosen_planner,
    make_task,
    parameter_files,
    perception_file,
    read_settings,
)
from dexstack.hand.servo import ServoParams
from dexstack.learning.loss import LearnerParams
from dexstack.model.description import data_dir
from dexstack.model.objects import load_object, load_start
from dexstack.onboarding.object_file import with_start
from dexstack.plants import PLANTS, plant_params
from dexstack.sim.disturbance import Pushes
from dexstack.sim.params import LoopParams
from dexstack.tasks import TASKS
from dexstack.tasks.controller import check
from dexstack.tasks.palm_turn import PalmWeights


def test_the_last_file_wins_and_overrides_replace_files(tmp_path):
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("/**: {ros__parameters: {kp: 0.7, horizon: 3}}\nhand: {ros__parameters: {kp: 0.8}}\n")
    second.write_text(
        "mpc: {ros__parameters: {horizon: 5, kd: 0.01}}\nsimulator: {ros__parameters: {pose_period: 0.03}}\n"
    )
    blocks = read_settings(Spec(files=(str(first), str(second)), overrides=(("latency", 0.004),)))
    assert blocks[ServoParams].kp == 0.8 and blocks[ServoParams].kd == ServoParams.kd
    assert blocks[MpcParams].horizon == 5
    assert blocks[LoopParams] == LoopParams(pose_period=0.03, latency=0.004)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_reads_its_own_files_with_every_plant_and_planner(task):
    for plant in PLANTS:
        assert plant_params(plant) in read_settings(Spec(task, plant=plant))
    for planner in PLANNERS:
        settings = read_settings(Spec(task, overrides=(("planner", planner),)))
        assert settings[PlannerParams].planner == planner


PALM = read_settings(Spec())


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (Spec(), {LearnerParams: {"joint_loss": LearnerParams.joint_loss}, Pushes: {"push_speed": 0.0}}),
        (Spec("three_ball"), {LearnerParams: {"joint_loss": 4e4, "mass_prior": 0.2}}),
        (
            Spec("continuous"),  # reads the file of its base first
            {
                PalmWeights: {
                    "position_weight": 3 * PALM[PalmWeights].position_weight,
                    "contact_weight": PALM[PalmWeights].contact_weight,
                }
            },
        ),
        (Spec(overrides=(("push_speed", 0.1),)), {Pushes: {"push_speed": 0.1}}),
    ],
)
def test_parameters_come_from_the_files_of_the_task(spec, expected):
    settings = read_settings(spec)
    for block, values in expected.items():
        assert {name: getattr(settings[block], name) for name in values} == values


def test_gravity_of_the_hands_section_reaches_every_node_and_the_task(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("hand: {ros__parameters: {gravity: [1, 0, -9], gravity_frame: base}}\n")
    spec = Spec(files=(str(file),))
    robot = make_task(spec, read_settings(spec)).setup().robot
    assert robot.gravity == (1.0, 0.0, -9.0)
    for mode in ("sim", "mock", "hardware"):
        for incline, expected in (("", (1, 0, -9)), ("30,x", (0, -4.905, -9.81 * np.sqrt(0.75)))):
            nodes = MODES[mode].describe({"params": str(file), "incline": incline})
            given = {n.name: n.parameters for n in nodes if "gravity" in n.parameters}
            assert given.keys() >= {"hand", "mpc", "task", "contact_detector", "console"}
            assert ("simulator" in given) == (mode != "hardware")
            for parameters in given.values():
                np.testing.assert_allclose(parameters["gravity"], expected)
                assert parameters["gravity_frame"] == "base"


def test_a_preset_of_perception_is_named_or_a_file(tmp_path):
    for name, period in (("realsense", 0.0334), ("markerless", 0.04)):
        assert read_settings(Spec(files=(str(perception_file(name)),)))[LoopParams].pose_period == period
    assert perception_file(tmp_path / "own.yaml") == tmp_path / "own.yaml"
    with pytest.raises(ConfigError, match=r"preset of perception 'realsens'.*realsense"):
        perception_file("realsens")


def test_a_planner_adds_its_files_after_those_of_the_task():
    plain, sampled = (read_settings(Spec(overrides=o))[MpcParams] for o in ((), (("planner", "sampling"),)))
    assert (plain.horizon, sampled.horizon) == (4, 10)
    assert read_settings(Spec("reorient"))[MpcParams] == sampled
    asked = Spec("continuous", overrides=(("planner", "sampling"),))
    assert read_settings(asked)[PlannerParams].supervisor == "detour"
    assert (
        read_settings(asked)[PalmWeights].position_weight
        == read_settings(Spec("reorient"))[PalmWeights].position_weight
    )
    assert [path.name for path in parameter_files(asked)] == [
        "palm_turn.yaml",
        "continuous.yaml",
        "palm_turn.sampling.yaml",
        "continuous.sampling.yaml",
    ]


def test_the_planner_comes_from_overrides_files_object_or_task(tmp_path):
    own, asks = tmp_path / "own.yaml", tmp_path / "box.yaml"
    own.write_text("mpc: {ros__parameters: {planner: gauss_newton, horizon: 7}}")
    cube = (data_dir() / "objects" / "cube" / "cube.yaml").read_text()
    asks.write_text(with_start(cube, replace(load_object("cube").start("allegro"), planner="sampling")))
    assert load_start(asks, "allegro").planner == "sampling" and load_start("cube", "allegro").planner == ""
    of_object = Spec(object=str(asks))
    assert chosen_planner(Spec()) == "gauss_newton" and chosen_planner(Spec("reorient")) == "sampling"
    assert chosen_planner(of_object) == read_settings(of_object)[PlannerParams].planner == "sampling"
    assert chosen_planner(replace(of_object, task="three_ball")) == "gauss_newton"
    files = replace(of_object, files=(str(own),))
    assert chosen_planner(files) == "gauss_newton" and read_settings(files)[MpcParams].horizon == 7
    asks.write_text(asks.read_text().replace("sampling", "samplin"))
    with pytest.raises(ConfigError, match="unknown planner 'samplin'; did you mean 'sampling'"):
        check_planner(read_settings(of_object)[PlannerParams])
    override = replace(files, overrides=(("planner", "sampling"),))
    assert chosen_planner(override) == "sampling" and read_settings(override)[MpcParams].horizon == 7


def test_a_hand_names_the_planner_of_objects_without_a_start_for_it(tmp_path):
    hand = tmp_path / "hand.yaml"
    right = (
        (data_dir() / "hands" / "allegro_v4_right.yaml")
        .read_text()
        .replace("family: allegro", "family: other\nplanner: sampling")
    )
    hand.write_text(right.replace("urdf: ", f"urdf: {data_dir() / 'hands'}/"))
    asks = Spec(hand=str(hand))
    assert (
        chosen_planner(asks) == "sampling"
        and chosen_planner(replace(asks, task="three_ball")) == "gauss_newton"
    )
    hand.write_text(hand.read_text().replace("family: other", "family: allegro"))
    assert chosen_planner(asks) == "gauss_newton"  # the cube has a start for that family, which names none
    assert chosen_planner(Spec(hand="leap_right")) == "gauss_newton"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "mpc: {ros__parameters: {orientaton_weight: 5.0}}",
            "'orientaton_weight'; did you mean 'orientation_weight'",
        ),
        ("/**: {ros__parameters: {latencey: 0.1}}", "'latencey'; did you mean 'latency'"),
        ("/**/hand: {ros__parameters: {kpp: 0.1}}", "'kpp'; did you mean 'kp'"),
        ("/learner: {ros__parameters: {learning_rat: 0.1}}", "'learning_rat'; did you mean 'learning_rate'"),
        (
            "simulator: {ros__parameters: {orientation_weight: 5.0}}",
            "of section 'simulator'.*'orientation_weight'",
        ),
        ("mcp: {ros__parameters: {horizon: 3}}", "unknown node of a section of .*'mcp'; did you mean 'mpc'"),
        ("mpc: {ros__parameters: {horizon: 0}}", "'horizon' must lie in"),
        ("mpc: {horizon: 3}", "has no 'ros__parameters'"),
        ("- 1", "holds no parameters"),
    ],
)
def test_a_file_with_unknown_names_is_rejected(tmp_path, text, complaint):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        read_settings(Spec(files=(str(path),)))


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (Spec(object="duck"), "unknown object 'duck'"),
        (Spec(hand="third"), "unknown hand 'third'"),
        (Spec(files=("nowhere.yaml",)), "cannot read the parameter file nowhere.yaml"),
        (
            Spec(overrides=(("orientaton_weight", 5.0),)),
            "unknown parameter 'orientaton_weight'; did you mean 'orientation_weight'",
        ),
        (Spec(overrides=(("horizon", 0),)), "'horizon' must lie in"),
        (Spec(overrides=(("model", "magic"),)), "unknown model 'magic'"),
        (Spec(overrides=(("contact_set", "thawed"),)), "unknown contact set 'thawed'"),
        (Spec(overrides=(("planner", "sampler"),)), "unknown planner 'sampler'; did you mean 'sampling'"),
        (Spec(overrides=(("supervisor", "gate"),)), "unknown supervisor 'gate'; did you mean 'gait'"),
        (Spec(overrides=(("theta", "unknown"),)), "no θ 'unknown'"),
        (Spec("juggle"), "unknown task 'juggle'"),
    ],
)
def test_an_unusable_run_is_rejected_before_anything_is_compiled(spec, complaint):
    with pytest.raises(ConfigError, match=complaint):
        settings = read_settings(spec)
        task = make_task(spec, settings)
        check(task, task.setup(), settings)


def test_the_loop_and_the_simulator_node_have_the_same_periods():
    assert SimulatorParams.pose_period == LoopParams.pose_period
    assert SimulatorParams.feedback_period == ServoParams.period


def test_a_model_adds_its_files_however_it_is_chosen(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("mpc: {ros__parameters: {model: dsdf}}")
    plain, chosen, named = (
        Spec("three_ball", **how) for how in ({}, {"overrides": (("model", "dsdf"),)}, {"files": (str(own),)})
    )
    assert [path.name for path in parameter_files(plain)] == ["three_ball.yaml"]
    assert [path.name for path in parameter_files(chosen)] == ["three_ball.yaml", "three_ball.dsdf.yaml"]
    for spec in (chosen, named):
        learner = read_settings(spec)[LearnerParams]
        assert (learner.prior, learner.mass_prior, learner.robust) == (0.0, 0.0, 1e5)
    assert read_settings(plain)[LearnerParams].mass_prior > 0.0
