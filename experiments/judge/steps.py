"""Steps per second of an environment beside gymnasium-robotics' Shadow hand, in turns on one core.

`dexstack/PalmTurn-v0` (Allegro hand, 16 joints, MuJoCo plant at 2 ms, servo with limits and watch at 3 ms)
and `HandManipulateBlockRotateZ-v1` (Shadow hand, 20 actuators, MuJoCo at 2 ms). Every round resets the
environment, takes steps with actions drawn around its rest, and measures processor time; rollouts that
end are reset, which counts. ``--peer`` names the Python that has gymnasium-robotics, with a version of
MuJoCo that it works with (3.3). Nothing is required.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np

from dexstack.cli.output import table
from dexstack.errors import ConfigError
from experiments.harness import Findings, experiment

ROUND = """
import json, sys, time
import gymnasium, mujoco, numpy as np
{imports}
env = gymnasium.make({name!r}{options}).unwrapped
rng, rest, spread = np.random.default_rng(0), np.array({rest}), {spread}
n, steps = 0, {steps}
env.reset(seed=0)
begin = time.process_time()
while n < steps:
    action = rest + spread * rng.uniform(-1.0, 1.0, env.action_space.shape)
    *_, terminated, truncated, _ = env.step(np.clip(action, env.action_space.low, env.action_space.high))
    n += 1
    if terminated or truncated:
        env.reset()
spent = time.process_time() - begin
print(json.dumps({{"steps_per_s": n / spent, "step_s": {period}, "mujoco": mujoco.__version__}}))
"""
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "dexstack/PalmTurn-v0": {
        "imports": "import dexstack.environments",
        "options": ", seconds=15.0, action='target'",
        "rest": "env.simulation.setup.rest",
        "spread": 0.05,
        "period": "env.simulation.timing.pose_period",
    },
    "HandManipulateBlockRotateZ-v1": {
        "imports": "import gymnasium_robotics; gymnasium.register_envs(gymnasium_robotics)",
        "options": "",
        "rest": 0.0,
        "spread": 0.05,
        "period": "env.dt",
    },
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--peer", default=sys.executable, metavar="PYTHON", help="Python with gymnasium-robotics"
    )
    parser.add_argument("--peer-path", default="", metavar="DIR", help="further folder of its packages")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of each, in turns")
    parser.add_argument("--steps", type=int, default=1000, metavar="N", help="in each round")


def _round(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run one round in a process of its own, on the core of this one.

    Raises:
        ConfigError: it failed.
    """
    python, environment = sys.executable, dict(os.environ)
    if name.startswith("Hand"):
        python = args.peer
        environment |= {"PYTHONPATH": args.peer_path} if args.peer_path else {}
    code = ROUND.format(name=name, steps=args.steps, **ENVIRONMENTS[name])
    done = subprocess.run([python, "-c", code], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise ConfigError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def steps(args: argparse.Namespace) -> Findings:
    """Measure both environments in turns."""
    rounds = {name: [] for name in ENVIRONMENTS}
    for _ in range(args.rounds):
        for name, found in rounds.items():
            found.append(_round(name, args))
    rows = []
    for name, found in rounds.items():
        rates = np.array([r["steps_per_s"] for r in found])
        step = found[0]["step_s"]
        rows.append(
            {
                "environment": name,
                "mujoco": found[0]["mujoco"],
                "step_s": step,
                "steps_per_s": {"median": float(np.median(rates)), "min": rates.min(), "max": rates.max()},
                "simulated_per_s": float(np.median(rates) * step),
                "rounds": len(found),
            }
        )
    shown = [
        [r["environment"], 1e3 * r["step_s"], r["steps_per_s"]["median"], r["simulated_per_s"]] for r in rows
    ]
    columns = ("environment", "step [ms]", "steps/s", "simulated s/s")
    results = {"environments": rows, "passed": True}
    return Findings(results, lines=[table("Steps of environments, one core, processor time", columns, shown)])


main = experiment("experiments.judge.steps", __doc__, steps, arguments=_arguments, pinned=True)

if __name__ == "__main__":
    sys.exit(main())
