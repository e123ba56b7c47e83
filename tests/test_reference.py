"""The reference is what the code says, and is kept current."""

from __future__ import annotations

import importlib.util

import pytest

from dexstack.cli import main as cli
from dexstack.config import share_dir
from dexstack.control.supervisors import SUPERVISORS
from dexstack.plants import PLANTS
from dexstack.tasks import TASKS
from docs import write_reference

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("rclpy") is None, reason="nodes can only be imported with rclpy"
)


@pytest.fixture(scope="module")
def text():
    return write_reference.reference()


def test_the_file_is_current(text):
    assert (share_dir() / "docs" / "reference.md").read_text() == text, "run `python -m docs.write_reference`"


def test_it_names_every_command_argument_node_topic_and_parameter(text):
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
        "| `joint_states` | JointState | recent, sensor, state | film, hand, servo |",
        "### palm_turn",
        "| `orientation_weight` | 100 | 0 … 1e+07 | yes |",
        "| `first_goals` | 3 | 1 … 1000 |",
        "| `stall_window` | 1.5 |",
        "### three_ball",
        "Of the node `servo`:",
    ):
        assert row in text, row


def test_a_stale_file_is_noticed(text, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(write_reference, "FILE", tmp_path / "reference.md")
    monkeypatch.setattr(write_reference, "reference", lambda: text)
    monkeypatch.setattr("sys.argv", ["write_reference", "--check"])
    assert write_reference.main() == 1 and "not current" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["write_reference"])
    assert write_reference.main() == 0 and (tmp_path / "reference.md").read_text() == text
    monkeypatch.setattr("sys.argv", ["write_reference", "--check"])
    assert write_reference.main() == 0
