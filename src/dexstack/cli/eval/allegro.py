"""``dexstack eval allegro``: seeded trials without ROS, with the controller and the plant of ``dexstack up sim``."""

from __future__ import annotations

import argparse
import functools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dexstack.cli import arguments
from dexstack.cli.arguments import MEASURED
from dexstack.cli.eval.pool import in_processes
from dexstack.cli.output import add_json_argument, errors, note, publish, table, times
from dexstack.engines import PLANTS
from dexstack.tasks.palm_turn import PUBLISHED, AllegroTask

if TYPE_CHECKING:
    import numpy as np

    from dexstack.sim.loop import ClosedLoop, LoopSpec


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``eval allegro``."""
    p = subparsers.add_parser(
        "allegro",
        help="turn an object on the palm of the Allegro hand",
        description="Trials of turning an object on the palm. Exit code 0 only if the success rate of --require was reached.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--object", default="cube", help="name of an object, or the path of an object's YAML")
    p.add_argument("--hand", default="right", help="right, left, or the path of a hand's YAML")
    p.add_argument("--plant", default="mujoco", choices=list(PLANTS), help="physics engine")
    p.add_argument("--model", help="time-stepping model of the planner (default: the parameter files')")
    p.add_argument("--contact-set", metavar="RULE", help="contacts along the plan: frozen, propagated, detected (default: the files')")
    p.add_argument("--theta", metavar="NAME", help="learned θ of the planner: a name or a file (see `dexstack learn --save`)")
    p.add_argument("--trials", type=arguments.positive_int, default=12, metavar="N")
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S", help="trial k draws its start pose with seed S + k")
    p.add_argument(
        "--goal-yaw",
        type=arguments.angle,
        nargs="+",
        metavar="DEG",
        help="turn from the nominal start; several are taken in turn (default: the paper's)",
    )
    p.add_argument("--seconds", type=arguments.positive, metavar="S", help="simulated time of a trial (default: the paper's)")
    p.add_argument(
        "--period", type=arguments.positive, metavar="S", help="time between two plans (default: the parameter files' pose_period)"
    )
    p.add_argument(
        "--latency",
        type=arguments.latency,
        metavar="S|measured",
        help="from pose to command; 'measured': each computation's own wall time, which no seed repeats (default: the parameter files')",
    )
    p.add_argument("--require", type=arguments.rate, default=1.0, metavar="RATE", help="smallest success rate for exit code 0")
    p.add_argument("--params", action="append", default=[], metavar="FILE", help="ROS 2 parameter file that wins over config/allegro.yaml")
    arguments.add_set_argument(p)
    p.add_argument("--jobs", type=arguments.positive_int, default=1, metavar="N", help="processes that run trials side by side")
    p.add_argument("--results", type=Path, help="folder for the picture (default: a new one in results/)")
    add_json_argument(p)


STEP = 0.1
"""Length of one of the paper's steps [s]: the model's h."""


@dataclass(frozen=True)
class Outcome:
    """What one trial sends back from its process."""

    seed: int
    goal_yaw: float
    reached: bool
    reached_s: float
    dropped: bool
    orientation_error: float
    position_error: float
    wall_s: float
    t: np.ndarray
    orientation_errors: np.ndarray
    position_errors: np.ndarray
    solve_s: np.ndarray
    contacts: np.ndarray
    bad_solves: int
    stalls: int
    """How often the rollout stalled and the hand let go."""
    succeeded: bool
    """At the end the object is in the hand and turned as asked."""
    trouble: str
    """What the plant could not do as it should, see :class:`dexstack.engines.base.WatchedPlant`."""


@functools.cache
def _loop(spec: LoopSpec) -> ClosedLoop:
    """This process's loop, built for its first trial."""
    from dexstack.process.compilation import use_compilation_cache
    from dexstack.sim.loop import ClosedLoop

    use_compilation_cache()
    return ClosedLoop(spec)


def _trial(spec: LoopSpec, goal_yaw: float, seed: int, seconds: float, measured: bool) -> Outcome:
    import numpy as np

    from dexstack.control.mpc import SolveStatus
    from dexstack.engines.base import WatchedPlant

    loop = _loop(spec)
    start = time.perf_counter()
    trial = loop.trial(goal_yaw, seed, seconds, measured_latency=measured)
    wall = time.perf_counter() - start
    task, r = AllegroTask(loop.start, goal_yaw), trial.recording
    return Outcome(
        seed=seed,
        goal_yaw=goal_yaw,
        stalls=trial.stalls,
        succeeded=trial.succeeded,
        reached=trial.reached,
        reached_s=trial.reached_s,
        dropped=trial.dropped,
        orientation_error=trial.orientation_error,
        position_error=trial.position_error,
        wall_s=wall,
        t=r["t"],
        orientation_errors=np.array([task.orientation_error(pose) for pose in r["pose_WO"]]),
        position_errors=np.array([task.position_error(pose) for pose in r["pose_WO"]]),
        solve_s=r["solve_s"],
        contacts=r["contacts"],
        bad_solves=int(np.isin(r["status"], (SolveStatus.BAD_INPUT, SolveStatus.DIVERGED)).sum()),
        trouble=loop.plant.trouble() if isinstance(loop.plant, WatchedPlant) else "",
    )


def run(args: argparse.Namespace) -> int:
    """Run the trials.

    Returns:
        0 when at least the required share of trials reached its goal, otherwise 1.
    """
    from dexstack.sim.loop import LoopParams, LoopSpec, read_parts

    overrides: dict[str, Any] = dict(args.settings)
    if args.period is not None:
        overrides["pose_period"] = args.period
    if args.latency is not None and args.latency != MEASURED:
        overrides["latency"] = args.latency
    if args.model is not None:
        overrides["model"] = args.model
    if args.contact_set is not None:
        overrides["contact_set"] = args.contact_set
    if args.theta is not None:
        overrides["theta"] = args.theta
    files = tuple(str(Path(f).absolute()) for f in args.params)
    spec = LoopSpec(args.object, args.hand, files, tuple(sorted(overrides.items())), args.plant)
    timing = read_parts(spec).params[LoopParams]

    published = PUBLISHED.get(args.object, PUBLISHED["cube"])
    args.goal_yaw = args.goal_yaw or list(published.goals_deg)
    args.seconds = args.seconds or published.steps * STEP
    goals = [math.radians(args.goal_yaw[k % len(args.goal_yaw)]) for k in range(args.trials)]
    note(f"{args.trials} trials of {args.seconds:g} s in {min(args.jobs, args.trials)} process(es); the first one compiles the controller")
    outcomes = []
    for k, o in enumerate(_outcomes(args, spec, goals)):
        outcomes.append(o)
        how = "dropped" if o.dropped else f"reached after {o.reached_s:.1f} s" if o.reached else "not reached"
        note(
            f"trial {k + 1}/{args.trials}: {math.degrees(o.goal_yaw):+.0f}° {how}, "
            f"{o.stalls} stalls, {o.orientation_error:.3f} rad off at the end" + (f"; plant: {o.trouble}" if o.trouble else "")
        )

    results = _results(args, outcomes)
    results.update(period_s=timing.pose_period, latency_s=None if args.latency == MEASURED else timing.latency)
    folder = args.results or Path("results") / f"eval-{args.subcommand}-{datetime.now():%Y%m%d-%H%M%S}"
    results["plot"] = str(_plot(folder / "trials.png", args, outcomes))
    passed = results["success_rate"] >= args.require
    publish(args, f"eval {args.subcommand}", results, *_views(args, results, passed), seed=args.seed)
    return 0 if passed else 1


def _outcomes(args: argparse.Namespace, spec: LoopSpec, goals: Sequence[float]) -> Iterator[Outcome]:
    """The trials in order."""
    n = args.trials
    measured = args.latency == MEASURED
    yield from in_processes(_trial, args.jobs, [spec] * n, goals, range(args.seed, args.seed + n), [args.seconds] * n, [measured] * n)


def _summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "trials": len(outcomes),
        "reached": sum(o.reached for o in outcomes),
        "dropped": sum(o.dropped for o in outcomes),
        "stalls": sum(o.stalls for o in outcomes),
        "success_rate": sum(o.succeeded for o in outcomes) / len(outcomes),
        "reached_s": errors(o.reached_s for o in outcomes),
        "orientation_error_rad": errors(o.orientation_error for o in outcomes),
        "position_error_m": errors(o.position_error for o in outcomes),
    }


def _results(args: argparse.Namespace, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    import numpy as np

    simulated = [float(o.t[-1]) for o in outcomes]
    solves = np.concatenate([o.solve_s for o in outcomes])
    by_goal = {goal: _summary([o for o in outcomes if o.goal_yaw == goal]) for goal in dict.fromkeys(o.goal_yaw for o in outcomes)}
    return {
        "task": args.subcommand,
        "object": args.object,
        "hand": args.hand,
        "plant": args.plant,
        "seconds": args.seconds,
        "required_success_rate": args.require,
        **_summary(outcomes),
        "solve_s": times(solves),
        "bad_solves": sum(o.bad_solves for o in outcomes),
        "contacts": errors(np.concatenate([o.contacts for o in outcomes])),
        "rate_hz": len(solves) / max(sum(simulated), 1e-9),
        "real_time_factor": sum(simulated) / max(sum(o.wall_s for o in outcomes), 1e-9),
        "goals": [{"goal_yaw_rad": goal, **summary} for goal, summary in by_goal.items()],
        "each": [
            {
                "seed": o.seed,
                "goal_yaw_rad": o.goal_yaw,
                "reached": o.reached,
                "reached_s": o.reached_s,
                "dropped": o.dropped,
                "stalls": o.stalls,
                "orientation_error_rad": o.orientation_error,
                "position_error_m": o.position_error,
                "plant_trouble": o.trouble,
            }
            for o in outcomes
        ],
    }


def _plot(path: Path, args: argparse.Namespace, outcomes: Sequence[Outcome]) -> Path:
    from dexstack.report.plot import TOLERANCE
    from dexstack.report.trials import write_trials_plot

    curves = [(f"{math.degrees(o.goal_yaw):+.0f}°", o.succeeded, o.t, o.orientation_errors, o.position_errors) for o in outcomes]
    title = f"{args.object}: {sum(o.succeeded for o in outcomes)} of {len(outcomes)} trials succeeded"
    return write_trials_plot(path, curves, TOLERANCE, title)


def _views(args: argparse.Namespace, results: dict[str, Any], passed: bool) -> list[Any]:
    def row(name: str, s: dict[str, Any]) -> list[Any]:
        turn, shift = s["orientation_error_rad"], s["position_error_m"]
        return [
            name,
            s["trials"],
            f"{100 * s['success_rate']:.0f} %",
            s["dropped"],
            s["stalls"],
            s["reached_s"]["median"],
            f"{turn['mean']:.3f} ± {turn['std']:.3f}",
            turn["median"],
            f"{1e3 * shift['mean']:.1f} ± {1e3 * shift['std']:.1f}",
        ]

    columns = ("goal", "n", "success", "dropped", "stalls", "after [s]", "error [rad]", "median", "position [mm]")
    rows = [row(f"{math.degrees(g['goal_yaw_rad']):+.0f}°", g) for g in results["goals"]]
    if len(rows) > 1:
        rows.append(row("all", results))
    paper = PUBLISHED.get(args.object)
    if paper:
        rows.append(["the paper", 6, None, None, None, None, paper.orientation_error, None, None])
    solve = results["solve_s"]
    verdict = "at least" if passed else "fewer than"
    return [
        table(f"{args.object} on the {args.hand} Allegro hand ({args.plant}), {args.seconds:g} s each", columns, rows),
        f"detection and solve: p50 {1e3 * solve['p50']:.2f} ms, p99 {1e3 * solve['p99']:.2f} ms of processor time, n = {solve['n']}; "
        f"{results['rate_hz']:.0f} plans per simulated second; real-time factor {results['real_time_factor']:.2f} per process",
        f"{100 * results['success_rate']:.0f} % succeeded, {verdict} the {100 * args.require:g} % asked for; picture in {results['plot']}",
    ]
