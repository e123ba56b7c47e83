"""``dexstack replay`` of recordings; bags are in tests/dexstack/nodes/test_bags.py."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dexstack.cli.main import main
from dexstack.datasets.lerobot import Feature, LeRobotWriter
from dexstack.tasks import load_task
from tests.acceptance.programs import DEXSTACK, Program, until

SAMPLES = 12


def keep(folder: Path, task: str = "palm_turn", **changes) -> Path:
    """Write a recording of an object that moves up."""
    robot, _, start = load_task(task)().setup()
    pose = np.tile(start.pose_WO, (SAMPLES, 1))
    pose[:, 2] += np.linspace(0.0, 0.03, SAMPLES)
    arrays = {
        "t": 0.1 * np.arange(SAMPLES),
        "q": np.tile(robot.home, (SAMPLES, 1)),
        "pose_WO": pose,
        "goal_WO": np.tile(start.pose_WO, (SAMPLES, 1)),
        "solve_t": np.zeros(0),
        "solve_s": np.zeros(0),
        "summary": json.dumps({"task": task, "object": "cube", "hand": "right", "phase": "timeout"}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recording.npz"
    np.savez(path, **{name: value for name, value in (arrays | changes).items() if value is not None})
    return path


@pytest.mark.parametrize(("task", "whole_folder"), [("palm_turn", True), ("three_ball", False)])
def test_a_recording_is_drawn_again(task, whole_folder, tmp_path, capsys):
    path, film = keep(tmp_path / "trial", task), tmp_path / "again.gif"
    file = path.parent if whole_folder else path
    assert main(["replay", str(file), "--film", str(film), "--json", "-"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert results["samples"] == SAMPLES and results["summary"]["task"] == task
    assert results["plot"] == str(path.parent / "run.png") and results["film"] == str(film)
    with Image.open(results["plot"]) as plot, Image.open(film) as frames:
        assert plot.width > 400 and frames.n_frames > 5
        first = np.asarray(frames.convert("RGB"), int)
        frames.seek(frames.n_frames - 1)
        assert np.mean(np.abs(np.asarray(frames.convert("RGB"), int) - first).max(axis=2) > 40) > 1e-3, (
            "the object moves"
        )


def test_the_film_is_optional(tmp_path, capsys):
    assert main(["replay", str(keep(tmp_path))]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["recording.npz", "run.html", "run.png"]
    assert "palm_turn with cube: timeout, 12 samples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"summary": None}, "is not a recording of a run or a trial"),
        ({"summary": json.dumps({"object": "cube", "hand": "right"})}, "does not name its task"),
        (
            {"summary": json.dumps({"task": "juggling", "object": "cube", "hand": "right"})},
            "unknown task 'juggling'",
        ),
        ({"q": np.zeros((SAMPLES, 9))}, "9 joints, the robot of its task has 16"),
        ({"goal_WO": None}, "no 'goal_WO'"),
    ],
)
def test_a_recording_that_cannot_be_drawn_is_one_sentence(changes, sentence, tmp_path, capsys):
    assert main(["replay", str(keep(tmp_path, **changes))]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["trials"], "recordings are in"),
        (["nowhere.npz"], "cannot read the recording nowhere.npz"),
        (["noise.npz"], "noise.npz"),
        (["run.mcap", "--film", "a.gif"], "--film is for recordings"),
    ],
)
def test_a_wrong_file_is_one_sentence(argv, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keep(tmp_path / "trials" / "trial-000")
    (tmp_path / "noise.npz").write_bytes(b"nothing")
    assert main(["replay", *argv]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.slow
def test_recorded_states_are_shown_in_the_browser_until_the_end(tmp_path):
    path = keep(tmp_path, q_command=np.zeros((SAMPLES, 16)))
    with Program([*DEXSTACK, "replay", str(path), "--on", "viewer"], tmp_path) as page:
        assert until(lambda: "?token=" in page.err, 60.0), page.err
        assert page.interrupt() == 0


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "is a dataset: give --on"),
        (["--on", "mock", "--episode", "3"], "has 1 episodes, none of number 3"),
    ],
)
def test_what_a_dataset_lacks_is_one_sentence(argv, sentence, tmp_path, capsys):
    joints = load_task("palm_turn")().robot().joint_names
    features = {name: Feature(joints, (16,)) for name in ("observation.state", "action")}
    with LeRobotWriter(tmp_path / "set", 10, features, "hand") as writer:
        writer.add({name: np.zeros((SAMPLES, 16)) for name in features}, "nothing")
    assert main(["replay", str(tmp_path / "set"), *argv]) == 2
    assert sentence in capsys.readouterr().err


def test_too_few_samples_are_not_drawn(tmp_path, capsys):
    empty = {name: np.zeros((0, n)) for name, n in (("q", 16), ("pose_WO", 7), ("goal_WO", 7))}
    assert main(["replay", str(keep(tmp_path, t=np.zeros(0), **empty))]) == 1
    assert "too few to draw" in capsys.readouterr().out
