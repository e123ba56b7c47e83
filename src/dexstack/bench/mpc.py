"""Timing of contact detection and MPC solve on states of the closed loop."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dexstack.contact.contact import Contacts
from dexstack.control.base import Observation, SolveStatus
from dexstack.control.planners.gauss_newton import MpcParams
from dexstack.control.problem import FRICTION_DIRECTIONS
from dexstack.graph.settings import Spec
from dexstack.sim.loop import Loop
from dexstack.trials.sweep import loop_of

SECONDS = 6.0
"""Length of a trial that supplies states [s]; it contains approach, turning and holding."""
GOALS = (math.pi / 2, -math.pi / 2)
"""Yaw of the goals [rad], in turns."""
PATIENCE = 1000
"""Number of states without enough contacts after which to give up."""


@dataclass(frozen=True)
class MpcTiming:
    """Samples (M,) over the counted solves [s]."""

    detect_cpu: np.ndarray
    solve_cpu: np.ndarray
    detect_wall: np.ndarray
    solve_wall: np.ndarray
    contacts: np.ndarray
    """(S,) active contacts of every state, counted or not."""
    statuses: dict[str, int]
    compile_s: float
    horizon: int
    variables: int
    rows: int


def visited(loop: Loop, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the states at which the controller plans in the closed loop, without end.

    Trials towards :data:`GOALS` follow each other; the planner is reset before each.

    Yields:
        Object pose (7,), joint angles (N,) [rad] and goal pose (7,).
    """
    for k in itertools.count():
        goal = loop.task.at_yaw(GOALS[k % len(GOALS)])
        recording = loop.run(k, seed, SECONDS, goals=iter([goal])).recording
        loop.planner.reset()
        yield from zip(recording["pose_WO"], recording["q"], recording["goal_WO"], strict=True)


def time_mpc(spec: Spec, *, solves: int, min_contacts: int, seed: int) -> MpcTiming:
    """Time ``solves`` solves on states of the closed loop with at least ``min_contacts`` contacts.

    Every solve is warm-started from the previous plan, as in the loop; states with fewer contacts
    are solved but not counted.

    Raises:
        ConfigError: see :class:`~dexstack.sim.loop.Loop`.
        RuntimeError: no state has that many contacts.
    """
    loop = loop_of(spec)
    samples: list[tuple[float, float, float, float]] = []
    contacts: list[int] = []
    statuses: dict[str, int] = {}
    for pose, q, goal_WO in visited(loop, seed):
        clocks = [_clocks()]
        found: Contacts = loop.detector.detect(pose, q)
        clocks.append(_clocks())
        plan = loop.planner.plan(Observation(0.0, pose, q, found), goal_WO)
        clocks.append(_clocks())
        contacts.append(int(found.active.sum()))
        if contacts[-1] >= min_contacts:
            (c0, w0), (c1, w1), (c2, w2) = clocks
            samples.append((c1 - c0, c2 - c1, w1 - w0, w2 - w1))
            name = SolveStatus(plan.status).name
            statuses[name] = statuses.get(name, 0) + 1
        if len(samples) == solves:
            break
        if not samples and len(contacts) >= PATIENCE:
            raise RuntimeError(f"no state of {PATIENCE} has {min_contacts} active contacts")
    columns, horizon = np.array(samples).T, loop.params[MpcParams].horizon
    return MpcTiming(
        *columns,
        contacts=np.array(contacts),
        statuses=statuses,
        compile_s=loop.compile_s,
        horizon=horizon,
        variables=horizon * len(loop.setup.robot.joint_names),
        rows=loop.detector.params.capacity * FRICTION_DIRECTIONS,
    )


def _clocks() -> tuple[float, float]:
    """Return processor time of this process and wall time [s]."""
    return time.process_time(), time.perf_counter()
