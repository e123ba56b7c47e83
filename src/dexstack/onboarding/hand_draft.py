"""Extraction of a hand from a robot file: palm, one serial chain of joints for each fingertip,
collision shapes; links and joints as in a URDF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import mujoco
import numpy as np
import trimesh

from dexstack.errors import ConfigError
from dexstack.model.urdf import Joint, Link, Mimic, Shape, join_capsules
from dexstack.onboarding.hand_tree import HandTree
from dexstack.onboarding.primitives import ALL, ROUND, Primitive, depth, nearest_primitive
from dexstack.onboarding.reaching import half_extents
from dexstack.onboarding.robot_file import RobotFile, joint_motors, tendon_motors

SPEED = 6.0
"""Speed limit of a joint without one in the file [rad/s]: a small servo motor's."""
PALM_MASS = 0.5
"""Mass of a palm without one in the file [kg]; the palm is fixed, so that nothing depends on it."""
ONE = 0.001
"""Additional error at which one shape still replaces all meshes of a link, instead of one for each
[m]."""
ANYWHERE = 6.3
"""Limit in both directions of a joint that follows another one and has no limits in the file, where
its leader's count; and largest plausible limit [rad]."""
LINK, REACH = (1e-4, 1.0), (0.02, 1.0)
"""Plausible lengths: least of a collision shape and largest from its joint, and of a finger from the
palm's frame to its tip [m]."""
GYRATION, MASS = LINK[1], 20.0
"""Largest plausible radius of gyration [m] and mass [kg] of a moving link."""
EFFORT = 100.0
"""Largest plausible torque limit [N m]; larger ones stand for none."""
_GEOMS = {
    int(mujoco.mjtGeom.mjGEOM_SPHERE): ("sphere", 1),
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): ("capsule", 2),
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): ("cylinder", 2),
    int(mujoco.mjtGeom.mjGEOM_BOX): ("box", 3),
}


class Fit(NamedTuple):
    """Shape that replaces meshes of a link."""

    link: str
    meshes: int
    kind: str
    error: float
    """Hausdorff distance from their convex hull [m]."""


@dataclass(frozen=True)
class Draft:
    """A hand without its mount and poses."""

    name: str
    links: tuple[Link, ...]
    """The palm, then for each finger its moving links and the frame of its fingertip."""
    joints: tuple[Joint, ...]
    tips: tuple[str, ...]
    """Links whose frames lie in the centres of the fingertips."""
    radius: float
    """Radius of the fingertips [m]."""
    fits: tuple[Fit, ...]
    notes: tuple[str, ...]
    """Assumptions and omissions, one sentence each."""


def draft_hand(robot: RobotFile, palm: str | None, tips: Sequence[str], effort: float | None = None) -> Draft:
    """Extract the hand of a robot.

    Args:
        palm: the link that is fixed in the world; None: the last common ancestor of all fingers.
        tips: the last link of each finger, or a link fixed to it; empty: every link that carries no
            further joint. The last one is the thumb's.
        effort: torque limit of joints without one in the file [N m].

    Raises:
        ConfigError: no such link, a tip that does not move relative to the palm, a finger without a
            joint of its own, joints that are not limited hinges or follow others other than by a
            ratio and an offset, loops, a fingertip without collision shape, a missing torque limit, sizes,
            limits or inertias that no hand has.
    """
    tree = HandTree(robot)
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
    chains = [_without_foreign_followers(tree, chain) for chain in chains]
    return _Drafting(tree, root, chains, ends, effort, notes).draft()


def _without_foreign_followers(tree: HandTree, chain: list[int]) -> list[int]:
    """Return a finger's bodies without those whose joints follow one that is not in the finger.

    Raises:
        ConfigError: none is left.
    """
    names = {b: tree.joint_name(int(tree.model.body_jntadr[b])) for b in chain}
    leaders = {b: tree.robot.followers.get(name) for b, name in names.items()}
    led = [b for b, of in leaders.items() if isinstance(of, Mimic) and of.joint not in names.values()]
    if len(led) == len(chain):
        raise ConfigError(
            f"the joint '{names[led[0]]}' of {tree.robot.where} follows '{leaders[led[0]].joint}' of "
            "another finger, and its finger has no joint of its own"
        )
    return [b for b in chain if b not in led]


@dataclass
class _Drafting:
    """State of one call of :func:`draft_hand`."""

    tree: HandTree
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
        self._collides = (self.model.geom_contype | self.model.geom_conaffinity) > 0
        self._check()
        self.data = self._at_zero()

    def draft(self) -> Draft:
        links, joints, tips, radii = [self._link(self.palm, ALL)], [], [], []
        if links[0].mass <= 0.0:
            links[0] = replace(links[0], mass=PALM_MASS, inertia=PALM_MASS * 0.05**2 * np.eye(3))
            self.notes.append(
                f"the palm has no mass in the file: {PALM_MASS:g} kg is written, which has no effect"
            )
        for chain, tip in zip(self.chains, self.tips, strict=True):
            for parent, body in zip([self.palm, *chain], chain, strict=False):
                links.append(self._link(body, ROUND if body == chain[-1] else ALL))
                joints.append(self._joint(parent, body))
            p_BT, radius = self._tip(chain[-1], tip, links[-1].shapes)
            name = self.tree.name(tip) if tip != chain[-1] else f"{self.tree.name(tip)}_tip"
            links.append(Link(name, 0.0, np.zeros(3), np.zeros((3, 3)), ()))
            R_BT = self._frame(chain[-1])[0].T @ self.data.xmat[tip].reshape(3, 3)
            joints.append(Joint(name, "fixed", links[-2].name, name, R_BT, p_BT, np.eye(3)[0]))
            tips.append(name)
            radii.append(radius)
        self._check_plausible(links, joints)
        self._add_notes(joints, radii)
        name = str(self.model.names[: self.model.names.index(b"\0")].decode()) or self.tree.robot.path.stem
        parts = (tuple(x) for x in (links, joints, tips))
        return Draft(name, *parts, float(np.median(radii)), tuple(self.fits), tuple(self.notes))

    def _check_plausible(self, links: list[Link], joints: list[Joint]) -> None:
        """Reject sizes, joint limits and inertias that no hand has, most often by wrong units."""
        where, reach = self.tree.robot.where, {self.tree.name(self.palm): 0.0}
        for link in links:
            for shape in link.shapes:
                half = float(half_extents(shape).max())
                reach_of_shape = half + float(np.linalg.norm(shape.p))
                if 2.0 * half < LINK[0] or reach_of_shape > LINK[1]:
                    raise ConfigError(
                        f"the link '{link.name}' of {where} has a collision shape of {2.0 * half:.3g} m "
                        "that reaches "
                        f"{reach_of_shape:.3g} m from its joint, {LINK[0]:g} to {LINK[1]:g} m are "
                        "plausible; a mesh in "
                        'millimetres needs scale="0.001 0.001 0.001"'
                    )
        for link, joint in zip(links[1:], joints, strict=True):
            lower, upper = joint.lower, joint.upper
            if max(abs(lower), abs(upper)) > ANYWHERE:
                raise ConfigError(
                    f"the limits of the joint '{joint.name}' of {where} are {lower:.4g} to {upper:.4g} rad, "
                    "more than a full "
                    "turn; are they in degrees? Write them in radians"
                )
            reach[link.name] = reach[joint.parent] + float(np.linalg.norm(joint.p_PC))
            gyration = np.sqrt(np.linalg.eigvalsh(link.inertia)[-1] / link.mass) if link.mass > 0.0 else 0.0
            if link.mass > MASS or gyration > GYRATION:
                raise ConfigError(
                    f"the link '{link.name}' of {where} has a mass of {link.mass:.3g} kg and a radius of "
                    "gyration of "
                    f"{gyration:.3g} m, at most {MASS:g} kg and {GYRATION:g} m are plausible; are they in "
                    "kg and kg m²?"
                )
        for joint in joints:
            length = reach[joint.child]
            if joint.kind == "fixed" and not REACH[0] <= length <= REACH[1]:
                raise ConfigError(
                    f"the finger to '{joint.child}' of {where} is {length:.3g} m long, {REACH[0]:g} to "
                    f"{REACH[1]:g} m are "
                    "plausible; are its joints' origins in metres?"
                )

    def _add_notes(self, joints: list[Joint], radii: list[float]) -> None:
        if np.ptp(radii) > 1e-4:
            spread = f"{1e3 * min(radii):.1f} to {1e3 * max(radii):.1f} mm"
            self.notes.append(
                f"the fingertips' radii are {spread}; the hand has one, their median "
                f"{1e3 * np.median(radii):.1f} mm"
            )
        slow = [j.name for j in joints if j.kind != "fixed" and j.name not in self.tree.robot.speeds]
        if slow:
            self.notes.append(
                f"{len(slow)} joints have no speed limit in the file: {SPEED:g} rad/s is written"
            )
        if self.tree.robot.balanced:
            self.notes.append(
                "some inertias in the file are impossible; their three moments were replaced by their mean"
            )
        inferred = [
            name for name in self.tree.robot.inferred if name in {self.tree.name(b) for b in self.moving}
        ]
        if inferred:
            self.notes.append(
                f"no inertia in the file, that of the shapes at 1000 kg/m³ is written: {', '.join(inferred)}"
            )
        if led := [f"{j.name} by {j.mimic.joint}" for j in joints if j.mimic is not None]:
            self.notes.append(f"{len(led)} joints are led by others: {', '.join(led)}")
        on_the_way = {b for tip in self.tips for b in self.tree.path(tip)}
        held: dict[bool, list[str]] = {True: [], False: []}
        for j in filter(self._held, range(self.model.njnt)):
            held[int(self.model.jnt_bodyid[j]) in on_the_way].append(self.tree.joint_name(j))
        for carries, names in held.items():
            why = "move several fingers or follow a joint of another one" if carries else "move no fingertip"
            if names:
                self.notes.append(f"fixed, because they {why}: {', '.join(names)}")
        armature = self.model.dof_armature[[self.model.jnt_dofadr[j] for j in self.joint_of.values()]]
        if armature.any():
            self.notes.append(f"armature of up to {armature.max():.2g} kg m² is left out")

    def _held(self, joint: int) -> bool:
        body = int(self.model.jnt_bodyid[joint])
        return body not in self.joint_of and body != self.root and self.root in self.tree.path(body)

    def _check(self) -> None:
        """Reject robots that are not serial chains of limited hinges."""
        model, robot = self.model, self.tree.robot
        for body, j in self.joint_of.items():
            joint, where = self.tree.joint_name(j), f"of {robot.where}"
            if model.body_jntnum[body] > 1:
                raise ConfigError(
                    f"the link '{self.tree.name(body)}' {where} has {model.body_jntnum[body]} joints; one "
                    "each is supported"
                )
            if model.jnt_type[j] != mujoco.mjtJoint.mjJNT_HINGE:
                raise ConfigError(
                    f"the joint '{joint}' {where} is not a hinge; only joints that turn about one axis are "
                    "supported"
                )
            if isinstance(leader := robot.followers.get(joint), str):
                raise ConfigError(
                    f"the joint '{joint}' {where} is coupled to {leader}; only joints that follow one other, "
                    "by a ratio and an offset, are supported"
                )
            if leader is not None:
                continue
            if not (model.jnt_limited[j] and np.less(*model.jnt_range[j])):
                raise ConfigError(
                    f"the joint '{joint}' {where} has no limits; give it a lower one below an upper one"
                )
        for e in range(model.neq):
            if model.eq_type[e] in (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD):
                raise ConfigError(
                    f"{robot.where} closes a loop ({model.equality(e).name or 'an equality'}); only trees "
                    "are supported"
                )

    def _at_zero(self) -> mujoco.MjData:
        """Return the state with every moving joint at zero, the others as near to zero as their
        limits allow."""
        model, data = self.model, mujoco.MjData(self.model)
        for j in range(model.njnt):
            if model.jnt_type[j] in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
                free = j in self.joint_of.values() or not model.jnt_limited[j]
                data.qpos[model.jnt_qposadr[j]] = 0.0 if free else np.clip(0.0, *model.jnt_range[j])
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        return data

    def _frame(self, body: int) -> tuple[np.ndarray, np.ndarray]:
        """Return R_WB, p_WB of the palm, or of a moving link with its origin on the joint."""
        p = self.data.xanchor[self.joint_of[body]] if body in self.joint_of else self.data.xpos[body]
        return self.data.xmat[body].reshape(3, 3), p

    def _members(self, body: int) -> list[int]:
        """Return the bodies that are rigidly connected with the palm or a moving body."""
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
            steiner = model.body_mass[b] * (d @ d * np.eye(3) - np.outer(d, d))
            inertia += axes @ np.diag(model.body_inertia[b]) @ axes.T + steiner
        inertia = R.T @ inertia @ R
        shapes, meshes = [], []
        for g in np.flatnonzero(np.isin(model.geom_bodyid, members) & self._collides):
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
        """Return points (n, 3) whose hull is a mesh or an ellipsoid, in the geom's frame."""
        model, kind = self.model, self.model.geom_type[geom]
        if kind == mujoco.mjtGeom.mjGEOM_MESH:
            mesh = model.geom_dataid[geom]
            first = model.mesh_vertadr[mesh]
            return model.mesh_vert[first : first + model.mesh_vertnum[mesh]].astype(float)
        if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
            return np.asarray(trimesh.creation.icosphere(subdivisions=3).vertices) * model.geom_size[geom]
        what = mujoco.mjtGeom(kind).name.removeprefix("mjGEOM_").lower()
        raise ConfigError(
            f"the link '{self.tree.name(int(model.geom_bodyid[geom]))}' of {self.tree.robot.where} collides "
            f"as a {what}; "
            "spheres, capsules, cylinders, boxes, ellipsoids and meshes are supported"
        )

    def _fitted(self, link: str, meshes: list[np.ndarray], kinds: Sequence[str]) -> list[Primitive]:
        """Return shapes for the meshes of a link: a single one if it is about as good as one for
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
        effort = self._effort(j if mimic is None else self.model.joint(mimic.joint).id)
        speed = self.tree.robot.speeds.get(name, SPEED)
        # at least the slope of a motor's torque over its speed
        damping = max(float(model.dof_damping[model.jnt_dofadr[j]].flat[0]), effort / speed)
        ends = (self.tree.name(parent), self.tree.name(body))
        limits = map(float, model.jnt_range[j] if model.jnt_limited[j] else (-ANYWHERE, ANYWHERE))
        place = R_WP.T @ R_WC, R_WP.T @ (p_WC - p_WP), model.jnt_axis[j].copy()
        return Joint(name, "revolute", *ends, *place, *limits, effort, speed, damping, mimic)

    def _effort(self, j: int) -> float:
        """Return the least torque limit of the joint and its actuators, or the given one [N m]."""
        model = self.model
        found = [float(np.abs(model.jnt_actfrcrange[j]).max())] if model.jnt_actfrclimited[j] else []
        for a, lever in {**dict.fromkeys(joint_motors(model, j), 1.0), **tendon_motors(model, j)}.items():
            gear = lever * abs(float(model.actuator_gear[a, 0]))
            if model.actuator_forcelimited[a]:
                found.append(gear * float(np.abs(model.actuator_forcerange[a]).max()))
            elif model.actuator_biastype[a] == mujoco.mjtBias.mjBIAS_NONE and model.actuator_ctrllimited[a]:
                found.append(
                    gear * float(np.abs(model.actuator_gainprm[a, 0] * model.actuator_ctrlrange[a]).max())
                )
        found = [x for x in found if 0.0 < x <= EFFORT]
        if not found and self.effort is None:
            raise ConfigError(
                f"the joint '{self.tree.joint_name(j)}' of {self.tree.robot.where} has no torque limit up to "
                f"{EFFORT:g} N m; give it with --effort, in N m"
            )
        return min(found, default=self.effort)

    def _tip(self, last: int, tip: int, shapes: tuple[Shape, ...]) -> tuple[np.ndarray, float]:
        """Return the centre of a fingertip in the frame of its link, and its radius.

        A link without shapes that is fixed to the last one is the centre. Otherwise the centre is
        that of the round end of the shape that reaches farthest from the last joint; a box is
        treated as round with its least half extent as radius.
        """
        if not shapes:
            raise ConfigError(
                f"the tip '{self.tree.name(tip)}' of {self.tree.robot.where} has no collision shape"
            )
        R, p = self._frame(last)
        at = R.T @ (self.data.xpos[tip] - p)
        ends = [_round_end(shape) for shape in shapes]
        if tip != last and not (self._collides & (self.model.geom_bodyid == tip)).any():
            inside = max(float(depth(s.kind, s.size, (at - s.p)[None] @ s.R)[0]) for s in shapes)
            _, nearest = min(ends, key=lambda end: float(np.linalg.norm(end[0] - at)))
            return at, inside if inside > 0.002 else nearest
        return max(ends, key=lambda end: float(np.linalg.norm(end[0]) + end[1]))


def _round_end(shape: Shape) -> tuple[np.ndarray, float]:
    """Return centre and radius of the sphere in the end of a shape that is farther from its link's
    origin."""
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
