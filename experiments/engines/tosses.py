"""Real tosses of a cube in every engine and in Drake: parameters fitted on some tosses, errors on
others.

``--data`` names a file that :mod:`experiments.engines.toss_data` reads. Lengths in it are too short by
the share by which free flight accelerates too little; they are corrected, and the state at the start is
fitted to the flight.

``--fit`` searches each simulator's parameters on :data:`TRAINED` tosses by the same number of
evaluations of the same search, and keeps them in ``toss_parameters.json``; a simulator that is there
already is not fitted again. Errors are means over time, then over tosses. Beside them stands the
position error with the best friction of each toss, of :data:`FRICTIONS`: what is left of it with
the fitted law if friction may differ from toss to toss.

Required: position error within :data:`BEST` % of the width in the best engine, and in each within
Drake's; rotation error within :data:`ROTATION`; the face right in :data:`FACE` of the tosses.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import differential_evolution
from scipy.spatial.transform import Rotation
from scipy.stats import qmc

from dexengines import ENGINES
from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.errors import ConfigError, writing
from experiments.engines.toss_data import WIDTH, Toss, lowest, read_tosses
from experiments.engines.toss_simulators import COMMON, OWN, Simulate, Unknown, simulator
from experiments.harness import Findings, experiment

BEST, ROTATION, FACE = 10.0, 20.0, 0.75
"""[% of the width], [deg], share."""
TRAINED, HELD_OUT = 50, 200
"""Tosses of the fit, and of the errors."""
FRICTIONS = np.linspace(0.8, 1.2, 9)
"""Factors of the fitted friction."""
POPULATION = 16
"""Members of the search."""
NEIGHBOURS = (0.97, 1.0, 1.03)
"""Factors of the friction at which a fit is judged; that of a single toss varies by more."""
PARAMETERS = Path(__file__).with_name("toss_parameters.json")


class Errors(NamedTuple):
    """Errors of one toss."""

    position_percent: float
    """Mean over time [% of the width]."""
    rotation_deg: float
    position_percent_at_rest: float
    """At the last sample."""
    rotation_deg_at_rest: float
    travel_percent_at_rest: float
    """How much too far it went, along its first horizontal velocity [% of the width]."""
    face_right: float
    """1 if the same face is up at the last sample."""
    depth_mm: float
    """Depth of the deepest corner under the table [mm]."""


def errors(q: np.ndarray, toss: Toss) -> Errors:
    """Return the errors of simulated poses (K, 7)."""
    position = 100.0 * np.linalg.norm(q[:, :3] - toss.q[:, :3], axis=1) / WIDTH
    R, R_measured = (Rotation.from_quat(x[:, 3:], scalar_first=True) for x in (q, toss.q))
    angle = np.degrees((R.inv() * R_measured).magnitude())
    ahead = toss.v[:2] / max(float(np.linalg.norm(toss.v[:2])), 1e-9)  # 0 of a body that is dropped
    up, up_measured = (r[-1].inv().apply([0.0, 0.0, 1.0]) for r in (R, R_measured))
    return Errors(
        position.mean(),
        angle.mean(),
        position[-1],
        angle[-1],
        100.0 * float((q[-1, :2] - toss.q[-1, :2]) @ ahead) / WIDTH,
        float(up @ up_measured > np.cos(np.pi / 4)),
        1e3 * max(0.0, -lowest(q).min()),
    )


def judged(found: Sequence[np.ndarray], tosses: Sequence[Toss]) -> np.ndarray:
    """Return the errors (n, 6) of simulated tosses."""
    return np.array([errors(q, toss) for q, toss in zip(found, tosses, strict=True)])


def own_friction(simulate: Simulate, values: Mapping[str, float], tosses: Sequence[Toss]) -> dict[str, float]:
    """Return the position error [% of the width] with the best of :data:`FRICTIONS` for each toss, and
    the standard deviation of these best frictions as a share."""
    found = []
    for factor in FRICTIONS:
        q = simulate({**values, "friction": factor * values["friction"]}, tosses)
        found.append(judged(q, tosses)[:, 0])
    best = FRICTIONS[np.argmin(found, axis=0)]
    return {
        "position_percent_own_friction": float(np.min(found, axis=0).mean()),
        "own_friction_spread": float(best.std() / best.mean()),
    }


def fit(name: str, simulate: Simulate, tosses: Sequence[Toss], evaluations: int, seed: int) -> dict[str, Any]:
    """Search a simulator's parameters by differential evolution.

    The loss is the mean over tosses of position error/:data:`BEST` + rotation error/:data:`ROTATION`;
    a motion that diverges counts as 1000. Motions with impacts are chaotic, so that the least of many
    losses is partly luck. Of the best half of the last population, the member wins whose loss is least
    in the mean over :data:`NEIGHBOURS`.
    """
    unknowns = (*COMMON, *OWN[name])
    begin, counted = time.perf_counter(), 0

    def values(x: np.ndarray) -> dict[str, float]:
        return {u.name: float(np.exp(v) if u.log else v) for u, v in zip(unknowns, x, strict=True)}

    def objective(x: np.ndarray) -> float:
        nonlocal counted
        counted += 1
        try:
            position, rotation = judged(simulate(values(x), tosses), tosses)[:, :2].mean(axis=0)
            loss = float(position / BEST + rotation / ROTATION)
        except (FloatingPointError, RuntimeError):
            return 1000.0
        return loss if np.isfinite(loss) else 1000.0

    scale = [np.log if u.log else float for u in unknowns]
    bounds = [(s(u.low), s(u.high)) for s, u in zip(scale, unknowns, strict=True)]
    rows = qmc.LatinHypercube(len(bounds), rng=seed).random(POPULATION - 1)
    start = [s(u.start) for s, u in zip(scale, unknowns, strict=True)]
    found = differential_evolution(
        objective,
        bounds,
        init=np.vstack([start, qmc.scale(rows, *np.transpose(bounds))]),
        maxiter=max(1, evaluations // POPULATION - 1),
        tol=0.0,
        polish=False,
        rng=seed,
        callback=lambda intermediate_result: note(
            f"{name}: {counted} evaluations, loss {intermediate_result.fun:.3f}"
        ),
    )
    best = found.population[np.argsort(found.population_energies)[: POPULATION // 2]]
    means = [np.mean([objective(x + shift) for shift in _along_friction(unknowns)]) for x in best]
    spent, x = round(time.perf_counter() - begin, 1), best[int(np.argmin(means))]
    return {"values": values(x), "loss": float(min(means)), "evaluations": counted, "wall_s": spent}


def _along_friction(unknowns: Sequence[Unknown]) -> list[np.ndarray]:
    """Return the steps from a member of the search to its neighbours."""
    along = np.array([unknown.name == "friction" for unknown in unknowns], float)
    return [np.log(factor) * along for factor in NEIGHBOURS]


def make(args: argparse.Namespace) -> Findings:
    """Fit what is asked for, then simulate the tosses that no simulator was fitted on."""
    tosses, scale = read_tosses(args.data)
    kept = json.loads(args.parameters.read_text()) if args.parameters.is_file() else {}
    kept = {"trained": [], "fits": {}} | kept
    if args.fit:
        order = np.random.default_rng(args.seed).permutation(len(tosses))
        trained = [tosses[k] for k in order[:TRAINED]]
        kept["trained"] = sorted(toss.index for toss in trained)
        for name in [name for name in args.engines if name not in kept["fits"]]:
            kept["fits"][name] = fit(name, simulator(name), trained, args.evaluations, args.seed)
            with writing(args.parameters):
                args.parameters.write_text(json.dumps(kept, indent=1) + "\n")
    if lacking := [name for name in args.engines if name not in kept["fits"]]:
        raise ConfigError(f"{args.parameters} has no parameters of {', '.join(lacking)}; fit them with --fit")
    unseen = [toss for toss in tosses if toss.index not in set(kept["trained"])]
    order = np.random.default_rng(args.seed).permutation(len(unseen))[: args.held_out]
    chosen, rows = [unseen[k] for k in order], []
    for name in args.engines:
        begin, values = time.perf_counter(), kept["fits"][name]["values"]
        try:
            simulate = simulator(name)
            table_of = judged(simulate(values, chosen), chosen)
        except ConfigError as error:
            note(f"{name} is left out: {error}")
            continue
        spread = 1.96 * table_of.std(axis=0) / np.sqrt(max(len(chosen) - 1, 1))
        row = dict(zip(Errors._fields, map(float, table_of.mean(axis=0)), strict=True))
        row |= {"depth_mm_worst": float(table_of[:, -1].max()), "n": len(chosen)}
        row |= {"position_interval": [float(row["position_percent"] + s * spread[0]) for s in (-1, 1)]}
        row |= {"rotation_interval": [float(row["rotation_deg"] + s * spread[1]) for s in (-1, 1)]}
        row |= {"wall_s": time.perf_counter() - begin, **values}
        row |= own_friction(simulate, values, chosen)
        rows.append({"name": name, **row})
        note(f"{name}: {row['position_percent']:.1f} %, {row['rotation_deg']:.1f}°")
    return Findings(_results(rows, kept) | {"length_scale": scale}, lines=[_table(rows)], seed=args.seed)


def _results(rows: list[dict[str, Any]], kept: dict[str, Any]) -> dict[str, Any]:
    ours = [row for row in rows if row["name"] in ENGINES]
    drake = next((row["position_percent"] for row in rows if row["name"] == "drake"), -np.inf)
    reached = {
        "best": min((row["position_percent"] for row in ours), default=np.inf) <= BEST,
        "each_as_drake": all(row["position_percent"] <= drake for row in ours),
        "rotation": all(row["rotation_deg"] <= ROTATION for row in ours),
        "face": all(row["face_right"] >= FACE for row in ours),
    }
    fits = {name: {"loss": f["loss"], "evaluations": f["evaluations"]} for name, f in kept["fits"].items()}
    return {
        "engines": rows,
        "fits": fits,
        "trained": len(kept["trained"]),
        "reached": reached,
        "passed": all(reached.values()),
    }


def _table(rows: list[dict[str, Any]]) -> Any:
    columns = [
        "simulator",
        "position [%]",
        "rotation [°]",
        "at rest [%]",
        "at rest [°]",
        "too far [%]",
        "face right",
        "depth [mm]",
        "n",
    ]
    names = [*Errors._fields, "n"]
    return table("Tosses", columns, [[row["name"], *(row[name] for name in names)] for row in rows])


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, metavar="FILE", help="file of tosses")
    parser.add_argument("--fit", action="store_true", help="fit the simulators that have no parameters yet")
    parser.add_argument(
        "--parameters", type=Path, default=PARAMETERS, metavar="FILE", help="fitted parameters"
    )
    parser.add_argument(
        "--engines", nargs="+", choices=list(OWN), default=list(OWN), help="simulators to run"
    )
    parser.add_argument(
        "--evaluations", type=arguments.positive_int, default=240, help="simulations of a fit"
    )
    parser.add_argument("--held-out", type=arguments.positive_int, default=HELD_OUT, help="tosses to judge")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of tosses and of the search")


main = experiment("experiments.engines.tosses", __doc__, make, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
