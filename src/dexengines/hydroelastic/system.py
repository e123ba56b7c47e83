"""Systems of bodies with pressure fields: a MuJoCo model for joints, masses and gravity, meshes for
contact, and the arrays of the kernels.

MuJoCo's contacts and constraints are disabled; only its poses, mass matrix and bias forces are
used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np

from dexengines.collision import Pair, body_name, touching_bodies
from dexengines.couplings import entries
from dexengines.errors import EngineError
from dexengines.features import refuse
from dexengines.hydroelastic.discrete import BUNDLE, TOO_MANY_PAIRS, Bundle, velocity_step
from dexengines.hydroelastic.fields import CompliantMesh, RigidMesh
from dexengines.hydroelastic.placement import State, Static, Symmetry, make_contacts
from dexengines.hydroelastic.problem import LAGGED, SolveStatus, make_problem, make_workspace
from dexengines.hydroelastic.surface import query
from dexengines.hydroelastic.workspace import LOAD_ANGLE, Workspace as SurfaceArrays, workspace
from dexengines.kernels import Stored
from dexengines.report import Patch

JOINTS = ("ball joint with a stop", "equality constraint", "tendon with a stop", "dry tendon friction")
LACKS = (*JOINTS, "joint coupling", "dry joint friction")
"""Features that are not supported, of :data:`dexengines.features.FEATURES`."""
_STATUS = tuple(SolveStatus)
_NOT_FINITE = int(SolveStatus.NOT_FINITE)


@dataclass(frozen=True)
class Geometry:
    """A mesh on a body."""

    name: str
    body: str
    """Name of a body of the MuJoCo model, or ``"world"``."""
    mesh: CompliantMesh | RigidMesh
    """In the body's frame."""
    friction: float
    """Coefficient of friction; the larger of two surfaces counts."""
    relaxation_time: float = 0.0
    """τ of the velocity-level dissipation [s]; the sum of two bodies counts."""
    symmetry: Symmetry = Symmetry.NONE
    """… of the field that the mesh approximates"""
    frame: np.ndarray = field(default_factory=lambda: np.vstack([np.eye(3), np.zeros(3)]))
    """(4, 3) rows: three orthonormal axes of which the last is that of the symmetry, and a point on
    it, in the body's frame"""


def moved(mesh: CompliantMesh | RigidMesh, R_BG: np.ndarray, p_BG: np.ndarray) -> CompliantMesh | RigidMesh:
    """Return a mesh given in frame G, in frame B."""
    return dataclasses.replace(mesh, vertices_B=mesh.vertices_B @ np.asarray(R_BG).T + p_BG)


class HydroelasticSystem:
    """Bodies that advance in velocity-level steps of ``model.opt.timestep``.

    Args:
        model: from :func:`dexengines.forces.contactless`.
        geometries: meshes on its bodies.
        scheme: :data:`~dexengines.hydroelastic.problem.LAGGED` or ``SAP``.
        pairs: geometries that may touch, as indices; None: all whose bodies may touch by MuJoCo's
            rules. Two rigid geometries never touch.
        inertance: (nv, nv) to add to the mass matrix; see :mod:`dexengines.couplings`.

    Raises:
        EngineError: an unknown body, an invalid number, or a feature among :data:`LACKS`.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        geometries: Sequence[Geometry],
        scheme: int = LAGGED,
        pairs: Sequence[Pair] | None = None,
        inertance: np.ndarray | None = None,
    ) -> None:
        refuse("hydroelastic", model, LACKS)
        self.model = model
        self.data = mujoco.MjData(model)
        self.geometries = tuple(geometries)
        self.scheme = scheme
        self.status = SolveStatus.SOLVED
        """Result of the last step's solve."""
        self.unsolved = 0
        """Steps since the last :meth:`forget` whose solve missed the tolerance."""
        self.worst_residual = 0.0
        """Largest relative optimality residual since the last :meth:`forget`."""
        self.static = _static(model, self.geometries, pairs, inertance)
        self._option = model.opt
        d = self.data
        poses, forces = (d.xpos, d.xmat, d.cdof, d.subtree_com), (d.qfrc_bias, d.qfrc_passive, d.qfrc_applied)
        self._state = State(d.qpos, d.qvel, *poses, d.M, *forces)
        self._overrun = np.zeros((len(self.geometries), 2), np.int64)
        self._unsettled = np.zeros(1, np.int64)
        self.reserve(16, 512)
        mujoco.mj_kinematics(model, d)

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return self.data.time

    @property
    def faces(self) -> int:
        """Number of polygons in contact in the last step."""
        return int(self.problem.counts[1])

    @property
    def overrun(self) -> dict[str, int]:
        """Steps since the last :meth:`forget` in which a geometry was pressed past its medial axis,
        by its name; see the README."""
        return {g.name: int(n) for g, n in zip(self.geometries, self._overrun[:, 1], strict=True) if n}

    @property
    def unsettled(self) -> int:
        """Steps since the last :meth:`forget` whose friction differs from that of their normal
        impulses by more than ``convex.LAG``."""
        return int(self._unsettled[0])

    @property
    def iterations(self) -> int:
        """Newton iterations of the last step's solve."""
        return int(self.workspace.info[0])

    def damp(self, damping: np.ndarray) -> None:
        """Set the joint damping (nv,) of the following steps."""
        self.model.dof_damping[:] = np.reshape(damping, self.model.dof_damping.shape)
        self.static.damping[:] = damping

    def forget(self) -> None:
        """Reset the counts of steps."""
        self.unsolved, self.worst_residual, self.status = 0, 0.0, SolveStatus.SOLVED
        self._overrun[:] = 0
        self._unsettled[0] = 0

    def step(self) -> SolveStatus:
        """Advance by one time step under gravity and ``data.qfrc_applied``.

        After :data:`~dexengines.hydroelastic.problem.SolveStatus.NOT_FINITE` nothing has moved.
        """
        model, data = self.model, self.data
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        dt = self._option.timestep
        while True:
            status = velocity_step(self.stored.address, self.scheme, dt)
            if status >= 0:
                break
            pairs, faces = self.problem.pair_ndof.size, len(self.problem.faces)
            self.reserve(*((2 * pairs, faces) if status == TOO_MANY_PAIRS else (pairs, 2 * faces)))
        self.status = _STATUS[status]
        self.worst_residual = max(self.worst_residual, self.workspace.info[2])
        if status:
            self.unsolved += 1
        if status != _NOT_FINITE:
            mujoco.mj_integratePos(model, self._state.qpos, self._state.qvel, dt)
            data.time += dt
        return self.status

    def patches(self) -> list[Patch]:
        """Return the contact surfaces and mean wrenches of the last step, at the poses it began
        with.

        The surfaces are computed again.
        """
        result, out = [], SurfaceArrays(drop_angle=LOAD_ANGLE)
        for k in range(self.problem.counts[0]):
            pair = self.static.pairs[self.contacts.pair[k]]
            a, b = (self.geometries[i] for i in pair)
            A, B = self.contacts.pair_pose[k]
            s = query(a.mesh, b.mesh, A[:3], A[3], B[:3], B[3], out)
            force, moment = (self.problem.impulse[k] / self.model.opt.timestep).reshape(2, 3)
            surface = s.vertex_W.copy(), s.start.copy(), s.pressure.copy()
            result.append(Patch(a.name, b.name, *surface, self.contacts.point_W[k].copy(), force, moment))
        return result

    def reserve(self, pairs: int, faces: int) -> None:
        """Reserve arrays for this many pairs and faces; a step enlarges them if needed."""
        nv, limits = self.model.nv, 2 * self.static.limit_dof.size
        self.problem = make_problem(nv, pairs, faces, limits)
        self.workspace = make_workspace(nv, pairs)._replace(unsettled=self._unsettled)
        self.contacts = make_contacts(self._overrun, pairs, faces)
        self.surface = workspace(faces, LOAD_ANGLE)
        self.stored = Stored(
            Bundle(self.static, self._state, self.surface, self.problem, self.workspace, self.contacts),
            BUNDLE,
        )


def _static(
    model: mujoco.MjModel,
    geometries: Sequence[Geometry],
    given: Sequence[Pair] | None,
    inertance: np.ndarray | None,
) -> Static:
    names = {body_name(model, b): b for b in range(model.nbody)}
    for g in geometries:
        if g.body not in names:
            raise EngineError(f"geometry '{g.name}' sits on body '{g.body}', which the model does not have")
        if not (0.0 <= g.friction < np.inf and 0.0 <= g.relaxation_time < np.inf):
            raise EngineError(
                f"friction and relaxation time of geometry '{g.name}' must be finite and not negative"
            )
    body = np.array([names[g.body] for g in geometries], np.int64).reshape(-1)
    rigid = np.array([isinstance(g.mesh, RigidMesh) for g in geometries], np.int64).reshape(-1)
    if given is None:
        given = [
            Pair(i, j, max(geometries[i].friction, geometries[j].friction))
            for i, j in touching_bodies(model, body.tolist())
        ]
    given = [pair for pair in given if not (rigid[pair.a] and rigid[pair.b])]
    pairs = [(b, a) if rigid[a] else (a, b) for a, b, _ in given]
    chains = [_chain(model, b) for b in range(model.nbody)]
    chain = np.zeros((model.nbody, max(map(len, chains), default=0)), np.int64)
    for b, dofs in enumerate(chains):
        chain[b, : len(dofs)] = dofs
    limited = np.flatnonzero(model.jnt_limited)
    coupled, at = entries(np.zeros((model.nv, model.nv)) if inertance is None else inertance)
    return Static(
        geom_body=body,
        geom_rigid=rigid,
        geom_mesh=np.array([g.mesh.stored.address for g in geometries], np.int64),
        geom_symmetry=np.array([g.symmetry for g in geometries], np.int64),
        geom_frame=np.array([g.frame for g in geometries], float).reshape(-1, 4, 3),
        geom_box=np.array([_box(g.mesh.vertices_B) for g in geometries]).reshape(-1, 7),
        pairs=np.array(pairs, np.int64).reshape(-1, 2),
        pair_friction=np.array([pair.friction for pair in given]),
        pair_relaxation=np.array(
            [geometries[i].relaxation_time + geometries[j].relaxation_time for i, j in pairs]
        ),
        chain=chain,
        chain_length=np.array([len(c) for c in chains], np.int64),
        body_root=model.body_rootid.astype(np.int64),
        M_rownnz=model.M_rownnz.astype(np.int64),
        M_rowadr=model.M_rowadr.astype(np.int64),
        M_colind=model.M_colind.astype(np.int64),
        damping=np.array(model.dof_damping).reshape(-1),
        inertance=coupled,
        inertance_at=at,
        limit_dof=model.jnt_dofadr[limited].astype(np.int64),
        limit_qpos=model.jnt_qposadr[limited].astype(np.int64),
        limit_range=np.array(model.jnt_range[limited]).reshape(-1, 2),
    )


def _box(vertices: np.ndarray) -> np.ndarray:
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    centre = 0.5 * (low + high)
    return np.concatenate([centre, 0.5 * (high - low), [np.linalg.norm(vertices - centre, axis=1).max()]])


def _chain(model: mujoco.MjModel, body: int) -> list[int]:
    """Return the velocities that move a body, ascending."""
    dofs: list[int] = []
    while body:
        first = model.body_dofadr[body]
        dofs += range(first, first + model.body_dofnum[body])
        body = model.body_parentid[body]
    return sorted(int(d) for d in dofs)
