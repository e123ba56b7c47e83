"""Parts that a planner's step may have beside the paper's: substeps, the joints' velocities, contacts between fingers.

The step of h seconds is taken in n substeps of s = h / n. Each is a step problem of its own, between which the joint target stays where the
step put it and distances follow the motion:

    Q_r = K_r / (1 − (1 − cover)^(1/n)) + I_r / s² ,      b_r = K_r (q_target − q_r) + I_r / s² (q_r − q_r⁻)

I_r is the joints' inertia and q_r⁻ where they were a substep earlier, s q̇_r before the first one: implicit Euler for the joints. The object
stays quasi-static; of M_o what counts is the resistance M_o / h to its velocity, the same in every substep. Contacts between fingers are
rows like the object's, found at the present joint positions.

With one substep, no velocities and no such contacts this is the paper's step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from dexstack.config import param
from dexstack.contact.contact import Contacts
from dexstack.contact.pairs import PairContacts, PairDetector, empty_pairs
from dexstack.control.problem import OBJECT_DOF, ModelParams, StepProblem, contact_rows, step_problem
from dexstack.model.kinematics import BodyPoses, Kinematics
from dexstack.model.scene import robot_scene

if TYPE_CHECKING:
    from dexstack.model.robot import Robot

FINGER_CONTACTS = 8
"""Slots for contacts between fingers."""
FINGER_MARGIN = 0.01
"""Links farther apart than this are not in contact [m]."""


@dataclass(frozen=True)
class StepParts:
    """Which parts a step has; compiled in."""

    substeps: int = param(1, "substeps of one predicted step", 1, 20)
    joint_velocities: bool = param(False, "predicted joints have inertia and start with their measured velocities")
    finger_contacts: bool = param(False, "predicted fingers touch each other instead of passing through")


PAPER = StepParts()
"""The paper's step."""


class FingerContacts:
    """Finds contacts between a robot's own links; without the part, none in no slots."""

    def __init__(self, robot: Robot, parts: StepParts) -> None:
        self._detector = PairDetector(robot, None, FINGER_CONTACTS, FINGER_MARGIN) if parts.finger_contacts else None
        self._none = empty_pairs(0)
        self.capacity = FINGER_CONTACTS if parts.finger_contacts else 0

    def detect(self, q: np.ndarray) -> PairContacts:
        """At joint positions (N,) [rad, m]."""
        return self._none if self._detector is None else self._detector.detect(np.zeros(7), q)


class Substep(NamedTuple):
    """What turns θ into the numbers of one substep."""

    length: float
    """s [s]"""
    count: int
    """n"""
    inertia: Float[np.ndarray, " N"] | None
    """I_r / s² [N m/rad, N/m]; None where joints have no velocity."""

    def theta(self, theta: ModelParams) -> ModelParams:
        """θ of a substep: as much of a command is covered in n of them, and as little resisted."""
        if self.count == 1:
            return theta
        return theta._replace(cover=-jnp.expm1(jnp.log1p(-theta.cover) / self.count), inertia=theta.inertia / self.count)

    def problem(
        self, tree: Kinematics, poses: BodyPoses, pose_WO: Float[Array, "7"], contacts: Contacts, fingers: PairContacts, theta: ModelParams
    ) -> StepProblem:
        """The step problem of a substep with :meth:`theta`."""
        problem = step_problem(tree, poses, pose_WO, contacts, theta, self.length)
        if self.inertia is not None:
            problem = problem._replace(Q=problem.Q.at[OBJECT_DOF:].add(jnp.asarray(self.inertia, problem.Q.dtype)))
        return with_finger_contacts(problem, tree, poses, fingers, theta) if fingers.phi.shape[-1] else problem


def substep_of(robot: Robot, step: float, parts: StepParts) -> Substep:
    """The substep of a model step of ``step`` [s]; the joints' inertia is that at zero joint angles."""
    length = step / parts.substeps
    inertia = robot_scene(robot, None).compile().dof_M0 / length**2 if parts.joint_velocities else None
    return Substep(length, parts.substeps, inertia)


def with_finger_contacts(
    problem: StepProblem, tree: Kinematics, poses: BodyPoses, fingers: PairContacts, theta: ModelParams
) -> StepProblem:
    """The problem with the rows of contacts between fingers after its own; unused slots have zero rows."""
    to, of = (tree.point_jacobian(poses, fingers.p_W, link) for link in (fingers.to_link, fingers.from_link))
    relative = jnp.pad(to - of, ((0, 0), (0, 0), (OBJECT_DOF, 0)))
    Jn, J = contact_rows(fingers.nhat_W, relative, fingers.from_link != fingers.to_link, theta.friction)
    return problem._replace(
        Jn=jnp.concatenate([problem.Jn, Jn]), J=jnp.concatenate([problem.J, J]), phi=jnp.concatenate([problem.phi, fingers.phi])
    )
