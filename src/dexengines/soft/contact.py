"""Contact of surfaces: bodies that meet, and bodies on the ground."""

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
from dexengines.soft import forces, near, sizing, tables
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
    all_planes,
    combine,
    each,
    pair_params,
    respond,
    respond_to_ground,
)
from dexengines.soft.tree import Tree
from dexengines.soft.vectors import about, kept, turn, twist_in, wrench_transform

DEFAULTS = ContactParams()


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
    """Share of the load that neglected points and planes may carry together; None: the dense
    formulation, every point against every plane."""
    params: ContactParams = DEFAULTS
    """Friction comes from the surfaces: the larger of the two, as in MuJoCo."""
    pairs: Sequence[tuple[int, int, float]] | None = None
    """Places in ``a`` and in ``b`` of surfaces that meet, and their friction; None: all pairs."""
    room: Room | None = None
    """Array sizes of the near set; None: sizes for two bodies that touch, and for eight pairs. The
    wrench is NaN where more pairs are near; derivatives other than those of wrenches by motion,
    friction and stiffness are NaN where there are more blocks or planes."""


@dataclass(frozen=True)
class Ground:
    """A level half-space of the world under one surface, exact for any smoothing."""

    surface: Surface
    params: ContactParams = DEFAULTS
    friction: float = 0.5
    height: float = 0.0
    """Height of its face [m]."""


class GroundData(NamedTuple):
    """Numbers of one :class:`Ground`."""

    points: np.ndarray
    """(3, I)"""
    height: np.ndarray
    """()"""
    params: ContactParams


class Blocks(NamedTuple):
    """C chunks of B blocks of N points each, of bodies that meet, in the bodies' frames; a chunk
    has the same fields without the first axis."""

    points: Array
    """(C, 3, B, N)"""
    bias: Array
    """(C, B, N) added to the distances [m]."""
    planes: Planes
    """Planes of the other body that they meet, with an axis C first."""
    slot: Array
    """(C, B) int: their pair."""
    sign: Array
    """(C, B) −1: of its first body, +1: of its second."""


class Placed(NamedTuple):
    """Poses and twists of the links, see :class:`~dexengines.soft.tree.Motion`."""

    R: Array
    p: Array
    twist: Array


class SoftContact:
    """The contacts of a compiled MuJoCo model (its bodies and joints) with soft surfaces.

    Args:
        tree: of the model.
        dissipation: see :mod:`~dexengines.soft.scm`.

    Raises:
        EngineError: an invalid cloud, an unknown body, surfaces of one body that meet.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        tree: Tree,
        meetings: Sequence[Meeting],
        grounds: Sequence[Ground],
        dissipation: Dissipation,
    ) -> None:
        self.tree, self.dissipation = tree, dissipation
        made = [self._meeting(model, m) for m in meetings]
        self._pairs: list[np.ndarray] = [pairs for pairs, _, _ in made]
        self._cuts: list[Cuts | None] = [cut for _, _, cut in made]
        self._given_rooms = [m.room for m in meetings]
        self.slots = [self._first_slots(*row) for row in zip(meetings, made, strict=True)]
        """Number of near pairs of a meeting that fit, None where all pairs have their place."""
        self._ground_links = [self._link(model, g.surface) for g in grounds]
        self.meetings, self.grounds = tuple(data for _, data, _ in made), tuple(map(_ground, grounds))
        """Numbers of the meetings and the grounds."""

    def _link(self, model: mujoco.MjModel, surface: Surface) -> int:
        return int(self.tree.link_of_body[_body(model, surface)])

    def _in_link(self, model: mujoco.MjModel, surface: Surface) -> Cloud:
        """Return the cloud in the frame of the link, which differs where a body is fixed to
        another."""
        cloud = check(surface.cloud, surface.name)
        R, p = self.tree.pose_in_link(_body(model, surface))
        return Cloud(cloud.points @ R.T + p, cloud.normals @ R.T)

    def _meeting(self, model: mujoco.MjModel, m: Meeting) -> tuple[np.ndarray, MeetingData, Cuts | None]:
        """Return pairs (P, 4) of surfaces and links, numbers, and windows."""
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
                f"normal_weight {m.params.normal_weight:g} needs a meeting with tolerance None, "
                "which weighs all planes"
            )
        if m.tolerance is None or jax.default_backend() != "cpu":
            return pairs, MeetingData(*map(tables.dense, sides), params), None
        points = sum(max(len(c.points) for c in side) for side in sides)
        widest = 2.0 * max(c.radius for side in sides for c in side)
        cut = near.cuts(points, m.tolerance, widest / float(params.eps3.min()))
        squared = cut.planes.end * float(params.eps1.max())
        distance = cut.onset.end * float(params.eps3.max()) + cut.points.end * float(params.eps2.max())
        return pairs, MeetingData(*(tables.build(side, squared, distance) for side in sides), params), cut

    @staticmethod
    def _first_slots(m: Meeting, made: tuple[np.ndarray, MeetingData, Cuts | None]) -> int | None:
        """Return the initial number of near pairs of a meeting; None if all pairs have their
        place."""
        pairs, d, cut = made
        if cut is None or 2 * len(pairs) * d.a.rows.shape[1] * d.b.rows.shape[1] <= near.FEW:
            return None
        return m.room.pairs if m.room else min(len(pairs), max(sizing.NEARBY, 3 * (len(m.a) + len(m.b))))

    @functools.cached_property
    def room(self) -> tuple[Room | None, ...]:
        """Array sizes of the near set of every meeting, None for dense ones; computed on first use,
        as forces alone need the number of pairs only."""
        result = []
        for slots, room, pairs, cut, d in zip(
            self.slots, self._given_rooms, self._pairs, self._cuts, self.meetings, strict=True
        ):
            if slots is not None and room is None:
                eps = np.stack([d.params.eps1, d.params.eps2, d.params.eps3], axis=1)
                room = sizing.room_for(d.a, d.b, pairs, eps, cut)
            result.append(None if slots is None else room)
        return tuple(result)

    def with_room(self, room: Sequence[Room | None]) -> Any:
        """Return a copy with other array sizes, one per meeting."""
        other = copy.copy(self)
        other.room, other.slots = tuple(room), [x and x.pairs for x in room]
        return other

    def contact(self, data: Any, m: Any) -> Contact | None:
        """Return all contact wrenches, or None if no bodies can meet.

        Args:
            data: with ``meetings`` and ``grounds``.
            m: motion of the links.
        """
        found = [self._meet(k, d, m) for k, d in enumerate(data.meetings)]
        alike: dict[int, list[int]] = {}
        for k, d in enumerate(data.grounds):
            alike.setdefault(np.shape(d.points)[-1], []).append(k)
        for group in alike.values():
            links, of = np.array([self._ground_links[k] for k in group]), [data.grounds[k] for k in group]
            together = jax.tree.map(lambda *x: jnp.stack([jnp.asarray(y, m.R.dtype) for y in x]), *of)
            found.append(jax.vmap(self._stand, (0, 0, None))(links, together, m))
        if not found:
            return None
        if len(found) == 1:
            return found[0]
        return jax.tree.map(lambda *x: jnp.concatenate(x), *found)

    def _near(self, k: int, d: MeetingData, m: Any, pairs: np.ndarray, room: Room) -> Near:
        eps = jnp.stack(
            [jnp.asarray(x, m.R.dtype) for x in (d.params.eps1, d.params.eps2, d.params.eps3)], axis=1
        )
        return near.search(d.a, d.b, pairs, m.R, m.p, eps, self._cuts[k], room)

    def _meet(self, k: int, d: MeetingData, m: Any) -> Contact:
        """Return the contact of all pairs of a meeting, by the compiled pass where it is supported;
        derivatives that this does not give come from :meth:`law`."""
        kind = forces.KINDS.get(self.dissipation)
        pairs, cut = self._pairs[k], self._cuts[k]
        if kind is None or cut is None:
            return self.law(k, d, m)

        def found(d: MeetingData, at: forces.Motion, *, moved: bool) -> tuple:
            return forces.meet(d, pairs, at, (cut, kind), self.slots[k], moved=moved)

        def law(d: MeetingData, at: forces.Motion, pairs: np.ndarray) -> Contact:
            return self.law(k, d, Placed(*at), pairs)

        return forces.differentiable(found, law, pairs)(d, (m.R, m.p, m.twist))

    def law(self, k: int, d: MeetingData, m: Any, pairs: np.ndarray | None = None) -> Contact:
        """Return the contact of meeting k in JAX, of ``pairs`` (P, 4) or all: the reference of the
        compiled pass, with all derivatives."""
        pairs = self._pairs[k] if pairs is None else pairs
        rows_a, rows_b = (jnp.asarray(c.rows, m.R.dtype) for c in (d.a, d.b))
        params = jax.tree.map(lambda x: jnp.asarray(x, m.R.dtype), d.params)
        if self.slots[k] is None:
            i, j, la, lb = pairs.T
            every, one = np.arange(len(i)), np.ones(len(i))
            a, b = (jnp.moveaxis(rows, 0, 2) for rows in (rows_a[i], rows_b[j]))  # (I, 8, P)
            first, second = (
                Blocks(*_own(x), Planes(*(y[None] for y in all_planes(met))), every[None], sign * one[None])
                for x, met, sign in ((a, b, -1.0), (b, a, 1.0))
            )
            return self._wrenches(m, (la, lb), params, [first, second], self._cuts[k])
        room = self.room[k]
        found = self._near(k, d, m, pairs, room)
        i, j, la, lb = jnp.asarray(pairs)[found.pair].T
        points, planes = near.shaped(rows_a, rows_b, (i, j), found)
        parts = Planes(points[:, 4:], *(planes[:, x] for x in (slice(3), slice(3, 6), 6, 7)))
        blocks = Blocks(points[:, :3], points[:, 3], parts, found.slot, found.sign)
        of_pairs = jax.tree.map(lambda x: x[found.pair], params)
        felt = self._wrenches(m, (la, lb), of_pairs, [blocks], self._cuts[k])
        there = found.pair >= 0
        whole = jnp.where(jnp.all(found.need <= jnp.asarray(room)), 1.0, jnp.nan)  # derivatives, too
        only = lambda x, other: jnp.where(there.reshape(-1, *[1] * (x.ndim - 1)), x * whole, other)  # noqa: E731
        wrench, stiffness, damping = (only(x, 0.0) for x in (felt.wrench, felt.stiffness, felt.damping))
        return Contact(
            felt.link_a, felt.link_b, wrench, stiffness, damping, only(felt.distance, ABSENT_POINT)
        )

    def _wrenches(
        self, m: Any, links: tuple[Any, Any], params: ContactParams, groups: Sequence[Blocks],
        cuts: Cuts | None,
    ) -> Contact:  # fmt: skip
        """Return the contact of S pairs, whose bodies are on two ``links`` (S,) each, from their
        points; wrenches about the world's origin."""
        la, lb = links
        o = m.p[la]
        relative = jax.vmap(twist_in, (0, None, 0))(m.twist[lb] - m.twist[la], jnp.eye(3, dtype=o.dtype), o)
        sides = [self._side(m, links, relative, params, blocks, cuts) for blocks in groups]
        wrench, stiffness, damping, distance = combine(sides, params.eps2, cuts)
        T = jax.vmap(wrench_transform, (None, 0))(jnp.eye(3, dtype=o.dtype), o)
        moved = jnp.einsum("sij,sj->si", T, wrench)
        return Contact(
            jnp.asarray(la), jnp.asarray(lb), moved, T @ stiffness @ T.mT, T @ damping @ T.mT, distance
        )

    def _side(
        self, m: Any, links: tuple[Any, Any], relative: Any, params: ContactParams, blocks: Blocks,
        cuts: Cuts | None,
    ) -> Side:  # fmt: skip
        """Return the response of blocks of points."""

        def felt(chunk: Blocks) -> tuple[Array, Response]:
            return self._chunk(m, links, relative, params, chunk, cuts)

        x, response = each(felt, blocks.bias, blocks)
        member = jax.nn.one_hot(blocks.slot, len(links[0]), axis=0, dtype=x.dtype)
        return Side(jnp.asarray(blocks.sign, x.dtype), member, x, blocks.bias, response)

    def _chunk(
        self, m: Any, links: tuple[Any, Any], relative: Any, params: ContactParams, blocks: Blocks,
        cuts: Cuts | None,
    ) -> tuple[Array, Response]:  # fmt: skip
        """Return the points (3, B, N) of one chunk about the origin of the pairs' first links,
        world axes, and their response; the second bodies move against the first with twists
        ``relative``."""
        (la, lb), slot = links, blocks.slot
        sign = jnp.asarray(blocks.sign, m.R.dtype)
        own, other = jnp.where(sign < 0.0, la[slot], lb[slot]), jnp.where(sign < 0.0, lb[slot], la[slot])
        here = lambda x: jnp.moveaxis(x, 0, -1)[..., None]  # noqa: E731  (B, …) as (…, B, 1)
        o, c = m.p[la][slot], jax.tree.map(lambda x: x[slot][:, None], params)
        R, p, R_other, p_other = kept(tuple(map(here, (m.R[own], m.p[own] - o, m.R[other], m.p[other] - o))))
        x = kept(turn(R, blocks.points, p))
        y = kept(turn(jnp.swapaxes(R_other, 0, 1), x - p_other))  # planes stand still in the other's frame
        v = sign[None, :, None] * turn(jnp.swapaxes(R_other, 0, 1), about(here(relative[slot]), x))
        felt = respond(y, v, blocks.planes, c, Law(self.dissipation, cuts))
        return x, felt._replace(force=turn(R_other, felt.force), normal=turn(R_other, felt.normal))

    def _stand(self, link: Array, d: GroundData, m: Any) -> Contact:
        """Return the contact of the surface on a link with its half-space, mapped over surfaces with
        equally many points: their number does not change the size of the program."""
        world = int(self.tree.link_of_body[0])
        R, x = m.R[link], m.p[link]
        o = jnp.stack([x[0], x[1], d.height])
        p = kept(turn(R, d.points[:, None], x - o))
        one = jnp.ones((1, 1), p.dtype)
        relative = twist_in(m.twist[link] - m.twist[world], jnp.eye(3, dtype=p.dtype), o)
        felt = respond_to_ground(p, about(relative, p), d.params, self.dissipation)
        several = jax.tree.map(lambda x: x[None], (p, jnp.zeros_like(p[0]), felt))
        found = combine([Side(one, one[None], *several)], d.params.eps2.reshape(1))
        T = wrench_transform(jnp.eye(3, dtype=p.dtype), o)
        K, D = (T @ x[0] @ T.T for x in (found.stiffness, found.damping))
        return Contact(jnp.asarray(world), link, T @ found.wrench[0], K, D, found.distance[0])


def _ground(g: Ground) -> GroundData:
    cloud = check(g.surface.cloud, g.surface.name, closed=False)
    params = g.params._replace(friction=max(g.friction, g.surface.friction))
    points, height = np.ascontiguousarray(cloud.points.T), np.asarray(g.height, float)
    return GroundData(points, height, ContactParams(*map(np.asarray, params)))


def _own(rows: Array) -> tuple[Array, Array]:
    """Return points (1, 3, P, I) and their biases (1, P, I) of rows (I, 8, P)."""
    rows = jnp.moveaxis(rows, 0, 2)
    return rows[None, :3], rows[None, 7]


def _body(model: mujoco.MjModel, surface: Surface) -> int:
    names = [body_name(model, b) for b in range(model.nbody)]
    if surface.body not in names:
        raise EngineError(f"the surface '{surface.name}' is on an unknown body '{surface.body}'")
    return names.index(surface.body)
