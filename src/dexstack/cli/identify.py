"""``dexstack identify``: fit mass, friction, motors and delay of a plant to a recording."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dexstack.cli import arguments, excite
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table
from dexstack.control.policies.mapping import read_mapping
from dexstack.errors import ConfigError
from dexstack.files import write_text
from dexstack.identification.gains import matching_gains, require_gains
from dexstack.identification.unknowns import DELAY, MOST, UNKNOWNS, USUAL, chosen, first_guess, values
from dexstack.plants import PLANTS
from dexstack.tasks import TASKS

if TYPE_CHECKING:
    from dexstack.identification.fit import Fit
    from dexstack.tasks.base import Task


add_parser = command(
    "identify",
    option(
        "recording",
        type=Path,
        nargs="?",
        metavar="FILE",
        help="a bag (.mcap), or recording.npz of dexstack up or eval --record",
    ),
    excite.add_arguments,
    option("--task", default="palm_turn", help=f"task of the scene: {', '.join(TASKS)}, or a file"),
    arguments.add_scene_arguments,
    option(
        "--params",
        action="append",
        default=[],
        metavar="FILE",
        help="ROS 2 parameter file that wins over the task's",
    ),
    arguments.add_set_argument,
    option(
        "--plant",
        default="mujoco",
        choices=PLANTS,
        help="plant that is fitted: a name, or the path to your own file",
    ),
    option(
        "--windows",
        type=arguments.positive_int,
        default=MOST,
        metavar="N",
        help="largest number of stretches of the recording",
    ),
    option(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"quantities to identify (default: {', '.join(USUAL)})",
    ),
    option(
        "--also",
        nargs="+",
        default=[],
        metavar="NAME",
        help="quantities in addition, e.g. " + ", ".join(u.name for u in UNKNOWNS if u.name not in USUAL),
    ),
    option(
        "--out",
        type=Path,
        metavar="FILE",
        help="write the world, for `dexstack up sim --world` and `dexstack eval --world`",
    ),
    option(
        "--save",
        metavar="NAME",
        help="save the planner's θ of that world: in theta/ under a name for --theta, or in a file",
    ),
    option(
        "--policy",
        type=Path,
        metavar="FILE",
        help="mapping of a policy (.yaml) with the gains of its simulator: print those with which this "
        "hand moves as it did there",
    ),
    option(
        "--results", type=Path, help="folder for the page and its picture (default: a new one in results/)"
    ),
    description="Fit a world (mass, friction, motors, joints, delay) to a recording of a hand and an "
    "object, real or simulated, by "
    "Gauss–Newton through short rollouts of a plant. Unknowns that the recording does not determine are "
    "listed. Exit code 0 only if "
    "held-out windows are predicted better than nominally.",
)


def run(args: argparse.Namespace) -> int:
    """Identify a plant.

    Returns:
        0 if held-out windows are predicted better than nominally, otherwise 1.
    """
    from dexstack.bags.recordings import read_recording
    from dexstack.graph.settings import Spec, make_task, read_settings
    from dexstack.hand.servo import ServoParams
    from dexstack.identification.fit import identify
    from dexstack.identification.rollouts import Simulated, servo_of
    from dexstack.plants import plant_params

    if (args.recording is None) == (args.excite is None):
        raise ConfigError("identify needs either a recording, or --excite MODE to make one")
    unknowns, policy = chosen(args.only, args.also), read_mapping(args.policy) if args.policy else None
    if policy is not None:
        require_gains(policy)
    files = tuple(str(Path(f).absolute()) for f in args.params)
    overrides = tuple(sorted(dict(args.settings).items()))
    spec = Spec(args.task, args.object, args.hand, files, overrides, args.plant)
    settings = read_settings(spec)
    task = make_task(spec, settings)
    servo: ServoParams = servo_of(task, settings)
    damping = getattr(task.setup().robot, "damping", None)
    if policy is not None and damping is None:
        raise ConfigError(f"--policy needs a hand, which the task '{task.name}' has not")
    folder = args.results or Path("results") / f"identify-{datetime.now():%Y%m%d-%H%M%S}"
    if args.excite:
        args.recording = excite.excite(args, task, servo, folder)
    recording = read_recording(args.recording, task.setup().robot.joint_names)
    begin = time.perf_counter()
    plant = Simulated(args.plant, settings[plant_params(args.plant)])
    options = {"most": args.windows, "plant": plant, "where": args.recording, "say": note}
    fit = identify(task, servo, recording, unknowns, **options)
    seconds = time.perf_counter() - begin
    results = results_of(fit) | {"plant": args.plant, "recording": str(args.recording), "seconds": seconds}
    results["plot"] = str(_plot(folder / "identify.png", fit))
    results["page"] = str(_page(folder / "identify.html", task, fit, results))
    if args.out:
        write_world(args.out, fit)
    results["theta_file"] = str(_save(args, task, settings, fit)) if args.save else None
    if policy is not None:
        results["gains"] = matching_gains(policy, damping, fit.told_world())._asdict()
    publish(args, "identify", results, *_views(args, fit, results))
    return 0 if fit.after < fit.before else 1


def results_of(fit: Fit) -> dict[str, Any]:
    """Return the results of a fit for JSON."""
    found, interval = values(fit.unknowns, fit.x), fit.interval()
    rows = [
        {"name": u.name, "unit": u.unit, "expected": u.first, "value": v, "low": low, "high": high}
        | {"told": bool(told), "says": u.says}
        for u, v, (low, high), told in zip(fit.unknowns, found, interval, fit.told, strict=True)
    ]
    return {
        "unknowns": rows,
        "windows": len(fit.windows.t),
        "residual_before": fit.before,
        "residual_after": fit.after,
    }


def _plot(path: Path, fit: Fit) -> Path:
    import numpy as np

    from dexstack.identification.fit import SURE
    from dexstack.report.identification import Moved, write_identification_plot

    spread = SURE * np.sqrt(np.diag(fit.covariance))
    first = first_guess(fit.unknowns)
    moved = [
        Moved(u.name, (x - x0) / u.spread, half / u.spread, bool(told))
        for u, x, x0, half, told in zip(fit.unknowns, fit.x, first, spread, fit.told, strict=True)
    ]
    return write_identification_plot(path, fit.windows.after.mean(axis=0), fit.curves(), moved)


def _page(path: Path, task: Task, fit: Fit, results: Mapping[str, Any]) -> Path:
    from dexstack.report.identification import Compared, write_identification_page

    w = fit.windows
    compared = Compared(w.t, w.q, w.after, w.measured, fit.believed, fit.predicted)
    names, title = task.setup().robot.joint_names, f"identified from {results['recording']}"
    return write_identification_page(path, compared, names, results["unknowns"], Path(results["plot"]), title)


def write_world(path: Path, fit: Fit) -> None:
    """Write the world as a YAML, with the interval of each value, without the quantities that the
    recording does not determine.

    Raises:
        ConfigError: the file cannot be written.
    """
    lines = ["# World of a plant, unknown to the controller; see `dexstack identify --help`."]
    found = values(fit.unknowns, fit.x)
    for u, v, (low, high), told in zip(fit.unknowns, found, fit.interval(), fit.told, strict=True):
        if hasattr(fit.world, u.name) and told:
            line = f"{u.name}: {v:.6g}  # {low:.3g} to {high:.3g} {u.unit}: {u.says}"
            lines.append(line.replace(" :", ":"))
    write_text(path, "\n".join([*lines, "" if len(lines) > 1 else "{}\n"]))


def _save(args: argparse.Namespace, task: Task, settings: Mapping[type, Any], fit: Fit) -> Path:
    from dexstack.control.params import MpcParams, PlannerParams
    from dexstack.control.theta_file import ThetaFile, new_theta_path, save_theta
    from dexstack.identification.theta import theta_of_world

    scene, world = task.setup(), fit.told_world()
    content = ThetaFile(
        theta=theta_of_world(task, settings, world),
        object=scene.obj.name,
        hand=scene.robot.name,
        model=settings[PlannerParams].model,
        step=settings[MpcParams].step,
        seed=0,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        data={"windows": len(fit.windows.t), "source": str(args.recording), "world": asdict(world)},
        metrics={"residual_before": fit.before, "residual_after": fit.after},
    )
    path = new_theta_path(args.save)
    save_theta(path, content)
    return path


def _views(args: argparse.Namespace, fit: Fit, results: dict[str, Any]) -> list[Any]:
    rows = [
        [u["name"], u["expected"], u["value"], f"{u['low']:.3g} to {u['high']:.3g}", u["unit"], u["told"]]
        for u in results["unknowns"]
    ]
    columns = ("unknown", "expected", "found", "90 % interval", "unit", "determined")
    lines: list[Any] = [table("identified", columns, rows)]
    if untold := [u["name"] for u in results["unknowns"] if not u["told"]]:
        lines.append(f"The recording does not determine: {', '.join(untold)}.")
    lines += [
        f"Commands act {1e3 * u['value']:.3g} ms late. Let the planner compensate with `--set "
        f"command_delay={u['value']:.3g}`; "
        f"simulate it in trials with `--set latency={u['value']:.3g}`."
        for u in results["unknowns"]
        if u["name"] == DELAY and u["told"] and u["value"] > 0.0
    ]
    if results["theta_file"]:
        lines.append(
            f"θ is in {results['theta_file']}; use it with `dexstack eval {args.task} --theta {args.save}`."
        )
    if gains := results.get("gains"):
        left = f"; {gains['excess']:.3g} N·m·s/rad of damping are left over" if gains["excess"] else ""
        lines.append(
            f"This hand moves as in the policy's simulator with `--set kp={gains['kp']:.3g} --set "
            f"kd={gains['kd']:.3g}`{left}."
        )
    lines.append(
        f"Residual of held-out windows: {fit.before:.3g} nominal, {fit.after:.3g} fitted. Page: "
        f"{results['page']}"
    )
    return lines
