"""Compare the MPC with the paper's solver, IPOPT, on the same problems: processor time and cost of
the plans.

The problems are states of the closed loop in their order, once with the goal of the trial and once
with a goal 30 mm and 40° away. :class:`~experiments.contactsdf.plan_cost.PlanCost` evaluates every plan
under D-SDF and under the exact step problem; IPOPT's objective consists of the same residuals of the
task. Every solver is warm-started by its own last plan. Required: IPOPT's median time at least
``--ratio`` times ours and, with the same model, D-SDF, a median cost of at most :data:`COST` times that
of IPOPT's plans.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.bench.mpc import visited
from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.control.base import LocalPlanner, Observation, SolveStatus
from dexstack.control.factory import PlannerParams, Problem, make_model, make_planner
from dexstack.control.planners.gauss_newton import MpcParams
from dexstack.geometry.rotations import quaternion_product, yaw_quaternion
from dexstack.graph.settings import Spec
from dexstack.report.statistics import errors, times
from dexstack.sim.loop import Loop
from dexstack.trials.sweep import loop_of
from experiments.contactsdf.nlp import NlpBaseline
from experiments.contactsdf.plan_cost import PlanCost, Planning
from experiments.harness import Findings, experiment

EXACT = str(Path(__file__).parents[2] / "examples" / "models" / "qp.py")
"""The model of the exact step problem."""
COST = 1.1
"""Largest median cost of ours over IPOPT's, both with D-SDF."""
AWAY = 0.03, math.radians(40.0)
"""Distance of the additional goals from the object [m, rad]."""
EVERY = 5
"""Every n-th state of the closed loop becomes a problem, one model step after the last."""
SAMPLES, SCALES, BETTER = 256, (0.3, 0.1, 0.03, 0.01), 0.01
"""A plan that ended without descent counts as stuck if any of SAMPLES random changes, of SCALES times
u_max, costs less by the share BETTER."""


@dataclass(frozen=True)
class Solves:
    """Results of one solver on all problems."""

    name: str
    cpu_s: list[float]
    plans: list[np.ndarray]
    """(T, N)"""
    statuses: list[str]


def problems(loop: Loop, count: int, seed: int, least: int) -> list[Planning]:
    """Return ``count`` states with at least ``least`` active contacts, then the same with goals
    :data:`AWAY` from the object."""
    near: list[Planning] = []
    for pose, q, goal in itertools.islice(visited(loop, seed), 0, None, EVERY):
        contacts = loop.detector.detect(pose, q)
        if int(contacts.active.sum()) >= least:
            near.append(Planning(np.array(pose), np.array(q), contacts, goal))
        if len(near) == count:
            break
    rng = np.random.default_rng(seed)
    heading, turn = rng.uniform(0, 2 * math.pi), AWAY[1] * rng.choice([-1.0, 1.0])
    shift, turned = AWAY[0] * np.array([math.cos(heading), math.sin(heading), 0.0]), yaw_quaternion(turn)
    goals = [np.concatenate([p.pose_WO[:3] + shift, quaternion_product(turned, p.pose_WO[3:])]) for p in near]
    return near + [replace(p, goal_WO=goal) for p, goal in zip(near, goals, strict=True)]


def by_mpc(name: str, planner: LocalPlanner, of: list[Planning]) -> Solves:
    """Solve all problems by an MPC."""
    planner.reset()
    plans = [planner.plan(Observation(0.0, p.pose_WO, p.q, p.contacts), p.goal_WO) for p in of]
    return Solves(
        name,
        [p.cpu_s for p in plans],
        [np.array(p.displacements) for p in plans],
        [p.status.name.lower() for p in plans],
    )


def by_ipopt(name: str, solver: NlpBaseline, of: list[Planning]) -> Solves:
    """Solve all problems by IPOPT."""
    solutions = [solver.solve(p) for p in of]
    return Solves(
        name,
        [s.cpu_s for s in solutions],
        [s.plan for s in solutions],
        ["ok" if s.solved else "unsolved" for s in solutions],
    )


def stuck(cost: PlanCost, solves: Solves, of: list[Planning], u_max: float, seed: int) -> dict[str, int]:
    """Count, of the solves that ended without descent, those surrounded only by worse plans and the
    others."""
    rng = np.random.default_rng(seed)
    count = {"converged": 0, "stuck": 0}
    for problem, plan, status in zip(of, solves.plans, solves.statuses, strict=True):
        if status == SolveStatus.NO_DESCENT.name.lower():
            scale = u_max * np.repeat(SCALES, SAMPLES // len(SCALES))[:, None, None]
            around = np.clip(plan + scale * rng.normal(size=(SAMPLES, *plan.shape)), -u_max, u_max)
            costs = cost(problem, np.concatenate([plan[None], around]))
            count["stuck" if costs[1:].min() < (1 - BETTER) * costs[0] else "converged"] += 1
    return count


def solvers(loop: Loop) -> dict[str, Callable[[list[Planning]], Solves]]:
    """Return our planner with its own model and with D-SDF, and IPOPT, all with the task, robot, weights
    and limits of the loop."""
    robot, obj, _ = loop.setup
    params, weights, theta = loop.params[MpcParams], loop.planner.weights, loop.planner.theta
    paper = make_planner(
        Problem(robot, obj, loop.task, weights, theta),
        {**loop.params, PlannerParams: PlannerParams(model="dsdf")},
    )
    found: dict[str, Callable[[list[Planning]], Solves]] = {}
    for name, planner in ((f"ours, {loop.model}", loop.planner), ("ours, D-SDF", paper)):
        found[name] = functools.partial(by_mpc, name, planner)
    for name, kkt in (("IPOPT, D-SDF", False), ("IPOPT, QP by its relaxed KKT conditions", True)):
        capacity = loop.detector.params.capacity
        found[name] = functools.partial(
            by_ipopt, name, NlpBaseline(robot, loop.task, weights, params, theta, capacity, kkt=kkt)
        )
    return found


def ipopt(args: argparse.Namespace) -> Findings:
    """Solve all problems and evaluate the plans."""
    note(f"core {args.core}: compiling the controllers")
    loop = loop_of(Spec(object=args.object))
    robot, params = loop.setup.robot, loop.params[MpcParams]
    of, found = problems(loop, args.solves, args.seed, args.min_contacts), []
    for name, solve in solvers(loop).items():
        solve(of[:1])  # compiles
        note(name)
        found.append(solve(of))

    def judge(planner: PlannerParams) -> PlanCost:
        model = make_model(planner, robot.chains)
        return PlanCost(robot, loop.task, loop.planner.weights, params, model, loop.planner.theta)

    judges = {"dsdf": judge(PlannerParams(model="dsdf")), "qp": judge(PlannerParams(model=EXACT))}
    own = {"ours, D-SDF": judges["dsdf"], found[0].name: judge(loop.params[PlannerParams])}
    away = np.arange(len(of)) >= args.solves
    entries = []
    for solves in found:
        entry: dict[str, Any] = {"solver": solves.name, "solve_s": times(solves.cpu_s), "cost": {}}
        for name, judged_by in judges.items():
            costs = np.array([judged_by(p, plan[None])[0] for p, plan in zip(of, solves.plans, strict=True)])
            entry["cost"][name] = {
                "near": errors(costs[~away]),
                "away": errors(costs[away]),
                "all": errors(costs),
            }
        entry["statuses"] = {
            status: solves.statuses.count(status) for status in dict.fromkeys(solves.statuses)
        }
        if solves.name in own:
            entry["no_descent"] = stuck(own[solves.name], solves, of, params.u_max, args.seed)
        if solves.name.startswith("IPOPT"):
            entry["ratio"] = entry["solve_s"]["p50"] / entries[0]["solve_s"]["p50"]
        entries.append(entry)
    dearer = entries[1]["cost"]["dsdf"]["all"]["median"] / entries[2]["cost"]["dsdf"]["all"]["median"]
    results = {
        "core": args.core,
        "object": args.object,
        "problems": len(of),
        "horizon": params.horizon,
        "solvers": entries,
        "peer": f"casadi {version('casadi')}",
        "cost_over_ipopt": dearer,
        "limits": {"ratio": args.ratio, "cost": COST},
    }
    results["passed"] = bool(
        dearer <= COST and min(e["ratio"] for e in entries if "ratio" in e) >= args.ratio
    )
    return Findings(results, None, _shown(entries, dearer), args.seed)


def _shown(entries: list[dict[str, Any]], dearer: float) -> list[Any]:
    rows = [
        [
            e["solver"],
            *(1e3 * e["solve_s"][k] for k in ("p50", "p99")),
            e.get("ratio"),
            *(e["cost"][judge][where]["median"] for judge in ("dsdf", "qp") for where in ("near", "away")),
            ", ".join(f"{n} {status}" for status, n in e["statuses"].items()),
            ", ".join(f"{n} {what}" for what, n in e.get("no_descent", {}).items()),
        ]
        for e in entries
    ]
    columns = (
        "solver",
        "p50 [ms]",
        "p99 [ms]",
        "over ours",
        "D-SDF near",
        "D-SDF away",
        "exact near",
        "exact away",
        "ended",
        "no descent",
    )
    return [
        table(
            "The same problems: processor time, and median cost of the plans under two models", columns, rows
        ),
        f"with D-SDF, our plans cost {dearer:.3f} times IPOPT's (median; at most {COST:g} required)",
    ]


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--object", default="cube", help="name of an object, or the path of an object's YAML")
    p.add_argument(
        "--solves",
        type=arguments.positive_int,
        default=50,
        metavar="N",
        help="states; twice as many problems",
    )
    p.add_argument(
        "--min-contacts",
        type=arguments.natural,
        default=8,
        metavar="N",
        help="smallest number of active contacts of a state",
    )
    p.add_argument(
        "--ratio",
        type=arguments.positive,
        default=40.0,
        metavar="R",
        help="smallest ratio of IPOPT's median time to ours",
    )
    p.add_argument(
        "--seed",
        type=arguments.natural,
        default=0,
        metavar="S",
        help="seed of the trials that supply the states",
    )


main = experiment(__spec__.name, __doc__, ipopt, arguments=_arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
