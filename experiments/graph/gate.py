"""Which differences between plant and planner's model online learning repairs in the graph.

Every plant differs from the model in one respect. Two graphs, ``dexstack up sim --task continuous``
with and without ``--learn``, turn the cube about the vertical from the same start. The pace is the
rotation towards the goals per second in the last :data:`MINUTE` of a run, before which the learner
has had as much time. A plant counts as slow if the pace without learning is below :data:`SLOW` of the
model's own plant, and as repaired if learning brings it to :data:`REPAIRED`. Required: learning makes
no plant slower than :data:`HARMLESS` of its pace without, and drops the cube on none that keeps it
without.

Factors of mass, friction, strength of the motors and damping of the joints, which is their lag, are
0.3 and 3. The cube's size changes by a fifth: one of 20 mm is smaller than the gaps between fingers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dexstack.cli.arguments import natural, positive, positive_int
from dexstack.cli.output import commit, note, table
from dexstack.errors import ConfigError
from dexstack.trials.keep import claim
from experiments.harness import Findings, experiment, kept_json

PLANTS: dict[str, dict[str, float]] = {
    "as the model": {},
    "mass × 0.3": {"mass": 0.3},
    "mass × 3": {"mass": 3.0},
    "friction × 0.3": {"friction": 0.3},
    "friction × 3": {"friction": 3.0},
    "motors × 0.3": {"torque": 0.3},
    "motors × 3": {"torque": 3.0},
    "joint damping × 0.3": {"joint_damping": 0.3},
    "joint damping × 3": {"joint_damping": 3.0},
    "size × 0.8": {"size": 0.8},
    "size × 1.2": {"size": 1.2},
}
"""World of each plant."""
MINUTE = 60.0
"""Time before which learning counts, and over which the pace is measured [s]."""
SLOW, REPAIRED, HARMLESS = 0.8, 0.9, 0.7
STUCK = 0.05
"""Share of the usual pace below which the object does not turn, with or without learning."""
LONGEST_STEP = 0.5
"""Largest change of the error between two samples that is a rotation: at a new goal it jumps [rad]."""


def pace(t: np.ndarray, error: np.ndarray, begin: float) -> float:
    """Return the rotation towards the goals per second from a time on [rad/s].

    Args:
        t: (n,) times [s].
        error: (n,) angle to the goal of that time [rad].
        begin: start [s].
    """
    late = t >= begin
    if late.sum() < 2:
        return 0.0
    change = -np.diff(error[late])
    return float(change[np.abs(change) < LONGEST_STEP].sum() / (t[late][-1] - t[late][0]))


def run(args: argparse.Namespace, name: str, learn: bool, folder: Path) -> dict[str, Any]:
    """Run one graph, with its files in ``folder``.

    Raises:
        ConfigError: the graph gave no result.
    """
    folder.mkdir(parents=True, exist_ok=True)
    world = folder / "world.yaml"
    world.write_text(yaml.safe_dump(PLANTS[name] or {"mass": 1.0}))
    command = [sys.executable, "-m", "dexstack.cli.main", "up", "sim", "--task", "continuous"]
    command += ["--world", str(world), "--seed", str(args.seed), "--seconds", str(2.0 * MINUTE)]
    command += ["--learn", "yes" if learn else "no", "--real-time-factor", str(args.real_time_factor)]
    command += ["--no-report", "--json", "--results", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["results"]
        with np.load(folder / "recording.npz") as recording:
            t, error = recording["t"], recording["error"]
    except (ValueError, KeyError, OSError):
        raise ConfigError(f"`{' '.join(command)}` gave no result: {done.stderr[-500:]}") from None
    keys = (
        "goals_reached",
        "drops",
        "seconds",
        "trouble",
        "real_time_factor",
        "thetas_taken",
        "thetas_undone",
    )
    return {**{key: found.get(key) for key in keys}, "pace": pace(t, error, MINUTE)}


def _row(args: argparse.Namespace, name: str) -> dict[str, Any]:
    runs = {}
    for learn, key in ((False, "fixed"), (True, "learned")):
        folder = args.keep / f"{list(PLANTS).index(name):02d}-{key}"
        runs[key] = kept_json(
            folder.with_suffix(".json"), lambda learn=learn, folder=folder: run(args, name, learn, folder)
        )
    return {"name": name, "world": PLANTS[name], **runs}


def judged(rows: list[dict[str, Any]]) -> None:
    """Add ``slow`` and ``repaired`` to the rows, the first of which is the model's own plant."""
    usual = rows[0]["fixed"]["pace"]
    for row in rows:
        row["slow"] = row["fixed"]["pace"] < SLOW * usual
        row["repaired"] = row["slow"] and row["learned"]["pace"] >= REPAIRED * usual
        fixed, learned = row["fixed"], row["learned"]
        slower = fixed["pace"] > STUCK * usual and learned["pace"] < HARMLESS * fixed["pace"]
        row["harmed"] = slower or bool(learned["drops"] and not fixed["drops"])


def gate(args: argparse.Namespace) -> Findings:
    """Run all plants."""
    args.keep.mkdir(parents=True, exist_ok=True)
    claim(args.keep, {"seed": args.seed, "factor": args.real_time_factor, "commit": commit()}, "runs")
    rows = []
    for name in list(PLANTS)[: args.plants]:
        rows.append(_row(args, name))
        fixed, learned = rows[-1]["fixed"], rows[-1]["learned"]
        note(f"{name}: {fixed['pace']:.2f} rad/s without, {learned['pace']:.2f} rad/s with learning")
    judged(rows)
    columns = ("plant", "fixed [rad/s]", "learned [rad/s]", "θ taken", "undone", "slow", "repaired")
    shown = [
        [
            row["name"],
            row["fixed"]["pace"],
            row["learned"]["pace"],
            *(row["learned"][key] for key in ("thetas_taken", "thetas_undone")),
            row["slow"],
            row["repaired"],
        ]
        for row in rows
    ]
    results = {
        "plants": rows,
        "slow": sum(row["slow"] for row in rows),
        "repaired": sum(row["repaired"] for row in rows),
        "harmed": sum(row["harmed"] for row in rows),
        "passed": len(rows) == len(PLANTS) and not any(row["harmed"] for row in rows),
    }
    return Findings(results, lines=[table("learning beside the planner", columns, shown)], seed=args.seed)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this experiment."""
    add = parser.add_argument
    add("--plants", type=positive_int, default=len(PLANTS), metavar="N", help="the first N plants")
    add("--seed", type=natural, default=52000, metavar="S", help="seed of every run")
    add(
        "--real-time-factor",
        type=positive,
        default=1.0,
        metavar="FACTOR",
        help="simulated seconds per second",
    )
    add("--keep", type=Path, required=True, metavar="FOLDER", help="recordings; the same command resumes")


main = experiment(__spec__.name, __doc__, gate, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
