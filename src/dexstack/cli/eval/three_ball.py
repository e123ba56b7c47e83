"""``dexstack eval three-ball``: seeded trials of moving, turning and flipping an object on the floor with three balls."""

from __future__ import annotations

import argparse
import functools
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dexstack.cli import arguments
from dexstack.cli.eval.pool import in_processes
from dexstack.cli.output import add_json_argument, errors, note, publish, table, times

if TYPE_CHECKING:
    import numpy as np

    from dexstack.sim.loop import LoopSpec, ThreeBallLoop

PAPER: dict[str, tuple[tuple[str, float, float, float, float, float], ...]] = {
    "cube": (("paper, ContactSDF-MPC", 13.62, 3.14, 0.11, 0.11, 31.8), ("paper, QP-MPC", 26.11, 28.24, 0.24, 0.35, 80.8)),
    "foambrick": (("paper, ContactSDF-MPC", 8.93, 2.31, 0.24, 0.02, 25.0), ("paper, QP-MPC", 8.59, 3.17, 0.19, 0.05, 51.6)),
    "stick": (("paper, ContactSDF-MPC", 22.06, 5.90, 0.26, 0.19, 52.8), ("paper, QP-MPC", 30.54, 8.72, 0.37, 0.22, 91.9)),
}
"""Per object the paper's rows, 7 trials each: mean and standard deviation of the position error [mm] and of the orientation error [rad],
mean solve time [ms] on an i9-13900K, without contact detection."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``eval three-ball``."""
    p = subparsers.add_parser(
        "three-ball",
        help="move, turn and flip an object on the floor with three balls",
        description="Trials towards the paper's targets, five turns then two flips, and so on; errors are those of the last plan. A trial "
        "succeeds within 20 mm and 0.25 rad. Exit code 0 only if the success rate of --require was reached.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--object", default="cube", help="name of an object, or the path of an object's YAML")
    p.add_argument("--plant", default="mujoco", choices=["mujoco"], help="physics engine")
    p.add_argument("--model", help="time-stepping model of the planner (default: the parameter files')")
    p.add_argument("--theta", metavar="NAME", help="learned θ of the planner: a name or a file (see `dexstack learn --save`)")
    p.add_argument("--trials", type=arguments.positive_int, default=7, metavar="N")
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S", help="draws the targets; trial k starts with seed S + k")
    p.add_argument("--steps", type=arguments.positive_int, metavar="H", help="plans of a trial (default: the paper's, 200 or 300)")
    p.add_argument("--require", type=arguments.rate, default=0.95, metavar="RATE", help="smallest success rate for exit code 0")
    p.add_argument("--params", action="append", default=[], metavar="FILE", help="parameter file that wins over config/three_ball.yaml")
    arguments.add_set_argument(p)
    p.add_argument("--jobs", type=arguments.positive_int, default=1, metavar="N", help="processes that run trials side by side")
    p.add_argument("--results", type=Path, help="folder for the picture (default: a new one in results/)")
    add_json_argument(p)


@dataclass(frozen=True)
class Outcome:
    """What one trial sends back from its process."""

    seed: int
    target: str
    goal_WO: np.ndarray
    succeeded: bool
    orientation_error: float
    position_error: float
    wall_s: float
    t: np.ndarray
    orientation_errors: np.ndarray
    position_errors: np.ndarray
    solve_s: np.ndarray
    bad_solves: int

    @property
    def kind(self) -> str:
        """Turn or flip."""
        return self.target.split()[0]


@functools.cache
def _loop(spec: LoopSpec) -> ThreeBallLoop:
    """This process's loop, built for its first trial."""
    from dexstack.process.compilation import use_compilation_cache
    from dexstack.sim.loop import ThreeBallLoop

    use_compilation_cache()
    return ThreeBallLoop(spec)


def _trial(spec: LoopSpec, target: str, goal_WO: np.ndarray, seed: int, steps: int) -> Outcome:
    import numpy as np

    from dexstack.control.mpc import SolveStatus
    from dexstack.tasks.three_ball import ThreeBallTask

    loop = _loop(spec)
    task = ThreeBallTask(loop.start, goal_WO)
    start = time.perf_counter()
    trial = loop.run(task, seed, steps * loop.timing.pose_period)
    r = trial.recording
    return Outcome(
        seed=seed,
        target=target,
        goal_WO=goal_WO,
        succeeded=trial.succeeded,
        orientation_error=trial.orientation_error,
        position_error=trial.position_error,
        wall_s=time.perf_counter() - start,
        t=r["t"],
        orientation_errors=np.array([task.orientation_error(pose) for pose in r["pose_WO"]]),
        position_errors=np.array([task.position_error(pose) for pose in r["pose_WO"]]),
        solve_s=r["solve_s"],
        bad_solves=int(np.isin(r["status"], (SolveStatus.BAD_INPUT, SolveStatus.DIVERGED)).sum()),
    )


def run(args: argparse.Namespace) -> int:
    """Run the trials.

    Returns:
        0 when at least the required share of trials succeeded, otherwise 1.
    """
    from dexstack.sim.loop import LoopParams, LoopSpec, read_three_ball
    from dexstack.tasks.three_ball import plans_of, targets

    named = tuple((name, value) for name, value in (("model", args.model), ("theta", args.theta)) if value is not None)
    overrides = (*args.settings, *named)
    spec = LoopSpec(args.object, files=tuple(str(Path(f).absolute()) for f in args.params), overrides=overrides)
    parts = read_three_ball(spec)
    steps = args.steps or plans_of(parts.obj.name)
    goals = list(itertools.islice(targets(parts.obj, args.seed), args.trials))
    period = parts.params[LoopParams].pose_period
    note(f"{args.trials} trials of {steps} plans, {period:g} s apart, in {min(args.jobs, args.trials)} process(es)")
    outcomes = []
    for k, o in enumerate(_outcomes(args, spec, goals, steps)):
        outcomes.append(o)
        note(f"trial {k + 1}/{args.trials}: {o.target}, at the end {1e3 * o.position_error:.1f} mm and {o.orientation_error:.3f} rad off")

    results = _results(args, outcomes, steps)
    results.update(period_s=period, latency_s=parts.params[LoopParams].latency, paper=_paper(parts.obj.name))
    folder = args.results or Path("results") / f"eval-{args.subcommand}-{datetime.now():%Y%m%d-%H%M%S}"
    results["plot"] = str(_plot(folder / "trials.png", args, outcomes))
    passed = results["success_rate"] >= args.require
    publish(args, f"eval {args.subcommand}", results, *_views(args, results, passed), seed=args.seed)
    return 0 if passed else 1


def _outcomes(args: argparse.Namespace, spec: LoopSpec, goals: Sequence[tuple[str, np.ndarray]], steps: int) -> Iterator[Outcome]:
    n = len(goals)
    names, poses = [name for name, _ in goals], [pose for _, pose in goals]
    yield from in_processes(_trial, args.jobs, [spec] * n, names, poses, range(args.seed, args.seed + n), [steps] * n)


def _paper(name: str) -> list[dict[str, Any]]:
    keys = ("name", "position_mean_mm", "position_std_mm", "orientation_mean_rad", "orientation_std_rad", "solve_mean_ms")
    return [dict(zip(keys, row, strict=True)) for row in PAPER.get(name, ())]


def _summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "trials": len(outcomes),
        "success_rate": sum(o.succeeded for o in outcomes) / len(outcomes),
        "position_error_m": errors(o.position_error for o in outcomes),
        "orientation_error_rad": errors(o.orientation_error for o in outcomes),
    }


def _results(args: argparse.Namespace, outcomes: Sequence[Outcome], steps: int) -> dict[str, Any]:
    import numpy as np

    solves = np.concatenate([o.solve_s for o in outcomes])
    kinds = {kind: [o for o in outcomes if o.kind == kind] for kind in dict.fromkeys(o.kind for o in outcomes)}
    return {
        "task": args.subcommand,
        "object": args.object,
        "plant": args.plant,
        "steps": steps,
        "required_success_rate": args.require,
        **_summary(outcomes),
        "solve_s": times(solves),
        "bad_solves": sum(o.bad_solves for o in outcomes),
        "real_time_factor": sum(float(o.t[-1]) for o in outcomes) / max(sum(o.wall_s for o in outcomes), 1e-9),
        "kinds": {kind: _summary(some) for kind, some in kinds.items()},
        "each": [
            {
                "seed": o.seed,
                "target": o.target,
                "goal_WO": o.goal_WO,
                "succeeded": o.succeeded,
                "position_error_m": o.position_error,
                "orientation_error_rad": o.orientation_error,
            }
            for o in outcomes
        ],
    }


def _plot(path: Path, args: argparse.Namespace, outcomes: Sequence[Outcome]) -> Path:
    from dexstack.report.trials import write_trials_plot
    from dexstack.tasks.three_ball import ThreeBallTask

    curves = [(o.target, o.succeeded, o.t, o.orientation_errors, o.position_errors) for o in outcomes]
    title = f"three balls, {args.object}: {sum(o.succeeded for o in outcomes)} of {len(outcomes)} trials succeeded"
    return write_trials_plot(path, curves, ThreeBallTask.tolerance, title)


def _views(args: argparse.Namespace, results: dict[str, Any], passed: bool) -> list[Any]:
    def row(name: str, s: dict[str, Any], solve: float | None) -> list[Any]:
        shift, turn = s["position_error_m"], s["orientation_error_rad"]
        return [
            name,
            s["trials"],
            f"{100 * s['success_rate']:.0f} %",
            f"{1e3 * shift['mean']:.2f} ± {1e3 * shift['std']:.2f}",
            f"{1e3 * shift['median']:.2f}",
            f"{turn['mean']:.3f} ± {turn['std']:.3f}",
            f"{turn['median']:.3f}",
            None if solve is None else f"{solve:.2f}",
        ]

    solve = results["solve_s"]
    rows = [row(f"{kind}s", s, None) for kind, s in results["kinds"].items()]
    rows.append(row("all", results, 1e3 * solve["mean"]))
    for p in results["paper"]:
        shift, turn = (f"{p[f'{k}_mean_{u}']:.2f} ± {p[f'{k}_std_{u}']:.2f}" for k, u in (("position", "mm"), ("orientation", "rad")))
        rows.append([p["name"], 7, None, shift, None, turn, None, f"{p['solve_mean_ms']:.1f}"])
    columns = ("", "n", "success", "position [mm]", "median", "orientation [rad]", "median", "solve [ms]")
    verdict = "at least" if passed else "fewer than"
    return [
        table(f"three balls, {args.object} ({args.plant}), {results['steps']} plans {results['period_s']:g} s apart", columns, rows),
        f"detection and solve: p50 {1e3 * solve['p50']:.2f} ms, p99 {1e3 * solve['p99']:.2f} ms of processor time, n = {solve['n']} "
        f"(paper: solve only, i9-13900K); real-time factor {results['real_time_factor']:.2f} per process",
        f"{100 * results['success_rate']:.0f} % ended within 20 mm and 0.25 rad, {verdict} the {100 * args.require:g} % asked for; "
        f"picture in {results['plot']}",
    ]
