"""An object on the palm of the Allegro hand for 60 s in every engine: at rest, faster than real
time, without reported trouble.

The hand holds its pose under its servo. All engines share the threshold :data:`DRIFT` of a
millimetre, which was chosen knowing that soft contact had crept by 0.9 mm in a minute.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

from dexstack.cli import arguments
from dexstack.cli.output import note, table
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.plants import PLANTS, make_plant
from dexstack.plants.base import WatchedPlant
from experiments.engines.suite import depths
from experiments.harness import Findings, experiment

SETTLED = 5.0
"""Time for which the cube, whose centre starts over the palm's edge, may tip on a finger's link
[s]."""
DRIFT = 1e-3
"""Largest distance of the object from its position at :data:`SETTLED`, at any later time [m]."""
FRAMES = 10
"""Samples of penetration per second."""
KP = 1.0
"""Gain of the hand's servo [N m/rad]."""


def rest_on_palm(name: str, of: str, seconds: float) -> dict[str, Any]:
    """Return the figures of one engine."""
    hand, obj = load_hand(), load_object(of)
    gravity, start = GravityCompensation(hand), obj.start("allegro")
    pose = hand.pose(start.hand_pose)
    plant = make_plant(name, hand, obj)
    plant.step(np.zeros(len(hand.joint_names)))  # loads or compiles the kernels, outside what is timed
    plant.reset(pose, start.pose_WO)
    n = round(seconds / plant.dt)
    track, looked, stepping = np.empty((n, 3)), [], 0.0
    every = round(1.0 / FRAMES / plant.dt)
    for k in range(n):
        q = plant.joint_position
        torque = np.clip(KP * (pose - q) + gravity(q), -hand.effort, hand.effort)
        begin = time.perf_counter()  # the process clock is a system call, beside steps of some 10 µs
        plant.step(torque)
        stepping += time.perf_counter() - begin
        track[k] = plant.pose_WO[:3]
        if k % every == 0:
            looked.append(plant.scene.values()[0].copy())
    deep = depths(plant.scene, np.array(looked))
    settled = min(round(SETTLED / plant.dt), n - 1)
    drift = float(np.linalg.norm(track[settled:] - track[settled], axis=1).max())
    trouble = plant.trouble() if isinstance(plant, WatchedPlant) else ""
    return {
        "plant": name,
        "dt_s": plant.dt,
        "drift_m": drift,
        "end_m": float(np.linalg.norm(track[-1] - track[settled])),
        "real_time_factor": seconds / stepping,
        "depth_worst_m": float(deep.max()),
        "depth_mean_m": float(deep.mean()),
        "depth_m": deep,
        "trouble": trouble,
        "reached": bool(drift <= DRIFT and seconds >= stepping and not trouble),
    }


def palm(args: argparse.Namespace) -> Findings:
    """Run the selected engines one after another."""
    rows = []
    for name in args.plants:
        note(f"{name}: {args.seconds:g} s")
        rows.append(rest_on_palm(name, args.object, args.seconds))
    results = {
        "core": args.core,
        "object": args.object,
        "seconds": args.seconds,
        "settled_s": SETTLED,
        "limit_m": DRIFT,
        "plants": rows,
    }
    results["passed"] = all(row["reached"] for row in rows)
    lengths = ("dt_s", "drift_m", "depth_worst_m", "depth_mean_m")
    shown = [
        [r["plant"], *(1e3 * r[k] for k in lengths), r["real_time_factor"], r["trouble"], r["reached"]]
        for r in rows
    ]
    columns = (
        "plant",
        "step [ms]",
        "drift [mm]",
        "worst depth [mm]",
        "mean depth [mm]",
        "real time ×",
        "reported",
        "reached",
    )
    title = f"{args.object} on the palm, {args.seconds:g} s: at most {1e3 * DRIFT:g} mm after {SETTLED:g} s"
    return Findings(results, None, [table(title, columns, shown)])


def _arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--plants", nargs="+", choices=list(PLANTS), default=list(PLANTS), help="engines to run")
    p.add_argument("--object", default="cube", help="name of an object, or the path of an object's YAML")
    p.add_argument("--seconds", type=arguments.positive, default=60.0, metavar="S", help="simulated time")


main = experiment(__spec__.name, __doc__, palm, arguments=_arguments, pinned=True)


if __name__ == "__main__":
    sys.exit(main())
