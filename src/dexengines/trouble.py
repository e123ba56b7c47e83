"""Watch over the steps of any engine: states that no physics gives, in one sentence for users.

MuJoCo's energies, distances and velocities judge every engine alike. They are computed every
:data:`EVERY` seconds of simulated time, since what they look for stays: an object that was launched
keeps its energy, one that sank in is still there.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable

import mujoco
import numpy as np

from dexengines.balance import Balance
from dexengines.collision import Collision, Geom, body_name, find_lines
from dexengines.touching import Sight

EVERY = 0.05
"""Time between two checks [s]."""
RECENT = 10
"""Checks whose greatest energy counts: what bodies store while they are pressed together comes back
within that time."""
SETTLED = 0.1
"""Time after a reset in which deep overlaps are not named: engines push bodies apart that start inside
each other, and the energy that this may give is named [s]."""
NEAR = 0.05
"""Distance of geoms that count as touching for the balance of forces, over the least half extent."""
LIFTED = 0.25
"""Share of its size to which all that moves could be lifted by the energy that is tolerated."""


class Watch:
    """Checks of one scene's states.

    Args:
        model: of the scene.
        collision: its geoms and pairs.
        deepest: overlap of two geoms that is tolerated, over the smaller's least half extent.
        whole: names of mesh geoms that collide as they are, whose hulls may overlap others.
        continuous: collisions within a step are found, so that no speed is too high.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        collision: Collision,
        deepest: float,
        whole: Iterable[str] = (),
        continuous: bool = False,
    ) -> None:
        model = copy.copy(model)  # with margins
        find_lines(model, collision)
        self._steps = max(1, round(EVERY / model.opt.timestep))
        self._deepest = deepest
        self._geoms = {g.id: g for g in collision.geoms}
        self._whole = {g.id for g in collision.geoms if g.name in set(whole)}
        self._pairs = {frozenset((collision.geoms[p.a].id, collision.geoms[p.b].id)) for p in collision.pairs}
        self._least = {i: _least(g.half) if g.kind != "plane" else np.inf for i, g in self._geoms.items()}
        for i, half in self._least.items():
            model.geom_margin[i] += NEAR * half if np.isfinite(half) else 0.0
        self._model, self._data = model, mujoco.MjData(model)
        friction = {(min(a, b), max(a, b)): mu for a, b, mu in self._met(collision)}
        points = {i for i, g in self._geoms.items() if g.kind in ("sphere", "ellipsoid") and _plain(g)}
        self._balance = Balance(model, Sight(model, friction, self._whole, points))
        free = np.flatnonzero((model.jnt_type == mujoco.mjtJoint.mjJNT_FREE) & (not continuous))
        self._free, self._free_body = model.jnt_dofadr[free], model.jnt_bodyid[free]
        size = {
            b: min((self._least[g.id] for g in collision.geoms if g.body == b), default=np.inf)
            for b in self._free_body
        }
        self._own_size = np.array([size[b] for b in self._free_body])
        self._closed = model.neq == model.nmocap == 0  # else work is done that is not counted
        g = max(float(np.linalg.norm(model.opt.gravity)), 1.0)
        moving = model.body_weldid > 0
        self._tolerance = LIFTED * g * float((model.body_mass * _reach(model))[moving].sum())
        self.time = np.nan
        """Of the last step that was seen [s]."""
        self.begin(np.zeros(0), np.zeros(0))

    @staticmethod
    def _met(collision: Collision) -> list[tuple[int, int, float]]:
        return [(collision.geoms[p.a].id, collision.geoms[p.b].id, p.friction) for p in collision.pairs]

    def begin(self, q: np.ndarray, v: np.ndarray) -> None:
        """Begin at positions (nq,) and velocities (nv,)."""
        self._count, self._work, self._energies = 0, 0.0, deque(maxlen=RECENT)
        self._found: dict[str, str] = {}
        self._applied = np.zeros(self._model.nv)
        self._balance.begin()
        if len(q):
            self._see(q, v, 0.0)

    def after(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray, stored: Callable[[], float]) -> None:
        """See the state after a step.

        Args:
            tau: (nv,) forces of motors and applied ones.
            stored: energy of deformed contacts [J].
        """
        self._work += max(float(tau @ v), 0.0) * self._model.opt.timestep
        self._applied += tau
        self._count += 1
        if self._count % self._steps == 0:
            self._see(q, v, stored())

    def sentence(self) -> str:
        """Return all that was found since the start, or an empty string."""
        return "; ".join(self._found.values())

    def _see(self, q: np.ndarray, v: np.ndarray, stored: float) -> None:
        m, d = self._model, self._data
        d.qpos[:], d.qvel[:] = q, v
        mujoco.mj_kinematics(m, d)
        mujoco.mj_comPos(m, d)
        mujoco.mj_tendon(m, d)
        mujoco.mj_makeM(m, d)
        mujoco.mj_collision(m, d)
        mujoco.mj_comVel(m, d)
        mujoco.mj_energyPos(m, d)
        mujoco.mj_energyVel(m, d)
        energy = float(d.energy.sum()) - self._work
        if self._closed and self._energies and energy - max(self._energies) > self._tolerance:
            gained = energy - max(self._energies)
            self._found.setdefault(
                "energy", f"{gained:.2g} J of energy came from nowhere at {self._now():.3f} s"
            )
        self._energies.append(energy + stored)
        said = self._balance.see(d, self._applied * m.opt.timestep, self._steps * m.opt.timestep)
        if said:
            self._found.setdefault("balance", f"{said} at {self._now():.3f} s")
        self._applied[:] = 0.0
        if self._now() >= SETTLED:
            self._see_depths()
        if len(self._free):
            with np.errstate(over="ignore"):  # of a motion that diverges
                ways = np.linalg.norm(v[self._free[:, None] + np.arange(3)], axis=1) * m.opt.timestep
            k = int(np.argmax(ways / self._own_size))
            if ways[k] > 2.0 * self._own_size[k]:
                name = body_name(m, int(self._free_body[k]))
                self._found.setdefault(
                    "speed", f"'{name}' moves farther in a step than it is thick and may pass through others"
                )

    def _now(self) -> float:
        return self._count * self._model.opt.timestep

    def _see_depths(self) -> None:
        contacts = self._data.contact
        if not len(contacts.dist):
            return
        for k in np.flatnonzero(contacts.dist < 0.0):
            a, b = (int(g) for g in contacts.geom[k])
            if frozenset((a, b)) not in self._pairs or a in self._whole or b in self._whole:
                continue
            gap = contacts.dist[k]
            if (self._geoms[a].kind, self._geoms[b].kind) == ("plane", "cylinder"):
                gap = self._of_cylinder(a, b)
            if -gap > self._deepest * min(self._least[a], self._least[b]):
                names = " and ".join(f"'{self._geoms[g].name}'" for g in (a, b))
                depth = f"{-1e3 * gap:.1f} mm at {self._now():.3f} s"
                self._found.setdefault("depth", f"{names} overlap by {depth}")

    def _of_cylinder(self, plane: int, cylinder: int) -> float:
        """Return the gap of a cylinder on a plane [m]; MuJoCo's is wrong by up to the radius where the
        cylinder stands flat but for rounding."""
        d = self._data
        normal, (radius, half) = d.geom_xmat[plane, 2::3], self._geoms[cylinder].size
        along = abs(float(normal @ d.geom_xmat[cylinder, 2::3]))
        height = float(normal @ (d.geom_xpos[cylinder] - d.geom_xpos[plane]))
        return height - half * along - radius * float(np.sqrt(max(0.0, 1.0 - along**2)))


def _plain(geom: Geom) -> bool:
    """Return whether a geom has no material of its own, so that it stands for a rigid one."""
    return geom.material.modulus is None and geom.material.stiffness is None


def _least(half: np.ndarray) -> float:
    return float(np.min(half))


def _reach(model: mujoco.MjModel) -> np.ndarray:
    """Return the radius (nbody,) of each body's largest geom [m]."""
    reach = np.zeros(model.nbody)
    np.maximum.at(reach, model.geom_bodyid, model.geom_rbound)
    return reach
