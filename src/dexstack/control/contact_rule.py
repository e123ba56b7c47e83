"""What becomes of the contact set along the plan: one parameter of the planner, whatever its
time-stepping model.

* FROZEN      rows and distances stay those of the present state, as in the paper: a contact that
    the plan opens still pushes.
* PROPAGATED  rows stay, distances follow the plan, φ_t = φ_0 + J_n (q_t − q_0): one product more
    per step.
* DETECTED    contacts are found anew at every predicted state, C(q_t), with new rows and distances:
    as many detections as there are steps.
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
    """One predicted state."""

    t: Array
    """Steps from the present; 0 is the present itself."""
    displacement: Float[Array, " V"]
    """Since the present."""
    pose_WO: Float[Array, "7"]
    q: Float[Array, " N"]


class Rows(NamedTuple):
    """What a step from a predicted state sees of the contacts."""

    context: Any
    """The model's, see :meth:`~dexstack.control.models.base.StepModel.prepare`."""
    phi: Float[Array, " C"]
    slope: Float[Array, "C V"]
    """∂φ/∂(displacement)."""


Build = Callable[[Array, Array, Contacts], tuple[StepProblem, Any]]
"""Object pose (7,), joints (N,), contacts → the step problem and the model's context."""


class ContactRule(abc.ABC):
    """Pure functions of arrays, traced by JAX."""

    @abc.abstractmethod
    def rows(
        self, contacts: Contacts, problem: StepProblem, context: Any, ahead: Ahead, build: Build
    ) -> Rows:
        """Rows of a predicted state.

        Args:
            contacts: at the present state, as are ``problem`` and ``context``, made of them by
                ``build``.
        """


class FrozenContacts(ContactRule):
    """FROZEN."""

    def rows(
        self, contacts: Contacts, problem: StepProblem, context: Any, ahead: Ahead, build: Build
    ) -> Rows:
        return Rows(context, problem.phi, jnp.zeros_like(problem.Jn))


class PropagatedContacts(ContactRule):
    """PROPAGATED."""

    def rows(
        self, contacts: Contacts, problem: StepProblem, context: Any, ahead: Ahead, build: Build
    ) -> Rows:
        return Rows(context, problem.phi + problem.Jn @ ahead.displacement, problem.Jn)


class DetectedContacts(ContactRule):
    """DETECTED; at the present state the contacts given count, wherever they come from.

    The slope leaves out that normals and points turn with the state.
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
