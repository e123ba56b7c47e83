"""Success of the task on hidden plants, with the default θ and after identification or learning from
a minute of recording.

Plants differ in mass, friction, size, motors, damping and dry friction of the joints, and delay.
Both methods use one minute of the default controller on each: `identify` fits a world, whose θ
(:func:`dexstack.identification.theta.theta_of_world`) and delay the planner then uses; `learn`
updates θ once. Trials have the same seeds in all three columns, other than the recording's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dexstack.cli import arguments
from dexstack.cli.output import commit, note, table
from dexstack.control.planners import PLANNERS
from dexstack.files import whole
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.identification.fit import identify
from dexstack.identification.rollouts import servo_of
from dexstack.identification.unknowns import DELAY, chosen
from dexstack.report.statistics import wilson
from dexstack.tasks.base import World
from dexstack.tasks.worlds import drawn
from dexstack.trials.keep import claim
from dexstack.trials.pool import in_processes
from dexstack.trials.sweep import loop_of
from experiments.harness import Findings, experiment, kept_json
from experiments.identification import recover

if TYPE_CHECKING:
    from dexstack.control.problem import ModelParams
    from dexstack.sim.loop import Loop

FIELDS = ("mass", "friction", "size", "torque", "joint_damping", "joint_friction")
BELIEVED, IDENTIFIED, LEARNED = "as it comes", "identified", "learned"
COLUMNS = (BELIEVED, IDENTIFIED, LEARNED)
ASKED, PLANTS = 0.95, 30
"""Required success rate after either method, and least number of plants."""
EVALUATION = 500_000
"""Offset of the trials' seeds from those of the recordings."""


def hidden(seed: int) -> tuple[World, float]:
    """Draw a plant and its delay [s]."""
    rng = np.random.default_rng(seed)
    return drawn(rng, *FIELDS), float(rng.uniform(*recover.DELAYS))


def improved(seed: int, trials: int, planner: str, folder: str = "") -> dict[str, Any]:
    """Evaluate one plant: the fit, and the number of successful trials with each θ.

    Args:
        planner: name of the planner of the trials; the recording is the default's.
        folder: keeps results, which are not computed again; empty: nothing is kept.

    Raises:
        ConfigError: the folder cannot be written.
    """
    kept = Path(folder) / f"plant-{planner}-{seed}-{trials}.json" if folder else None
    return kept_json(kept, lambda: _evaluated(seed, trials, planner, folder))


def _evaluated(seed: int, trials: int, planner: str, folder: str) -> dict[str, Any]:
    recording, found = fitted(seed, folder)
    world, delay = hidden(seed)
    loop = loop_of(
        Spec(overrides=(("latency", delay), ("planner", planner), ("sampling_threads", 1)), world=world)
    )
    beliefs = _beliefs(loop, recording, found, seed)
    succeeded = {
        name: _succeeded(loop, *belief, trials, EVALUATION + 1000 * seed) for name, belief in beliefs.items()
    }
    return {"seed": seed, "trials": trials, **found, "succeeded": succeeded}


def fitted(seed: int, folder: str = "") -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return a plant's recording and its identification, which do not depend on the planner.

    Args:
        folder: keeps both, which are not computed again; empty: nothing is kept.

    Raises:
        ConfigError: the folder cannot be written.
    """
    kept = Path(folder) / f"recording-{seed}.npz" if folder else None
    if kept is not None and kept.is_file():
        with np.load(kept) as archive:
            recording = {name: archive[name] for name in archive.files}
        return recording, json.loads(str(recording.pop("found")))
    world, delay = hidden(seed)
    recording, _ = recover.recorded(world, delay, 1000 * seed)
    spec = Spec()
    settings = read_settings(spec)
    task = make_task(spec, settings)
    fit = identify(task, servo_of(task, settings), recording, chosen((), ("size",)), say=note)
    found = {
        "truth": asdict(world) | {DELAY: delay},
        "found": asdict(fit.told_world()) | {DELAY: fit.delay},
        "untold": [u.name for u, told in zip(fit.unknowns, fit.told, strict=True) if not told],
        "residual": [fit.before, fit.after],
        "samples": len(recording["t"]),
    }
    if kept is not None:
        with whole(kept) as file:
            np.savez_compressed(file, found=json.dumps(found), **recording)
    return recording, found


def _beliefs(
    loop: Loop, recording: Mapping[str, np.ndarray], found: Mapping[str, Any], seed: int
) -> dict[str, tuple[ModelParams, float]]:
    """Return θ and delay [s] of each column."""
    from dexstack.identification.theta import theta_of_world
    from dexstack.learning.on_policy import learn_from

    believed, world = loop.planner.theta, dict(found["found"])
    delay = max(world.pop(DELAY), 0.0)
    *_, (point, _, _) = learn_from(
        loop, believed, {"the recording": recording}, seed=seed, score_with=lambda theta: []
    )
    return {
        BELIEVED: (believed, 0.0),
        IDENTIFIED: (theta_of_world(loop.task, loop.params, World(**world)), delay),
        LEARNED: (point.theta, 0.0),
    }


def _succeeded(loop: Loop, theta: ModelParams, delay: float, trials: int, seed: int) -> int:
    from dexstack.learning.on_policy import evaluate

    loop.controller.predictor.commands.delay = delay
    return sum(trial.succeeded for trial in evaluate(loop, theta, trials, seed, loop.task.seconds()))


def compare(args: argparse.Namespace) -> Findings:
    """Evaluate all plants."""
    seeds = [args.seed + k for k in range(args.plants)]
    plants = []
    folder = str(args.keep.absolute()) if args.keep else ""
    if args.keep:
        claim(args.keep, {"commit": commit()}, "plants")
    columns = [args.trials] * len(seeds), [args.planner] * len(seeds), [folder] * len(seeds)
    for plant in in_processes(improved, args.jobs, seeds, *columns):
        plants.append(plant)
        each = ", ".join(f"{name} {good}" for name, good in plant["succeeded"].items())
        note(f"plant {plant['seed']}, {len(plants)} of {len(seeds)}: of {args.trials} trials succeed {each}")
    count = args.trials * len(plants)
    rates = {}
    for name in COLUMNS:
        good = sum(plant["succeeded"][name] for plant in plants)
        rates[name] = {
            "succeeded": good,
            "trials": count,
            "rate": good / count,
            "interval": wilson(good, count),
        }
    passed = len(plants) >= PLANTS and all(rates[name]["rate"] >= ASKED for name in (IDENTIFIED, LEARNED))
    shown = [
        [plant["seed"], *(plant["succeeded"][name] for name in COLUMNS), args.trials] for plant in plants
    ]
    totals = [
        [n, f"{100 * r['rate']:.0f} %", " to ".join(f"{100 * x:.0f}" for x in r["interval"]) + " %"]
        for n, r in rates.items()
    ]
    lines = [
        table("trials that succeed", ("plant", *COLUMNS, "of"), shown),
        table("before and after a minute of recording", ("planner", "success", "95 % interval"), totals),
    ]
    results = {"planner": args.planner, "plants": plants, "rates": rates, "asked": ASKED, "passed": passed}
    return Findings(results, None, lines, args.seed)


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--plants", type=arguments.positive_int, default=PLANTS, metavar="N", help="hidden plants")
    p.add_argument(
        "--trials",
        type=arguments.positive_int,
        default=12,
        metavar="N",
        help="trials of each plant with each θ",
    )
    p.add_argument(
        "--seed", type=arguments.natural, default=300, metavar="S", help="plant k is drawn by seed S + k"
    )
    p.add_argument("--planner", choices=list(PLANNERS), default="gauss_newton", help="planner of the trials")
    p.add_argument(
        "--jobs", type=arguments.positive_int, default=1, metavar="N", help="processes side by side"
    )
    p.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep every plant's recording, fit and result there, and resume an interrupted run; planners "
        "share what is kept",
    )


main = experiment(__spec__.name, __doc__, compare, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
