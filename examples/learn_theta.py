"""Learn the planner's model from its own rollouts, starting from uninformed numbers; held-out transitions
score it."""

import sys

import dexstack
from dexstack.learning.on_policy import learn_on_policy, uninformed_theta

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 400

loop = dexstack.closed_loop("palm_turn", object="cube")
first = uninformed_theta(loop)

for point, _, _ in learn_on_policy(
    loop, first, steps=steps, every=min(200, steps), seed=0, score_with=lambda theta: []
):
    print(f"{point.steps} steps: held-out loss {point.held_out:.4f}")

loop.planner.theta = point.theta
trial = loop.run(k=0, seed=500, seconds=3.0)
print(
    f"with the learned θ: {trial.orientation_error:.3f} rad off after 3 s, "
    f"learned mass {float(point.theta.mass):.3f} kg"
)
