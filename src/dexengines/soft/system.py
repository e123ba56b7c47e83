"""Rigid bodies with soft contact: forward and inverse dynamics, and one step of three integrators,
as pure functions in JAX.

    v̇ = M⁻¹ [τ − c(q, v) + Σ Λ_ab(q, v)],      τ = M v̇ + c − Σ Λ_ab
    [24–25]

A :class:`SoftSystem` holds what is constant (the tree, which bodies meet); :class:`SystemData`
holds every number, so that one compiled function serves systems of different geometry, masses and
contact parameters, and ``jax.vmap`` over stacked data a batch of them.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from dexengines.collision import body_name
from dexengines.errors import EngineError
from dexengines.features import FORCES, refuse
from dexengines.soft import forces, near, tables
from dexengines.soft.cloud import Cloud, check
from dexengines.soft.forces import Contact, MeetingData
from dexengines.soft.near import Near, Room
from dexengines.soft.scm import (
    ABSENT_POINT,
    ContactParams,
    Cuts,
    Dissipation,
    Law,
    Planes,
    Response,
    Side,
    about,
    all_planes,
    combine,
    each,
    kept,
    pair_params,
    paper_dissipation,
    respond,
    respond_to_ground,
    turn,
    wrench_transform,
)
from dexengines.soft.tree import Motion, Numbers, Tree

JOINTS = ("ball joint with a stop", "equality constraint", "tendon with a stop", "dry tendon friction")
LACKS = (*JOINTS, *FORCES)
"""Of :data:`dexengines.features.FEATURES`."""
DEFAULTS = ContactParams()
OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": ""}
"""``compiler_options`` of ``jax.jit`` for steps in float32: no library calls for sums of a few
thousand numbers, which cost 15 µs each."""
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
    """Surfaces of ``a`` against surfaces of ``b``."""

    a: Sequence[Surface]
    b: Sequence[Surface]
    tolerance: float | None = 1e-6
    """Share of the load that points and planes too far away to count may carry together; None: the
    dense formulation, every point against every plane."""
    params: ContactParams = DEFAULTS
    """Friction comes from the surfaces: the larger of the two, as in MuJoCo."""
    pairs: Sequence[tuple[int, int, float]] | None = None
    """Places in ``a`` and in ``b`` of what meets, and its friction. None: each meets each."""
    room: Room | None = None
    """For what is near; None: for what is near where two bodies touch, and for eight pairs. The
    wrench is NaN where more pairs are near; derivatives but those of wrenches by motion, friction
    and stiffness are where there are more blocks or planes."""
    roomy: float = 1.0
    """Share of the states in which two bodies touch that have room at first."""


@dataclass(frozen=True)
class Ground:
    """A level half-space of the world under one surface, exact for any smoothing."""

    surface: Surface
    params: ContactParams = DEFAULTS
    friction: float = 0.5
    height: float = 0.0
    """Of its face [m]."""


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


class Blocks(NamedTuple):
    """C chunks of B blocks of N points each, of bodies that meet, in the bodies' frames; a chunk
    has the same without the first axis."""

    points: Array
    """(C, 3, B, N)"""
    bias: Array
    """(C, B, N) added to the distances [m]."""
    planes: Planes
    """Of the other body, that they meet; with an axis C before all others."""
    slot: Array
    """(C, B) int: of which pair they are."""
    sign: Array
    """(C, B) −1: of its first body, +1: of its second."""


class Seen(NamedTuple):
    """How points look from the other body, whose planes stand still there."""

    points: Array
    """(3, B, N)"""
    planes: Planes
    R: Array
    """(3, 3, B, 1) that body's axes in the world."""
    sign: Array
    """(B, 1) see :class:`Blocks`."""


class Placed(NamedTuple):
    """Where the links are and how they move, as much of it as the contact law takes; see
    :class:`~dexengines.soft.tree.Motion`."""

    R: Array
    p: Array
    twist: Array


class SoftSystem:
    """A compiled MuJoCo model (for its bodies and joints only) with soft surfaces on its bodies;
    ``inertance`` as of :class:`Tree`.

    Raises:
        EngineError: a feature among :data:`LACKS`, what :func:`~dexengines.soft.cloud.check`
            refuses, an unknown body, surfaces of one body that meet.
    """

    in_one_pass = True
    """Whether the law is the one that :mod:`~dexengines.soft.forces` has."""

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
        made = [self._meeting(model, m) for m in meetings]
        self._pairs: list[np.ndarray] = [pairs for pairs, _, _ in made]
        self._cuts: list[Cuts | None] = [cut for _, _, cut in made]
        data = [numbers for _, numbers, _ in made]
        self._roomy = tuple((m.room, m.roomy) for m in meetings)
        self._slots = [self._first_slots(*row) for row in zip(meetings, made, strict=True)]
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
                    ContactParams(
                        *map(np.asarray, g.params._replace(friction=max(g.friction, g.surface.friction)))
                    ),
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

    def _meeting(self, model: mujoco.MjModel, m: Meeting) -> tuple[np.ndarray, MeetingData, Cuts | None]:
        """Pairs (P, 4) of which surfaces and of which links, numbers, and what counts."""
        sides = [[self._in_link(model, s) for s in side] for side in (m.a, m.b)]
        met = m.pairs
        if met is None:
            met = [(x, y, max(a.friction, b.friction)) for x, a in enumerate(m.a) for y, b in enumerate(m.b)]
        for x, y, _ in met:
            if m.a[x].body == m.b[y].body:
                raise EngineError(
                    f"the surfaces '{m.a[x].name}' and '{m.b[y].name}' are on one body and cannot meet"
                )
        pairs = np.array(
            [(x, y, self._link(model, m.a[x]), self._link(model, m.b[y])) for x, y, _ in met], np.int32
        )
        params = pair_params(m.params, np.array([mu for _, _, mu in met]))
        if m.tolerance is not None and not 0.0 < m.tolerance < 1.0:
            raise EngineError(f"the tolerance of a meeting must lie between 0 and 1, got {m.tolerance:g}")
        if m.tolerance is not None and m.params.normal_weight != 1.0:
            raise EngineError(
                f"normal_weight {m.params.normal_weight:g} needs a meeting with tolerance None: only then all planes are weighed"
            )
        if m.tolerance is None or jax.default_backend() != "cpu":
            return pairs, MeetingData(*map(tables.dense, sides), params), None
        widest = 2.0 * max(c.radius for side in sides for c in side)
        cut = near.cuts(
            sum(max(len(c.points) for c in side) for side in sides),
            m.tolerance,
            widest / float(params.eps3.min()),
        )
        squared = cut.planes.end * float(params.eps1.max())
        distance = cut.onset.end * float(params.eps3.max()) + cut.points.end * float(params.eps2.max())
        return pairs, MeetingData(*(tables.build(side, squared, distance) for side in sides), params), cut

    @staticmethod
    def _first_slots(m: Meeting, made: tuple[np.ndarray, MeetingData, Cuts | None]) -> int | None:
        """For so many pairs of a meeting there is room at first; None: for all of them, in their
        places."""
        pairs, d, cut = made
        if cut is None or 2 * len(pairs) * d.a.rows.shape[1] * d.b.rows.shape[1] <= near.FEW:
            return None
        return m.room.pairs if m.room else min(len(pairs), near.NEARBY)

    @functools.cached_property
    def room(self) -> tuple[Room | None, ...]:
        """Of every meeting; None where all is near. Found when first asked for, since forces alone
        need no more than room for pairs."""
        result = []
        for slots, (room, share), pairs, cut, d in zip(
            self._slots, self._roomy, self._pairs, self._cuts, self.data.meetings, strict=True
        ):
            if slots is not None and room is None:
                eps = np.stack([d.params.eps1, d.params.eps2, d.params.eps3], axis=1)
                room = near.room_for(d.a, d.b, pairs, eps, cut, share)
            result.append(None if slots is None else room)
        return tuple(result)

    def with_room(self, room: Sequence[Room | None]) -> SoftSystem:
        """The same system with room for more, or for less, in every meeting."""
        other = copy.copy(self)
        other.room, other._slots = tuple(room), [x and x.pairs for x in room]
        return other

    def needs(self, data: SystemData, q: Array) -> tuple[Array, ...]:
        """(3,) int32 of every meeting that has a room: the :class:`Room` that it takes in a
        state."""
        m = self.tree.motion(data.numbers, q, jnp.zeros(self.tree.nv, q.dtype))
        return tuple(
            self._near(k, d, m, self._pairs[k]).need
            for k, d in enumerate(data.meetings)
            if self._slots[k] is not None
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

    def _near(self, k: int, d: MeetingData, m: Any, pairs: np.ndarray) -> Near:
        eps = jnp.stack(
            [jnp.asarray(x, m.R.dtype) for x in (d.params.eps1, d.params.eps2, d.params.eps3)], axis=1
        )
        return near.search(d.a, d.b, pairs, m.R, m.p, eps, self._cuts[k], self.room[k])

    def _meet(self, k: int, d: MeetingData, m: Any) -> Contact:
        """What all pairs of a meeting feel; what the one pass does not differentiate, :meth:`_law`
        does."""
        kind = forces.KINDS.get(self.dissipation)
        pairs, cut = self._pairs[k], self._cuts[k]
        if not self.in_one_pass or kind is None or cut is None:
            return self._law(k, d, m, pairs)

        def found(d: MeetingData, at: forces.Motion, *, moved: bool) -> tuple:
            return forces.meet(d, pairs, at, (cut, kind), self._slots[k], moved=moved)

        def law(d: MeetingData, at: forces.Motion, pairs: np.ndarray) -> Contact:
            return self._law(k, d, Placed(*at), pairs)

        return forces.differentiable(found, law, pairs)(d, (m.R, m.p, m.twist))

    def _law(self, k: int, d: MeetingData, m: Any, pairs: np.ndarray) -> Contact:
        """The same in JAX, of ``pairs`` (P, 4)."""
        rows_a, rows_b = (jnp.asarray(c.rows, m.R.dtype) for c in (d.a, d.b))
        params = jax.tree.map(lambda x: jnp.asarray(x, m.R.dtype), d.params)
        if self._slots[k] is None:
            i, j, la, lb = pairs.T
            every, one = np.arange(len(i)), np.ones(len(i))
            a, b = (jnp.moveaxis(rows, 0, 2) for rows in (rows_a[i], rows_b[j]))  # (I, 8, P)
            first, second = (
                Blocks(*_own(x), Planes(*(y[None] for y in all_planes(met))), every[None], sign * one[None])
                for x, met, sign in ((a, b, -1.0), (b, a, 1.0))
            )
            return self._wrenches(m, (la, lb), params, [first, second], self._cuts[k])
        found, room = self._near(k, d, m, pairs), self.room[k]
        i, j, la, lb = jnp.asarray(pairs)[found.pair].T
        points, planes = near.shaped(rows_a, rows_b, (i, j), found)
        parts = Planes(points[:, 4:], *(planes[:, x] for x in (slice(3), slice(3, 6), 6, 7)))
        blocks = Blocks(points[:, :3], points[:, 3], parts, found.slot, found.sign)
        felt = self._wrenches(
            m, (la, lb), jax.tree.map(lambda x: x[found.pair], params), [blocks], self._cuts[k]
        )
        there, whole = (
            found.pair >= 0,
            jnp.where(jnp.all(found.need <= jnp.asarray(room)), 1.0, jnp.nan),
        )  # derivatives, too
        only = lambda x, other: jnp.where(there.reshape(-1, *[1] * (x.ndim - 1)), x * whole, other)  # noqa: E731
        wrench, stiffness, damping = (only(x, 0.0) for x in (felt.wrench, felt.stiffness, felt.damping))
        return Contact(
            felt.link_a, felt.link_b, wrench, stiffness, damping, only(felt.distance, ABSENT_POINT)
        )

    def _wrenches(
        self,
        m: Any,
        links: tuple[Any, Any],
        params: ContactParams,
        groups: Sequence[Blocks],
        cuts: Cuts | None,
    ) -> Contact:
        """Of S pairs, whose bodies are on two ``links`` (S,) each, from their points; about the
        origin of the first link, world axes."""
        la, lb = links
        o = m.p[la]
        relative = jax.vmap(self._seen_from, (0, None, 0))(
            self._relative(m, la, lb), jnp.eye(3, dtype=o.dtype), o
        )
        sides = [self._side(m, links, relative, params, blocks, cuts) for blocks in groups]
        wrench, stiffness, damping, distance = combine(sides, params.eps2, cuts)
        T = jax.vmap(wrench_transform, (None, 0))(jnp.eye(3, dtype=o.dtype), o)
        moved = jnp.einsum("sij,sj->si", T, wrench)
        return Contact(
            jnp.asarray(la), jnp.asarray(lb), moved, T @ stiffness @ T.mT, T @ damping @ T.mT, distance
        )

    def _side(
        self,
        m: Any,
        links: tuple[Any, Any],
        relative: Any,
        params: ContactParams,
        blocks: Blocks,
        cuts: Cuts | None,
    ) -> Side:
        """What blocks of points feel."""

        def felt(chunk: Blocks) -> tuple[Array, Response]:
            return self._chunk(m, links, relative, params, chunk, cuts)

        x, response = each(felt, blocks.bias, blocks)
        member = jax.nn.one_hot(blocks.slot, len(links[0]), axis=0, dtype=x.dtype)
        return Side(jnp.asarray(blocks.sign, x.dtype), member, x, blocks.bias, response)

    def _chunk(
        self,
        m: Any,
        links: tuple[Any, Any],
        relative: Any,
        params: ContactParams,
        blocks: Blocks,
        cuts: Cuts | None,
    ) -> tuple[Array, Response]:
        """Of one chunk: points (3, B, N) about the origin of the pairs' first links, world axes,
        and what they feel."""
        (la, lb), slot = links, blocks.slot
        sign = jnp.asarray(blocks.sign, m.R.dtype)
        own, other = jnp.where(sign < 0.0, la[slot], lb[slot]), jnp.where(sign < 0.0, lb[slot], la[slot])
        here = lambda x: jnp.moveaxis(x, 0, -1)[..., None]  # noqa: E731  (B, …) as (…, B, 1)
        o, c = m.p[la][slot], jax.tree.map(lambda x: x[slot][:, None], params)
        R, p, R_other, p_other = kept(tuple(map(here, (m.R[own], m.p[own] - o, m.R[other], m.p[other] - o))))
        x = kept(turn(R, blocks.points, p))
        y = kept(turn(jnp.swapaxes(R_other, 0, 1), x - p_other))
        moving = jax.tree.map(lambda z: here(z[slot]), relative)
        return x, self._respond(x, Seen(y, blocks.planes, R_other, sign[:, None]), moving, c, cuts)

    def _respond(self, x: Array, seen: Seen, relative: Any, c: ContactParams, cuts: Cuts | None) -> Response:
        """The force law of points x (3, B, N) of two bodies, of which the second moves against the
        first as ``relative`` (…, B, 1) says."""
        v = seen.sign[None] * turn(jnp.swapaxes(seen.R, 0, 1), about(relative, x))
        felt = respond(seen.points, v, seen.planes, c, Law(self.dissipation, cuts))
        return felt._replace(force=turn(seen.R, felt.force), normal=turn(seen.R, felt.normal))

    def _seen_from(self, relative: Any, R: Array, p: Array) -> Any:
        """How a pair moves, about the origin and in the axes of a frame of the pose (R, p): here,
        its twist (6,)."""
        return twist_in(relative, R, p)

    def _seen(self, data: SystemData, m: Motion, M: Array, force: Array) -> Any:
        """What contact depends on: here, the motion; ``M`` (N, N) and the ``force`` (nv,) but for
        contact are for other laws."""
        return m

    def _relative(self, m: Any, la: Any, lb: Any) -> Any:
        """How link b moves against link a: here, its twist (…, 6) about the world's origin."""
        return m.twist[lb] - m.twist[la]

    def _stand(self, k: int, d: GroundData, m: Any) -> Contact:
        """A surface on its half-space."""
        link = self._ground_links[k]
        world = int(self.tree.link_of_body[0])
        R, x = m.R[link], m.p[link]
        o = jnp.stack([x[0], x[1], jnp.asarray(d.height, x.dtype)])
        p = kept(turn(R, jnp.asarray(d.points)[:, None], x - o))
        c = jax.tree.map(lambda y: jnp.asarray(y, p.dtype), d.params)
        one = jnp.ones((1, 1), p.dtype)
        relative = self._seen_from(self._relative(m, world, link), jnp.eye(3, dtype=p.dtype), o)
        felt = self._standing(p, relative, c)
        several = jax.tree.map(lambda x: x[None], (p, jnp.zeros_like(p[0]), felt))
        found = combine([Side(one, one[None], *several)], c.eps2.reshape(1))
        T = wrench_transform(jnp.eye(3, dtype=p.dtype), o)
        wrench, K, D = (
            found.wrench @ T.T,
            T[None] @ found.stiffness @ T.T[None],
            T[None] @ found.damping @ T.T[None],
        )
        return Contact(jnp.array([world]), jnp.array([link]), wrench, K, D, found.distance)

    def _standing(self, p: Array, relative: Any, c: ContactParams) -> Response:
        """The force law of points p (3, 1, Q) on the ground, which move as ``relative`` says."""
        return respond_to_ground(p, about(relative, p), c, self.dissipation)

    # --- dynamics -------------------------------------------------------------------------------------------------------------------

    def _forces(
        self, data: SystemData, q: Array, v: Array, tau: Array | float
    ) -> tuple[Motion, Array, Array, Contact | None]:
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
        incidence = jax.nn.one_hot(
            contact.link_b, links, axis=0, dtype=contact.wrench.dtype
        ) - jax.nn.one_hot(contact.link_a, links, axis=0, dtype=contact.wrench.dtype)
        return jnp.sum(
            incidence[:, :, None] * contact.wrench[None], axis=1
        )  # written out, as such small products are

    def _stop_force(self, data: SystemData, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """Torque (nv,) of the joints' stops, its stiffness (N,) and damping (N,)."""
        n, dtype = self.tree.num_joints, q.dtype
        k, eps, tau = (
            jnp.asarray(x, dtype) for x in (data.stop_stiffness, data.stop_smoothing, data.stop_damping)
        )
        # a stop far away, or none, is one that is never felt; infinite numbers would spoil
        # derivatives
        lower, upper = (
            jnp.maximum(jnp.asarray(data.joint_lower, dtype), -1e3),
            jnp.minimum(jnp.asarray(data.joint_upper, dtype), 1e3),
        )
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

    def euler(
        self, data: SystemData, q: Array, v: Array, tau: Array, dt: float | Array
    ) -> tuple[Array, Array]:
        """Semi-implicit Euler: velocity first."""
        v = v + dt * self.forward(data, q, v, tau)
        return self.tree.integrate(q, v, dt), v

    def rk4(self, data: SystemData, q: Array, v: Array, tau: Array, dt: float | Array) -> tuple[Array, Array]:
        """Runge and Kutta's fourth order; poses move along the mean of the stages' velocities, as
        in MuJoCo."""
        a1 = self.forward(data, q, v, tau)
        v2 = v + 0.5 * dt * a1
        a2 = self.forward(data, self.tree.integrate(q, v, 0.5 * dt), v2, tau)
        v3 = v + 0.5 * dt * a2
        a3 = self.forward(data, self.tree.integrate(q, v2, 0.5 * dt), v3, tau)
        v4 = v + dt * a3
        a4 = self.forward(data, self.tree.integrate(q, v3, dt), v4, tau)
        q = self.tree.integrate(q, (v + 2.0 * v2 + 2.0 * v3 + v4) / 6.0, dt)
        return q, v + dt / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4)

    def implicit(
        self, data: SystemData, q: Array, v: Array, tau: Array, dt: float | Array
    ) -> tuple[Array, Array]:
        """Linearly implicit Euler: one linear solve, no iteration, stable for stiff springs and
        sticking friction.

            (M + δt D + δt² K) Δv = δt (τ − c + Λ − δt K v)

        K and D are the symmetric, positive semidefinite part of the contact's stiffness and damping
        (friction as a viscous force of its present strength), so that the matrix always has a
        Cholesky factor.
        """
        m, M, force, contact = self._forces(data, q, v, tau)
        n = self.tree.num_joints
        A = self.tree.full_mass(data.numbers, M)
        force = tau + force
        diagonal = (
            jnp.zeros(self.tree.nv, q.dtype).at[:n].add(dt * jnp.asarray(data.numbers.damping, q.dtype))
        )
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
    """(6,) of a twist about the outer origin, about the origin and in the axes of a frame of the
    pose (R, p)."""
    return jnp.concatenate([turn(R.T, about(twist, p)), turn(R.T, twist[3:])])


def _own(rows: Array) -> tuple[Array, Array]:
    """Points (1, 3, P, I) and their biases (1, P, I) of rows (I, 8, P)."""
    rows = jnp.moveaxis(rows, 0, 2)
    return rows[None, :3], rows[None, 7]


def _body(model: mujoco.MjModel, surface: Surface) -> int:
    names = [body_name(model, b) for b in range(model.nbody)]
    if surface.body not in names:
        raise EngineError(f"the surface '{surface.name}' is on an unknown body '{surface.body}'")
    return names.index(surface.body)
