"""Time of a step of a sphere that pushes a T, compared with MuJoCo (C) and MJX on the same scene in
the same run.

2 ms steps in float32, in a scan of 250 and called one by one from Python, in turns on one core.
With every time: the T's distance from MuJoCo's at the end of the scan, and in ours the error of the
wrench against the dense formulation. MuJoCo is the fastest peer, without derivatives; MJX (extra
'peers') has them, on the same compiler. Asked for: :data:`LIMITS`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import rollout

from dexengines.soft.system import OPTIONS
from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.process.compilation import compiler_options
from dexstack.report.statistics import times
from experiments.harness import Findings, experiment
from experiments.soft import systems
from experiments.soft.near_set import errors

LIMITS = {"26": (1.3, 5.0), "4000": (4.0, 2.0)}
"""Most of our time over MuJoCo's, and least of MJX's over ours, in a scan."""
ACCURATE = 1e-6
"""Largest error of the wrench against the dense formulation, as a share of the load."""
DT = 0.002
SCAN = 250
"""Steps of one timed scan."""


@dataclass
class Timing:
    """Processor times of one configuration."""

    name: str
    compile_s: float = 0.0
    scan_s: list[float] = field(default_factory=list)
    """Times of one step inside a scan."""
    call_s: list[float] = field(default_factory=list)
    """Times of one step called from Python."""


def mjx_version() -> str | None:
    """Return the version of MJX, or None if it is not installed."""
    try:
        return version("mujoco-mjx")
    except PackageNotFoundError:
        return None


def targets(steps: int) -> np.ndarray:
    """Return the pusher's targets (steps, 2): along the stem, in contact with its end nearly from
    the start."""
    return np.stack([np.zeros(steps), np.linspace(-0.155, -0.10, steps)], axis=1).astype(np.float32)


def start(count: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return q (9 count,) and v (8 count,): every pusher a millimetre from the end of its stem."""
    q, v = systems.pusher_start(count)
    q[1 : 2 * count : 2] = -0.1585
    return q, v


class SoftCase:
    """The pushed T in the soft engine, float32."""

    def __init__(self, points: int) -> None:
        self.timing = Timing(f"soft, {points} points, euler")
        self.system = system = systems.pusher_system(points, room=systems.ROOM)
        state = tuple(jnp.asarray(x, jnp.float32) for x in start())
        data = jax.device_put(system.data)

        def one(data: Any, state: Any, target: jax.Array) -> Any:
            return system.euler(data, *state, systems.pusher_force(*state, target), DT)

        self.scan, self.call, self.timing.compile_s, compiled = _compiled(one, data, state)
        self.temporaries = temporaries(compiled)
        """Temporaries of one step [bytes]."""

    def end(self) -> np.ndarray:
        """Return the position (2,) of the T after the scan [m]."""
        return np.asarray(self.scan()[0][2:4], float)


class MujocoCase:
    """The same scene in MuJoCo, in C and double precision; the scan is one call of its rollout."""

    def __init__(self) -> None:
        self.timing = Timing("MuJoCo, euler")
        self._model = systems.pusher_spec(DT).compile()
        self._data = mujoco.MjData(self._model)
        self._q, self._v = start()
        self._targets = targets(SCAN).astype(float)
        self._data.qpos[:] = self._q
        self._state = np.empty(mujoco.mj_stateSize(self._model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
        mujoco.mj_getState(self._model, self._data, self._state, mujoco.mjtState.mjSTATE_FULLPHYSICS)

    def scan(self) -> np.ndarray:
        """Return the states of all steps."""
        return rollout.rollout(self._model, self._data, self._state, self._targets)[0]

    def call(self) -> np.ndarray:
        """Return the positions after one step from the start."""
        self._data.qpos[:], self._data.qvel[:], self._data.ctrl[:] = self._q, self._v, self._targets[0]
        mujoco.mj_step(self._model, self._data)
        return self._data.qpos

    def end(self) -> np.ndarray:
        """Return the position (2,) of the T after the scan [m]."""
        return self.scan()[0, -1, 3:5]  # a full physics state begins with the time


class MjxCase:
    """The same scene in MJX with MuJoCo's default solver."""

    def __init__(self) -> None:
        from mujoco import mjx

        self.timing = Timing("MJX, euler")
        model = systems.pusher_spec(DT).compile()
        data = mujoco.MjData(model)
        data.qpos[:] = start()[0]
        m, begin = mjx.put_model(model), mjx.put_data(model, data)

        def one(m: Any, d: Any, u: jax.Array) -> Any:
            return mjx.step(m, d.replace(ctrl=u))

        with jax.numpy_rank_promotion("allow"):  # which MJX needs, whatever its caller forbids
            self.scan, self.call, self.timing.compile_s, _ = _compiled(one, m, begin)

    def end(self) -> np.ndarray:
        """Return the position (2,) of the T after the scan [m]."""
        return np.asarray(self.scan().qpos[2:4], float)


def _compiled(one: Callable, numbers: Any, state: Any) -> tuple[Callable, Callable, float, Any]:
    """Return a scan, one step called from Python, the scan's compilation time [s], and the compiled
    step.

    The step called from Python has the system's numbers built in, as every argument costs time; its
    kernels are scheduled for one thread.
    """
    path = jnp.asarray(targets(SCAN))

    def roll(numbers: Any, state: Any, path: jax.Array) -> Any:
        return jax.lax.scan(lambda s, u: (one(numbers, s, u), None), state, path)[0]

    begin = time.process_time()
    rolled = jax.jit(roll).lower(numbers, state, path).compile(compiler_options() | OPTIONS)
    took = time.process_time() - begin
    lowered, target = jax.jit(lambda s, u: one(numbers, s, u)).lower(state, path[0]), path[0]
    called = lowered.compile(
        {"xla_cpu_enable_concurrency_optimized_scheduler": False} | compiler_options() | OPTIONS
    )
    return lambda: rolled(numbers, state, path), lambda: called(state, target), took, called


def temporaries(compiled: Any) -> int:
    """Return the temporaries of a compiled function [bytes]."""
    return int(compiled.memory_analysis().temp_size_in_bytes)


def take_turns(cases: list[Any], rounds: int) -> None:
    """Time all cases in turns, so that other load affects all alike."""
    for case in cases:
        jax.block_until_ready((case.scan(), case.call()))
    for _ in range(rounds):
        for case in cases:
            begin = time.process_time()
            jax.block_until_ready(case.scan())
            case.timing.scan_s.append((time.process_time() - begin) / SCAN)
            begin = time.process_time()
            for _ in range(20):
                jax.block_until_ready(case.call())
            case.timing.call_s.append((time.process_time() - begin) / 20)


def speed(args: argparse.Namespace) -> Findings:
    """Time the engine and its peers."""
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # no gain on one core
    version_of_mjx = mjx_version()
    note(f"core {args.core}: compiling" + ("" if version_of_mjx else "; MJX is not installed"))
    ours = {points: SoftCase(int(points)) for points in LIMITS}
    mujoco_c, mjx = MujocoCase(), MjxCase() if version_of_mjx else None
    everyone = [*ours.values(), mujoco_c, *([mjx] if mjx else [])]
    take_turns(everyone, args.rounds)
    truth = mujoco_c.end()
    cases = {
        name: _entry(case, truth) | {"points": int(name), "temporaries_bytes": case.temporaries}
        for name, case in ours.items()
    }
    peers = {"mujoco": _entry(mujoco_c, truth)} | ({"mjx": _entry(mjx, truth)} if mjx else {})
    kept = []
    for name, case in cases.items():
        case["wrench_error"] = float(errors(int(name), args.states, args.seed).max())
        case["mujoco_ratio"] = case["scan_s"]["p50"] / peers["mujoco"]["scan_s"]["p50"]
        kept += [case["mujoco_ratio"] <= LIMITS[name][0], case["wrench_error"] <= ACCURATE]
        if mjx:
            case["mjx_ratio"] = peers["mjx"]["scan_s"]["p50"] / case["scan_s"]["p50"]
            kept.append(case["mjx_ratio"] >= LIMITS[name][1])
    versions = {"mujoco": mujoco.__version__, "mjx": version_of_mjx}
    results = {"core": args.core, "method": "euler", "cases": cases, "peers": peers, "versions": versions}
    rows = [
        [c["name"], c["compile_s"], 1e6 * c["scan_s"]["p50"], c.get("mujoco_ratio"), c.get("mjx_ratio"),
         c.get("wrench_error"), 1e6 * c["call_s"]["p50"], 1e3 * c["end_difference_m"]]
        for c in (*cases.values(), *peers.values())
    ]  # fmt: skip
    columns = (
        "case",
        "compile s",
        "in a scan µs",
        "ours / MuJoCo",
        "MJX / ours",
        "wrench off",
        "called µs",
        "T off MuJoCo's mm",
    )
    asked = "; ".join(
        f"at {name} points {slower:g} times MuJoCo or less, MJX {mjx:g} times ours or more"
        for name, (slower, mjx) in LIMITS.items()
    )
    verdict = f"asked for: {asked}; the wrench off by {ACCURATE:g} of the load or less"
    lines = [table(f"T-pusher, 2 ms, float32, core {args.core}", columns, rows), verdict]
    return Findings(results | {"passed": all(kept)}, None, lines)


def _entry(case: SoftCase | MujocoCase | MjxCase, truth: np.ndarray) -> dict[str, Any]:
    t = case.timing
    off = float(np.linalg.norm(case.end() - truth))
    return {
        "name": t.name,
        "compile_s": t.compile_s,
        "scan_s": times(t.scan_s),
        "call_s": times(t.call_s),
        "end_difference_m": off,
    }


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--rounds", type=arguments.positive_int, default=10, metavar="N", help="timings of every case"
    )
    p.add_argument(
        "--states",
        type=arguments.positive_int,
        default=100,
        metavar="N",
        help="states in which the wrench is compared with the dense one",
    )
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S", help="seed of the states")


main = experiment(__spec__.name, __doc__, speed, arguments=_arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
