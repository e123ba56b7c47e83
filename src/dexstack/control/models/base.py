"""Interface of time-stepping models."""

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

    Pure functions of arrays, traced by JAX. ``prepare`` is computed once per frozen contact set;
    ``dual`` is the warm start that a model passes to its next call (zeros at first), and may be
    empty.
    """

    @abc.abstractmethod
    def prepare(self, problem: StepProblem, theta: ModelParams) -> Any:
        """Return the context that the other methods take."""

    @abc.abstractmethod
    def initial_dual(self, problem: StepProblem) -> Array:
        """Return the warm start of the first call."""

    @abc.abstractmethod
    def step(
        self, context: Any, b: Float[Array, " V"], phi: Float[Array, " C"], dual: Array
    ) -> tuple[Float[Array, " V"], Array]:
        """Return dq and the new dual."""

    @abc.abstractmethod
    def sensitivity(
        self, context: Any, b: Float[Array, " V"], phi: Float[Array, " C"], dual: Array
    ) -> Sensitivity:
        """Return the derivatives at a step whose returned dual was ``dual``."""

    def solved(
        self, context: Any, b: Float[Array, " V"], phi: Float[Array, " C"], dual: Array
    ) -> Float[Array, " V"]:
        """Return the displacement of a converged step, with exact derivatives in the context (and
        so in θ), b and φ.

        The default is exact for closed forms and for Newton's method at its solution.

        Args:
            dual: of the converged step; no derivative is taken through it.
        """
        return self.step(context, b, phi, dual)[0]
