"""Same inputs, same bits: a scene rolled out repeatedly in several fresh processes, with other
motions in between.

Between two replays the engine simulates another motion, so that retained guesses differ; each
process loads the scene again. Replays are equal if every bit of every position and velocity is.
Required, as written down before the measurement: all of them, in every engine.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import Counter
from typing import Any

import mujoco
import numpy as np

from dexengines import ENGINES, load
from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.trials.pool import in_processes
from experiments.engines.scenes import SCENES
from experiments.engines.suite import first_state
from experiments.harness import Findings, experiment

STEPS = 40
CHOSEN = ("grip", "stack", "tumble")


def hashes(name: str, engine: str, runs: int, process: int) -> list[str]:
    """Return the hash of each replay in one process; the first has a fresh scene."""
    scene = SCENES[name]
    made = load(mujoco.MjModel.from_xml_string(scene.xml), engine)
    start = first_state(made, scene)
    controls = np.tile(scene.control, (STEPS, 1)) if scene.control else np.zeros((STEPS, made.model.nu))
    rng, found = np.random.default_rng(process), []
    for _ in range(runs):
        states = made.rollout(start, controls)
        found.append(hashlib.sha256(states.q.tobytes() + states.v.tobytes()).hexdigest())
        made.rollout(
            start._replace(v=start.v + 0.1 * rng.standard_normal(start.v.shape)), controls[: STEPS // 4]
        )
    return found


def replays(args: argparse.Namespace) -> Findings:
    """Run the selected scenes and engines."""
    rows: list[dict[str, Any]] = []
    share = -(-args.runs // args.processes)
    for name in args.scenes:
        for engine in args.engines:
            note(f"{name} in {engine}")
            n = args.processes
            parts = in_processes(hashes, args.jobs, [name] * n, [engine] * n, [share] * n, list(range(n)))
            counts = Counter(h for part in parts for h in part)
            rows.append(
                {
                    "scene": name,
                    "engine": engine,
                    "same": max(counts.values()),
                    "of": counts.total(),
                    "kinds": len(counts),
                }
            )
    results = {
        "steps": STEPS,
        "processes": args.processes,
        "rows": rows,
        "passed": all(r["same"] == r["of"] for r in rows),
    }
    shown = [[r["scene"], r["engine"], r["same"], r["of"]] for r in rows]
    return Findings(
        results, None, [table("replays with the same bits", ("scene", "engine", "same", "of"), shown)]
    )


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--runs",
        type=arguments.positive_int,
        default=1000,
        metavar="N",
        help="replays of each scene in each engine",
    )
    p.add_argument(
        "--processes",
        type=arguments.positive_int,
        default=4,
        metavar="N",
        help="fresh processes that share them",
    )
    p.add_argument("--jobs", type=arguments.positive_int, default=1, metavar="N", help="processes at a time")
    p.add_argument(
        "--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES), help="engines to run"
    )
    p.add_argument("--scenes", nargs="+", choices=list(SCENES), default=list(CHOSEN), help="scenes to run")


main = experiment(__spec__.name, __doc__, replays, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
