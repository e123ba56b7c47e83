"""Parameters of the learner, in a module without JAX so that parameter files are checked fast."""

from __future__ import annotations

from dataclasses import dataclass

from dexstack.config import param


@dataclass(frozen=True)
class LearnerParams:
    """Parameters of the learner."""

    learning_rate: float = param(
        0.05, "step of Adam; about the relative change of a parameter per update [-]", 1e-5, 1.0
    )
    epochs: int = param(10, "passes over the buffer per update of θ", 1, 1000)
    batch: int = param(100, "transitions per gradient", 1, 100000)
    buffer: int = param(2000, "transitions the ring buffer holds", 10, 1000000)
    position_loss: float = param(4e4, "w_p, weight of the squared position error [1/m²]", 0.0, 1e9)
    orientation_loss: float = param(100.0, "w_q, weight of the squared orientation error [1/rad²]", 0.0, 1e9)
    joint_loss: float = param(10.0, "w_r, weight of the squared error of a joint [1/rad², 1/m²]", 0.0, 1e9)
    robust: float = param(
        1.0,
        "weighted error of a transition above which it counts linearly instead of squared [-]",
        1e-3,
        1e6,
    )
    prior: float = param(
        4e-3, "w_0, weight of a parameter's relative change since the first guess [-]", 0.0, 1e3
    )
    mass_prior: float = param(4e-3, "the same for the object's mass [-]", 0.0, 1e3)
    solver_calls: int = param(
        12,
        "calls of the time-stepping model per step, each warm-started by the last",
        1,
        1000,
    )
