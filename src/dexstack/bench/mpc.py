"""Time of contact detection and MPC solve on states of the running closed loop."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dexstack.contact.contact import Contacts
from dexstack.control.mpc import SolveStatus
from dexstack.control.parts import PAPER
from dexstack.control.problem import FRICTION_DIRECTIONS
from dexstack.sim.loop import ClosedLoop, LoopSpec
from dexstack.tasks.palm_turn import AllegroTask
from experiments.contactsdf.ipopt import NlpBaseline, Planning

SECONDS = 6.0
"""Length of a trial that supplies states [s]: approach, turning and holding are all in it."""
GOALS = (math.pi / 2, -math.pi / 2)


@dataclass(frozen=True)
class MpcTiming:
    """Samples over M counted solves, seconds."""

    detect_cpu: np.ndarray
    solve_cpu: np.ndarray
    detect_wall: np.ndarray
    solve_wall: np.ndarray
    contacts: np.ndarray
    """(S,) active contacts of every timed state, counted or not."""
    statuses: dict[str, int]
    compile_s: float
    horizon: int
    variables: int
    rows: int
    baseline: tuple[Baseline, ...] = ()


@dataclass(frozen=True)
class Baseline:
    """Solves of the same problems by one solver, seconds of processor time; every solve starts from the solver's own last plan."""

    name: str
    cpu: np.ndarray
    cost: np.ndarray
    """Of the solver's plan under the solver's own model."""
    solved: int
    """Solves that ended where the solver wanted."""


def time_mpc(spec: LoopSpec, *, solves: int, min_contacts: int, seed: int, baseline: int = 0) -> MpcTiming:
    """Time ``solves`` solves on states with at least ``min_contacts`` active contacts.

    The states are those at which the controller planned, in their order, so that every solve starts from the plan of the one before as
    it does in the loop; states with fewer contacts are solved too but not counted. Trials are added until there are enough.
    The first ``baseline`` problems that count are solved by IPOPT too, see :mod:`experiments.contactsdf.ipopt`.

    Raises:
        ConfigError: see :class:`~dexstack.sim.loop.ClosedLoop`.
        RuntimeError: the loop makes no state with that many contacts.
    """
    loop = ClosedLoop(spec)
    samples: list[tuple[float, float, float, float]] = []
    contacts: list[int] = []
    statuses: dict[str, int] = {}
    problems: list[Planning] = []
    trial = 0
    while len(samples) < solves:
        if trial >= 3 and not samples:
            raise RuntimeError(f"no state of {trial} trials has {min_contacts} active contacts")
        goal = GOALS[trial % len(GOALS)]
        recording = loop.trial(goal, seed + trial, SECONDS).recording
        trial += 1
        goal_WO = AllegroTask(loop.start, goal).goal_WO
        loop.mpc.reset()
        for pose, q in zip(recording["pose_WO"], recording["q"], strict=True):
            clocks = [_clocks()]
            found: Contacts = loop.detector.detect(pose, q)
            clocks.append(_clocks())
            result = loop.mpc.solve(pose, q, found, goal_WO, loop.theta, loop.weights)
            clocks.append(_clocks())
            active = int(found.active.sum())
            contacts.append(active)
            if active >= min_contacts and len(samples) < solves:
                (c0, w0), (c1, w1), (c2, w2) = clocks
                samples.append((c1 - c0, c2 - c1, w1 - w0, w2 - w1))
                name = SolveStatus(result.status).name
                statuses[name] = statuses.get(name, 0) + 1
                if len(problems) < baseline:
                    problems.append(Planning(pose, q, found, goal_WO))
    columns = np.array(samples).T
    return MpcTiming(
        *columns,
        contacts=np.array(contacts),
        statuses=statuses,
        compile_s=loop.compile_s,
        horizon=loop.mpc.params.horizon,
        variables=loop.mpc.params.horizon * len(loop.hand.joint_names),
        rows=loop.detector.params.capacity * FRICTION_DIRECTIONS,
        baseline=tuple(_baselines(loop, spec, problems)) if problems else (),
    )


def _baselines(loop: ClosedLoop, spec: LoopSpec, problems: list[Planning]) -> Iterator[Baseline]:
    """The MPC with the loop's model and with D-SDF, then IPOPT with D-SDF and with the step problem's conditions."""
    plain = dict(spec.overrides) | {"model": "dsdf"} | dataclasses.asdict(PAPER)
    paper = ClosedLoop(replace(spec, overrides=tuple(plain.items())))
    for name, of in (("ours", loop), ("ours, D-SDF", paper)):
        of.mpc.reset()
        results = [of.mpc.solve(p.pose_WO, p.q, p.contacts, p.goal_WO, of.theta, of.weights) for p in problems]
        solved = sum(r.status in (SolveStatus.OK, SolveStatus.NO_DESCENT) for r in results)
        yield Baseline(name, np.array([r.cpu_s for r in results]), np.array([r.cost for r in results]), solved)
    for name, kkt in (("IPOPT, D-SDF", False), ("IPOPT, QP by its relaxed KKT conditions", True)):
        solver = NlpBaseline(paper.mpc, paper.theta, paper.weights, paper.detector.params.capacity, kkt=kkt)
        solutions = [solver.solve(p) for p in problems]
        cpu, cost = (np.array([getattr(s, key) for s in solutions]) for key in ("cpu_s", "cost"))
        yield Baseline(name, cpu, cost, sum(s.solved for s in solutions))


def _clocks() -> tuple[float, float]:
    """Processor time of this process and wall time [s]."""
    return time.process_time(), time.perf_counter()
