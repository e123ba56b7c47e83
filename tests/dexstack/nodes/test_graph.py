"""The graphs of the modes: arguments, parameters of every node, and the launch files that read them."""

import contextlib
import dataclasses
import importlib
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from harness import NODES, node_class, spinning
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter

from dexstack.cli import main as cli
from dexstack.config import read_sections
from dexstack.control.planners import PLANNERS
from dexstack.errors import ConfigError
from dexstack.graph.modes import MODES, Argument, NodeDescription
from dexstack.graph.parameters import NODE_BLOCKS
from dexstack.graph.settings import blocks_of
from dexstack.model.frames import FrameTree
from dexstack.model.hand import load_hand
from dexstack.nodes.common import StackNode
from dexstack.nodes.tf import frame_prefix, transforms
from dexstack.tasks import TASKS, load_task, task_files

SIM = MODES["sim"]


@contextlib.contextmanager
def made(node: NodeDescription, domain: int, folder: Path) -> Iterator[StackNode]:
    """The node as it starts in a process of its own."""
    own = folder / "own.yaml"
    own.write_text(yaml.safe_dump({"/**": {"ros__parameters": dict(node.parameters)}}))
    rules = [f"__node:={node.name}", *(f"{a}:={b}" for a, b in node.remappings)]
    rules += [f"__ns:={node.namespace}"] if node.namespace else []
    arguments = [item for rule in rules for item in ("-r", rule)]
    with spinning(domain, node_class(node.module), arguments=(*arguments, "--params-file", str(own))) as made:
        yield made[0]


def test_every_argument_is_described_and_has_a_valid_default():
    for mode in MODES.values():
        for argument in mode.arguments:
            assert argument.doc and argument.parse(argument.default) == argument.default
            assert argument.parse(str(argument.default)) == argument.default
    argument = Argument("x", 1.0, "a number", lo=0.0, hi=2.0)
    assert argument.parse("0") == 0.0 and argument.parse("2") == 2.0, "ranges are inclusive"
    with pytest.raises(ConfigError):
        argument.parse("2.001")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"goal_yaw": "ninety"}, "'goal_yaw' must be a number"),
        ({"goal_yaw": "nan"}, "'goal_yaw' must be finite"),
        ({"goal_yaw": 200}, "'goal_yaw' must lie in"),
        ({"seed": "1.5"}, "'seed' must be a whole number"),
        ({"plant": "bullet"}, "'plant' must be one of mujoco"),
        ({"colour": "red"}, "unknown argument 'colour'"),
        ({"params": "nowhere.yaml"}, "cannot read the parameter file .*nowhere.yaml"),
        ({"seconds": "soon"}, "'seconds' must be a number"),
        ({"seconds": "-1"}, "'seconds' must lie in"),
        ({"task": "three_bal"}, "unknown task 'three_bal'; did you mean 'three_ball'"),
        ({"planner": "samplin"}, "unknown planner 'samplin'"),
    ],
)
def test_wrong_arguments_are_one_clear_error(values, message):
    with pytest.raises(ConfigError, match=message):
        SIM.check(values)
        SIM.describe(values)


def test_goal_and_time_limit_default_to_those_of_the_task():
    def task(**values):
        return next(n.parameters for n in SIM.describe(values) if n.name == "task")

    palm, on_and_on, balls = (task(task=name) for name in ("palm_turn", "continuous", "three_ball"))
    assert (palm["own_goals"], palm["goal_yaw"], palm["seconds"]) == (False, pytest.approx(math.pi / 2), 15.0)
    assert on_and_on["own_goals"] and on_and_on["seconds"] == 60.0
    assert balls["own_goals"] and balls["seconds"] == 20.0
    assert task(object="stick")["seconds"] == 20.0
    asked = task(task="continuous", goal_yaw="-45", seconds="7")
    assert (asked["own_goals"], asked["goal_yaw"], asked["seconds"]) == (
        False,
        pytest.approx(-math.pi / 4),
        7.0,
    )
    assert task(goal_yaw="0")["goal_yaw"] == 0.0 and not task(goal_yaw="0")["own_goals"]


def test_your_own_task_reaches_every_node_by_its_path(tmp_path):
    (tmp_path / "my_task.py").write_text(
        "from dexstack.tasks.palm_turn import PalmTurn\n"
        "class TASK(PalmTurn):\n    name = 'mine'\n    opening_yaw = 0.5\n"
    )
    (tmp_path / "my_task.yaml").write_text("mpc: {ros__parameters: {horizon: 3}}")
    nodes = {n.name: n for n in SIM.describe({"task": str(tmp_path / "my_task.py")})}
    tasks = {nodes[name].parameters["task"] for name in ("mpc", "simulator", "task", "contact_detector")}
    assert tasks == {str(tmp_path / "my_task.py")}
    assert nodes["task"].parameters["goal_yaw"] == 0.5 and nodes["mpc"].parameters["horizon"] == 3


def test_values_reach_the_nodes_they_concern():
    values = {"goal_yaw": "180", "object": "stick", "namespace": "left_hand"}
    nodes = {n.name: n for n in SIM.describe(values)}
    assert nodes["task"].parameters["goal_yaw"] == pytest.approx(math.pi)
    objects = {nodes[n].parameters["object"] for n in ("simulator", "contact_detector", "mpc", "task")}
    assert objects == {"stick"} and {n.namespace for n in nodes.values()} == {"/left_hand"}
    nodes = SIM.describe({"respawn": "no", "use_sim_time": "true"})
    assert not any(n.respawn for n in nodes) and all(n.parameters["use_sim_time"] is True for n in nodes)
    assert all(n.respawn and "use_sim_time" not in n.parameters for n in SIM.describe({}))


class Recorded:
    """Stand-in for a class of launch or launch_ros, which are not on PyPI."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        self.args, self.fields = args, fields


@pytest.fixture
def launching(monkeypatch) -> Iterator[ModuleType]:
    """The module dexstack.graph.launching with stand-ins for launch and launch_ros."""
    classes = {
        "launch": "LaunchContext LaunchDescription",
        "launch.actions": "DeclareLaunchArgument IncludeLaunchDescription LogInfo OpaqueFunction Shutdown",
        "launch.launch_description_sources": "PythonLaunchDescriptionSource",
        "launch.substitutions": "LaunchConfiguration",
        "launch_ros": "",
        "launch_ros.actions": "Node",
        "launch_ros.parameter_descriptions": "ParameterValue",
    }
    for module, names in classes.items():
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(**dict.fromkeys(names.split(), Recorded)))
    sys.modules.pop("dexstack.graph.launching", None)
    yield importlib.import_module("dexstack.graph.launching")
    del sys.modules["dexstack.graph.launching"]


PLANNING = {"task", "console", "mpc", "contact_detector"}
LINE = {"interface": "pty", "channel": "/tmp/here"}
STARTED: list[tuple[str, dict[str, str], dict[str, dict[str, Any]]]] = [
    (
        "hardware",
        {},
        {
            "hand": {"hand": "right", "interface": "socketcan", "hardware": "V4", "consent": "person"},
            "task": {"reset_service": ""},
        },
    ),
    (
        "hardware",
        {"hand": "leap_right", "channel": "/dev/ttyUSB0"},
        {"hand": {"hand": "leap_right", "interface": "serial", "channel": "/dev/ttyUSB0"}},
    ),
    (
        "hardware",
        {"perception": "camera", "calibration": "/m.yaml"},
        {"hand": {}, "pose_estimator": {"source": "realsense", "calibration": "/m.yaml"}},
    ),
    ("mock", {"hand": "leap_left", "channel": "/tmp/here"}, {"simulator": LINE, "hand": LINE}),
    (
        "sim",
        {"perception": "camera", "seed": "3"},
        {
            "hand": {},
            "simulator": {"pose_topic": "object_pose_truth", "seed": 3},
            "camera": {"seed": 3},
            "pose_estimator": {"reliable": True},
        },
    ),
    ("sim", {"task": "three_ball", "robot_state": "yes"}, {"simulator": {}, "servo": {}}),
    ("sim", {"task": "three_ball", "part": "robot"}, {"simulator": {}, "servo": {}}),
    (
        "sim",
        {"monitor": "yes", "record": "/a.mcap", "planner": "sampling"},
        {
            "hand": {},
            "simulator": {},
            "monitor": {"object": "cube"},
            "recorder": {"file": "/a.mcap"},
            "console": {"stay": True},
            "mpc": {"planner": "sampling", "horizon": 10},
        },
    ),
]
"""Mode, arguments, and the nodes that start next to those of PLANNING with some of their parameters."""


@pytest.mark.parametrize(("mode", "values", "expected"), STARTED)
def test_a_launch_description_starts_these_nodes_with_these_parameters(launching, mode, values, expected):
    pytest.importorskip("pupil_apriltags", reason="perception by camera needs the extra 'camera'")
    *declared, graph = launching.launch_description(mode).args[0]
    defaults = {argument.args[0]: argument.fields["default_value"] for argument in declared}
    context = Recorded()
    context.launch_configurations = defaults | values
    nodes = {node.fields["name"]: node.fields for node in graph.fields["function"](context)}
    assert nodes.keys() == expected.keys() | (PLANNING if "part" not in values else set())
    for name, node in nodes.items():
        assert node["arguments"] == ["-m", "dexstack.nodes", name]
        assert (node["on_exit"] is not None) == (name == "console") != node["respawn"]
        given = node["parameters"][-1]
        for key, value in expected.get(name, {}).items():
            assert (given[key].args[0] if isinstance(value, str) else given[key]) == value, (name, key)


SHARED = {"/diagnostics", "/rosout", "/parameter_events", "/tf", "/tf_static"}
"""Topics that graphs in all namespaces share."""


def test_graphs_in_two_namespaces_share_neither_topics_nor_frames(domain, tmp_path):
    heavy = ("mpc", "contact_detector", "learner")  # they import JAX
    topics, frames = {}, {}
    for side in ("left", "right"):
        values = {
            "namespace": f"{side}_hand",
            "hand": side,
            "robot_state": "yes",
            "trajectories": "yes",
            "use_sim_time": "true",
        }
        topics[side] = set()
        for description in (n for n in SIM.describe(values) if n.name not in heavy):
            with made(description, domain, tmp_path) as node:
                assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS, node.get_name()
                topics[side] |= {x.topic_name for x in (*node.publishers, *node.subscriptions)}
                topics[side] |= {x.service_name for x in node.services}
                if description.name == "robot_state":
                    tree = FrameTree(load_hand(side))
                    moving = tree.moving(load_hand(side).home)
                    sent = transforms(0.0, [*tree.fixed, *moving], frame_prefix(node))
                    frames[side] = {m.child_frame_id for m in sent}
                    assert {m.header.frame_id for m in sent} <= frames[side] | {"world"}, "one tree"
    assert topics["left"] & topics["right"] <= SHARED
    assert {t.removeprefix("/left_hand") for t in topics["left"] - SHARED} == {
        t.removeprefix("/right_hand") for t in topics["right"] - SHARED
    }
    assert "/left_hand/clock" in topics["left"] and "/left_hand/joint_command" in topics["left"]
    assert "left_hand/palm" in frames["left"] and not frames["left"] & frames["right"]
    assert len(frames["left"]) == len(frames["right"])


def test_an_external_camera_is_read_on_the_topics_of_its_driver(domain, tmp_path):
    values = {"perception": "camera", "camera": "external", "calibration": "tf"}
    own = {"image": "/eye/picture", "camera_info": "/eye/lens", "namespace": "left"}
    for more, image, info in (
        ({}, "/camera/camera/color/image_raw", "/camera/camera/color/camera_info"),
        (own, "/eye/picture", "/eye/lens"),
    ):
        eyes = next(n for n in MODES["hardware"].describe(values | more) if n.name == "pose_estimator")
        assert eyes.parameters["source"] == "topic" and eyes.parameters["calibration"] == "tf"
        file = replace(eyes, parameters={**eyes.parameters, "calibration": ""})  # needs no tf2_msgs
        with made(file, domain, tmp_path) as node:
            assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
            assert {image, info} <= {s.topic_name for s in node.subscriptions}
    with pytest.raises(ConfigError, match=r"'calibration' must name the file that .* or be tf"):
        MODES["hardware"].describe({"perception": "camera", "camera": "external"})


RUNS = [
    *((mode, {}) for mode in MODES),
    ("sim", {"task": "continuous", "learn": "yes", "monitor": "yes", "robot_state": "yes"}),
    ("sim", {"planner": "sampling"}),
    ("sim", {"task": "three_ball", "learn": "yes", "monitor": "yes", "robot_state": "yes"}),
]


OF_THREE_BALL = {
    "mpc": ("iterations", 3),
    "contact_detector": ("capacity", 8),
    "simulator": ("pose_period", 0.1),
    "servo": ("kp", 50.0),
}
"""Values of config/three_ball.yaml that differ from the defaults of the code."""


@pytest.mark.parametrize(
    ("mode", "values"), RUNS, ids=lambda x: x if isinstance(x, str) else x.get("task", "plain")
)
def test_nodes_declare_the_parameters_of_the_graph_and_of_the_task_files(mode, values, domain, tmp_path):
    nodes = MODES[mode].describe(values)
    assert len({n.name for n in nodes}) == len(nodes) and sum(n.ends_run for n in nodes) == 1
    files = task_files(values.get("task", "palm_turn"), values.get("planner", "gauss_newton"))
    sections = [section for path in files for section in read_sections(path)]
    for node in nodes:
        # A learner gets the planner's parameters and takes those that it knows.
        shared = [s for s in sections if s.node == "**" or node.name == "learner" != s.node]
        optional = {name for s in shared for name in s.values}
        with made(node, domain, tmp_path) as instance:
            for name in set(node.parameters) - optional:
                assert instance.has_parameter(name), f"{node.name} does not declare {name}"
            if "three_ball" in values.values() and node.name in OF_THREE_BALL:
                parameter, value = OF_THREE_BALL[node.name]
                assert instance.get_parameter(parameter).value == value
                assert instance.task_type.name == "three_ball"


@pytest.mark.parametrize("key", ["mpc", "/mpc", "/**/mpc", "/left/mpc", "left/mpc"])
@pytest.mark.parametrize("namespace", ["", "left"])
def test_sections_of_parameter_files_reach_the_node_in_its_namespace(namespace, key, domain, tmp_path):
    """Files of the task and of the user, with and without a namespace."""
    (tmp_path / "p.yaml").write_text(f"{key}: {{ros__parameters: {{u_max: 0.07}}}}")
    values = {"task": "reorient", "namespace": namespace, "params": str(tmp_path / "p.yaml")}
    mpc = next(n for n in SIM.describe(values) if n.name == "mpc")
    matches = namespace == "left" or "left" not in key
    with made(mpc, domain, tmp_path) as node:
        assert node.get_parameter("horizon").value == 10
        assert node.get_parameter("u_max").value == (0.07 if matches else 0.2)
    SIM.check(values)
    said = SIM.notes(values)
    assert len(said) == (not matches) and all(f"section '{key}'" in sentence for sentence in said)


@pytest.mark.parametrize("task", TASKS)
def test_the_files_of_tasks_have_the_types_that_ros_requires(task):
    """ROS rejects a whole number for a decimal parameter."""
    blocks = {*blocks_of(load_task(task), "mujoco"), *(b for own in NODE_BLOCKS.values() for b in own)}
    defaults = {f.name: f.default for block in blocks for f in dataclasses.fields(block)}
    for path in {path for planner in PLANNERS for path in task_files(task, planner)}:
        for name, value in ((n, v) for section in read_sections(path) for n, v in section.values.items()):
            kind = list if isinstance(defaults[name], tuple) else type(defaults[name])
            assert type(value) is kind, (path.name, name)


def test_nodes_without_jax_do_not_import_it():
    code = "import sys; from dexstack.nodes import console, hand, servo, simulator, task"
    subprocess.run([sys.executable, "-c", f"{code}; sys.exit('jax' in sys.modules)"], check=True)


def test_every_mode_takes_the_same_arguments_and_reports_those_without_effect():
    names = {mode: [a.name for a in MODES[mode].arguments] for mode in MODES}
    assert names["sim"] == names["mock"] == names["hardware"] and len(set(names["sim"])) == len(names["sim"])
    assert {"namespace", "use_sim_time", "respawn"} <= set(names["sim"])
    for mode in MODES.values():
        assert all(("no effect" in a.doc) == (a.name in mode.without_effect) for a in mode.arguments)
    assert SIM.notes({"interface": "pcan", "seed": "3"}) == ["'interface' has no effect in this mode"]
    assert not SIM.notes({"interface": "auto"})
    assert MODES["hardware"].notes({"seed": "3", "plant": "mujoco"}) == ["'seed' has no effect in this mode"]


@pytest.mark.parametrize("mode", MODES)
def test_the_parts_make_the_whole(mode):
    names = lambda part: [n.name for n in MODES[mode].describe({"part": part})]  # noqa: E731
    assert set(names("robot")) == {"hand"} | ({"simulator"} if mode != "hardware" else set())
    assert sorted(names("robot") + names("planner")) == sorted(names("all"))
    assert "robot_state" in {n.name for n in SIM.describe({"part": "robot", "robot_state": "yes"})}


OTHERS = ("servo", "learner", "recorder", "player", "monitor", "robot_state", "camera", "pose_estimator")


@pytest.fixture(scope="module", params=(*NODES, *OTHERS))
def node(request, domain):
    with spinning(domain, node_class(f"dexstack.nodes.{request.param}")) as (made,):
        yield made


def fields(node: StackNode):
    return [f for block in node.blocks() for f in dataclasses.fields(block)]


def test_every_parameter_is_described(node):
    names = [f.name for f in fields(node)]
    assert "autostart" in names and len(set(names)) == len(names)
    for described in node.describe_parameters(names):
        assert len(described.description) > 10, described.name


def test_wrong_values_are_rejected_and_change_nothing(node):
    tried = 0
    for field in fields(node):
        wrong = ["many", float("nan")] if isinstance(field.default, float) else []
        if not isinstance(field.default, tuple | str):
            bounds = ((field.metadata["lo"], -1), (field.metadata["hi"], 1))
            beyond = [type(field.default)(limit + step) for limit, step in bounds if limit is not None]
            tried, wrong = tried + len(beyond), wrong + beyond
        before = node.get_parameter(field.name).value
        for value in wrong:
            (result,) = node.set_parameters([Parameter(field.name, value=value)])
            assert not result.successful and result.reason, (field.name, value)
            assert node.get_parameter(field.name).value == before
    assert tried >= 1


def test_a_good_value_reaches_the_node(node):
    field = next(f for f in fields(node) if isinstance(f.default, float) and f.metadata["hi"] is not None)
    value = 0.5 * (field.default + field.metadata["hi"])
    (result,) = node.set_parameters([Parameter(field.name, value=value)])
    assert result.successful
    block = next(b for b in node.blocks() if field.name in b.__dataclass_fields__)
    assert getattr(node.params(block), field.name) == value


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("mock", "--task", "three_ball"),
            "an emulated hand on a bus needs a hand, and the robot of the task 'three_ball'",
        ),
        (
            ("hardware", "--task", "three_ball"),
            "this mode needs a hand, and the robot of the task 'three_ball'",
        ),
        (("sim", "--task", "three_ball", "--perception", "camera"), "perception by camera needs a hand"),
        (("sim", "--task", "three_balls"), "unknown task 'three_balls'; did you mean 'three_ball'?"),
        (("sim", "--task", "nowhere.py"), "there is no task file"),
        (("sim", "--object", "teapot"), "unknown object 'teapot'"),
        (("sim", "--goal-yaw", "ninety"), "'goal_yaw' must be a number, got 'ninety'"),
        (("sim", "orientaton_weight: 5.0"), "'orientaton_weight'"),
        (("sim", "horizon: 0"), "'horizon'"),
        (("sim", "horizon: many"), "'horizon'"),
    ],
)
def test_what_cannot_run_is_refused_in_one_sentence_before_any_node_starts(
    arguments, sentence, tmp_path, monkeypatch, capsys
):
    if ":" in arguments[-1]:  # a file with this parameter
        (tmp_path / "p.yaml").write_text(f"mpc: {{ros__parameters: {{{arguments[-1]}}}}}")
        arguments = (*arguments[:-1], "--params", str(tmp_path / "p.yaml"))
    started: list[object] = []
    monkeypatch.setattr("dexstack.cli.up.NodeSupervisor", lambda *a, **k: started.append(a))
    assert cli.main(["up", *arguments, "--results", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1 and "Traceback" not in said
    assert not started and not (tmp_path / "run").exists()
