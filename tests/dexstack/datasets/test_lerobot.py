"""Datasets read back by independent readers: pyarrow, pandas and PyAV, against the published layout."""

import json

import av
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dexstack.bags.recordings import read_recording, recording_files
from dexstack.cli.main import main
from dexstack.datasets.lerobot import Feature, LeRobotWriter, resampled, usable
from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec
from dexstack.model.hand import load_hand
from dexstack.trials.sweep import Run, run_one

KEYS = {
    *("codebase_version", "robot_type", "total_episodes", "total_frames", "total_tasks", "chunks_size"),
    *(
        "data_files_size_in_mb",
        "video_files_size_in_mb",
        "fps",
        "splits",
        "data_path",
        "video_path",
        "features",
    ),
}
"""Of ``info.json``, as lerobot 0.4 writes it."""


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    """Two short trials as `dexstack eval --record` keeps them."""
    folder = tmp_path_factory.mktemp("trials")
    spec = Spec(overrides=(("horizon", 2), ("iterations", 1)))
    for k in range(2):
        run_one(spec, Run(0.6, record=str(folder)), k, 0)
    return folder


@pytest.fixture(scope="module")
def dataset(trials, tmp_path_factory):
    folder = tmp_path_factory.mktemp("datasets") / "set"
    assert main(["dataset", str(trials), "--out", str(folder), "--render", "--fps", "10"]) == 0
    return folder


def read(folder):
    info = json.loads((folder / "meta/info.json").read_text())
    place = {"chunk_index": 0, "file_index": 0}
    return info, pq.read_table(folder / info["data_path"].format(**place))


def test_the_layout_is_the_published_one(dataset):
    info, frames = read(dataset)
    assert set(info) == KEYS and info["codebase_version"] == "v3.0"
    assert (info["total_episodes"], info["total_frames"], info["splits"]) == (2, 12, {"train": "0:2"})
    videos = {name for name, f in info["features"].items() if f["dtype"] == "video"}
    assert set(frames.column_names) == set(info["features"]) - videos
    for name, feature in info["features"].items():
        if name not in videos:
            shape, kind = tuple(feature["shape"]), frames.schema.field(name).type
            scalar = kind if shape == (1,) else kind.value_type
            assert shape == (1,) or (pa.types.is_fixed_size_list(kind) and kind.list_size == shape[0])
            assert scalar == pa.from_numpy_dtype(np.dtype(feature["dtype"]))


def test_frames_are_the_recordings(dataset, trials):
    _, frames = read(dataset)
    table = frames.to_pandas()
    for k in range(2):
        with np.load(trials / f"trial-{k:03d}" / "recording.npz") as recorded:
            mine = table[table.episode_index == k]
            rows = resampled(recorded["t"], 10)
            np.testing.assert_allclose(np.stack(mine["action"]), recorded["q_command"][rows], atol=1e-6)
            np.testing.assert_allclose(np.stack(mine["observation.state"]), recorded["q"][rows], atol=1e-6)
            torque = recorded["torque"][rows]
            np.testing.assert_allclose(np.stack(mine["observation.effort"]), torque, atol=1e-6)
            assert np.abs(torque[-1]).max() > 0.01
    np.testing.assert_allclose(table.timestamp, table.frame_index / 10, atol=1e-6)
    np.testing.assert_array_equal(table["index"], np.arange(12))


def test_a_dataset_is_read_as_a_recording(dataset, trials):
    """In any order of the hand's joints; each episode is a rollout."""
    names = load_hand("right").joint_names
    assert read(dataset)[0]["features"]["action"]["names"] == [f"{name}.pos" for name in names]
    read_back = read_recording(dataset, names[::-1])
    assert recording_files(dataset) == [dataset]
    with np.load(trials / "trial-001" / "recording.npz") as recorded:
        rows, mine = resampled(recorded["t"], 10), read_back["rollout"] == 1
        for name in ("q", "qd", "torque", "q_command"):
            np.testing.assert_allclose(read_back[name][mine], recorded[name][rows][:, ::-1], atol=1e-6)
        for name in ("pose_WO", "goal_WO"):
            np.testing.assert_allclose(read_back[name][mine], recorded[name][rows], atol=1e-6)
    np.testing.assert_allclose(np.diff(read_back["t"]), 0.1)
    with pytest.raises(ConfigError, match=r"joints of 'observation.state' .* are not this hand's: .*thumb"):
        read_recording(dataset, [*names[:-1], "thumb"])


def test_episodes_tasks_and_statistics_fit_the_frames(dataset):
    _, frames = read(dataset)
    episodes = pd.read_parquet(dataset / "meta/episodes/chunk-000/file-000.parquet")
    tasks = pd.read_parquet(dataset / "meta/tasks.parquet")
    assert list(episodes.length) == [6, 6] and list(episodes.dataset_to_index) == [6, 12]
    for k, row in episodes.iterrows():
        assert tasks.loc[row.tasks[0]].task_index == frames["task_index"][int(row.dataset_from_index)].as_py()
        assert row.tasks[0].startswith("palm turn: cube, "), k
    stats = json.loads((dataset / "meta/stats.json").read_text())
    actions = np.stack(frames["action"].to_pandas())
    np.testing.assert_allclose(stats["action"]["mean"], actions.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(stats["action"]["q90"], np.quantile(actions, 0.9, axis=0), atol=1e-6)
    assert np.shape(stats["observation.images.film"]["mean"]) == (3, 1, 1)


def test_the_video_has_a_picture_for_every_frame(dataset):
    info, _ = read(dataset)
    path = dataset / info["video_path"].format(
        video_key="observation.images.film", chunk_index=0, file_index=0
    )
    with av.open(str(path)) as container:
        pictures = [(f.time, f.to_ndarray(format="rgb24")) for f in container.decode(video=0)]
    np.testing.assert_allclose([t for t, _ in pictures], np.arange(12) / 10, atol=1e-3)
    assert pictures[0][1].shape == (240, 320, 3) and pictures[0][1].std() > 10


def test_an_episode_ends_where_no_command_was_in_force():
    commands = np.array([[np.nan], [1.0], [2.0], [np.nan], [3.0]])
    assert usable(commands) == slice(1, 3)
    assert usable(np.full((2, 1), np.nan)) == slice(2, 2)


def test_frames_take_the_newest_sample_before_them():
    np.testing.assert_array_equal(resampled(np.array([0.0, 0.04, 0.11, 0.2]), 10), [0, 1, 3])


def test_a_column_of_another_shape_and_a_full_folder_are_refused(tmp_path):
    features = {"action": Feature(("a", "b"), (2,))}
    with LeRobotWriter(tmp_path / "set", 10, features, "hand") as writer:
        with pytest.raises(ConfigError, match=r"'action' must be \(3, 2\), got \(3, 1\)"):
            writer.add({"action": np.zeros((3, 1))}, "nothing")
        writer.add({"action": np.zeros((3, 2))}, "nothing")
    with pytest.raises(ConfigError, match="is not empty"):
        LeRobotWriter(tmp_path / "set", 10, features, "hand")


def test_a_folder_without_recordings_is_refused(tmp_path, capsys):
    assert main(["dataset", str(tmp_path), "--out", str(tmp_path / "set")]) == 2
    assert "there is no recording" in capsys.readouterr().err
