"""MuJoCo as an engine, the reference of the others."""

from __future__ import annotations

import copy
import functools
from collections.abc import Hashable, Sequence

import mujoco
import numpy as np
from mujoco.rollout import rollout

from dexengines.collision import find_lines
from dexengines.materials import Materials
from dexengines.report import Contact
from dexengines.scene import Scene, State

_WARNINGS = {
    mujoco.mjtWarning.mjWARN_BADQPOS: "bad positions",
    mujoco.mjtWarning.mjWARN_BADQVEL: "bad velocities",
    mujoco.mjtWarning.mjWARN_BADQACC: "bad accelerations",
    mujoco.mjtWarning.mjWARN_CONTACTFULL: "too many contacts",
    mujoco.mjtWarning.mjWARN_CNSTRFULL: "too many constraints",
}
DEFAULT_TIME = 0.02
"""Time constant in MuJoCo's default ``solref`` [s]."""
SUNK = 0.01
"""Share of its least half extent that a free body may sink in under the weight of all."""
OVERSHOT = 0.01
"""Way past a stop that is named: angle [rad], or share of the body's radius of gyration."""
ACTING = 5
"""Steps after a stop has begun to act in which a joint goes farthest."""
_YIELD = 0.09
"""Depth over T² times the acceleration that the load would give, (1 − d) d at MuJoCo's d = 0.9."""


class MujocoScene(Scene):
    """A model in MuJoCo; supports every feature, and ignores materials.

    MuJoCo's contacts yield: at rest by (1 − d) d T² times the acceleration that the load would give the
    lighter body, with T the time constant of ``solref`` and d the impedance. Where the model leaves T
    at its default of 20 ms, it is lowered so that no free body sinks in by more than :data:`SUNK`
    under the weight of all, and that of joint stops to two steps.

    No setting here reaches the truth in: friction of a contact that begins to slide fast (a sliding
    contact of the convex cone lifts until its normal force has fallen to the load, so that braking is
    up to 1.5 times μ g for the first tenths of a second, the more the larger T and the higher the
    speed); bodies that pass a thin one within a step.

    Args:
        contact_time: T of all contacts whose ``solref`` is the default [s], and stops as they are;
            None: as above.
    """

    engine = "mujoco"
    apart = ""

    def __init__(
        self,
        model: mujoco.MjModel,
        materials: Materials = None,
        *,
        contact_time: float | None = None,
    ) -> None:
        super().__init__(copy.copy(model), materials)
        self._unsolved, m, shortest = 0, self.model, 2.0 * model.opt.timestep
        find_lines(m, self.collision)
        self._stops: Stops | None = None
        if contact_time is None:
            self._stops = Stops(m) if m.jnt_limited.any() else None
            contact_time = self._contact_time()
            _stiffen(m.jnt_solref, shortest)
        _stiffen(m.geom_solref, max(contact_time, shortest))
        _stiffen(m.pair_solref, max(contact_time, shortest))
        self.data = mujoco.MjData(m)

    def _contact_time(self) -> float:
        m = self.model
        free = set(m.jnt_bodyid[m.jnt_type == mujoco.mjtJoint.mjJNT_FREE].tolist())
        load = float(np.linalg.norm(m.opt.gravity)) * float(m.body_subtreemass[list(free)].sum())
        times = [
            np.sqrt(SUNK * g.half.min() / (_YIELD * load / m.body_subtreemass[g.body]))
            for g in self.collision.geoms
            if g.body in free and load > 0.0
        ]
        return min([DEFAULT_TIME, *times])

    @property
    def time(self) -> float:
        return self.data.time

    @property
    def activation(self) -> np.ndarray:
        return self.data.act

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        return self.data.qpos, self.data.qvel

    def place(
        self, q: np.ndarray, v: np.ndarray, time: float = 0.0, activation: np.ndarray | None = None
    ) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self._unsolved = 0
        if self._stops is not None:
            self._stops.begin()
        self.data.qpos[:], self.data.qvel[:], self.data.time = q, v, time
        if activation is not None:
            self.data.act[:] = activation
        mujoco.mj_forward(self.model, self.data)

    def advance(self, tau: np.ndarray) -> bool:
        self.data.qfrc_applied[:] = tau
        mujoco.mj_step(self.model, self.data)
        self._unsolved += self.data.solver_niter[0] >= self.model.opt.iterations
        if self._stops is not None:
            self._stops.see(self.data)
        return bool(np.isfinite(self.data.qvel).all())

    def push(self, tau: np.ndarray) -> bool:
        return self._watched(tau)

    def _drive(self, control: np.ndarray) -> bool:
        self.data.ctrl[:] = control
        return self._watched(np.zeros(self.model.nv))

    def _pushed(self, tau: np.ndarray) -> np.ndarray:
        return tau + self.data.qfrc_actuator if self.model.nu else tau

    def _own_trouble(self) -> str:
        counts = {name: int(self.data.warning[kind].number) for kind, name in _WARNINGS.items()}
        parts = [f"MuJoCo warned of {name} in {n} steps" for name, n in counts.items() if n]
        if self._unsolved:
            parts.append(f"the contact problems of {self._unsolved} steps were not solved")
        return "; ".join(parts + (self._stops.passed() if self._stops is not None else []))

    @functools.cached_property
    def batch_key(self) -> Hashable:
        """Sizes of the model: MuJoCo's rollout takes models of equal sizes."""
        sizes = (getattr(self.model, name) for name in dir(self.model) if name.startswith("n"))
        return tuple(size for size in sizes if isinstance(size, int))

    @classmethod
    def rollout_many(
        cls, scenes: Sequence[MujocoScene], states: Sequence[State], controls: np.ndarray, threads: int
    ) -> State:
        """Roll out in MuJoCo's threads."""
        m, full, (N, T, _) = scenes[0].model, mujoco.mjtState.mjSTATE_FULLPHYSICS, controls.shape
        passed, guesses = np.empty((N, T + 1, mujoco.mj_stateSize(m, full))), np.empty((N, m.nv))
        for scene, state, rows, guess in zip(scenes, states, passed, guesses, strict=True):
            scene._set_state(state)
            mujoco.mj_getState(scene.model, scene.data, rows[0], full)
            guess[:] = scene.data.qacc_warmstart
        if T:
            room = [mujoco.MjData(m) for _ in range(min(threads, N))]
            passed[:, 1:] = rollout(
                [s.model for s in scenes], room, passed[:, 0].copy(), controls, initial_warmstart=guesses
            )[0]
        time, q, v, activation, _ = np.split(passed, np.cumsum([1, m.nq, m.nv, m.na]), axis=2)
        return State(time[:, :, 0], q, v, activation)

    def _contacts(self, control: np.ndarray) -> list[Contact]:
        self.data.ctrl[:] = control
        mujoco.mj_forward(self.model, self.data)
        result, wrench = [], np.zeros(6)
        geoms = {g.id: g for g in self.collision.geoms}
        for k, c in enumerate(self.data.contact):
            if c.exclude or c.geom.min() < 0:
                continue
            mujoco.mj_contactForce(self.model, self.data, k, wrench)
            R_CW = c.frame.reshape(3, 3)
            a, b = (geoms[int(g)] for g in c.geom)
            result.append(self._report(a, b, c.pos.copy(), R_CW[0].copy(), c.dist, R_CW.T @ wrench[:3]))
        return result


class Stops:
    """Watch over joints that pass their stops before these act: MuJoCo's do from the step after, so
    that a joint passes by up to its way in a step.

    Args:
        model: of the scene, with its own ``solref``; stops whose it is not the default may be soft.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        default = (model.jnt_solref == (DEFAULT_TIME, 1.0)).all(axis=1)
        length = np.sqrt(model.body_inertia.mean(axis=1) / np.maximum(model.body_mass, 1e-12))
        self._hinge = model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE
        self._most = OVERSHOT * np.where(self._hinge, 1.0, length[model.jnt_bodyid])
        self._most[~default] = np.inf
        self._name = [model.joint(j).name or f"joint {j}" for j in range(model.njnt)]
        self.begin()

    def begin(self) -> None:
        """Forget earlier steps."""
        self._active, self._left, self._worst = 0, 0, {}

    def see(self, d: mujoco.MjData) -> None:
        """See the stops of a step, of the first ones after one has begun to act."""
        active = d.nl
        if active > self._active:
            self._left = ACTING
        self._active = active
        if self._left and active:
            self._left -= 1
            rows = slice(d.ne + d.nf, d.ne + d.nf + active)
            joint = d.efc_type[rows] == mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT
            for j, gap in zip(d.efc_id[rows][joint].tolist(), d.efc_pos[rows][joint].tolist(), strict=True):
                if -gap > self._most[j]:
                    self._worst[j] = max(-gap, self._worst.get(j, 0.0))

    def passed(self) -> list[str]:
        """Return a sentence for each joint that passed its stop too far."""
        far = {
            j: f"{np.degrees(x):.2g}°" if self._hinge[j] else f"{1e3 * x:.2g} mm"
            for j, x in self._worst.items()
        }
        return [f"'{self._name[j]}' passed its stop by {text}" for j, text in far.items()]


def _stiffen(solref: np.ndarray, time: float) -> None:
    """Replace the time constant of those rows that are MuJoCo's default."""
    solref[(solref == (DEFAULT_TIME, 1.0)).all(axis=1), 0] = time
