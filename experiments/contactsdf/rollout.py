"""Batched rollouts by the contact model against MuJoCo's of the same plans: time on one core, and how
far the objects end apart.

States come from closed loops of the sampling planner; plans are splines through four perturbed joint
targets over one second, as the planner's, at the same states and velocities for both. Both planners'
rollouts take targets every 10 ms; the contact model takes steps of 50 ms. Times are the least of
repeated calls, in processor time of the thread, which other load disturbs least.

Required: 32 plans of 20 steps in 15 ms, 256 in 100 ms.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import make_interp_spline

from dexstack.cli.output import table
from dexstack.control.params import MpcParams, PlannerParams, SamplingParams
from dexstack.control.planners.sampling import rollouts_of
from dexstack.graph.settings import Spec
from dexstack.sim.loop import Loop
from dexstack.trials.sweep import loop_of
from experiments.harness import Findings, experiment

TASKS = {"palm_turn": 6.0, "reorient": 10.0}
"""Length of the trial that supplies states [s]."""
REQUIRED = {32: 0.015, 256: 0.1}
"""Processor time by number of plans [s]."""
KNOTS, REPEATS = 4, 20
AFTER = (0.1, 0.5, 1.0)
"""Times at which the objects' poses are compared [s]."""


class State(NamedTuple):
    """State at the start of a search."""

    q: np.ndarray
    pose_WO: np.ndarray
    qd: np.ndarray
    twist_WO: np.ndarray


def states(loop: Loop, seconds: float, count: int, seed: int) -> list[State]:
    """Return states of one trial, evenly spread over its time."""
    recording = loop.run(0, seed, seconds).recording
    rows = np.linspace(len(recording["t"]) // 10, len(recording["t"]) - 1, count).astype(int)
    return [State(*(recording[name][i] for name in ("q", "pose_WO", "qd", "twist_WO"))) for i in rows]


def plans(loop: Loop, state: State, count: int, grid: int, rng: np.random.Generator) -> np.ndarray:
    """Return joint targets (count, grid, N) over the horizon, the spread of knot k as the planner's."""
    robot, mpc, sampling = loop.setup.robot, loop.params[MpcParams], loop.params[SamplingParams]
    spread = sampling.sampling_spread * mpc.u_max * np.arange(1, KNOTS + 1)[:, None]
    knots = state.q + spread * rng.normal(size=(count, KNOTS, len(state.q)))
    basis = make_interp_spline(np.linspace(0.0, 1.0, KNOTS), np.eye(KNOTS))(np.arange(grid) / grid)
    return np.clip(np.einsum("hk,bkn->bhn", basis, knots), robot.lower, robot.upper)


def angles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the angles between quaternions [rad]."""
    return 2 * np.arccos(np.clip(np.abs(np.sum(a * b, axis=-1)), 0.0, 1.0))


def least_time(call: Any, repeats: int) -> float:
    """Return the least processor time of a call [s]; the first is not counted."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.thread_time()
        call()
        times.append(time.thread_time() - begin)
    return min(times)


def compare(task: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return times and differences for the states of one task."""
    loop = loop_of(Spec(task, overrides=(("planner", "sampling"), ("sampling_threads", 1))))
    rng = np.random.default_rng(args.seed)
    mpc, usual = loop.params[MpcParams], loop.params[PlannerParams]
    both = {}
    for name in ("mujoco", "contactsdf"):
        params = replace(loop.params[SamplingParams], sampling_rollouts=name)
        both[name], substeps = rollouts_of(loop.setup.robot, loop.setup.obj, mpc, params, usual)
    grid = mpc.horizon * substeps
    found: dict[str, Any] = {"time_s": {}}
    position, orientation, moved, turned = [], [], [], []
    for state in states(loop, TASKS[task], args.states, args.seed):
        targets = plans(loop, state, 32, grid, rng)
        ends = {
            name: rollouts.roll(rollouts.standing(*state), targets, substeps)[1]
            for name, rollouts in both.items()
        }
        position.append(np.linalg.norm(ends["contactsdf"][..., :3] - ends["mujoco"][..., :3], axis=-1))
        orientation.append(angles(ends["contactsdf"][..., 3:], ends["mujoco"][..., 3:]))
        moved.append(np.linalg.norm(ends["mujoco"][..., :3] - state.pose_WO[:3], axis=-1))
        turned.append(angles(ends["mujoco"][..., 3:], state.pose_WO[3:]))
    rows = [round(after / mpc.step) - 1 for after in AFTER]
    for name, values in (
        ("position_m", position),
        ("orientation_rad", orientation),
        ("moved_m", moved),
        ("turned_rad", turned),
    ):
        at = np.array(values)[:, :, rows].reshape(-1, len(rows))
        found[name] = {"median": np.median(at, axis=0).tolist(), "p90": np.quantile(at, 0.9, axis=0).tolist()}
    for count in REQUIRED:
        targets = plans(loop, state, count, grid, rng)
        for name, rollouts in both.items():
            start, repeats = rollouts.standing(*state), REPEATS if name == "contactsdf" else 3
            found["time_s"][f"{name} {count}"] = least_time(
                lambda r=rollouts, s=start, t=targets: r.roll(s, t, substeps), repeats
            )
    return found


def make(args: argparse.Namespace) -> Findings:
    """Measure on the states of every task."""
    tasks = {task: compare(task, args) for task in TASKS}
    timing = [
        {"states": task, "plans": n}
        | {name: found["time_s"][f"{name} {n}"] for name in ("mujoco", "contactsdf")}
        for task, found in tasks.items()
        for n in REQUIRED
    ]
    names = ("position_m", "moved_m", "orientation_rad", "turned_rad")
    differences = [
        {"states": task, "after_s": after, "n": 32 * args.states}
        | {f"{name}_{part}": found[name][part][k] for name in names for part in ("median", "p90")}
        for task, found in tasks.items()
        for k, after in enumerate(AFTER)
    ]
    passed = all(row["contactsdf"] <= REQUIRED[row["plans"]] for row in timing)
    views = [
        table(
            "processor time of the rollouts of a search",
            ("states of", "plans", "MuJoCo [ms]", "contact model [ms]"),
            [[row["states"], row["plans"], 1e3 * row["mujoco"], 1e3 * row["contactsdf"]] for row in timing],
        ),
        table(
            "difference of the object's pose, median",
            ("states of", "after [s]", "position [mm]", "moved [mm]", "orientation [rad]", "turned [rad]"),
            [
                [
                    row["states"],
                    row["after_s"],
                    1e3 * row["position_m_median"],
                    1e3 * row["moved_m_median"],
                    row["orientation_rad_median"],
                    row["turned_rad_median"],
                ]
                for row in differences
            ],
        ),
    ]
    return Findings({"passed": passed, "timing": timing, "differences": differences}, None, views, args.seed)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiment's arguments."""
    parser.add_argument("--states", type=int, default=10, help="states of each task, with 32 plans each")
    parser.add_argument("--seed", type=int, default=0)


main = experiment("experiments.contactsdf.rollout", __doc__, make, arguments=arguments, pinned=True)

if __name__ == "__main__":
    sys.exit(main())
