"""The quasi-dynamic step problem: generalised displacements, their stiffness, and the contact rows,
contactsdf [3], [5], [6]."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float

from dexstack.contact.contact import Contacts
from dexstack.model.kinematics import BodyPoses, Kinematics, quaternion_matrix

OBJECT_DOF = 6
FRICTION_DIRECTIONS = 4
"""n_d: rows of the friction pyramid of each contact."""


class ModelParams(NamedTuple):
    """θ of the time-stepping model [23] as a pytree: one meaning for planner and learner."""

    inertia: Float[Array, "6"]
    """M_o, diagonal: translation [kg] and rotation about the body axes [kg m²], regularised."""
    stiffness: Float[Array, " N"]
    """K_r, joint stiffness of the servo [N m/rad]."""
    cover: Float[Array, " N"]
    """Fraction of a commanded displacement that a free joint covers in one step: 1 − exp(−h k/d) with
    stiffness k and damping d."""
    mass: Float[Array, ""]
    """m_o, mass of the object under gravity [kg]."""
    friction: Float[Array, ""]
    """μ."""
    sigma: Float[Array, ""]
    """Sharpness of the D-SDF [1/√J]; unused by the other models."""


class StepProblem(NamedTuple):
    """One step over displacements dq = h v = (object linear W, object angular B, joints), V = 6 +
    N:

    min ½ dqᵀ Q dq − dqᵀ b   s.t.   J_ij dq + φ_i ≥ 0                                       [5],
    times h
    """

    Q: Float[Array, " V"]
    """Diagonal of Q: M_o/h² and the joint stiffness over the step [N/m, N m/rad]."""
    Jn: Float[Array, "C V"]
    """Normal rows: d(φ)/d(q)."""
    J: Float[Array, "M V"]
    """Rows J_ij = J_i^n − μ J_ij^d, contact-major, n_d per contact [6]; zero for an inactive
    contact."""
    phi: Float[Array, " C"]
    """Distances [m]."""


def tangents(nhat: Float[Array, "C 3"]) -> Float[Array, "C 2 3"]:
    """Return two orthonormal tangents of each normal (branchless, Duff et al. 2017)."""
    x, y, z = nhat[:, 0], nhat[:, 1], nhat[:, 2]
    sign = jnp.where(z >= 0, 1.0, -1.0).astype(nhat.dtype)
    a = -1.0 / (sign + z)
    b = x * y * a
    t1 = jnp.stack([1.0 + sign * x * x * a, sign * b, -sign * x], axis=1)
    t2 = jnp.stack([b, sign + y * y * a, -y], axis=1)
    return jnp.stack([t1, t2], axis=1)


def skew(v: Float[Array, "C 3"]) -> Float[Array, "C 3 3"]:
    """Return [v]× with [v]× w = v × w."""
    zero = jnp.zeros_like(v[:, 0])
    return jnp.stack(
        [zero, -v[:, 2], v[:, 1], v[:, 2], zero, -v[:, 0], -v[:, 1], v[:, 0], zero], axis=1
    ).reshape(-1, 3, 3)


def relative_jacobian(
    tree: Kinematics, poses: BodyPoses, pose_WO: Float[Array, "7"], contacts: Contacts
) -> Float[Array, "C 3 V"]:
    """Return the Jacobian of v_robot − v_object at the contact points, world frame, with respect to
    (v_O W, ω_O B, joints)."""
    R_WO = quaternion_matrix(pose_WO[3:])
    arm = contacts.p_W - pose_WO[None, :3]
    eye = jnp.broadcast_to(jnp.eye(3, dtype=arm.dtype), (arm.shape[0], 3, 3))
    # v_object = v_O + ω_W × arm = v_O − [arm]× R_WO ω_B
    return jnp.concatenate(
        [-eye, skew(arm) @ R_WO, tree.point_jacobian(poses, contacts.p_W, contacts.link)], axis=2
    )


def contact_rows(
    nhat_W: Float[Array, "C 3"], relative: Float[Array, "C 3 V"], active: Bool[Array, " C"], friction: Array
) -> tuple[Float[Array, "C V"], Float[Array, "M V"]]:
    """Return J^n and the rows J_ij of [6] from the Jacobians of the relative velocity at the contact
    points; zero for inactive contacts."""
    Jn = jnp.where(active[:, None], jnp.einsum("ci,civ->cv", nhat_W, relative), 0.0)
    Jt = jnp.where(active[:, None, None], jnp.einsum("cdi,civ->cdv", tangents(nhat_W), relative), 0.0)
    J = Jn[:, None, :] - friction * jnp.concatenate([Jt, -Jt], axis=1)
    return Jn, J.reshape(-1, J.shape[2])


def step_problem(
    tree: Kinematics,
    poses: BodyPoses,
    pose_WO: Float[Array, "7"],
    contacts: Contacts,
    theta: ModelParams,
    h: float,
) -> StepProblem:
    """Return the step problem of length ``h`` [s] with a frozen contact set."""
    relative = relative_jacobian(tree, poses, pose_WO, contacts)
    Jn, J = contact_rows(contacts.nhat_W, relative, contacts.active, theta.friction)
    Q = jnp.concatenate([theta.inertia / h**2, theta.stiffness / theta.cover])
    return StepProblem(Q=Q, Jn=Jn, J=J, phi=jnp.where(contacts.active, contacts.phi, 1.0))


def force(theta: ModelParams, u: Float[Array, " N"], gravity: Any) -> Float[Array, " V"]:
    """Return b(u) = [m_o g; 0; K_r u] [3]: gravity on the object and the servo's pull towards the
    target; gravity on the robot is compensated.

    Args:
        gravity: (3,) in the world [m/s²].
    """
    weight = jnp.asarray(gravity, u.dtype) * theta.mass
    return jnp.concatenate([weight, jnp.zeros(3, u.dtype), theta.stiffness * u])


def integrate_quaternion(quat: Float[Array, "4"], rotation_B: Float[Array, "3"]) -> Float[Array, "4"]:
    """Return q ⊗ exp(rotation_B / 2), normalised [21]; smooth at zero rotation."""
    half_square = jnp.sum(rotation_B**2) / 4
    half = jnp.sqrt(jnp.maximum(half_square, 1e-12))
    w = jnp.where(half_square < 1e-12, 1.0 - half_square / 2, jnp.cos(half))
    x, y, z = rotation_B / 2 * jnp.where(half_square < 1e-12, 1.0, jnp.sin(half) / half)
    a, b, c, d = quat
    out = jnp.stack(
        [
            a * w - b * x - c * y - d * z,
            a * x + b * w + c * z - d * y,
            a * y - b * z + c * w + d * x,
            a * z + b * y - c * x + d * w,
        ]
    )
    return out * jax.lax.rsqrt(jnp.sum(out * out))


def physical_params(
    mass: float,
    inertia: np.ndarray,
    friction: float,
    stiffness: np.ndarray,
    damping: np.ndarray,
    h: float,
    inertia_scale: float,
    sigma: float,
) -> ModelParams:
    """Return θ of physical quantities.

    Args:
        mass: of the object [kg].
        inertia: (3, 3) of the object about its centre [kg m²].
        friction: μ.
        stiffness: (N,) k of the joints [N m/rad].
        damping: (N,) d of the joints [N m s/rad].
        h: length of a step [s].
        inertia_scale: factor on the object's inertia, which damps the quasi-dynamic fall.
        sigma: sharpness of the D-SDF [1/√J].
    """
    stiffness, damping = np.asarray(stiffness, float), np.asarray(damping, float)
    fields = ModelParams(
        inertia=inertia_scale * np.concatenate([np.full(3, mass), np.diag(inertia)]),
        stiffness=stiffness,
        cover=-np.expm1(-h * stiffness / np.maximum(damping, 1e-9)),
        mass=mass,
        friction=friction,
        sigma=sigma,
    )
    # jnp.asarray(x, float32) would compile a conversion for each shape
    return ModelParams(*(jax.device_put(np.asarray(x, np.float32)) for x in fields))
