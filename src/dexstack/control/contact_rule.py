"""The contact set along the plan, for any time-stepping model.

* FROZEN      rows and distances are those of the present state, as in the paper: a contact that the
              plan opens still pushes.
* PROPAGATED  rows are constant, distances follow the plan, φ_t = φ_0 + J_n (q_t − q_0): one product
              more per step.
* DETECTED    contacts are detected at every predicted state, C(q_t), with new rows and distances: one
              detection per step.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dexstack.contact.contact import Contacts
from dexstack.contact.detector import ContactDetector
from dexstack.control.problem import StepProblem


class Ahead(NamedTuple):
    """A predicted state."""

    t: Array
    """Number of steps from the present."""
    displacement: Float[Array, " V"]
    """Relative to the present state."""
    pose_WO: Float[Array, "7"]
    q: Float[Array, " N"]


class Rows(NamedTuple):
    """Contacts of a step from a predicted state."""

    context: Any
    """Context of the model, see :meth:`~dexstack.control.models.base.StepModel.prepare`."""
    phi: Float[Array, " C"]
    slope: Float[Array, "C V"]
    """∂φ/∂(displacement)."""


Build = Callable[[Array, Array, Contacts], tuple[StepProblem, Any]]
"""Object pose (7,), joints (N,), contacts → the step problem and the model's context."""


class ContactRule(abc.ABC):
    """Determines the contacts of predicted states; traced by JAX."""

    @abc.abstractmethod
    def rows(
        self, contacts: Contacts, problem: StepProblem, context: Any, ahead: Ahead, build: Build
    ) -> Rows:
        """Return the rows of a predicted state.

        Args:
            contacts: of the present state.
            problem: of the present state, made by ``build``.
            context: of the present state, made by ``build``.
        """


class FrozenContacts(ContactRule):
    """Constant rows and distances."""

    def rows(
        self, contacts: Contacts, problem: StepProblem, context: Any, ahead: Ahead, build: Build
    ) -> Rows:
        return Rows(context, problem.phi, jnp.zeros_like(problem.Jn))


class PropagatedContacts(ContactRule):
    """Constant rows, first-order distances."""

    def rows(
        self, contacts: Contacts, problem: StepProblem, context: Any, ahead: Ahead, build: Build
    ) -> Rows:
        return Rows(context, problem.phi + problem.Jn @ ahead.displacement, problem.Jn)


class DetectedContacts(ContactRule):
    """Contacts detected at every predicted state; the present state has the given ones.

    The slope neglects that normals and points depend on the state.
    """

    def __init__(self, detector: ContactDetector) -> None:
        self._detector = detector

    def rows(
        self, contacts: Contacts, problem: StepProblem, context: Any, ahead: Ahead, build: Build
    ) -> Rows:
        found = self._detector.trace(ahead.pose_WO, ahead.q)
        here = jax.tree.map(lambda given, new: jnp.where(ahead.t == 0, given, new), contacts, found)
        problem, context = build(ahead.pose_WO, ahead.q, here)
        return Rows(context, problem.phi, problem.Jn)
