"""Forward kinematics and point Jacobians of robots on a fixed base, in JAX: hands, by the levels of
their tree, and balls."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from dexstack.geometry.rotations import rotation_matrix

if TYPE_CHECKING:
    from dexstack.model.hand import HandModel


def quaternion_matrix(quat: Float[Array, "4"]) -> Float[Array, "3 3"]:
    """Return the rotation matrix (3, 3) of a quaternion wxyz of any length; NaN only for NaN."""
    w, x, y, z = quat / jnp.sqrt(jnp.maximum(jnp.sum(quat * quat), 1e-20))
    return jnp.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


class BodyPoses(NamedTuple):
    """Poses of the bodies B (palm first) and of the joint axes in the world frame."""

    R_WB: Float[Array, "B 3 3"]
    p_WB: Float[Array, "B 3"]
    axis_W: Float[Array, "H 3"]
    """Unit axis of hinge i; in a hand it passes through ``p_WB[i + 1]``."""


class Kinematics(abc.ABC):
    """Poses of a robot's bodies and Jacobians of its joints; pure functions of arrays, traced by
    JAX."""

    tip_body: np.ndarray
    """(F,) body of each fingertip."""

    @abc.abstractmethod
    def poses(self, q: Float[Array, " N"]) -> BodyPoses: ...

    @abc.abstractmethod
    def fingertips(self, poses: BodyPoses) -> Float[Array, "F 3"]: ...

    @abc.abstractmethod
    def point_jacobian(
        self, poses: BodyPoses, p_W: Float[Array, "C 3"], link: Array
    ) -> Float[Array, "C 3 N"]: ...


class KinematicTree(Kinematics):
    """Kinematics of a hand whose body ``i + 1`` is moved by hinge ``i`` and whose body 0 is fixed
    in the world.

    An instance holds constant arrays only: compiled functions close over it, JAX never traces it.
    """

    def __init__(self, hand: HandModel) -> None:
        bodies = hand.bodies
        self._coupling = None if hand.alike else hand.coupling
        hinges = len(bodies) - 1
        self.num_bodies = len(bodies)
        quat_WP, p_WP = hand.quat_WP, hand.p_WP
        self._R_WP, self._p_WP = rotation_matrix(quat_WP), np.asarray(p_WP, float)
        # Rodrigues: R_PB(q) = R0 (a aᵀ + cos q (I − a aᵀ) + sin q [a]×), so three constant matrices
        # per body are enough.
        self._const, self._cos, self._sin = (np.zeros((hinges, 3, 3)) for _ in range(3))
        self._p_PB, self._axis_B = np.zeros((hinges, 3)), np.zeros((hinges, 3))
        ancestors = np.zeros((self.num_bodies, hinges), bool)
        depth = np.zeros(self.num_bodies, int)
        for i, body in enumerate(bodies[1:]):
            assert body.parent <= i
            a = np.asarray(body.axis, float)
            outer, skew = np.outer(a, a), np.cross(np.eye(3), a)
            self._const[i], self._cos[i], self._sin[i] = (
                body.R_PB_at_zero @ m for m in (outer, np.eye(3) - outer, skew)
            )
            self._p_PB[i], self._axis_B[i] = body.p_PB, a
            depth[i + 1] = depth[body.parent] + 1
            ancestors[i + 1] = ancestors[body.parent]
            ancestors[i + 1, i] = True
        self._levels = [np.flatnonzero(depth == d) for d in range(1, depth.max() + 1)]
        self._parent = np.array([max(b.parent, 0) for b in bodies])
        self.moves = np.vstack([np.zeros((1, hinges), bool), ancestors])
        """(B + 1, H): hinge i moves body b at row ``b + 1``; row 0 is the ground."""
        self.tip_body = np.array([tip.body for tip in hand.fingertips])
        self.p_BT = np.array([tip.p_BT for tip in hand.fingertips])

    def poses(self, q: Float[Array, " N"]) -> BodyPoses:
        """Return the poses of all bodies at joint angles ``q`` [rad]."""
        dtype = q.dtype

        def as_const(a: np.ndarray) -> Array:
            return jnp.asarray(a, dtype)

        if self._coupling is not None:
            C, c = self._coupling
            q = as_const(C) @ q + as_const(c)
        R_PB = (
            as_const(self._const)
            + jnp.cos(q)[:, None, None] * as_const(self._cos)
            + jnp.sin(q)[:, None, None] * as_const(self._sin)
        )
        R_WB = jnp.zeros((self.num_bodies, 3, 3), dtype).at[0].set(as_const(self._R_WP))
        p_WB = jnp.zeros((self.num_bodies, 3), dtype).at[0].set(as_const(self._p_WP))
        for level in self._levels:
            parent = self._parent[level]
            R_WP, joint = R_WB[parent], level - 1
            p_WB = p_WB.at[level].set(
                p_WB[parent] + jnp.einsum("bij,bj->bi", R_WP, as_const(self._p_PB[joint]))
            )
            R_WB = R_WB.at[level].set(jnp.einsum("bij,bjk->bik", R_WP, R_PB[joint]))
        return BodyPoses(R_WB, p_WB, jnp.einsum("bij,bj->bi", R_WB[1:], as_const(self._axis_B)))

    def fingertips(self, poses: BodyPoses) -> Float[Array, "F 3"]:
        """Return the fingertip positions p_WTip [m]."""
        return poses.p_WB[self.tip_body] + jnp.einsum(
            "fij,fj->fi", poses.R_WB[self.tip_body], jnp.asarray(self.p_BT, poses.p_WB.dtype)
        )

    def point_jacobian(
        self, poses: BodyPoses, p_W: Float[Array, "C 3"], link: Array
    ) -> Float[Array, "C 3 N"]:
        """Return the translational Jacobian in the world frame of points fixed to ``link`` [m/rad];
        zero for the palm (0) and the ground (−1)."""
        arm = p_W[:, None, :] - poses.p_WB[None, 1:, :]
        columns = jnp.cross(jnp.broadcast_to(poses.axis_W[None], arm.shape), arm)
        columns = jnp.where(jnp.asarray(self.moves)[link + 1][:, :, None], columns, 0.0)
        by_hinge = jnp.swapaxes(columns, 1, 2)
        return (
            by_hinge if self._coupling is None else by_hinge @ jnp.asarray(self._coupling[0], by_hinge.dtype)
        )


class BallKinematics(Kinematics):
    """Kinematics of balls on three sliding joints each: body 0 is the floor, body ``i + 1`` is ball
    i, whose centre is the fingertip."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.tip_body = np.arange(1, count + 1)
        self._columns = np.zeros((count + 2, 3, 3 * count))
        """Jacobian of every link, the ground's first."""
        for i in range(count):
            self._columns[i + 2, :, 3 * i : 3 * i + 3] = np.eye(3)

    def poses(self, q: Float[Array, " N"]) -> BodyPoses:
        """Return the poses of the floor and of all balls at joint positions ``q`` [m]."""
        p_WB = jnp.concatenate([jnp.zeros((1, 3), q.dtype), q.reshape(-1, 3)])
        return BodyPoses(
            jnp.broadcast_to(jnp.eye(3, dtype=q.dtype), (self.count + 1, 3, 3)),
            p_WB,
            jnp.tile(jnp.eye(3, dtype=q.dtype), (self.count, 1)),
        )

    def fingertips(self, poses: BodyPoses) -> Float[Array, "F 3"]:
        """Return the centres of the balls p_WTip [m]."""
        return poses.p_WB[1:]

    def point_jacobian(
        self, poses: BodyPoses, p_W: Float[Array, "C 3"], link: Array
    ) -> Float[Array, "C 3 N"]:
        """Return the translational Jacobian in the world frame of points fixed to ``link`` [-];
        zero for the floor (0) and the ground (−1)."""
        return jnp.asarray(self._columns, p_W.dtype)[link + 1]
