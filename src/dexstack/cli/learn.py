"""``dexstack learn``: learn θ of the planner's model, on policy or from recordings."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dexstack.cli import arguments
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table
from dexstack.errors import ConfigError
from dexstack.files import whole
from dexstack.plants import PLANTS
from dexstack.report.statistics import errors, wilson
from dexstack.tasks import TASKS

if TYPE_CHECKING:
    from dexstack.control.problem import ModelParams
    from dexstack.learning.on_policy import Point
    from dexstack.learning.transitions import Transitions
    from dexstack.sim.loop import Loop

PLANNERS, UNINFORMED = "planner", "uninformed"
EVALUATION = 500_000
"""Offset of the seeds of evaluation trials from those of the rollouts."""


add_parser = command(
    "learn",
    option(
        "task",
        nargs="?",
        default="palm_turn",
        metavar="TASK",
        help=f"whose rollouts and trials: {', '.join(TASKS)}, or a file",
    ),
    arguments.add_scene_arguments,
    option(
        "--plant",
        default="mujoco",
        choices=PLANTS,
        help="physics engine: a name, or the path to your own Python file",
    ),
    option(
        "--world", type=Path, metavar="FILE", help="the plant's world, a file of `dexstack identify --out`"
    ),
    arguments.add_planner_arguments,
    option(
        "--start",
        default=PLANNERS,
        metavar="THETA",
        help="first guess: planner, uninformed, or a learned θ's name or file",
    ),
    option(
        "--steps", type=arguments.positive_int, default=2000, metavar="N", help="environment steps of 0.1 s"
    ),
    option(
        "--every", type=arguments.positive_int, default=400, metavar="N", help="steps per update: 4 rollouts"
    ),
    option(
        "--from",
        dest="recordings",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="learn from recordings instead: recording.npz, files of --record, bags",
    ),
    option(
        "--repeat",
        type=arguments.positive_int,
        default=1,
        metavar="N",
        help="number of repetitions, with seeds S, S + 1, …",
    ),
    option(
        "--evaluate",
        type=arguments.natural,
        default=0,
        metavar="N",
        help="number of trials of the task after every update",
    ),
    option(
        "--seconds",
        type=arguments.positive,
        metavar="S",
        help="simulated time of such a trial (default: the task's)",
    ),
    option(
        "--require",
        type=arguments.rate,
        default=0.0,
        metavar="RATE",
        help="least final success rate for exit code 0",
    ),
    option(
        "--save",
        metavar="NAME",
        help="save the (last repetition's) θ: in theta/ under a name for --theta, or in a file",
    ),
    option("--record", type=Path, metavar="FILE", help="write the rollouts, for --from"),
    option("--results", type=Path, help="folder for the picture (default: a new one in results/)"),
    option("--seed", type=arguments.natural, default=0, metavar="S"),
    description="Learn the parameters θ of the planner's model by gradient through it: on policy "
    "(rollouts of 100 steps with the current θ and updates in turn), or from recordings. Exit code 0 "
    "only if the loss on held-out transitions decreased and the success rate is at least --require.",
)


def run(args: argparse.Namespace) -> int:
    """Learn θ.

    Returns:
        0 if the held-out loss decreased and the required success rate was reached, otherwise 1.
    """
    from dexstack.learning.on_policy import evaluate
    from dexstack.trials.sweep import loop_of

    if args.recordings and (args.repeat > 1 or args.record):
        raise ConfigError("--from learns once from recordings: --repeat and --record are for rollouts")
    if args.require and not args.evaluate:
        raise ConfigError("--require needs --evaluate N")
    loop = loop_of(arguments.spec_of(args))
    first = _first(args.start, loop)
    seconds = args.seconds or loop.task.seconds()

    def score_with(theta: ModelParams) -> list[Any]:
        return evaluate(loop, theta, args.evaluate, args.seed + EVALUATION, seconds)

    curves: list[list[Point]] = []
    recordings: list[Mapping[str, np.ndarray]] = []
    data: Transitions | None = None
    for k in range(args.repeat):
        curves.append([])
        for point, data, made in _progress(args, loop, first, args.seed + k, score_with):  # noqa: B007
            curves[-1].append(point)
            recordings += made
            _say(args.seed + k, point)
    assert data is not None
    theta_file = _save(args, loop, curves[-1], data) if args.save else None
    if args.record:
        _record(args.record, recordings)
    results = _results(args, loop, curves, data)
    results["theta_file"] = theta_file and str(theta_file)
    results["plot"] = str(_plot(args, curves, seconds)) if args.evaluate and len(curves[0]) > 2 else None
    fell = all(c[-1].held_out < c[0].held_out for c in curves)
    passed = fell and (not args.evaluate or results["final_success_rate"] >= args.require)
    publish(args, "learn", results, *_views(args, results, passed), seed=args.seed)
    return 0 if passed else 1


def _first(name: str, loop: Loop) -> ModelParams:
    from dexstack.control.theta_file import theta_for
    from dexstack.learning.on_policy import uninformed_theta

    if name == PLANNERS:
        return loop.planner.theta
    if name == UNINFORMED:
        return uninformed_theta(loop)
    robot, obj, _ = loop.setup
    names = {"object_name": obj.name, "robot_name": robot.name}
    return theta_for(name, **names, step=loop.controller.step, joints=len(robot.joint_names))


def _progress(args: argparse.Namespace, loop: Loop, first: ModelParams, seed: int, score_with: Any) -> Any:
    from dexstack.bags.recordings import read_recording
    from dexstack.learning.on_policy import learn_from, learn_on_policy
    from dexstack.learning.transitions import check_recording

    if not args.recordings:
        # a repetition uses one seed per rollout
        return learn_on_policy(
            loop, first, steps=args.steps, every=args.every, seed=1000 * seed, score_with=score_with
        )
    joints = loop.setup.robot.joint_names
    read = {str(path): read_recording(path, joints) for path in args.recordings}
    for path, recording in read.items():
        check_recording(recording, len(joints), path)
    return learn_from(loop, first, read, seed=seed, score_with=score_with)


def _say(seed: int, point: Point) -> None:
    text = f"seed {seed}, {point.steps} steps"
    if point.update:
        text += f": loss {point.update.loss_before:.4g} → {point.update.loss_after:.4g}"
    text += f", held out {point.held_out:.4g}"
    if point.trials:
        text += f": {100 * point.success_rate:.0f} % of {len(point.trials)} trials succeed"
    note(text)


def _save(args: argparse.Namespace, loop: Loop, points: list[Point], data: Transitions) -> Path:
    from dexstack.control.theta_file import ThetaFile, new_theta_path, save_theta

    update = points[-1].update
    metrics = {
        "loss_after": update.loss_after,
        "held_out_before": points[0].held_out,
        "held_out_after": points[-1].held_out,
    }
    if args.evaluate:
        metrics |= {"success_rate": points[-1].success_rate, "trials": args.evaluate}
    source = ", ".join(map(str, args.recordings)) if args.recordings else "rollouts"
    content = ThetaFile(
        theta=points[-1].theta,
        object=loop.setup.obj.name,
        hand=loop.setup.robot.name,
        model=loop.model,
        step=loop.controller.step,
        seed=args.seed + args.repeat - 1,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        data={"transitions": data.count, "sha256": data.digest(), "source": source},
        metrics=metrics,
    )
    path = new_theta_path(args.save)
    save_theta(path, content)
    return path


def _record(path: Path, recordings: list[Mapping[str, np.ndarray]]) -> None:
    from dexstack.learning.on_policy import stack_recordings

    with whole(path) as file:
        np.savez_compressed(file, **stack_recordings(recordings))


def _results(
    args: argparse.Namespace, loop: Loop, curves: list[list[Point]], data: Transitions
) -> dict[str, Any]:
    def entry(p: Point) -> dict[str, Any]:
        out = {"steps": p.steps, "theta": p.theta._asdict(), "held_out_loss": p.held_out}
        if p.update:
            out["update"] = p.update._asdict()
        if p.trials:
            out["success_rate"] = p.success_rate
            out["success_interval"] = wilson(sum(t.succeeded for t in p.trials), len(p.trials))
            out["orientation_error_rad"] = errors(t.orientation_error for t in p.trials)
            out["position_error_m"] = errors(t.position_error for t in p.trials)
        return out

    return {
        "task": args.task,
        "object": args.object,
        "hand": args.hand,
        "model": loop.model,
        "start": args.start,
        "step_s": loop.controller.step,
        "data_sha256": data.digest(),
        "evaluation_trials": args.evaluate,
        "first_success_rate": _mean_rate(curves, 0) if args.evaluate else None,
        "final_success_rate": _mean_rate(curves, -1) if args.evaluate else None,
        "curves": [
            {"seed": args.seed + k, "points": [entry(p) for p in points]} for k, points in enumerate(curves)
        ],
    }


def _mean_rate(curves: list[list[Point]], which: int) -> float:
    return sum(points[which].success_rate for points in curves) / len(curves)


def _plot(args: argparse.Namespace, curves: list[list[Point]], seconds: float) -> Path:
    from dexstack.report.learning import write_learning_plot

    folder = args.results or Path("results") / f"learn-{datetime.now():%Y%m%d-%H%M%S}"
    of_point: dict[str, Callable[[Point], float]] = {
        "success rate": lambda p: p.success_rate,
        "final 3-D error,\nmean [rad]": lambda p: np.mean([t.orientation_error for t in p.trials]),
        "from the goal,\nmean [mm]": lambda p: 1e3 * np.mean([t.position_error for t in p.trials]),
    }
    quantities = {
        name: np.array([[of(p) for p in points] for points in curves], float) for name, of in of_point.items()
    }
    title = (
        f"{args.task}, {args.object}: the planner with the current θ, {args.evaluate} trials of {seconds:g} "
        "s per point"
    )
    steps = np.array([p.steps for p in curves[0]])
    return write_learning_plot(folder / "learning.png", steps, quantities, title)


def _views(args: argparse.Namespace, results: dict[str, Any], passed: bool) -> list[Any]:
    rows = []
    for curve in results["curves"]:
        for p in curve["points"]:
            update, turn = p.get("update", {}), p.get("orientation_error_rad")
            rate = None if turn is None else f"{100 * p['success_rate']:.0f} %"
            shift = None if turn is None else 1e3 * p["position_error_m"]["mean"]
            loss = update.get("loss_after"), p["held_out_loss"]
            rows.append([curve["seed"], p["steps"], *loss, rate, turn and turn["mean"], shift])
    columns = ("seed", "steps", "loss", "held out", "success", "error [rad]", "position [mm]")
    title = f"{args.task}, {args.object}, model {results['model']}, start {args.start}"
    views = [table(title, columns, rows)]
    last = results["curves"][-1]["points"][-1]["theta"]
    numbers = [[name, float(value.min()), float(value.max())] for name, value in last.items()]
    views.append(table("θ", ("parameter", "smallest", "largest"), numbers))
    if results["theta_file"]:
        views.append(
            f"θ is in {results['theta_file']}; use it with `dexstack eval {args.task} --theta {args.save}`"
        )
    if results["plot"]:
        views.append(f"picture in {results['plot']}")
    views.append(_verdict(args, results, passed))
    return views


def _verdict(args: argparse.Namespace, results: dict[str, Any], passed: bool) -> str:
    """Return what was measured, and only that."""
    falls = [
        curve["points"][-1]["held_out_loss"] < curve["points"][0]["held_out_loss"]
        for curve in results["curves"]
    ]
    loss = f"the held-out loss decreased with {sum(falls)} of {len(falls)} seeds"
    if not args.evaluate:
        return f"{loss}; no trials were run, so whether θ controls better is not known: use --evaluate N"
    rate, first = results["final_success_rate"], results["first_success_rate"]
    asked = f", {100 * args.require:.0f} % required" if args.require else ""
    return (
        f"{'' if passed else 'requirements not met: '}{loss}; {100 * first:.0f} % of {args.evaluate} trials "
        f"succeeded with the first guess, {100 * rate:.0f} % in the end{asked}"
    )
