"""Time of contact detection and MPC solve on states of the running closed loop."""

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
"""Length of a trial that supplies states [s]: approach, turning and holding are all in it."""
GOALS = (math.pi / 2, -math.pi / 2)
PATIENCE = 1000
"""States without enough contacts after which there will be none."""


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


def visited(loop: Loop, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The states at which the controller planned in the closed loop, without end: object pose (7,),
    joints (N,) and goal (7,).

    They come in their order, trial after trial towards :data:`GOALS`; before each trial the planner
    forgets its last plan.
    """
    for k in itertools.count():
        goal = loop.task.at_yaw(GOALS[k % len(GOALS)])
        recording = loop.run(k, seed, SECONDS, goals=iter([goal])).recording
        loop.planner.reset()
        yield from zip(recording["pose_WO"], recording["q"], recording["goal_WO"], strict=True)


def time_mpc(spec: Spec, *, solves: int, min_contacts: int, seed: int) -> MpcTiming:
    """Time ``solves`` solves on states of the closed loop with at least ``min_contacts`` active
    contacts.

    Every solve starts from the plan of the one before as it does in the loop; states with fewer
    contacts are solved too but not counted.

    Raises:
        ConfigError: see :class:`~dexstack.sim.loop.Loop`.
        RuntimeError: the loop makes no state with that many contacts.
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
            raise RuntimeError(f"none of {PATIENCE} states has {min_contacts} active contacts")
    columns, horizon = np.array(samples).T, loop.params[MpcParams].horizon
    return MpcTiming(
        *columns,
        contacts=np.array(contacts),
        statuses=statuses,
        compile_s=loop.compile_s,
        horizon=horizon,
        variables=horizon * len(loop.scene.robot.joint_names),
        rows=loop.detector.params.capacity * FRICTION_DIRECTIONS,
    )


def _clocks() -> tuple[float, float]:
    """Processor time of this process and wall time [s]."""
    return time.process_time(), time.perf_counter()
