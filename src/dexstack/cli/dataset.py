"""``dexstack dataset``: recordings in a learner's format."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dexstack.bags.recordings import read_recording, read_run, recording_files
from dexstack.cli import arguments
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table
from dexstack.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from dexstack.datasets.lerobot import Feature

PICTURE = "observation.images.film"
SUCCESS = "next.success"


class Episode(NamedTuple):
    """One episode before it is written."""

    path: Path
    t: np.ndarray
    """(K,) times of the samples [s]."""
    columns: dict[str, tuple[Feature, np.ndarray]]
    """Features and values (K, …) by name."""
    task: str
    spec: tuple[str, str, str]
    """Task, object and hand."""


add_parser = command(
    "dataset",
    option(
        "runs",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="recordings (.npz), bags (.mcap), or folders of them",
    ),
    option("--to", choices=["lerobot"], default="lerobot", help="format"),
    option("--out", type=Path, required=True, metavar="FOLDER", help="new folder of the dataset"),
    option(
        "--fps", type=arguments.positive_int, metavar="N", help="frames per second (default: the recordings')"
    ),
    option("--task", metavar="TEXT", help="task text (default: task, object and goal)"),
    option("--object", default="cube", help="bags: object"),
    option("--hand", default="right", help="bags: side, or path of a hand's YAML"),
    option("--render", action="store_true", help="add pictures drawn from the recorded states"),
    description="Write trials of `dexstack eval --record`, runs of `dexstack up` and MCAP bags as one "
    "LeRobotDataset v3.0: joint positions and velocities, object pose, goal, joint targets (the "
    "actions), task text, success and, with --render, pictures. A recording ends as an episode where "
    "no command was in force.",
)


def run(args: argparse.Namespace) -> int:
    """Write the dataset; return 0."""
    import numpy as np

    from dexstack.datasets.lerobot import Feature, LeRobotWriter, resampled

    episodes = [_episode(path, args) for run in args.runs for path in recording_files(run)]
    common = set.intersection(*(set(e.columns) for e in episodes))
    left_out = sorted(set().union(*(e.columns for e in episodes)) - common)
    if left_out:
        note(f"left out, since not all recordings have it: {', '.join(left_out)}")
    names = [name for name in episodes[0].columns if name in common]
    features = {name: episodes[0].columns[name][0] for name in names}
    for e in episodes:
        if other := [n for n in features if e.columns[n][0] != features[n]]:
            raise ConfigError(f"{e.path}: '{other[0]}' is of another hand than in {episodes[0].path}")
    periods = np.concatenate([np.diff(e.t) for e in episodes])
    fps, frames = args.fps or max(1, round(1.0 / float(np.median(periods)))), 0
    if args.render:
        features[PICTURE] = Feature(("height", "width", "channels"), (240, 320, 3), "video")
    with LeRobotWriter(args.out, fps, features, f"dexstack_{Path(episodes[0].spec[2]).stem}") as writer:
        for k, episode in enumerate(episodes, 1):
            rows = resampled(episode.t, fps)
            columns = {name: episode.columns[name][1][rows] for name in names}
            if args.render:
                columns[PICTURE] = _pictures(episode, rows)
            writer.add(columns, episode.task)
            frames += len(rows)
            note(f"episode {k}/{len(episodes)}: {len(rows)} frames of {episode.path}")
    results = {
        "folder": str(args.out),
        "format": "LeRobotDataset v3.0",
        "episodes": len(episodes),
        "frames": frames,
        "fps": fps,
        "features": {name: [f.dtype, *f.shape] for name, f in features.items()},
        "left_out": left_out,
    }
    rows = [[name, f.dtype, "×".join(map(str, f.shape))] for name, f in features.items()]
    shown = table(
        f"{args.out}: {len(episodes)} episodes, {frames} frames at {fps} Hz",
        ["feature", "type", "shape"],
        rows,
    )
    publish(args, "dataset", results, shown)
    return 0


def _episode(path: Path, args: argparse.Namespace) -> Episode:
    """Read one recording.

    Raises:
        ConfigError: it cannot be read, names an unknown hand, or has no two samples with a command.
    """
    import numpy as np

    from dexstack.bags.file import is_bag
    from dexstack.datasets.lerobot import Feature, columns_of, usable
    from dexstack.tasks import load_task

    if is_bag(path):
        from dexstack.model.hand import load_hand

        joints, spec = load_hand(args.hand).joint_names, ("palm_turn", args.object, args.hand)
        arrays, ended, text = read_recording(path, joints), None, f"move {args.object} in the hand"
    else:
        arrays, summary = read_run(path)
        spec = summary["task"], summary["object"], summary["hand"]
        joints = load_task(spec[0])(None, *spec[1:]).robot().joint_names
        ended = summary.get("phase")
        text = f"{spec[0].replace('_', ' ')}: {spec[1]}, {summary.get('goal', 'goals')}"
    rows = usable(np.asarray(arrays["q_command"]))
    kept = {name: np.asarray(array)[rows] for name, array in arrays.items() if len(array) == len(arrays["t"])}
    if len(kept["t"]) < 2:
        raise ConfigError(f"{path} has no two samples with a command in force")
    columns = columns_of(kept, joints)
    if ended is not None:
        reached = np.zeros((len(kept["t"]), 1), bool)
        reached[-1] = ended == "reached"
        columns[SUCCESS] = Feature((SUCCESS,), (1,), "bool"), reached
    return Episode(path, kept["t"], columns, args.task or text, spec)


def _pictures(episode: Episode, rows: np.ndarray) -> np.ndarray:
    """Draw the recorded states at ``rows``; return the pictures (K, H, W, 3)."""
    import numpy as np

    from dexstack.model.scene import robot_scene
    from dexstack.report.film import Artist
    from dexstack.tasks import load_task

    task, obj, hand = episode.spec
    setup = load_task(task)(None, obj, hand).setup()
    artist = Artist(robot_scene(setup.robot, setup.obj).compile(), 320, 240)
    q, pose_WO = (episode.columns[n][1] for n in ("observation.state", "observation.environment_state"))
    goal_WO = episode.columns["observation.goal"][1] if "observation.goal" in episode.columns else pose_WO
    return np.stack([np.asarray(artist.frame(q[k], pose_WO[k], goal_WO[k], episode.t[k])) for k in rows])
