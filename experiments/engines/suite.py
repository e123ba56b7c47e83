"""Scenes with a known outcome in every engine: one threshold per scene, time per step, penetration
and energy.

Penetration is MuJoCo's distance of the model's geoms for all engines; energy is reported for scenes
that conserve it. Scenes that an engine does not claim are not run.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import mujoco
import numpy as np

from dexengines import ENGINES, load, scene as engine_scene
from dexengines.scene import State
from dexstack.cli.output import note, table
from experiments.engines.scenes import SCENES, Scene
from experiments.harness import Findings, experiment

EVERY = 10
"""Steps between two samples of penetration."""
FRAMES = 25
"""Approximate number of samples that a result keeps of a scene."""


def first_state(made: engine_scene.Scene, scene: Scene) -> State:
    """Return the initial state of a scene."""
    state = made.reset()
    q, v = state.q.copy(), state.v.copy()
    for values, changes in ((q, scene.q), (v, scene.v)):
        for entry, value in changes.items():
            values[entry] = value
    return state._replace(q=q, v=v)


def rollout(made: engine_scene.Scene, scene: Scene) -> State:
    """Return the states (T + 1, …) of a scene in an engine."""
    steps = round(scene.seconds / made.dt)
    controls = np.tile(scene.control, (steps, 1)) if scene.control else np.zeros((steps, made.model.nu))
    return made.rollout(first_state(made, scene), controls)


def depths(made: engine_scene.Scene, positions: np.ndarray) -> np.ndarray:
    """Return the depth of the deepest overlap (K,) at positions (K, nq) [m]."""
    data, found = mujoco.MjData(made.model), []
    geoms = made.collision.geoms
    for q in positions:
        data.qpos[:] = q
        mujoco.mj_kinematics(made.model, data)
        gaps = [
            mujoco.mj_geomDistance(made.model, data, geoms[p.a].id, geoms[p.b].id, 1.0, None)
            for p in made.collision.pairs
        ]
        found.append(max(0.0, -min(gaps, default=0.0)))
    return np.array(found)


def energies(model: mujoco.MjModel, states: State) -> np.ndarray:
    """Return the energy of every :data:`EVERY`-th state [J]."""
    data, found = mujoco.MjData(model), []
    for q, v in zip(states.q[::EVERY], states.v[::EVERY], strict=True):
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_energyPos(model, data)
        mujoco.mj_energyVel(model, data)
        found.append(data.energy.sum())
    return np.array(found)


def judged(scene: Scene, engine: str) -> dict[str, Any]:
    """Return the row of one scene in one engine."""
    row: dict[str, Any] = {
        "scene": scene.name,
        "engine": engine,
        "claimed": not scene.only or engine in scene.only,
    }
    if not row["claimed"]:
        return row
    made = load(mujoco.MjModel.from_xml_string(scene.xml), engine)
    made.step(first_state(made, scene), scene.control or None)  # compiles before the timing
    begin = time.process_time()
    states = rollout(made, scene)
    row["step_s"] = (time.process_time() - begin) / (len(states.q) - 1)
    row["figure"], row["limit"] = scene.judge(states), scene.limit
    row["reached"] = bool(row["figure"] <= scene.limit)
    depth = depths(made, states.q[::EVERY])
    row["depth_worst_m"], row["depth_mean_m"] = float(depth.max()), float(depth.mean())
    row["depth_m"] = depth[:: max(1, len(depth) // FRAMES)]
    if scene.conserves:
        energy = energies(made.model, states)
        row["energy_error_j"] = float(np.abs(energy - energy[0]).max())
    row["trouble"] = made.trouble()
    return row


def suite(args: argparse.Namespace) -> Findings:
    """Run the selected scenes and engines."""
    rows = []
    for name in args.scenes:
        for engine in args.engines:
            note(f"{name} in {engine}")
            rows.append(judged(SCENES[name], engine))
    claimed = [row for row in rows if row["claimed"]]
    passed = {e: sum(r["reached"] for r in claimed if r["engine"] == e) for e in args.engines}
    of = {e: sum(r["engine"] == e for r in claimed) for e in args.engines}
    results = {
        "core": args.core,
        "rows": rows,
        "reached": passed,
        "of": of,
        "passed": all(r["reached"] for r in claimed),
    }
    said = {name: SCENES[name].says for name in args.scenes}
    shown = [
        [r["scene"], r["engine"], "not claimed", *[""] * 6]
        if not r["claimed"]
        else [
            r["scene"], r["engine"], "yes" if r["reached"] else "no", r["figure"], r["limit"],
            *(1e6 * r[key] for key in ("step_s", "depth_worst_m", "depth_mean_m")),
            r.get("energy_error_j", ""),
        ]
        for r in rows
    ]  # fmt: skip
    columns = (
        "scene",
        "engine",
        "passed",
        "figure",
        "limit",
        "step [µs]",
        "worst depth [µm]",
        "mean depth [µm]",
        "energy error [J]",
    )
    lines = [table("scenes × engines", columns, shown), *(f"{name}: {text}" for name, text in said.items())]
    return Findings(results, None, lines)


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES), help="engines to run"
    )
    p.add_argument("--scenes", nargs="+", choices=list(SCENES), default=list(SCENES), help="scenes to run")


main = experiment(__spec__.name, __doc__, suite, arguments=_arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
