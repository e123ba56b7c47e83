"""Rigid bodies with soft contact: forward and inverse dynamics, and one step of three integrators, as pure functions in JAX.

    v̇ = M⁻¹ [τ − c(q, v) + Σ Λ_ab(q, v)],      τ = M v̇ + c − Σ Λ_ab                                      [24–25]

A :class:`SoftSystem` holds what is constant (the tree, which bodies meet); :class:`SystemData` holds every number, so that one compiled
function serves systems of different geometry, masses and contact parameters, and ``jax.vmap`` over stacked data a batch of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from dexstack.engines.common.collision import body_name
from dexstack.engines.common.features import FORCES, refuse
from dexstack.engines.soft import lookup
from dexstack.engines.soft.cloud import Cloud, check
from dexstack.engines.soft.lookup import Clouds
from dexstack.engines.soft.scm import (
    Body,
    ContactParams,
    Dissipation,
    PairWrench,
    Response,
    Side,
    about,
    combine,
    kept,
    meet,
    moved_wrench,
    pair_params,
    paper_dissipation,
    respond_to_ground,
    turn,
    wrench_transform,
)
from dexstack.engines.soft.tree import Motion, Numbers, Tree
from dexstack.errors import ConfigError

JOINTS = ("ball joint with a stop", "equality constraint", "tendon with a stop", "dry tendon friction")
LACKS = (*JOINTS, *FORCES)
"""Of :data:`dexstack.engines.common.features.FEATURES`."""
DEFAULTS = ContactParams()
STOPS = (50.0, 2e-3, 5e-3)
"""Stiffness, smoothing and damping of the joints' stops; see :class:`SystemData`."""


@dataclass(frozen=True)
class Surface:
    """A cloud on a body of the MuJoCo model."""

    name: str
    body: str
    """Name of the body, or "world"."""
    cloud: Cloud
    """Body frame."""
    friction: float = 0.5


@dataclass(frozen=True)
class Meeting:
    """Surfaces of ``a`` against surfaces of ``b``, with patches of one size."""

    a: Sequence[Surface]
    b: Sequence[Surface]
    patch: int | None = 64
    """Points in a patch; None: the dense formulation, every point against every plane."""
    planes: int | None = None
    """How many planes, the nearest ones, every point of a patch meets; None: all of the other's patch."""
    core: int | None = None
    """How many points of a patch, the nearest to its middle, can feel a force; the others only count in the distribution. None: all."""
    places: int = 1
    """How many patches a pair has, where it touches in several places far from each other, as in an inner corner."""
    voxel: float = 0.0025
    """Edge of a lookup's voxel [m]."""
    slots: int | None = None
    """How many pairs, the nearest ones, get a contact force; None: all. Exact as long as no more than so many are near."""
    params: ContactParams = DEFAULTS
    """Friction comes from the surfaces: the larger of the two, as in MuJoCo."""
    pairs: Sequence[tuple[int, int, float]] | None = None
    """Places in ``a`` and in ``b`` of what meets, and its friction. None: each meets each."""


@dataclass(frozen=True)
class Ground:
    """A level half-space of the world under one surface, exact for any smoothing."""

    surface: Surface
    params: ContactParams = DEFAULTS
    friction: float = 0.5
    height: float = 0.0
    """Of its face [m]."""


class MeetingData(NamedTuple):
    """Numbers of one :class:`Meeting`."""

    a: Clouds
    b: Clouds
    radius_a: np.ndarray
    """(G_a,) of the ball about ``centre`` that holds the cloud [m]."""
    radius_b: np.ndarray
    centre_a: np.ndarray
    """(G_a, 3) [m]"""
    centre_b: np.ndarray
    params: ContactParams
    """(P,) each."""


class GroundData(NamedTuple):
    """Numbers of one :class:`Ground`."""

    points: np.ndarray
    """(3, I)"""
    height: np.ndarray
    """()"""
    params: ContactParams


class SystemData(NamedTuple):
    """Every number of a system; a pytree to be traced, stacked or differentiated."""

    numbers: Numbers
    meetings: tuple[MeetingData, ...]
    grounds: tuple[GroundData, ...]
    joint_lower: np.ndarray
    """(N,) smooth stops of the joints; ∓inf where there are none."""
    joint_upper: np.ndarray
    stop_stiffness: np.ndarray
    """() [N/m or N m/rad]"""
    stop_smoothing: np.ndarray
    """() [m or rad]"""
    stop_damping: np.ndarray
    """() share of the critical damping, in time: force per speed over force per distance [s]."""


class Contact(NamedTuple):
    """Contact of all pairs; wrenches on the second body about the world's origin, world axes."""

    link_a: Array
    """(P,)"""
    link_b: Array
    wrench: Array
    """(P, 6)"""
    stiffness: Array
    """(P, 6, 6)"""
    damping: Array
    """(P, 6, 6)"""
    distance: Array
    """(P,) soft distance [m]"""


class SoftSystem:
    """A compiled MuJoCo model (for its bodies and joints only) with soft surfaces on its bodies; ``inertance`` as of :class:`Tree`.

    Raises:
        ConfigError: a feature among :data:`LACKS`, what :func:`~dexstack.engines.soft.cloud.check` refuses, an unknown body,
            surfaces of one body that meet.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        meetings: Sequence[Meeting],
        grounds: Sequence[Ground] = (),
        dissipation: Dissipation = paper_dissipation,
        inertance: np.ndarray | None = None,
    ) -> None:
        refuse("soft", model, LACKS)
        self.tree = Tree(model, inertance)
        self.dissipation = dissipation
        self._pairs: list[tuple[np.ndarray, np.ndarray]] = []
        self._links: list[tuple[np.ndarray, np.ndarray]] = []
        self._slots: list[int | None] = []
        self._sizes = [(m.core, m.places) for m in meetings]
        data = []
        for meeting in meetings:
            pairs, numbers = self._meeting(model, meeting)
            self._pairs.append(pairs)
            links_a, links_b = ([self._link(model, s) for s in side] for side in (meeting.a, meeting.b))
            self._links.append((np.array(links_a), np.array(links_b)))
            few = meeting.slots is not None and meeting.slots < len(pairs[0])
            self._slots.append(meeting.slots if few else None)
            data.append(numbers)
        self._ground_links = [self._link(model, g.surface) for g in grounds]
        n = self.tree.num_joints
        of = model.dof_jntid[:n]
        limited = model.jnt_limited[of].astype(bool) & self.tree.single
        self._stops = bool(limited.any())
        self.data = SystemData(
            self.tree.numbers,
            tuple(data),
            tuple(
                GroundData(
                    np.ascontiguousarray(check(g.surface.cloud, g.surface.name, closed=False).points.T),
                    np.asarray(g.height, float),
                    ContactParams(*map(np.asarray, g.params._replace(friction=max(g.friction, g.surface.friction)))),
                )
                for g in grounds
            ),
            np.where(limited, model.jnt_range[of, 0], -np.inf),
            np.where(limited, model.jnt_range[of, 1], np.inf),
            *map(np.asarray, STOPS),
        )

    def _link(self, model: mujoco.MjModel, surface: Surface) -> int:
        return int(self.tree.link_of_body[_body(model, surface)])

    def _in_link(self, model: mujoco.MjModel, surface: Surface) -> Cloud:
        """The cloud in the frame of the link, which differs where a body is fixed to another."""
        cloud = check(surface.cloud, surface.name)
        R, p = self.tree.pose_in_link(_body(model, surface))
        return Cloud(cloud.points @ R.T + p, cloud.normals @ R.T)

    def _meeting(self, model: mujoco.MjModel, m: Meeting) -> tuple[tuple[np.ndarray, np.ndarray], MeetingData]:
        sides = [[self._in_link(model, s) for s in side] for side in (m.a, m.b)]
        met = m.pairs
        if met is None:
            met = [(x, y, max(a.friction, b.friction)) for x, a in enumerate(m.a) for y, b in enumerate(m.b)]
        pairs = np.array([x for x, _, _ in met], int), np.array([y for _, y, _ in met], int)
        for x, y in zip(*pairs, strict=True):
            if m.a[x].body == m.b[y].body:
                raise ConfigError(f"the surfaces '{m.a[x].name}' and '{m.b[y].name}' are on one body and cannot meet")
        balls = [[_ball(c) for c in side] for side in sides]
        widest = [max(r for _, r in side) for side in balls]
        tables = [lookup.build(side, m.patch, reach=min(widest), voxel=m.voxel, planes=m.planes) for k, side in enumerate(sides)]
        friction = np.array([mu for _, _, mu in met])
        return pairs, MeetingData(
            *tables,
            *(np.array([r for _, r in side]) for side in balls),
            *(np.array([c for c, _ in side]) for side in balls),
            pair_params(m.params, friction),
        )

    # --- contact --------------------------------------------------------------------------------------------------------------------

    def contact(self, data: SystemData, m: Any) -> Contact | None:
        """All contact wrenches; None where nothing can meet."""
        found = [self._meet(k, d, m) for k, d in enumerate(data.meetings)]
        found += [self._stand(k, d, m) for k, d in enumerate(data.grounds)]
        if not found:
            return None
        if len(found) == 1:
            return found[0]
        return jax.tree.map(lambda *x: jnp.concatenate(x), *found)

    def _meet(self, k: int, d: MeetingData, m: Any) -> Contact:
        i, j = self._pairs[k]
        params, slots = d.params, self._slots[k]
        if slots is not None:
            R, p, (la, lb) = m.R, m.p, self._links[k]
            ca = p[la] + jnp.einsum("gij,gj->gi", R[la], jnp.asarray(d.centre_a))
            cb = p[lb] + jnp.einsum("gij,gj->gi", R[lb], jnp.asarray(d.centre_b))
            gap = jnp.linalg.norm(ca[i] - cb[j], axis=1) - jnp.asarray(d.radius_a)[i] - jnp.asarray(d.radius_b)[j]
            near = jax.lax.top_k(-jax.lax.stop_gradient(gap), slots)[1]
            i, j = jnp.asarray(i)[near], jnp.asarray(j)[near]
            params = jax.tree.map(lambda x: jnp.asarray(x)[near], params)
        elif len(i) == 1:  # indices that are constant
            return self._only(k, d, m)
        la, lb = (jnp.asarray(links)[x] if slots is not None else links[x] for links, x in zip(self._links[k], (i, j), strict=True))
        params = jax.tree.map(lambda x: jnp.asarray(x, m.R.dtype), params)
        bodies = (m.R[la], m.p[la], m.R[lb], m.p[lb], self._relative(m, la, lb))
        found = jax.vmap(lambda *x: self._pair(k, d, *x))(i, j, *bodies, params)
        return Contact(jnp.asarray(la), jnp.asarray(lb), *found)

    def _only(self, k: int, d: MeetingData, m: Any) -> Contact:
        """A meeting of one pair."""
        (la,), (lb,) = self._links[k]
        c = jax.tree.map(lambda x: jnp.asarray(x, m.R.dtype)[0], d.params)
        found = self._pair(k, d, 0, 0, m.R[la], m.p[la], m.R[lb], m.p[lb], self._relative(m, la, lb), c)
        return Contact(jnp.array([la]), jnp.array([lb]), *(x[None] for x in found))

    def _seen(self, data: SystemData, m: Motion, M: Array, force: Array) -> Any:
        """What contact depends on: here, the motion; ``M`` (N, N) and the ``force`` (nv,) but for contact are for other laws."""
        return m

    def _relative(self, m: Any, la: Any, lb: Any) -> Any:
        """How link b moves against link a: here, its twist (…, 6) about the world's origin."""
        return m.twist[lb] - m.twist[la]

    def _pair(
        self,
        k: int,
        d: MeetingData,
        i: Array | int,
        j: Array | int,
        R_A: Array,
        p_A: Array,
        R_B: Array,
        p_B: Array,
        relative: Any,
        c: ContactParams,
    ) -> tuple[Array, Array, Array, Array]:
        """One pair about the world's origin."""
        R_AB, p_AB = R_A.T @ R_B, R_A.T @ (p_B - p_A)
        core, places = self._sizes[k]
        keys = lookup.meeting_points(d.a, i, d.b, j, R_AB, p_AB, c.eps2, places)
        a = lookup.patch(d.a, i, keys, core)
        b = lookup.patch(d.b, j, None if keys is None else turn(R_AB.T, keys - p_AB[:, None]), core)
        return in_world(self._meeting_of(a, b, R_AB, p_AB, relative, R_A, p_A, c), R_A, p_A)

    def _meeting_of(
        self, a: Body, b: Body, R_AB: Array, p_AB: Array, relative: Any, R_A: Array, p_A: Array, c: ContactParams
    ) -> PairWrench:
        """The force law between two patches, in A."""
        return meet(a, b, *kept((R_AB, p_AB, twist_in(relative, R_A, p_A))), c, self.dissipation)

    def _stand(self, k: int, d: GroundData, m: Any) -> Contact:
        """A surface on its half-space."""
        link = self._ground_links[k]
        world = int(self.tree.link_of_body[0])
        R, x = m.R[link], m.p[link]
        o = jnp.stack([x[0], x[1], jnp.asarray(d.height, x.dtype)])
        p = kept(turn(R, jnp.asarray(d.points), x - o))
        c = jax.tree.map(lambda y: jnp.asarray(y, p.dtype), d.params)
        eye = jnp.eye(3, dtype=p.dtype)
        felt = self._standing(p, self._relative(m, world, link), o, c)
        wrench, K, D, distance = in_world(combine([Side(1.0, p, 0.0, felt)], c.eps2), eye, o)
        return Contact(jnp.array([world]), jnp.array([link]), wrench[None], K[None], D[None], distance[None])

    def _standing(self, p: Array, relative: Any, o: Array, c: ContactParams) -> Response:
        """The force law of points p (3, Q) on the ground, world axes about o (3,)."""
        twist = jnp.concatenate([about(relative, o), relative[3:]])
        return respond_to_ground(p, about(twist, p), c, self.dissipation)

    # --- dynamics -------------------------------------------------------------------------------------------------------------------

    def _forces(self, data: SystemData, q: Array, v: Array, tau: Array | float) -> tuple[Motion, Array, Array, Contact | None]:
        """Motion, joint mass matrix, Σ Λ − c (nv,) and the contacts."""
        m = self.tree.motion(data.numbers, q, v)
        M, bias = self.tree.mass_and_bias(data.numbers, m, v)
        force = -bias
        contact = self.contact(data, self._seen(data, m, M, tau + force))
        if contact is not None:
            force = force + self.tree.generalized(m, self._on_links(contact))
        if self._stops:
            force = force + self._stop_force(data, q, v)[0]
        return m, M, force, contact

    def _on_links(self, contact: Contact) -> Array:
        links = len(self.tree.moves)
        incidence = jax.nn.one_hot(contact.link_b, links, axis=0, dtype=contact.wrench.dtype) - jax.nn.one_hot(
            contact.link_a, links, axis=0, dtype=contact.wrench.dtype
        )
        return jnp.sum(incidence[:, :, None] * contact.wrench[None], axis=1)  # written out, as such small products are

    def _stop_force(self, data: SystemData, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """Torque (nv,) of the joints' stops, its stiffness (N,) and damping (N,)."""
        n, dtype = self.tree.num_joints, q.dtype
        k, eps, tau = (jnp.asarray(x, dtype) for x in (data.stop_stiffness, data.stop_smoothing, data.stop_damping))
        # a stop far away, or none, is one that is never felt; infinite numbers would spoil derivatives
        lower, upper = jnp.maximum(jnp.asarray(data.joint_lower, dtype), -1e3), jnp.minimum(jnp.asarray(data.joint_upper, dtype), 1e3)
        at = self.tree.positions(q)
        low, high = (lower - at) / eps, (at - upper) / eps
        slope = k * (jax.nn.sigmoid(low) + jax.nn.sigmoid(high))
        torque = k * eps * (jax.nn.softplus(low) - jax.nn.softplus(high)) - tau * slope * v[:n]
        return jnp.concatenate([torque, jnp.zeros(self.tree.nv - n, dtype)]), slope, tau * slope

    def forward(self, data: SystemData, q: Array, v: Array, tau: Array) -> Array:
        """v̇ (nv,) [25]."""
        _, M, force, _ = self._forces(data, q, v, tau)
        return self.tree.solve(data.numbers, M, tau + force)

    def inverse(self, data: SystemData, q: Array, v: Array, acceleration: Array) -> Array:
        """τ (nv,) [24]."""
        _, M, force, _ = self._forces(data, q, v, 0.0)
        return self.tree.full_mass(data.numbers, M) @ acceleration - force

    def euler(self, data: SystemData, q: Array, v: Array, tau: Array, dt: float | Array) -> tuple[Array, Array]:
        """Semi-implicit Euler: velocity first."""
        v = v + dt * self.forward(data, q, v, tau)
        return self.tree.integrate(q, v, dt), v

    def rk4(self, data: SystemData, q: Array, v: Array, tau: Array, dt: float | Array) -> tuple[Array, Array]:
        """Runge and Kutta's fourth order; poses move along the mean of the stages' velocities, as in MuJoCo."""
        a1 = self.forward(data, q, v, tau)
        v2 = v + 0.5 * dt * a1
        a2 = self.forward(data, self.tree.integrate(q, v, 0.5 * dt), v2, tau)
        v3 = v + 0.5 * dt * a2
        a3 = self.forward(data, self.tree.integrate(q, v2, 0.5 * dt), v3, tau)
        v4 = v + dt * a3
        a4 = self.forward(data, self.tree.integrate(q, v3, dt), v4, tau)
        q = self.tree.integrate(q, (v + 2.0 * v2 + 2.0 * v3 + v4) / 6.0, dt)
        return q, v + dt / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4)

    def implicit(self, data: SystemData, q: Array, v: Array, tau: Array, dt: float | Array) -> tuple[Array, Array]:
        """Linearly implicit Euler: one linear solve, no iteration, stable for stiff springs and sticking friction.

            (M + δt D + δt² K) Δv = δt (τ − c + Λ − δt K v)

        K and D are the symmetric, positive semidefinite part of the contact's stiffness and damping (friction as a viscous force of its
        present strength), so that the matrix always has a Cholesky factor.
        """
        m, M, force, contact = self._forces(data, q, v, tau)
        n = self.tree.num_joints
        A = self.tree.full_mass(data.numbers, M)
        force = tau + force
        diagonal = jnp.zeros(self.tree.nv, q.dtype).at[:n].add(dt * jnp.asarray(data.numbers.damping, q.dtype))
        if self._stops:
            _, K, D = self._stop_force(data, q, v)
            diagonal = diagonal.at[:n].add(dt * D + dt * dt * K)
            force = force.at[:n].add(-dt * K * v[:n])
        A = A + jnp.diag(diagonal)
        if contact is not None:
            moves = jnp.asarray(self.tree.moves, q.dtype)
            J = (moves[contact.link_b] - moves[contact.link_a])[:, :, None] * m.columns[None]  # (P, nv, 6)
            KJ = dt * contact.stiffness + contact.damping
            A = A + dt * jnp.einsum("pia,pab,pjb->ij", J, KJ, J, optimize=[(0, 1), (0, 1)])
            relative = m.twist[contact.link_b] - m.twist[contact.link_a]
            rate = jnp.einsum("pab,pb->pa", contact.stiffness, relative)
            force = force - dt * self.tree.generalized(m, self._on_links(contact._replace(wrench=rate)))
        dv = dt * jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(A), force)
        v = v + dv
        return self.tree.integrate(q, v, dt), v


def twist_in(twist: Array, R: Array, p: Array) -> Array:
    """(6,) of a twist about the outer origin, about the origin and in the axes of a frame of the pose (R, p)."""
    return jnp.concatenate([turn(R.T, about(twist, p)), turn(R.T, twist[3:])])


def in_world(pair: PairWrench, R: Array, p: Array) -> tuple[Array, Array, Array, Array]:
    """Wrench, stiffness, damping about the world's origin, of a pair computed in a frame of the pose (R, p); and the distance."""
    T = wrench_transform(R, p)
    return moved_wrench(R, p, pair.wrench), T @ pair.stiffness @ T.T, T @ pair.damping @ T.T, pair.distance


def _body(model: mujoco.MjModel, surface: Surface) -> int:
    names = [body_name(model, b) for b in range(model.nbody)]
    if surface.body not in names:
        raise ConfigError(f"the surface '{surface.name}' is on an unknown body '{surface.body}'")
    return names.index(surface.body)


def _ball(cloud: Cloud) -> tuple[np.ndarray, float]:
    centre = (cloud.points.min(0) + cloud.points.max(0)) / 2.0
    return centre, float(np.linalg.norm(cloud.points - centre, axis=1).max())
