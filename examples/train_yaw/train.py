"""Train turns of the cube about the vertical with CMA-ES: python train.py FOLDER MINUTES [random]

Needs 'dexstack[gym,policies]', cma and onnx. The policy in FOLDER is trained further, if there is one;
``random`` draws mass, friction, size, torque … of every rollout. At the end the policy is judged.
"""

import sys
import time
from pathlib import Path

import cma
import gymnasium
import numpy as np
import onnx
import onnxruntime
from policy import FEATURES, policy

from dexstack.cli.main import main as dexstack
from dexstack.control.policies.mapping import write_mapping


def progress(env: gymnasium.Env, model: onnx.ModelProto, seed: int, options: dict) -> float:
    """Return the sum of rewards: the turn towards the goal [rad], less 1 if the cube was dropped."""
    session, total, ended = onnxruntime.InferenceSession(model.SerializeToString()), 0.0, False
    seen, _ = env.reset(seed=seed, options=options)
    while not ended:
        action = session.run(None, {"seen": seen[None]})[0][0]
        seen, reward, terminated, truncated, _ = env.step(action)
        total, ended = total + reward, terminated or truncated
    return total


def train(folder: Path, minutes: float, world: dict) -> None:
    env = gymnasium.make(
        "dexstack/PalmTurn-v0",
        seconds=6.0,
        features=FEATURES,
        action="target",
        set={"hold": 60.0},  # a reached goal ends no rollout: the turn must last
    ).unwrapped
    rest, kept, x, spread = env.simulation.setup.rest, folder / "yaw.npy", np.zeros((2, 49)), 0.2
    if kept.is_file():
        x, spread = np.load(kept), 0.05
    folder.mkdir(parents=True, exist_ok=True)
    write_mapping(folder / "yaw.yaml", env.mapping)
    for k, direction in enumerate((1.0, -1.0)):
        options = {"goals": [env.task.at_yaw(direction * np.pi / 2).pose_WO], **world}
        end = time.monotonic() + 30.0 * minutes
        learner = cma.CMAEvolutionStrategy(x[k], spread, {"seed": 1, "verbose": -9})
        while learner.countiter < 1 or time.monotonic() < end:
            n, candidates, turned = learner.countiter, learner.ask(), []
            for x[k] in candidates:
                model = policy(x, rest)
                turned.append(np.mean([progress(env, model, seed, options) for seed in (2 * n, 2 * n + 1)]))
            learner.tell(candidates, [-turn for turn in turned])
            print(f"{direction:+.0f}, generation {n + 1}: turned by {np.mean(turned):.3f} rad", flush=True)
        x[k] = learner.mean
        np.save(kept, x)
        onnx.save(policy(x, rest), folder / "yaw.onnx")


if __name__ == "__main__":  # the trials run in processes that import this file
    folder = Path(sys.argv[1])
    train(folder, float(sys.argv[2]), {"world": "random"} if sys.argv[3:] else {})
    dexstack(["eval", "palm_turn", "--planner", str(folder / "yaw.onnx"), "--trials", "6", "--require", "0"])
