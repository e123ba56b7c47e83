"""The graph description: its arguments, its agreement with the nodes, and the launch file that reads it."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from dexstack.config import read_parameter_file, share_dir
from dexstack.errors import ConfigError
from dexstack.graph.modes import MODES, Argument
from dexstack.nodes.common import StackNode
from dexstack.sim.loop import BLOCKS, THREE_BALL_BLOCKS

SIM = MODES["sim"]


def declared(module: str) -> set[str]:
    """Parameters a node declares: the fields of the parameter blocks its module names."""
    return {f.name for block in parameter_blocks(module) for f in dataclasses.fields(block)}


def parameter_blocks(module: str) -> list[type]:
    found = [x for x in vars(importlib.import_module(module)).values() if dataclasses.is_dataclass(x) and isinstance(x, type)]
    return [block for block in found if all("doc" in f.metadata for f in dataclasses.fields(block))]


def test_every_argument_is_described_and_has_a_valid_default():
    for mode in MODES.values():
        for argument in mode.arguments:
            assert argument.doc and argument.parse(argument.default) == argument.default
            assert argument.parse(str(argument.default)) == argument.default


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"goal_yaw": "ninety"}, "'goal_yaw' must be a number"),
        ({"goal_yaw": "nan"}, "'goal_yaw' must be finite"),
        ({"goal_yaw": 200}, "'goal_yaw' must lie in"),
        ({"seed": "1.5"}, "'seed' must be a whole number"),
        ({"plant": "bullet"}, "'plant' must be one of mujoco"),
        ({"colour": "red"}, "unknown argument 'colour'"),
        ({"params": "nowhere.yaml"}, "no parameter file"),
    ],
)
def test_wrong_arguments_are_one_clear_error(values, message):
    with pytest.raises(ConfigError, match=message):
        SIM.describe(values)


def test_values_reach_the_nodes_they_concern():
    nodes = {n.name: n for n in SIM.describe({"goal_yaw": "180", "object": "stick", "namespace": "left_hand", "seed": "3"})}
    assert nodes["task"].parameters["goal_yaw"] == pytest.approx(3.14159265)
    assert all(nodes[name].parameters["object"] == "stick" for name in ("simulator", "contact_detector", "mpc", "task"))
    assert nodes["simulator"].parameters["seed"] == 3
    assert {n.namespace for n in nodes.values()} == {"/left_hand"}


@pytest.mark.parametrize("mode", MODES)
def test_nodes_exist_and_declare_what_the_graph_sets(mode):
    nodes = MODES[mode].describe({})
    assert len({n.name for n in nodes}) == len(nodes) and sum(n.ends_run for n in nodes) == 1
    for node in nodes:
        module = importlib.import_module(node.module)
        assert any(isinstance(x, type) and issubclass(x, StackNode) and x is not StackNode for x in vars(module).values())
        assert set(node.parameters) <= declared(node.module), f"{node.name} does not declare all its parameters"


def test_parameter_files_name_only_parameters_that_a_node_or_a_loop_has():
    """The three-ball task has no nodes: its file is the loop's."""
    loops = {f.name for block in (*BLOCKS, *THREE_BALL_BLOCKS) for f in dataclasses.fields(block)}
    everything = loops.union(*(declared(n.module) for n in SIM.describe({})))
    for path in (share_dir() / "config").glob("*.yaml"):
        for key in ["", *(n.name for n in SIM.describe({}))]:
            assert set(read_parameter_file(path, key)) <= everything, path


def test_parameter_files_have_the_types_ros_insists_on():
    """A whole number for a decimal parameter is fine for Python and refused by ROS."""
    blocks = {x for n in SIM.describe({}) for x in parameter_blocks(n.module)}
    defaults = {f.name: f.default for block in blocks for f in dataclasses.fields(block)}
    for path in (share_dir() / "config").glob("*.yaml"):
        for name, value in read_parameter_file(path, "").items():
            assert type(value) is (list if isinstance(defaults[name], tuple) else type(defaults[name])), (path.name, name)


def test_nodes_that_need_no_jax_do_not_import_it():
    code = "import sys, importlib; importlib.import_module(sys.argv[1]); sys.exit('jax' in sys.modules)"
    for name in ("simulator", "hand", "task", "console"):
        assert subprocess.run([sys.executable, "-c", code, f"dexstack.nodes.{name}"], check=False).returncode == 0, name


@pytest.mark.parametrize("mode", MODES)
def test_launch_file_repeats_nothing(mode):
    """The launch file names a mode; every name in the description stays out of it."""
    text = (share_dir() / "launch" / f"{mode}.launch.py").read_text().partition('"""\n')[2]
    names = [a.name for a in MODES[mode].arguments if a.name != mode] + [n.name for n in MODES[mode].describe({})]
    assert f'launch_description("{mode}")' in text
    assert not [name for name in names if f'"{name}"' in text or f"'{name}'" in text]


def test_every_mode_takes_the_same_arguments():
    names = {mode: [a.name for a in MODES[mode].arguments] for mode in MODES}
    assert names["sim"] == names["mock"] == names["hardware"] and len(set(names["sim"])) == len(names["sim"])
    assert {"namespace", "use_sim_time", "respawn"} <= set(names["sim"])
    for mode in MODES.values():
        assert all(("no effect" in a.doc) == (a.name in mode.without_effect) for a in mode.arguments)


def test_an_argument_without_effect_is_noticed():
    assert SIM.ignored({"interface": "pcan", "seed": "3"}) == ["interface"] and not SIM.ignored({"interface": "socketcan"})
    assert MODES["hardware"].ignored({"seed": "3", "plant": "mujoco"}) == ["seed"]


def test_respawn_and_simulated_time_reach_every_node():
    nodes = SIM.describe({"respawn": "no", "use_sim_time": "true"})
    assert not any(n.respawn for n in nodes) and all(n.parameters["use_sim_time"] is True for n in nodes)
    assert all(n.respawn and "use_sim_time" not in n.parameters for n in SIM.describe({}))


@pytest.mark.parametrize("mode", MODES)
def test_the_parts_make_the_whole(mode):
    names = lambda part: [n.name for n in MODES[mode].describe({"part": part})]  # noqa: E731
    assert set(names("robot")) == {"hand"} | ({"simulator"} if mode != "hardware" else set())
    assert sorted(names("robot") + names("planner")) == sorted(names("all"))


def test_monitor_and_recorder_run_beside_the_graph():
    nodes = {n.name: n for n in SIM.describe({"monitor": "yes", "record": "a.mcap", "object": "stick"})}
    assert nodes["monitor"].parameters["object"] == "stick" and nodes["console"].parameters["stay"]
    assert Path(nodes["recorder"].parameters["file"]).is_absolute()
    assert not {"monitor", "recorder"} & {n.name for n in SIM.describe({})}


@pytest.mark.skipif(importlib.util.find_spec("launch_ros") is None, reason="launch and launch_ros come with a ROS 2 installation only")
@pytest.mark.parametrize("mode", MODES)
def test_launch_description_matches_the_graph(mode):
    from launch import LaunchContext
    from launch.actions import DeclareLaunchArgument, OpaqueFunction

    from dexstack.graph.launching import launch_description

    description = launch_description(mode)
    context = LaunchContext()
    arguments = [e for e in description.entities if isinstance(e, DeclareLaunchArgument)]
    for found, expected in zip(arguments, MODES[mode].arguments, strict=True):  # launch adds the choices to the description
        assert found.name == expected.name and found.description.startswith(expected.doc)
    for argument in arguments:
        argument.visit(context)
    (build,) = [e for e in description.entities if isinstance(e, OpaqueFunction)]
    launched = build.visit(context)
    for node, expected in zip(launched, MODES[mode].describe({}), strict=True):
        node._perform_substitutions(context)
        assert node.node_name == f"/{expected.name}"
        command = [piece[0].perform(context) for piece in node.cmd[:3]]
        assert command == [sys.executable, "-m", expected.module]


def test_argument_ranges_are_inclusive():
    argument = Argument("x", 1.0, "a number", lo=0.0, hi=2.0)
    assert argument.parse("0") == 0.0 and argument.parse("2") == 2.0
    with pytest.raises(ConfigError):
        argument.parse("2.001")


def test_scripts_of_a_package_share_its_folder():
    assert (Path(share_dir()) / "launch" / "sim.launch.py").is_file()
