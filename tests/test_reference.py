"""docs/reference.md is complete and current."""

from __future__ import annotations

import importlib.util
from dataclasses import fields

import pytest

from dexstack.cli import main as cli
from dexstack.config import share_dir
from dexstack.contact.detector import DetectorParams
from dexstack.control.params import BlindParams, MpcParams, PlannerParams, SamplingParams, TrackerParams
from dexstack.control.supervisors import SUPERVISORS
from dexstack.graph.settings import blocks_of
from dexstack.plants import PLANTS
from dexstack.tasks import TASKS
from dexstack.tasks.palm_turn import PalmTurn
from docs import write_reference

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("rclpy") is None, reason="nodes can only be imported with rclpy"
)


@pytest.fixture(scope="module")
def text():
    return write_reference.reference()


def test_the_file_is_current(text):
    assert (share_dir() / "docs" / "reference.md").read_text() == text, "run `python -m docs.write_reference`"


def test_it_lists_every_command_argument_node_topic_and_parameter(text):
    from dexstack.graph.modes import ARGUMENTS, MODES

    for name in cli.COMMANDS:
        assert f"`dexstack {name}`" in text
    assert all(f"| `{argument.name}` |" in text for argument in ARGUMENTS)
    nodes = {
        n.name
        for mode in MODES.values()
        for n in mode.describe({"learn": "yes", "monitor": "yes", "robot_state": "yes", "record": "x"})
    }
    assert all(f"## Node `{name}`" in text for name in nodes)
    assert all(f"### {name}\n" in text for registry in (TASKS, SUPERVISORS, PLANTS) for name in registry)
    for name in ("mpc", "simulator", "task", "contact_detector", "learner", "servo", "console", "monitor"):
        own = text.partition(f"## Node `{name}`")[2].partition("\n## ")[0]
        assert '| `task` | "palm_turn" |' in own, f"{name} knows the scene"
    for row in (
        "| `contacts` | PointCloud2 | sensor | contact_detector |",
        "| `learner/theta` | String | latched | learner |",
        "| `task/restart` | Trigger | task |",
        "| `hand/torque` | JointState | servo | hand, servo |",
        "| `joint_states` | JointState | recent, sensor, state | hand, servo |",
        "### palm_turn",
        "| `orientation_weight` | 100 | 0 … 1e+07 | yes |",
        "| `first_goals` | 3 | 1 … 1000 |",
        "| `stall_window` | 1.5 |",
        "### three_ball",
        "Parameters of the node `servo`:",
        "| `/tf` | TFMessage |",
    ):
        assert row in text, row


def test_it_has_every_parameter_of_a_closed_loop(text):
    planner, trials = (
        text.partition(f"## {of}")[2].partition("\n## ")[0] for of in ("Node `mpc`", "Parameters of trials")
    )
    for block in (BlindParams, TrackerParams, PlannerParams, MpcParams, SamplingParams, DetectorParams):
        assert all(f"| `{field.name}` |" in planner for field in fields(block)), block
    for block in blocks_of(PalmTurn, "mujoco"):
        assert all(f"| `{field.name}` |" in text for field in fields(block)), block
    assert "| `pose_noise_time` |" in trials and "| `push_speed` |" in trials


def test_types_are_names_of_messages(text):
    topics = text.partition("## Topics")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in topics.splitlines() if line.startswith("| `")]
    assert rows and all(name.isidentifier() for row in rows for name in row[1].split(", "))


def test_a_stale_file_is_reported_and_written(text, tmp_path, capsys):
    file = tmp_path / "reference.md"
    assert write_reference.main(["--check"], file) == 1 and "not current" in capsys.readouterr().out
    assert write_reference.main([], file) == 0 and file.read_text() == text
    assert write_reference.main(["--check"], file) == 0
