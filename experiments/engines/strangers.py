"""Scenes with closed-form truth in every engine at its defaults: right, wrong and said, or wrong and
silent.

Truths, tolerances and claims are in ``strangers_scenes.py``. Penetration is MuJoCo's distance of the
model's geoms for all engines; gained energy is what a state has beyond the first one and the work of
motors. Scenes that an engine does not claim are run as well: what it does not claim, it still has to
say where it is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from dexengines import ENGINES, load, scene as engine_scene
from dexengines.errors import EngineError
from dexengines.scene import State
from dexstack.cli.output import note, table
from experiments.engines.strangers_mjcf import Stranger
from experiments.engines.strangers_scenes import CLAIMS, MOST, REQUIRED, SCENES
from experiments.engines.suite import depths, first_state
from experiments.harness import Findings, experiment

FRAMES = 100
"""Number of states of a run in which depth and energy are measured."""
DEEP = 2e-3
"""Depth of a deep frame [m]."""
RIGHT, SAID, SILENT = "right", "wrong, said", "wrong, silent"


def rollout(made: engine_scene.Scene, scene: Stranger) -> State:
    """Return the states (T + 1, …) of a scene in an engine."""
    steps = round(scene.seconds / made.dt)
    controls = np.tile(scene.control, (steps, 1)) if scene.control else np.zeros((steps, made.model.nu))
    return made.rollout(first_state(made, scene), controls)


def gained(model: mujoco.MjModel, states: State, control: tuple[float, ...]) -> float:
    """Return the greatest energy of a state beyond the first one's and the motors' work [J].

    Motors have a constant force, so that their work is this times their way.
    """
    data, found = mujoco.MjData(model), []
    for q, v in zip(states.q, states.v, strict=True):
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_energyPos(model, data)
        mujoco.mj_energyVel(model, data)
        work = np.dot(control, data.actuator_length) if control else 0.0
        found.append(float(data.energy.sum()) - work)
    return float(np.max(found) - found[0])


def judged(scene: Stranger, engine: str) -> dict[str, Any]:
    """Return the row of one scene in one engine."""
    row: dict[str, Any] = {
        "scene": scene.name,
        "engine": engine,
        "claimed": scene.name in CLAIMS[engine],
        "truth": scene.truth,
        "tolerance": scene.tolerance,
    }
    begin = time.process_time()
    try:
        made = load(mujoco.MjSpec.from_string(scene.xml), engine)
        made.step(first_state(made, scene), scene.control or None)  # compiles before the timing
        row["load_s"] = time.process_time() - begin
        begin = time.process_time()
        states = rollout(made, scene)
    except (EngineError, FloatingPointError) as error:
        return row | {"verdict": SAID, "said": str(error)}
    row["run_s"] = time.process_time() - begin
    row["step_s"] = row["run_s"] / (len(states.q) - 1)
    row["figure"], row["said"] = scene.figure(made.model, states), made.trouble()
    right = abs(row["figure"] - scene.truth) <= scene.tolerance
    row["verdict"] = RIGHT if right else SAID if row["said"] else SILENT
    some = State(*(np.asarray(x)[:: max(1, len(states.q) // FRAMES)] for x in states))
    if not (made.fills and made.notes):  # MuJoCo would measure the hulls
        depth = depths(made, some.q)
        row["depth_worst_m"], row["deep_share"] = float(depth.max()), float((depth > DEEP).mean())
    row["gained_j"] = gained(made.model, some, scene.control)
    return row


def counted(rows: list[dict[str, Any]], engine: str) -> dict[str, Any]:
    """Return the verdicts of an engine."""
    of = [r for r in rows if r["engine"] == engine]
    claimed = [r["verdict"] for r in of if r["claimed"]]
    right = claimed.count(RIGHT)
    return {
        "engine": engine,
        "claimed": len(claimed),
        "right": right,
        "said": claimed.count(SAID),
        "silent": claimed.count(SILENT),
        "silent_not_claimed": sum(r["verdict"] == SILENT and not r["claimed"] for r in of),
        "right_but_said": sum(r["verdict"] == RIGHT and bool(r["said"]) for r in of),
        "required": REQUIRED[engine],
        "reached": right >= REQUIRED[engine] * len(claimed) and len(claimed) >= MOST[engine],
        "run_s": sum(r.get("run_s", 0.0) for r in of),
    }


def shown(row: dict[str, Any]) -> str:
    """Return the cell of one scene and one engine."""
    figure = f"{row['figure']:.4g}" if "figure" in row else "–"
    verdict = "" if row["verdict"] == RIGHT else f" ({row['verdict']})"
    return figure + verdict + ("" if row["claimed"] else " *")


def strangers(args: argparse.Namespace) -> Findings:
    """Run the selected scenes and engines, or take them from the kept rows."""
    rows: list[dict[str, Any]] = []
    if args.keep is not None and args.keep.exists():
        rows = [json.loads(line) for line in args.keep.read_text().splitlines()]
    done = {(r["scene"], r["engine"]) for r in rows}
    rows = [r for r in rows if r["scene"] in args.scenes and r["engine"] in args.engines]
    for engine in args.engines:
        for name in args.scenes:
            if (name, engine) in done:
                continue
            row = judged(SCENES[name], engine)
            note(f"{name} in {engine}: {row['verdict']}")
            rows.append(row)
            if args.keep is not None:
                with args.keep.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    engines = [counted(rows, engine) for engine in args.engines]
    cells = {(r["scene"], r["engine"]): r for r in rows}
    wide = [
        {
            "scene": name,
            "says": SCENES[name].says,
            "truth": SCENES[name].truth,
            "tolerance": SCENES[name].tolerance,
            **{engine: shown(cells[name, engine]) for engine in args.engines},
        }
        for name in args.scenes
    ]
    silent = sum(e["silent"] + e["silent_not_claimed"] for e in engines)
    results = {
        "core": args.core,
        "engines": engines,
        "scenes": wide,
        "rows": rows,
        "silent": silent,
        "passed": silent == 0 and all(e["reached"] for e in engines),
    }
    lines = [
        table("verdicts", tuple(engines[0]), [list(e.values()) for e in engines]),
        table("engines × scenes (* not claimed)", tuple(wide[0]), [list(r.values()) for r in wide]),
    ]
    return Findings(results, None, lines)


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES), help="engines to run"
    )
    p.add_argument("--scenes", nargs="+", choices=list(SCENES), default=list(SCENES), help="scenes to run")
    p.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="append every row to this file, and resume an interrupted run",
    )


main = experiment(__spec__.name, __doc__, strangers, arguments=_arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
