"""A second force law that knows what the bodies would do without contact, and how easily contact
moves them.

    A = gᵀ J M⁻¹ Jᵀ g,  g = (n, p × n)                      mobility of the pair along n at p [1/kg]
    a = n · (J M⁻¹ (τ − c))_p                               acceleration without contact, as in
    MuJoCo without J̇ v d = d_max σ(−φ/ε3),   δ = ε3 log(1 + exp(−φ/ε3))        how much contact
    counts, and its depth λ_n = d/A s log(1 + exp((δ/t_d² − 2 v_n/t_d − a)/s)),   t_d = d_max t λ_t
    = −μ λ_n v_t/√((v_s + μ λ_n A t_s)² + ‖v_t‖²)

That is MuJoCo's reference acceleration of a critically damped spring of the time constant t,
without its solver: every point answers as if it were alone, and the separation distribution takes
the mean. Stiffness and damping follow from time constants, whatever the masses, and friction stops
a slip no faster than within t_s. What an explicit step must still follow is the shift of weight
under tilt, as stiff as the load over ε2; the implicit step knows that. All is smooth.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
from jax import Array

from dexengines.soft.scm import (
    ContactParams,
    Cuts,
    Planes,
    Response,
    about,
    cross,
    mean_normal,
    softplus,
    turn,
    wrench_transform,
)
from dexengines.soft.system import Seen, SoftSystem, SystemData, twist_in
from dexengines.soft.tree import Motion
from dexstack.errors import ConfigError

IMPEDANCE = 0.95
"""d_max: the share of an acceleration into contact that contact takes away at once."""
ONSET = 0.5
"""s: smoothing of the onset of force [m/s²]."""


class Moving(NamedTuple):
    """How one body moves against another, about one origin."""

    twist: Array
    """(…, 6)"""
    acceleration: Array
    """(…, 6) of the twist, without contact."""
    mobility: Array
    """(…, 6, 6) acceleration per wrench."""

    def seen_from(self, R: Array, p: Array) -> Moving:
        """The same about the origin and in the axes of a frame of the pose (R, p)."""
        T = wrench_transform(R, p)
        return Moving(twist_in(self.twist, R, p), twist_in(self.acceleration, R, p), T.T @ self.mobility @ T)


class AwareMotion(NamedTuple):
    """A :class:`Motion`, with what it would be without contact."""

    R: Array
    p: Array
    twist: Array
    acceleration: Array
    """(L, 6) rate of the links' twists without contact, without the rate of J."""
    jacobian: Array
    """(L, nv, 6)"""
    inverse_mass: Array
    """(nv, nv)"""


class AwareSystem(SoftSystem):
    """A :class:`SoftSystem` under this law; of the contact parameters it takes μ, v_s and all ε,
    not k and v_d.

    Args:
        time_constant: t [s]; no less than two steps of an integrator.
        stick_time: t_s [s]; no less than one step.

    Raises:
        ConfigError: see :class:`SoftSystem`; a time that is not positive.
    """

    in_one_pass = False

    def __init__(
        self,
        model: mujoco.MjModel,
        *args: Any,
        time_constant: float = 0.02,
        stick_time: float = 0.005,
        **kwargs: Any,
    ) -> None:
        if not (time_constant > 0.0 and stick_time > 0.0):
            raise ConfigError(
                f"the times of the aware force law must be positive, got {time_constant:g} and {stick_time:g} s"
            )
        super().__init__(model, *args, **kwargs)
        self.time_constant, self.stick_time = time_constant, stick_time

    def inverse(self, data: SystemData, q: Array, v: Array, acceleration: Array) -> Array:
        """Not under this law: its forces depend on the torques that are asked for."""
        raise ConfigError(
            "the aware force law has no inverse dynamics: its contact forces depend on the torques themselves"
        )

    def _seen(self, data: SystemData, m: Motion, M: Array, force: Array) -> AwareMotion:
        moves = jnp.asarray(self.tree.moves, m.R.dtype)
        jacobian = moves[:, :, None] * m.columns[None]
        free = self.tree.solve(data.numbers, M, force)
        factor = jax.scipy.linalg.cho_factor(self.tree.full_mass(data.numbers, M))
        inverse = jax.scipy.linalg.cho_solve(factor, jnp.eye(self.tree.nv, dtype=m.R.dtype))
        return AwareMotion(m.R, m.p, m.twist, jnp.einsum("lva,v->la", jacobian, free), jacobian, inverse)

    def _relative(self, m: AwareMotion, la: Any, lb: Any) -> Moving:
        J = m.jacobian[lb] - m.jacobian[la]
        mobility = jnp.einsum("...va,vw,...wb->...ab", J, m.inverse_mass, J)
        return Moving(m.twist[lb] - m.twist[la], m.acceleration[lb] - m.acceleration[la], mobility)

    def _seen_from(self, relative: Moving, R: Array, p: Array) -> Moving:
        return relative.seen_from(R, p)

    def _respond(
        self, x: Array, seen: Seen, relative: Moving, c: ContactParams, cuts: Cuts | None
    ) -> Response:
        each = ContactParams(*(x[None] if jnp.ndim(x) else x for x in c))
        distance, normal = distance_and_normal(seen.points, seen.planes, each)
        moving = Moving(
            seen.sign[None] * relative.twist, seen.sign[None] * relative.acceleration, relative.mobility
        )
        return self._felt(x, moving, distance, turn(seen.R, normal), c)

    def _standing(self, p: Array, relative: Moving, c: ContactParams) -> Response:
        one = jax.tree.map(lambda x: x.reshape(*x.shape, 1, 1), relative)
        return self._felt(p, one, p[2], jnp.zeros_like(p).at[2].set(1.0), c)

    def _felt(self, p: Array, m: Moving, field: Array, normal: Array, c: ContactParams) -> Response:
        """What points p (3, B, N) feel that have the distance ``field`` (B, N) along ``normal`` (3,
        B, N); what moves is (…, B, 1)."""
        g = jnp.concatenate([normal, cross(p, normal)])
        mobility = jnp.sum(g * jnp.einsum("ijbk,jbn->ibn", m.mobility, g), axis=0)
        mass = 1.0 / jnp.where(mobility > 0.0, mobility, 1.0)  # points that are not there have no normal
        v, t_d = about(m.twist, p), IMPEDANCE * self.time_constant
        v_n, a_n = jnp.sum(normal * v, axis=0), jnp.sum(normal * about(m.acceleration, p), axis=0)
        inside = jax.nn.sigmoid(-field / c.eps3)
        wanted = (c.eps3 * softplus(-field / c.eps3) / t_d**2 - 2.0 * v_n / t_d - a_n) / ONSET
        share = IMPEDANCE * inside * mass
        load = share * ONSET * softplus(wanted)
        slip = v - v_n[None] * normal
        drag = (
            c.friction
            * load
            * jax.lax.rsqrt(
                (c.v_s + c.friction * load * self.stick_time / mass) ** 2 + jnp.sum(slip * slip, axis=0)
            )
        )
        pressed = share * jax.nn.sigmoid(wanted)
        return Response(
            field=field,
            force=load[None] * normal - drag[None] * slip,
            load=load,
            normal=normal,
            stiffness=pressed * inside / t_d**2,
            damping=2.0 * pressed / t_d,
            drag=drag,
        )


def distance_and_normal(p: Array, planes: Planes, c: ContactParams) -> tuple[Array, Array]:
    """φ̂ (B, N) of points p (3, B, N), and the mean normal (3, B, N) of the planes, in whose frame
    p is; c: scalars, or (1, B, 1)."""
    p_o = (p - planes.origin)[:, None]
    weight = jax.nn.softmax(
        (2.0 / c.eps1) * jnp.sum(p_o * planes.points, axis=0) - planes.square / c.eps1, axis=0
    )
    distance = jnp.sum(p_o * planes.normals, axis=0) - planes.offset
    return jnp.sum(weight * distance, axis=0), mean_normal(planes, weight)
