"""MuJoCo as an engine, the reference of the others."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence

import mujoco
import numpy as np
from mujoco.rollout import rollout

from dexengines.materials import Materials
from dexengines.report import Contact
from dexengines.scene import Scene, State


class MujocoScene(Scene):
    """A model in MuJoCo; supports every feature, and ignores materials."""

    engine = "mujoco"
    apart = ""

    def __init__(self, model: mujoco.MjModel, materials: Materials = None) -> None:
        self.data = mujoco.MjData(model)
        super().__init__(model, materials)

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
        self.data.qpos[:], self.data.qvel[:], self.data.time = q, v, time
        if activation is not None:
            self.data.act[:] = activation
        mujoco.mj_forward(self.model, self.data)

    def advance(self, tau: np.ndarray) -> bool:
        self.data.qfrc_applied[:] = tau
        mujoco.mj_step(self.model, self.data)
        return bool(np.isfinite(self.data.qvel).all())

    def push(self, tau: np.ndarray) -> bool:
        return self.advance(tau)

    def _drive(self, control: np.ndarray) -> bool:
        self.data.ctrl[:] = control
        return self.advance(np.zeros(self.model.nv))

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
