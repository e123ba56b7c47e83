"""Rate and latency of the pose_estimator node on one core, with the planner on another.

The film of a hand turning the cube, hidden at random, is played over DDS at 30 Hz to the
pose_estimator node, while contact_detector and mpc plan with its poses on another core, where the
film runs too. The time of a picture runs from just before it is handed to DDS until its pose is.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dexstack.cli.arguments import natural, number, positive
from dexstack.cli.output import note, table
from dexstack.cli.supervisor import graph_environment
from dexstack.cli.tool_nodes import run_nodes
from dexstack.errors import ConfigError
from dexstack.graph.modes import NodeDescription, picture_environment
from dexstack.perception import require_camera
from dexstack.perception.se3 import Transform
from dexstack.process.threads import XLA_ONE_THREAD, prefer
from dexstack.report.statistics import times
from dexstack.tasks import task_files
from experiments.harness import Findings, run
from tests.acceptance.film import Film, shoot_apart
from tests.acceptance.tracking import TrackingResult, film_results, film_table, judge

LONGEST = 0.015
"""Largest 99th percentile from picture to pose [s]."""
DROPPED = 0.005
"""Largest share of the pictures that the node may miss."""
HONEST = 0.9
"""Smallest share of the time within the 95 % bound of the normalised error."""
WARM_UP = 2.0
"""Beginning of the film that does not count [s]."""


@dataclass(frozen=True)
class Pinned(NodeDescription):
    """A node on one core."""

    core: int = 0
    program: tuple[str, ...] = ()
    """Module and arguments, if it is not a node of dexstack."""

    @property
    def command(self) -> list[str]:
        own = [sys.executable, "-m", *self.program] if self.program else super().command
        return ["taskset", "--cpu-list", str(self.core), *own]


class NodeResult(NamedTuple):
    """Poses that came back over DDS."""

    tracking: TrackingResult
    """Errors, and the time from picture to pose [s] of the pictures that were answered."""
    late: np.ndarray
    """(n,) delay of the sent pictures behind their due time [s]."""
    dropped: int
    """Pictures of the whole film that the estimator did not process."""
    unanswered: int
    """Pictures that showed the object and brought no pose."""
    rate: float
    """Poses per second."""
    solves: np.ndarray
    """(m, 2) processor and wall time of the planner's solves [s]."""


def judge_node(shown: Film, result: Path) -> NodeResult:
    """Compare the poses recorded by the film node with the film."""
    begin = shown.t[0] + WARM_UP
    on = shown.t >= begin
    with np.load(result) as data:
        pose, covariance, seconds, late = (data[k][on] for k in ("pose_WO", "covariance", "seconds", "late"))
        solves, processed = data["solves"], int(data["processed"])
    hidden, t = shown.hidden[on], shown.t[on]
    there = np.isfinite(pose[:, 0])
    poses = [
        (Transform.of_pose(pose[k]), covariance[k], not hidden[k]) if there[k] else None
        for k in range(len(pose))
    ]
    tracking = judge(poses, shown.pose_WO[on], hidden, seconds[there])
    return NodeResult(
        tracking,
        late,
        len(shown) - processed,
        int((~there & ~hidden).sum()),
        there.sum() / (t[-1] - t[0]),
        solves[solves[:, 0] >= begin, 1:],
    )


def pose_estimator(args: argparse.Namespace) -> Findings:
    """Play the film and judge the poses.

    Raises:
        ConfigError: this process may use one core only, or a node could not run.
    """
    require_camera()
    own, other = _cores(args.estimator_core)
    prefer(XLA_ONE_THREAD)
    with tempfile.TemporaryDirectory(prefix="dexstack-") as name:
        folder = Path(name)
        note(f"{args.seconds:g} s of the hand turning the cube: simulating, then filming")
        film = shoot_apart(folder, args.seconds + WARM_UP + 0.2, args.noise, args.hidden, args.seed)
        note(f"playing it: pose_estimator on core {own}, mpc, contact_detector and the film on core {other}")
        with graph_environment() as environment:
            code = run_nodes(_nodes(folder, own, other), environment)
        if code or not (folder / "result.npz").is_file():
            raise ConfigError(f"the nodes ended before the film did, with exit code {code}")
        r = judge_node(film, folder / "result.npz")
    results = _results(r)
    kept = {
        f"30 Hz (<= {100 * DROPPED:g} % of the pictures dropped)": results["dropped"] <= DROPPED * len(film),
        f"picture to pose p99 (<= {1e3 * LONGEST:g} ms)": results["image_to_pose_s"]["p99"] <= LONGEST,
        "no wrong jump": results["wrong_jumps"] == 0,
        f"normalised error (>= {100 * HONEST:g} %)": results["within_bound"] >= HONEST,
        "planner answers": results["solve_s"]["n"] >= 0.9 * results["poses"],
    }
    results |= {"core": own, "planner_core": other, "kept": kept, "passed": all(kept.values())}
    lines = [*_views(results), *(f"not kept: {name}" for name, ok in kept.items() if not ok)]
    return Findings(results, lines=lines, seed=args.seed)


def _cores(core: int | None) -> tuple[int, int]:
    mine = sorted(os.sched_getaffinity(0))
    own = mine[-1] if core is None else core
    if own not in mine:
        raise ConfigError(f"--core {own} is not one of the cores this process may use: {mine}")
    others = [k for k in mine if k != own]
    if not others:
        raise ConfigError("estimator and planner need a core each; this process may use only one")
    return own, others[-1]


def _nodes(folder: Path, own: int, other: int) -> list[NodeDescription]:
    files = tuple(task_files("palm_turn"))
    film = ("tests.acceptance.film_node", str(folder), str(folder / "result.npz"))
    camera, planner = picture_environment(), XLA_ONE_THREAD
    return [
        # the film does not follow commands: a supervisor would find every rollout stalled
        Pinned("mpc", {"supervisor": "none"}, files, environment=planner, respawn=False, core=other),
        Pinned("contact_detector", {}, files, environment=planner, respawn=False, core=other),
        Pinned("pose_estimator", {"reliable": True}, files, environment=camera, respawn=False, core=own),
        Pinned("film", environment=camera, respawn=False, ends_run=True, core=other, program=film),
    ]


def _results(r: NodeResult) -> dict[str, Any]:
    t = r.tracking
    return {
        **{k: v for k, v in film_results(t).items() if k != "pose_s"},
        "poses": len(t.seconds),
        "rate_hz": r.rate,
        "image_to_pose_s": {**times(t.seconds), "max": float(t.seconds.max(initial=0.0))},
        "dropped": r.dropped,
        "unanswered": r.unanswered,
        "sent_late_s": times(r.late),
        "solve_s": times(r.solves[:, 0]),
        "solve_wall_s": times(r.solves[:, 1]),
    }


def _views(r: dict[str, Any]) -> list[Any]:
    rows = [
        (name, *(1e3 * r[key][k] if r[key]["n"] else None for k in ("p50", "p99")), r[key]["n"])
        for name, key in (
            ("picture to pose", "image_to_pose_s"),
            ("planner, processor", "solve_s"),
            ("planner, wall", "solve_wall_s"),
            ("picture sent late by", "sent_late_s"),
        )
    ]
    return [
        table("pose_estimator on one core, planner on another", ("", "p50 [ms]", "p99 [ms]", "n"), rows),
        film_table(r),
        f"{r['frames']} pictures at 30 Hz, {r['dropped']} dropped, cube hidden in {r['hidden']}; "
        f"{r['rate_hz']:.1f} poses/s; without a pose {r['without_pose']} ({r['unanswered']} not hidden); "
        f"{r['wrong_jumps']} wrong jumps; normalised error within its 95 % bound "
        f"{100 * r['within_bound']:.1f} % of the time",
    ]


def _seconds(text: str) -> float:
    return number(text, float, lambda x: 1.0 <= x <= 600.0, "seconds from 1 to 600")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this rig."""
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=60.0,
        metavar="S",
        help="length of the film, after two seconds that do not count",
    )
    parser.add_argument(
        "--hidden",
        type=positive,
        default=0.3,
        metavar="SHARE",
        help="share of the film in which the cube is hidden",
    )
    parser.add_argument("--noise", type=positive, default=2.0, metavar="SIGMA", help="pixel noise, of 255")
    parser.add_argument(
        "--core",
        dest="estimator_core",
        type=natural,
        metavar="K",
        help="the estimator's core (default: the last one this process may use)",
    )
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="S", help="seed of start pose, noise and occlusions"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig; return the exit code."""
    return run("tests.acceptance.pose_estimator", __doc__, pose_estimator, argv, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
