"""Run a closed loop in this process: turn the foambrick, keep the trial, draw plot and film."""

import sys
from pathlib import Path

import dexstack
from dexstack.model.scene import robot_scene
from dexstack.report.run import write_run

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "results/example")

loop = dexstack.closed_loop("palm_turn", object="foambrick")
trial = loop.run(k=0, seed=7, seconds=4.0)

print(f"{trial.goal.label}: {'reached after' if trial.reached else 'not reached;'} {trial.reached_s:.1f} s")
print(
    f"errors at the end {trial.orientation_error:.3f} rad and {1e3 * trial.position_error:.1f} mm, "
    f"{trial.stalls} stalls"
)

robot, obj, _ = loop.setup
for kind, path in write_run(folder, trial.recording, robot_scene(robot, obj).compile()).items():
    print(f"{kind}: {path}")
