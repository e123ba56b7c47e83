"""Your own task: cost, goals and judgement; `dexstack eval` and `dexstack up sim --task` take the path of
this file."""

from dataclasses import dataclass, replace

import dexstack
from dexstack.config import param
from dexstack.tasks.palm_turn import PalmTurn, PalmWeights


@dataclass(frozen=True)
class ToAndFroWeights(PalmWeights):
    """Weights of the cost, with one term more."""

    posture_weight: float = param(0.2, "weight of the squared joint angles away from home [1/rad²]", 0.0, 1e6)


class ToAndFro(PalmTurn):
    """Turn the object to +30° and back repeatedly, with the fingers near their home pose:

    stage:  that of the palm turn + ω_h ‖q − q_home‖²
    """

    name = "to_and_fro"
    Weights = ToAndFroWeights
    opening_yaw = None
    trials = 2

    def stage(self, state, goal_WO, weights):
        """Add the joints to the palm turn's residuals."""
        import jax.numpy as jnp

        posture = jnp.sqrt(weights.posture_weight) * (state.q - jnp.asarray(self.robot().home, state.q.dtype))
        return jnp.concatenate([super().stage(state, goal_WO, weights), posture])

    def goals(self, k, seed):
        """Alternate without end."""
        while True:
            yield self.at_yaw(0.52)._replace(label="there")
            yield self.at_yaw(0.0)._replace(label="back")

    def seconds(self):
        return 6.0

    def succeeded(self, outcome):
        """Require both goals once."""
        return not outcome.dropped and len(outcome.reached_at) >= 2


TASK = ToAndFro

if __name__ == "__main__":
    loop = dexstack.closed_loop(ToAndFro)
    loop.planner.weights = replace(loop.planner.weights, posture_weight=0.3)
    trial = loop.run(k=0, seed=0)
    print(f"{len(trial.reached_at)} goals reached, at {', '.join(f'{t:.1f}' for t in trial.reached_at)} s")
