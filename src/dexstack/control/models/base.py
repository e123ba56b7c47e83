"""What the MPC needs of a time-stepping model."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

from jax import Array
from jaxtyping import Float

from dexstack.control.problem import ModelParams, StepProblem


class Sensitivity(NamedTuple):
    """Derivatives of one step's displacement dq."""

    force: Float[Array, "V V"]
    """∂dq/∂b."""
    phi: Float[Array, "V C"]
    """∂dq/∂φ."""


class StepModel(abc.ABC):
    """Maps force b and distances φ to the displacement dq of one step of a :class:`StepProblem`.

    Pure functions of arrays, traced by JAX. ``prepare`` is what can be done once for a frozen
    contact set; ``dual`` is whatever a model wants to hand to its next call for a warm start (zeros
    at first), and may be empty.
    """

    @abc.abstractmethod
    def prepare(self, problem: StepProblem, theta: ModelParams) -> Any: ...

    @abc.abstractmethod
    def initial_dual(self, problem: StepProblem) -> Array: ...

    @abc.abstractmethod
    def step(
        self, context: Any, b: Float[Array, " V"], phi: Float[Array, " C"], dual: Array
    ) -> tuple[Float[Array, " V"], Array]: ...

    @abc.abstractmethod
    def sensitivity(
        self, context: Any, b: Float[Array, " V"], phi: Float[Array, " C"], dual: Array
    ) -> Sensitivity:
        """Derivatives at a step whose returned dual was ``dual``."""

    def solved(
        self, context: Any, b: Float[Array, " V"], phi: Float[Array, " C"], dual: Array
    ) -> Float[Array, " V"]:
        """The displacement of a step solved to the end, whose derivatives in the context (and so in
        θ), b and φ are exact.

        Args:
            dual: of the solved step; no derivative is taken through it.
        """
        return self.step(context, b, phi, dual)[
            0
        ]  # right for closed forms, and for Newton's method at its solution
