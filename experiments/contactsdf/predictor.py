"""The predictor: one model step in substeps, with velocities, finger–finger contacts and Coulomb
friction; for prediction, not for planning.

Each substep of length s = h / n finds the velocity v⁺ of (object linear W, object angular B,
joints) that minimises the convex

    ½ (v⁺ − v*)ᵀ M_s (v⁺ − v*) + ½ Σ_i ‖γ_i(v⁺)‖²_{R_i},      γ_i = P_i(R_i⁻¹ (v̂_i − J_i v⁺))

M_s is the inertia of object and fingers with the servo's stiffness and the joints' damping implicit
in it, v* the velocity without contacts, P_i the projection onto the friction cone (stick, slide,
separate in closed form), γ the contacts' impulses. R and v̂ make a penetrating contact follow, up to
the share r/(1 + r) of the outer acceleration,

    d(gap_rate)/dt = −2/t_c gap_rate − gap/t_c² ,      R_n = r J_n M⁻¹ J_nᵀ ,      R_t = c R_n

and let an open one close its gap. This is the contact law of MuJoCo and, with other names, of Drake.
As in MuJoCo, J_n M⁻¹ J_nᵀ is approximated by the sum of the two bodies' translational mobilities at
their centres of mass, at zero joint angles.

The geometry (normals, lever arms, inertia of the fingers) is that of the start of the step;
distances follow the motion, φ + J^n dq. Unlike in the planner's step problem, a sliding contact does
not lift (there the rows J^n − μ J^d trade slip for gap), and nothing is quasi-static.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from dexstack.config import param
from dexstack.control.problem import OBJECT_DOF, integrate_quaternion, skew, tangents
from dexstack.hand.servo import ServoParams
from dexstack.learning.transitions import Transitions
from dexstack.model.kinematics import BodyPoses, KinematicTree, quaternion_matrix
from experiments.contactsdf.pairs import OBJECT, PairContacts

if TYPE_CHECKING:
    from dexstack.model.hand import HandModel
    from dexstack.model.objects import ObjectModel

GRAVITY = 9.81
FIRM_DEPTH = 1e-3
"""Penetration at which the compliance has halved [m], as with MuJoCo's defaults (0.11 to 0.05)."""
HALVINGS = 6
"""Number of bisections of a Newton step that overshoots."""


@dataclass(frozen=True)
class PredictorParams:
    """Parameters that are compiled into a predictor."""

    substeps: int = param(30, "substeps of one model step", 1, 200)
    iterations: int = param(6, "Newton iterations per substep", 1, 50)
    slew_rate: float = param(ServoParams.slew_rate, "largest speed of the servo's target [rad/s]", 0.01, 1e6)
    velocities: bool = param(True, "start with the joints' and the object's velocities, not from rest")
    finger_contacts: bool = param(True, "contacts between fingers")


class PredictorTheta(NamedTuple):
    """Physical parameters of the predictor; the first block is as in ``ModelParams``."""

    mass: Array
    """Mass of the object [kg]; its inertia is that of uniform density."""
    stiffness: Array
    """k, of all joints [N m/rad]."""
    friction_palm: Array
    friction_fingers: Array

    torsion: Array
    """Torsional friction coefficient [m]."""
    damping: Array
    """d, of all joints [N m s/rad]; the planner's cover is 1 − exp(−h k/d)."""
    contact_time: Array
    """t_c, time constant of a penetration [s]."""
    yielding: Array
    """r, compliance of a contact at zero penetration: MuJoCo's (1 − impedance) / impedance."""
    creep: Array
    """c, ratio of tangential to normal compliance: the inverse of MuJoCo's impratio."""


PREDICTOR_RANGES = PredictorTheta(
    mass=(1e-3, 10.0),
    stiffness=(1e-2, 1e2),
    friction_palm=(1e-2, 3.0),
    friction_fingers=(1e-2, 3.0),
    torsion=(1e-5, 0.1),
    damping=(1e-3, 10.0),
    contact_time=(1e-3, 1.0),
    yielding=(1e-4, 10.0),
    creep=(1e-3, 10.0),
)


def predictor_theta(hand: HandModel, obj: ObjectModel, kp: float, kd: float) -> PredictorTheta:
    """Return parameters from data sheets, with MuJoCo's default contacts: r = 0.11, t_c = 0.95 · 20 ms,
    and c = 1/impratio of our scene."""
    numbers = (
        obj.mass,
        kp,
        max(obj.friction[0], hand.friction_palm),
        max(obj.friction[0], hand.friction_fingers),
        max(obj.friction[1], 1e-4),
        float(np.mean(hand.damping)) + kd,
        0.019,
        0.11,
        0.1,
    )
    return PredictorTheta(*(np.float32(x) for x in numbers))


def _com_jacobian(hand: HandModel, tree: KinematicTree, poses: BodyPoses) -> Float[Array, "B 3 N"]:
    """Return the Jacobian of the centres of mass of the links (all bodies but the palm), world frame, with
    respect to the joints."""
    bodies = hand.bodies[1:]
    com = jnp.asarray(np.array([b.com for b in bodies]), poses.p_WB.dtype)
    p_W = poses.p_WB[1:] + jnp.einsum("bij,bj->bi", poses.R_WB[1:], com)
    return tree.point_jacobian(poses, p_W, jnp.arange(1, len(bodies) + 1))


def joint_inertia(hand: HandModel, tree: KinematicTree, poses: BodyPoses) -> Float[Array, "N N"]:
    """Return the joint-space inertia of the fingers, Σ_b m J_vᵀ J_v + J_ωᵀ I J_ω [kg m²]."""
    dtype = poses.p_WB.dtype
    bodies = hand.bodies[1:]
    mass = jnp.asarray(np.array([b.mass for b in bodies]), dtype)
    inertia = jnp.asarray(np.array([b.inertia for b in bodies]), dtype)
    R = poses.R_WB[1:]
    Jv = _com_jacobian(hand, tree, poses)
    Jw = jnp.where(jnp.asarray(tree.moves[2:])[:, None, :], poses.axis_W.T[None], 0.0)
    I_W = jnp.einsum("bij,bjk,blk->bil", R, inertia, R)
    return jnp.einsum("b,bin,bim->nm", mass, Jv, Jv) + jnp.einsum("bin,bij,bjm->nm", Jw, I_W, Jw)


class _Rows(NamedTuple):
    n: Float[Array, "C V"]
    t: Float[Array, "C 3 V"]
    """Two tangents, and the rotation about the normal scaled by the ratio of torsional to sliding
    friction."""
    phi: Float[Array, " C"]
    friction: Float[Array, " C"]


class PredictedState(NamedTuple):
    """State during a prediction."""

    pose_WO: Float[Array, "7"]
    q: Float[Array, " N"]
    velocity: Float[Array, " V"]
    """Object linear in world, angular in body axes, joints."""
    target: Float[Array, " N"]
    """Joint target of the servo under its speed limit."""


def project(
    y_n: Float[Array, " C"], y_t: Float[Array, "C D"], friction: Float[Array, " C"], creep: Array
) -> tuple[Float[Array, " C"], Float[Array, "C D"], Float[Array, "C 1+D 1+D"]]:
    """Return the impulses in the friction cones nearest to y in the norm of R, R_t = ``creep`` R_n, and
    their derivatives with respect to (y_n, y_t).

    Stick inside the cone, separate in its polar, slide in between: γ_n = (y_n + μ c |y_t|) / (1 +
    μ² c).
    """
    length = jnp.sqrt(jnp.sum(y_t**2, axis=1) + 1e-30)
    along = y_t / length[:, None]
    stick, separate = length <= friction * y_n, y_n <= -friction * creep * length
    share = 1 / (1 + friction**2 * creep)
    normal = share * (y_n + friction * creep * length)
    f_n = jnp.where(separate, 0.0, jnp.where(stick, y_n, normal))
    f_t = jnp.where(
        separate[:, None], 0.0, jnp.where(stick[:, None], y_t, (friction * normal)[:, None] * along)
    )
    D = y_t.shape[1]
    eye = jnp.eye(1 + D, dtype=y_n.dtype)
    d_normal = share[:, None] * jnp.concatenate(
        [jnp.ones_like(length)[:, None], (friction * creep)[:, None] * along], axis=1
    )
    across = jnp.eye(D, dtype=y_n.dtype)[None] - along[:, :, None] * along[:, None, :]
    turning = jnp.pad((friction * normal / length)[:, None, None] * across, ((0, 0), (0, 0), (1, 0)))
    sliding = jnp.concatenate(
        [d_normal[:, None], (friction[:, None] * along)[:, :, None] * d_normal[:, None] + turning], axis=1
    )
    slope = jnp.where(separate[:, None, None], 0.0, jnp.where(stick[:, None, None], eye[None], sliding))
    return f_n, f_t, slope


class Predictor:
    """One-step prediction of one hand and one object."""

    def __init__(
        self, hand: HandModel, obj: ObjectModel, step: float, params: PredictorParams = PredictorParams()
    ) -> None:
        self._hand, self._obj, self._step, self.params = hand, obj, step, params
        self._tree = KinematicTree(hand)
        self._rotational = np.diag(obj.inertia) / obj.mass  # per kg
        poses = self._tree.poses(jnp.zeros(len(hand.joint_names)))
        Jv, M_inv = (
            _com_jacobian(hand, self._tree, poses),
            jnp.linalg.inv(joint_inertia(hand, self._tree, poses)),
        )
        # of ground, palm and links
        self._link_mobility = np.concatenate([np.zeros(2), np.einsum("bin,nm,bim->b", Jv, M_inv, Jv) / 3])
        self._joint_mobility = np.diagonal(M_inv)

    def __call__(self, theta: PredictorTheta, at: Transitions) -> tuple[Array, Array]:
        """Return object pose (7,) and joint positions (N,) after the step; traced. The transition's contacts
        are :class:`PairContacts`."""
        state = self.start(at)
        state = self.advance(theta, state, at, at.contacts, self.params.substeps)
        return state.pose_WO, state.q

    def start(self, at: Transitions) -> PredictedState:
        """Return the state at the start of a transition."""
        velocity = jnp.concatenate([at.twist_WO, at.qd])
        velocity = velocity if self.params.velocities else jnp.zeros_like(velocity)
        return PredictedState(at.pose_WO, at.q, velocity, at.q_before)

    def advance(
        self,
        theta: PredictorTheta,
        state: PredictedState,
        at: Transitions,
        contacts: PairContacts,
        substeps: int,
    ) -> PredictedState:
        """Advance by some substeps on one contact set; traced, and in one piece because its nested
        functions share the terms of a substep."""
        p, h = self.params, self._step / self.params.substeps
        dtype, n = state.q.dtype, len(self._hand.joint_names)
        poses = self._tree.poses(state.q)
        rows = self._rows(theta, poses, state, contacts)
        V = OBJECT_DOF + n
        inertia = theta.mass * jnp.concatenate([jnp.ones(3, dtype), jnp.asarray(self._rotational, dtype)])
        M = jnp.zeros((V, V), dtype).at[jnp.arange(OBJECT_DOF), jnp.arange(OBJECT_DOF)].set(inertia)
        M = M.at[OBJECT_DOF:, OBJECT_DOF:].set(joint_inertia(self._hand, self._tree, poses))
        on_joints = jnp.concatenate([jnp.zeros(OBJECT_DOF, dtype), jnp.ones(n, dtype)])
        # slightly less than d/s, so that a free joint covers exactly 1 − exp(−s k/d) in a substep
        drag = theta.stiffness / jnp.expm1(h * theta.stiffness / theta.damping)
        M_s = M + h**2 * jnp.diag(on_joints * (theta.stiffness + drag))
        weight = jnp.zeros(V, dtype).at[2].set(-GRAVITY * theta.mass)
        decay = jnp.exp(-h / theta.contact_time)
        soft = theta.yielding * self._mobility(theta, contacts) * decay

        def substep(carry: tuple[Array, ...], _: None) -> tuple[tuple[Array, ...], None]:
            moved, quat, velocity, target = carry
            target = target + jnp.clip(at.q_command - target, -p.slew_rate * h, p.slew_rate * h)
            pull = theta.stiffness * (target - state.q - moved[OBJECT_DOF:])
            momentum = M @ velocity + h * (weight + jnp.concatenate([jnp.zeros(OBJECT_DOF, dtype), pull]))
            phi, rate = rows.phi + rows.n @ moved, rows.n @ velocity
            R_n = soft / (1 + jnp.clip(-phi / FIRM_DEPTH, 0, 1))
            R_t = theta.creep * R_n
            closing = jnp.where(phi > 0, -phi / h, -decay * h / theta.contact_time**2 * phi)
            wanted_n = decay * (1 - h / theta.contact_time) * rate + closing
            wanted_t = decay**2 * jnp.einsum("cdv,v->cd", rows.t, velocity)

            def force(v_n: Array, v_t: Array) -> tuple[Array, Array, Array]:
                return project(
                    (wanted_n - v_n) / R_n, (wanted_t - v_t) / R_t[:, None], rows.friction, theta.creep
                )

            def newton(v: Array) -> Array:
                v_n, v_t = rows.n @ v, jnp.einsum("cdv,v->cd", rows.t, v)
                f_n, f_t, slope = force(v_n, v_t)
                gradient = M_s @ v - momentum - f_n @ rows.n - jnp.einsum("cd,cdv->v", f_t, rows.t)
                J = jnp.concatenate([rows.n[:, None], rows.t], axis=1)
                G = (
                    slope
                    / jnp.concatenate(
                        [R_n[:, None], jnp.broadcast_to(R_t[:, None], rows.t.shape[:2])], axis=1
                    )[:, None, :]
                )
                H = M_s + jnp.einsum("civ,cij,cjw->vw", J, G, J)
                d = jax.lax.rsqrt(jnp.diagonal(H))
                chol = jax.scipy.linalg.cho_factor(H * d[:, None] * d[None, :], lower=True)
                dv = -d * jax.scipy.linalg.cho_solve(chol, d * gradient)
                dv_n, dv_t = rows.n @ dv, jnp.einsum("cdv,v->cd", rows.t, dv)
                along, curvature = dv @ (M_s @ v - momentum), dv @ M_s @ dv

                def rising(a: Array) -> Array:
                    """Return whether the cost rises at v + a dv."""
                    f_n, f_t, _ = force(v_n + a * dv_n, v_t + a * dv_t)
                    return along + a * curvature > f_n @ dv_n + jnp.sum(f_t * dv_t)

                low, high = jnp.zeros((), dtype), jnp.ones((), dtype)
                for _ in range(HALVINGS):
                    middle = (low + high) / 2
                    up = rising(middle)
                    low, high = jnp.where(up, low, middle), jnp.where(up, middle, high)
                return v + jnp.where(rising(jnp.ones((), dtype)), low, 1.0) * dv

            v, _ = jax.lax.scan(
                lambda v, _: (newton(v), None), velocity, None, length=p.iterations
            )  # compiled once, not six times
            dq = h * v
            return (moved + dq, integrate_quaternion(quat, dq[3:OBJECT_DOF]), v, target), None

        first = (jnp.zeros(V, dtype), state.pose_WO[3:], state.velocity, state.target)
        (moved, quat, velocity, target), _ = jax.lax.scan(substep, first, None, length=substeps)
        pose = jnp.concatenate([state.pose_WO[:3] + moved[:3], quat])
        return PredictedState(pose, state.q + moved[OBJECT_DOF:], velocity, target)

    def _mobility(self, theta: PredictorTheta, c: PairContacts) -> Float[Array, " C"]:
        """Inverse mass that says how much a contact yields [1/kg]: that of its two bodies where all
        joint angles are zero.

        Not the mobility of the contact's own point: a finger squeezed along its length has next to
        none, and its contact would be rigid.
        """
        dtype = theta.mass.dtype
        of_link = jnp.concatenate([1 / theta.mass[None], jnp.asarray(self._link_mobility, dtype)])
        stop = jnp.asarray(self._joint_mobility, dtype)
        # a tonne's more: R has no inverse where neither body can move
        return 1e-3 + jnp.concatenate(
            [of_link[c.from_link - OBJECT] + of_link[c.to_link - OBJECT], stop, stop]
        )

    def _rows(self, theta: PredictorTheta, poses: BodyPoses, state: PredictedState, c: PairContacts) -> _Rows:
        """Normal and tangential rows of the contacts."""
        relative = self._jacobian(poses, state, c.p_W, c.to_link) - self._jacobian(
            poses, state, c.p_W, c.from_link
        )
        with_object = (c.from_link == OBJECT) | (c.to_link == OBJECT)
        if not self.params.finger_contacts:
            relative = jnp.where(with_object[:, None, None], relative, 0.0)
        on_palm = with_object & (c.to_link <= 0)
        friction = jnp.where(on_palm, theta.friction_palm, theta.friction_fingers)
        n, t = (
            jnp.einsum("ci,civ->cv", c.nhat_W, relative),
            jnp.einsum("cdi,civ->cdv", tangents(c.nhat_W), relative),
        )
        turn = self._angular_jacobian(poses, state, c.to_link) - self._angular_jacobian(
            poses, state, c.from_link
        )
        length = jnp.where(with_object & (self._obj.contact_dimension > 3), theta.torsion / friction, 0.0)
        t = jnp.concatenate(
            [t, (length[:, None] * jnp.einsum("ci,civ->cv", c.nhat_W, turn))[:, None]], axis=1
        )
        # a joint's limits are contacts without friction
        N = len(self._hand.joint_names)
        stop = jnp.concatenate([jnp.zeros((N, OBJECT_DOF), n.dtype), jnp.eye(N, dtype=n.dtype)], axis=1)
        lower, upper = (jnp.asarray(limit, n.dtype) for limit in (self._hand.lower, self._hand.upper))
        return _Rows(
            jnp.concatenate([n, stop, -stop]),
            jnp.concatenate([t, jnp.zeros((2 * N, 3, n.shape[1]), n.dtype)]),
            jnp.concatenate([c.phi, state.q - lower, upper - state.q]),
            jnp.concatenate([friction, jnp.zeros(2 * N, n.dtype)]),
        )

    def _jacobian(
        self, poses: BodyPoses, state: PredictedState, p_W: Array, link: Array
    ) -> Float[Array, "C 3 V"]:
        """Velocity of the contact points as points of ``link``, world frame, against (v_O W, ω_O B,
        joints)."""
        arm = p_W - state.pose_WO[None, :3]
        eye = jnp.broadcast_to(jnp.eye(3, dtype=arm.dtype), (arm.shape[0], 3, 3))
        of_object = jnp.concatenate([eye, -skew(arm) @ quaternion_matrix(state.pose_WO[3:])], axis=2)
        of_object = jnp.where((link == OBJECT)[:, None, None], of_object, 0.0)
        return jnp.concatenate(
            [of_object, self._tree.point_jacobian(poses, p_W, jnp.maximum(link, -1))], axis=2
        )

    def _angular_jacobian(
        self, poses: BodyPoses, state: PredictedState, link: Array
    ) -> Float[Array, "C 3 V"]:
        """Angular velocity of ``link``, world frame, against (v_O W, ω_O B, joints)."""
        R_WO = quaternion_matrix(state.pose_WO[3:])
        of_object = jnp.where((link == OBJECT)[:, None, None], jnp.pad(R_WO, ((0, 0), (3, 0)))[None], 0.0)
        moves = jnp.asarray(self._tree.moves)[jnp.maximum(link, -1) + 1]
        return jnp.concatenate([of_object, jnp.where(moves[:, None, :], poses.axis_W.T[None], 0.0)], axis=2)
