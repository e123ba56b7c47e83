"""What of a robot file is a hand: palm, one serial chain of joints for each fingertip, shapes;
links and joints as a URDF says them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import mujoco
import numpy as np

from dexstack.errors import ConfigError, unknown_name
from dexstack.geometry.primitives import ALL, ROUND, Primitive, depth, nearest_primitive
from dexstack.model.urdf import Joint, Link, Mimic, Shape, join_capsules
from dexstack.onboarding.robot_file import RobotFile

SPEED = 6.0
"""Speed limit of a joint whose file has none [rad/s]: a small servo motor's."""
PALM_MASS = 0.5
"""Written for a palm without mass, which is fixed in the world: nothing depends on it [kg]."""
ONE = 0.001
"""One shape stands for all meshes of a link if it is off by at most this more than a shape for each
[m]."""
ANYWHERE = 6.3
"""Limits of a joint that follows another one and has none of its own, either way: its leader's
count [rad]."""
_GEOMS = {
    int(mujoco.mjtGeom.mjGEOM_SPHERE): ("sphere", 1),
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): ("capsule", 2),
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): ("cylinder", 2),
    int(mujoco.mjtGeom.mjGEOM_BOX): ("box", 3),
}


class Fit(NamedTuple):
    """What stands for meshes of a link."""

    link: str
    meshes: int
    kind: str
    error: float
    """Hausdorff distance from their convex hull [m]."""


@dataclass(frozen=True)
class Draft:
    """A hand before anybody knows how it is mounted and where it rests."""

    name: str
    links: tuple[Link, ...]
    """The palm, then the moving links finger by finger, each followed by the frame of its fingertip
    where that is a link of its own."""
    joints: tuple[Joint, ...]
    tips: tuple[str, ...]
    """Links whose frames lie in the middle of the fingertips."""
    radius: float
    """Of the fingertips [m]."""
    fits: tuple[Fit, ...]
    notes: tuple[str, ...]
    """What was assumed or left out, a sentence each."""


def draft_hand(robot: RobotFile, palm: str | None, tips: Sequence[str], effort: float | None = None) -> Draft:
    """The hand in a robot.

    Args:
        palm: the link that is fixed in the world; None: the last one that all fingers have in
            common.
        tips: the last link of each finger, or a link fixed to it; none: every link that moves
            nothing further. The last given is the thumb.
        effort: torque limit of joints whose limit the file does not say [N m].

    Raises:
        ConfigError: no such link, a tip that does not move against the palm, fingers that share
            joints, joints that are no hinges, have no limits, or follow others but by a ratio and
            an offset, loops, a link without shape at a fingertip, a torque limit that nobody knows.
    """
    tree = _Tree(robot)
    named = [tree.body(tip) for tip in tips]
    root = tree.palm(palm, named)
    ends = named or tree.proposed_tips(root)
    notes = (
        [] if named else [f"the fingertips were taken from the tree: {', '.join(tree.name(b) for b in ends)}"]
    )
    if palm is None:
        notes.append(f"the palm was taken from the tree: {tree.name(root)}")
    chains = tree.chains(root, ends)
    if not named and len(chains) > 1:
        last = tree.thumb(root, chains)
        order = [k for k in range(len(ends)) if k != last] + [last]
        ends, chains = [ends[k] for k in order], [chains[k] for k in order]
        notes.append(f"the thumb, which comes last, was taken to end in {tree.name(ends[-1])}")
    return _Drafting(tree, root, chains, ends, effort, notes).draft()


class _Tree:
    """The bodies of a robot and how they hang together."""

    def __init__(self, robot: RobotFile) -> None:
        self.robot, self.model = robot, robot.model
        self.parent = self.model.body_parentid
        self.jointed = self.model.body_jntnum > 0

    def name(self, body: int) -> str:
        return self.model.body(body).name or f"body_{body}"

    def joint_name(self, joint: int) -> str:
        return self.model.joint(joint).name or f"joint_{joint}"

    def body(self, name: str) -> int:
        names = {self.name(b): b for b in range(1, self.model.nbody)}
        if name not in names:
            raise unknown_name(f"link in {self.robot.where}", name, names)
        return names[name]

    def path(self, body: int) -> list[int]:
        """From the body up to the world's child."""
        found = []
        while body > 0:
            found.append(body)
            body = int(self.parent[body])
        return found

    def palm(self, name: str | None, tips: list[int]) -> int:
        """The palm's body.

        Raises:
            ConfigError: no such link, or none that all tips have in common.
        """
        if name is not None:
            return self.body(name)
        ends = tips or self.leaves(range(1, self.model.nbody))
        if len(ends) < 2:
            raise ConfigError(
                f"{self.robot.where} has {len(ends)} links that could be fingertips; name the palm with --palm"
            )
        above = [[b for b in self.path(end) if b != end] for end in ends]
        common = [b for b in above[0] if all(b in other for other in above)]
        if not common:
            raise ConfigError(
                f"the fingertips of {self.robot.where} have no link in common that could be the palm"
            )
        return common[0]

    def leaves(self, bodies: Sequence[int]) -> list[int]:
        """Of the bodies with joints those that carry none, and of each a link fixed to it that is
        called a tip, if there is one."""
        carriers = {
            b
            for jointed in range(1, self.model.nbody)
            if self.jointed[jointed]
            for b in self.path(int(self.parent[jointed]))
        }
        ends = [b for b in bodies if self.jointed[b] and b not in carriers]
        fixed = {
            end: [
                b
                for b in range(end + 1, self.model.nbody)
                if end in self.path(b) and "tip" in self.name(b).lower()
            ]
            for end in ends
        }
        return [(fixed[end] or [end])[-1] for end in ends]

    def proposed_tips(self, palm: int) -> list[int]:
        root = self.weld_root(palm)
        found = self.leaves([b for b in range(1, self.model.nbody) if b != root and root in self.path(b)])
        if not found:
            raise ConfigError(
                f"no link of {self.robot.where} moves against the palm '{self.name(palm)}': there is no finger"
            )
        return found

    def weld_root(self, body: int) -> int:
        """The first of the bodies that are fixed to one another and to this one."""
        while not self.jointed[body] and self.parent[body] > 0:
            body = int(self.parent[body])
        return body

    def chains(self, palm: int, tips: list[int]) -> list[list[int]]:
        """The bodies with joints of each finger, from the palm to the tip.

        Raises:
            ConfigError: a tip does not move against the palm, or fingers share a joint.
        """
        root = self.weld_root(palm)
        chains: list[list[int]] = []
        for tip in tips:
            path = self.path(tip)
            if root not in path:
                raise ConfigError(
                    f"the tip '{self.name(tip)}' of {self.robot.where} does not hang on the palm '{self.name(palm)}'"
                )
            chain = [b for b in path[: path.index(root)] if self.jointed[b]][::-1]
            if not chain:
                raise ConfigError(
                    f"the tip '{self.name(tip)}' of {self.robot.where} does not move against the palm '{self.name(palm)}'"
                )
            for other, end in zip(chains, tips, strict=False):
                if shared := [b for b in chain if b in other]:
                    joint = self.joint_name(int(self.model.body_jntadr[shared[0]]))
                    raise ConfigError(
                        f"the fingers to '{self.name(end)}' and '{self.name(tip)}' of {self.robot.where} share the joint '{joint}'; "
                        "each finger must be a chain of its own"
                    )
            chains.append(chain)
        return chains

    def thumb(self, palm: int, chains: list[list[int]]) -> int:
        """The finger whose stretch differs most from the others'; where none differs much, the
        last."""
        data = mujoco.MjData(self.model)
        mujoco.mj_kinematics(self.model, data)
        away = np.array([data.xipos[chain[-1]] - data.xpos[chain[0]] for chain in chains])
        away /= np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-9)
        alike = (away @ away.T).sum(axis=1)
        return int(np.argmin(alike)) if np.ptp(alike) > 0.5 else len(chains) - 1


@dataclass
class _Drafting:
    """One run of :func:`draft_hand`."""

    tree: _Tree
    palm: int
    chains: list[list[int]]
    tips: list[int]
    effort: float | None
    notes: list[str]
    fits: list[Fit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model, self.root = self.tree.model, self.tree.weld_root(self.palm)
        self.moving = [b for chain in self.chains for b in chain]
        self.joint_of = {b: int(self.model.body_jntadr[b]) for b in self.moving}
        self._check()
        self.data = self._at_zero()

    def draft(self) -> Draft:
        links, joints, tips, radii = [self._link(self.palm, ALL)], [], [], []
        if links[0].mass <= 0.0:
            links[0] = replace(links[0], mass=PALM_MASS, inertia=PALM_MASS * 0.05**2 * np.eye(3))
            self.notes.append(
                f"the palm has no mass in the file: {PALM_MASS:g} kg is written, on which nothing depends"
            )
        for chain, tip in zip(self.chains, self.tips, strict=True):
            for parent, body in zip([self.palm, *chain], chain, strict=False):
                links.append(self._link(body, ROUND if body == chain[-1] else ALL))
                joints.append(self._joint(parent, body))
            p_BT, radius = self._tip(chain[-1], tip, links[-1].shapes)
            name = self.tree.name(tip) if tip != chain[-1] else f"{self.tree.name(tip)}_tip"
            links.append(Link(name, 0.0, np.zeros(3), np.zeros((3, 3)), ()))
            joints.append(
                Joint(
                    name,
                    "fixed",
                    links[-2].name,
                    name,
                    self._rotation_to(chain[-1], tip),
                    p_BT,
                    np.eye(3)[0],
                    0,
                    0,
                    0,
                    0,
                    0,
                )
            )
            tips.append(name)
            radii.append(radius)
        self._tell_shared(joints, radii)
        name = str(self.model.names[: self.model.names.index(b"\0")].decode()) or self.tree.robot.path.stem
        return Draft(
            name,
            tuple(links),
            tuple(joints),
            tuple(tips),
            float(np.median(radii)),
            tuple(self.fits),
            tuple(self.notes),
        )

    def _tell_shared(self, joints: list[Joint], radii: list[float]) -> None:
        if np.ptp(radii) > 1e-4:
            spread = f"{1e3 * min(radii):.1f} to {1e3 * max(radii):.1f} mm"
            self.notes.append(
                f"the fingertips' radii are {spread}; the hand has one, their median {1e3 * np.median(radii):.1f} mm"
            )
        slow = [j.name for j in joints if j.kind != "fixed" and j.name not in self.tree.robot.speeds]
        if slow:
            self.notes.append(
                f"{len(slow)} joints have no speed limit in the file: {SPEED:g} rad/s is written"
            )
        if self.tree.robot.balanced:
            self.notes.append(
                "some inertias in the file are of no rigid body; their three moments became their mean"
            )
        led = [f"{j.name} by {j.mimic.joint}" for j in joints if j.mimic is not None]
        if led:
            self.notes.append(f"{len(led)} joints are led by others: {', '.join(led)}")
        held = [self.tree.joint_name(j) for j in range(self.model.njnt) if self._held(j)]
        if held:
            self.notes.append(f"held still, because no tip hangs on them: {', '.join(held)}")
        weighty = self.model.dof_armature[[self.model.jnt_dofadr[j] for j in self.joint_of.values()]]
        if weighty.any():
            self.notes.append(f"armature of up to {weighty.max():.2g} kg m² is left out")

    def _held(self, joint: int) -> bool:
        body = int(self.model.jnt_bodyid[joint])
        return body not in self.joint_of and body != self.root and self.root in self.tree.path(body)

    def _check(self) -> None:
        """Refuse what is no serial chain of limited hinges."""
        model, robot = self.model, self.tree.robot
        for body, j in self.joint_of.items():
            joint, where = self.tree.joint_name(j), f"of {robot.where}"
            if model.body_jntnum[body] > 1:
                raise ConfigError(
                    f"the link '{self.tree.name(body)}' {where} has {model.body_jntnum[body]} joints; one each is supported"
                )
            if model.jnt_type[j] != mujoco.mjtJoint.mjJNT_HINGE:
                raise ConfigError(
                    f"the joint '{joint}' {where} slides or is a ball; only joints that turn about one axis are supported"
                )
            if (leader := robot.followers.get(joint)) is not None:
                self._check_follower(joint, leader)
            elif not (model.jnt_limited[j] and np.less(*model.jnt_range[j])):
                raise ConfigError(
                    f"the joint '{joint}' {where} has no limits; give it a lower one below an upper one"
                )
        for e in range(model.neq):
            if model.eq_type[e] in (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD):
                raise ConfigError(
                    f"{robot.where} closes a loop ({model.equality(e).name or 'an equality'}); only trees are supported"
                )

    def _check_follower(self, joint: str, leader: Mimic | str) -> None:
        what = f"the joint '{joint}' of {self.tree.robot.where}"
        if isinstance(leader, str):
            raise ConfigError(
                f"{what} is coupled to {leader}; only joints that follow one other, by a ratio and an offset, are supported"
            )
        fingers = [[self.tree.joint_name(self.joint_of[b]) for b in chain] for chain in self.chains]
        if not any(joint in names and leader.joint in names for names in fingers):
            raise ConfigError(
                f"{what} follows '{leader.joint}', which is no joint of its finger; each finger must move by itself"
            )

    def _at_zero(self) -> mujoco.MjData:
        """Every moving joint at zero, the others as near to it as they get."""
        model, data = self.model, mujoco.MjData(self.model)
        for j in range(model.njnt):
            if model.jnt_type[j] in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
                free = j in self.joint_of.values() or not model.jnt_limited[j]
                data.qpos[model.jnt_qposadr[j]] = 0.0 if free else np.clip(0.0, *model.jnt_range[j])
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        return data

    def _frame(self, body: int) -> tuple[np.ndarray, np.ndarray]:
        """R_WB, p_WB: the palm's own, a moving link's with its origin on the joint."""
        p = self.data.xanchor[self.joint_of[body]] if body in self.joint_of else self.data.xpos[body]
        return self.data.xmat[body].reshape(3, 3), p

    def _members(self, body: int) -> list[int]:
        """The bodies that move as one with the palm or a moving one."""
        stop = {*self.moving, self.root}
        own = self.root if body == self.palm else body
        found = []
        for b in range(1, self.model.nbody):
            owner = b
            while owner > 0 and owner not in stop:
                owner = int(self.tree.parent[owner])
            if owner == own:
                found.append(b)
        return found

    def _link(self, body: int, kinds: Sequence[str]) -> Link:
        model, data = self.model, self.data
        R, p = self._frame(body)
        members = self._members(body)
        mass = float(model.body_mass[members].sum())
        com = (model.body_mass[members] @ data.xipos[members]) / mass if mass > 0.0 else p
        inertia = np.zeros((3, 3))
        for b in members:
            axes, d = data.ximat[b].reshape(3, 3), data.xipos[b] - com
            inertia += axes @ np.diag(model.body_inertia[b]) @ axes.T + model.body_mass[b] * (
                d @ d * np.eye(3) - np.outer(d, d)
            )
        inertia = R.T @ inertia @ R
        shapes, meshes = [], []
        for g in np.flatnonzero(
            np.isin(model.geom_bodyid, members) & ((model.geom_contype | model.geom_conaffinity) > 0)
        ):
            kind = int(model.geom_type[g])
            R_BG, p_BG = R.T @ data.geom_xmat[g].reshape(3, 3), R.T @ (data.geom_xpos[g] - p)
            if kind in _GEOMS:
                name, count = _GEOMS[kind]
                shapes.append(Shape(name, model.geom_size[g, :count].copy(), p_BG, R_BG))
            else:
                meshes.append(self._corners(g) @ R_BG.T + p_BG)
        name = self.tree.name(body)
        fitted = [
            Shape(f.kind, f.size, f.p, f.R)
            for f in self._fitted(name, meshes, kinds if body != self.palm or shapes else ("box",))
        ]
        return Link(
            name, mass, R.T @ (com - p), (inertia + inertia.T) / 2.0, tuple(join_capsules(shapes) + fitted)
        )

    def _corners(self, geom: int) -> np.ndarray:
        """(n, 3) points whose hull a geom without a shape of ours is, in its own frame."""
        model, kind = self.model, self.model.geom_type[geom]
        if kind == mujoco.mjtGeom.mjGEOM_MESH:
            mesh = model.geom_dataid[geom]
            return model.mesh_vert[
                model.mesh_vertadr[mesh] : model.mesh_vertadr[mesh] + model.mesh_vertnum[mesh]
            ].astype(float)
        if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
            import trimesh

            return np.asarray(trimesh.creation.icosphere(subdivisions=3).vertices) * model.geom_size[geom]
        what = mujoco.mjtGeom(kind).name.removeprefix("mjGEOM_").lower()
        raise ConfigError(
            f"the link '{self.tree.name(int(model.geom_bodyid[geom]))}' of {self.tree.robot.where} collides as a {what}; "
            "spheres, capsules, cylinders, boxes, ellipsoids and meshes are supported"
        )

    def _fitted(self, link: str, meshes: list[np.ndarray], kinds: Sequence[str]) -> list[Primitive]:
        """What stands for the meshes of a link: one shape if that is about as good as one for
        each."""
        what = f"a mesh of the link '{link}' of {self.tree.robot.where}"
        each = [nearest_primitive(points, kinds, what) for points in meshes]
        if len(each) > 1:
            one = nearest_primitive(np.concatenate(meshes), kinds, what)
            if one.error <= max(fit.error for fit in each) + ONE:
                each = [one]
        share = len(meshes) if len(each) == 1 else 1
        self.fits += [Fit(link, share, fit.kind, fit.error) for fit in each]
        return each

    def _joint(self, parent: int, body: int) -> Joint:
        j, model = self.joint_of[body], self.model
        (R_WP, p_WP), (R_WC, p_WC) = self._frame(parent), self._frame(body)
        name = self.tree.joint_name(j)
        mimic = self.tree.robot.followers.get(name)
        assert not isinstance(mimic, str)
        effort, speed = (
            self._effort(j if mimic is None else self.model.joint(mimic.joint).id),
            self.tree.robot.speeds.get(name, SPEED),
        )
        damping = max(
            float(model.dof_damping[model.jnt_dofadr[j]].flat[0]), effort / speed
        )  # at least the slope of a motor's torque
        ends = (self.tree.name(parent), self.tree.name(body))
        limits = map(float, model.jnt_range[j] if model.jnt_limited[j] else (-ANYWHERE, ANYWHERE))
        place = R_WP.T @ R_WC, R_WP.T @ (p_WC - p_WP), model.jnt_axis[j].copy()
        return Joint(name, "revolute", *ends, *place, *limits, effort, speed, damping, mimic)

    def _effort(self, j: int) -> float:
        """Torque limit: the joint's, or its actuator's, or the one given [N m]."""
        model = self.model
        found = [float(np.abs(model.jnt_actfrcrange[j]).max())] if model.jnt_actfrclimited[j] else []
        for a in np.flatnonzero(
            (model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT) & (model.actuator_trnid[:, 0] == j)
        ):
            gear = abs(float(model.actuator_gear[a, 0]))
            if model.actuator_forcelimited[a]:
                found.append(gear * float(np.abs(model.actuator_forcerange[a]).max()))
            elif model.actuator_biastype[a] == mujoco.mjtBias.mjBIAS_NONE and model.actuator_ctrllimited[a]:
                found.append(
                    gear * float(np.abs(model.actuator_gainprm[a, 0] * model.actuator_ctrlrange[a]).max())
                )
        found = [x for x in found if np.isfinite(x) and x > 0.0] or (
            [] if self.effort is None else [self.effort]
        )
        if not found:
            joint = self.tree.joint_name(j)
            raise ConfigError(
                f"{self.tree.robot.where} says no torque limit of the joint '{joint}'; say it with --effort, in N m"
            )
        return min(found)

    def _rotation_to(self, body: int, tip: int) -> np.ndarray:
        return self._frame(body)[0].T @ self.data.xmat[tip].reshape(3, 3)

    def _tip(self, last: int, tip: int, shapes: tuple[Shape, ...]) -> tuple[np.ndarray, float]:
        """Centre of a fingertip in the frame of its link, and its radius.

        A link without shapes that is fixed to the last one is itself the centre. Otherwise it is
        the middle of the round end of the shape that reaches farthest from the last joint; a box's
        end is as round as it is thin.
        """
        if not shapes:
            raise ConfigError(
                f"the tip '{self.tree.name(tip)}' of {self.tree.robot.where} has no collision shape to touch with"
            )
        R, p = self._frame(last)
        at = R.T @ (self.data.xpos[tip] - p)
        ends = [_round_end(shape) for shape in shapes]
        if tip != last and not self._touches(tip):
            inside = max(float(depth(s.kind, s.size, (at - s.p)[None] @ s.R)[0]) for s in shapes)
            radius = (
                inside if inside > 0.002 else min(ends, key=lambda end: float(np.linalg.norm(end[0] - at)))[1]
            )
            return at, radius
        return max(ends, key=lambda end: float(np.linalg.norm(end[0]) + end[1]))

    def _touches(self, body: int) -> bool:
        own = self.model.geom_bodyid == body
        return bool((own & ((self.model.geom_contype | self.model.geom_conaffinity) > 0)).any())


def _round_end(shape: Shape) -> tuple[np.ndarray, float]:
    """Centre and radius of the sphere in that end of a shape that is farther from the origin of its
    link's frame."""
    if shape.kind == "sphere":
        return shape.p, float(shape.size[0])
    away = shape.R.T @ shape.p
    if shape.kind == "box":
        k = int(np.argmax(np.abs(away)))
        radius, reach = float(shape.size.min()), float(shape.size[k])
    else:
        k, radius = 2, float(shape.size[0])
        reach = float(shape.size[1]) + (radius if shape.kind == "capsule" else 0.0)
        radius = min(radius, reach)
    side = -1.0 if away[k] < 0.0 else 1.0
    return shape.p + shape.R[:, k] * side * (reach - radius), radius
