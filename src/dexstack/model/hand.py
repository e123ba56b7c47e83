"""Model of a hand: one tree of bodies, read from a hand's YAML and URDF."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dexstack.errors import ConfigError, unknown_name
from dexstack.model import HANDS
from dexstack.model.description import data_dir, number_list, quaternion, read_yaml
from dexstack.model.mount import DOWN
from dexstack.model.urdf import Joint, Link, Shape, check_inertia, lead, read_urdf

if TYPE_CHECKING:
    from dexstack.model.kinematics import KinematicTree

ALLEGRO = "allegro"
"""Family of the hands for which packaged and added objects have a start."""


@dataclass(frozen=True)
class Body:
    """The palm or one moving link, with the links that are fixed to it.

    The frame B of a body lies on its hinge: with the joint at angle q the body's pose in its parent
    P is ``X_PB(q) = (R_PB_at_zero Rot(axis, ratio q + offset), p_PB)``, with ratio 1 and offset 0
    unless the hinge follows another one's joint.
    """

    name: str
    parent: int
    """Index of the parent body; -1 for the palm."""
    joint: int | None
    """Index of the joint that moves the body; None for the palm."""
    R_PB_at_zero: np.ndarray
    """(3, 3) rotation to the parent's frame at q = 0."""
    p_PB: np.ndarray
    """(3,) origin in the parent's frame [m]."""
    axis: np.ndarray
    """(3,) unit joint axis, body frame."""
    mass: float
    """[kg]"""
    com: np.ndarray
    """(3,) centre of mass, body frame [m]."""
    inertia: np.ndarray
    """(3, 3) about the centre of mass, body axes [kg m²]."""
    shapes: tuple[Shape, ...]
    """Collision shapes, body frame."""
    hinge: str = ""
    """Name of the URDF's joint between parent and body."""
    ratio: float = 1.0
    offset: float = 0.0
    """[rad]"""


@dataclass(frozen=True)
class Fingertip:
    """Centre of a fingertip's sphere, ``p_BT`` (3,) in the frame of body ``body`` [m]."""

    body: int
    p_BT: np.ndarray


@dataclass(frozen=True)
class HandModel:
    """A hand of N revolute joints on a fixed palm, finger by finger, each from the palm to the tip.

    Link i + 1 is moved by hinge i. Each of the H hinges is a joint or follows a joint of its
    finger; without followers H = N, and hinges and joints are the same.
    """

    name: str
    family: str
    """Name that the left and right hand of one kind share; objects' starts and drivers refer to
    it."""
    side: str
    joint_names: tuple[str, ...]
    lower: np.ndarray
    """(N,) [rad]"""
    upper: np.ndarray
    """(N,) [rad]"""
    effort: np.ndarray
    """(N,) torque limit [N m]"""
    velocity: np.ndarray
    """(N,) speed limit [rad/s]"""
    damping: np.ndarray
    """(N,) passive viscous damping of the joints [N m s/rad]"""
    quat_WP: np.ndarray
    """(4,) orientation of the palm frame in the world, wxyz."""
    p_WP: np.ndarray
    """(3,) origin of the palm frame in the world [m]."""
    bodies: tuple[Body, ...]
    """H + 1 bodies: the palm, then the links."""
    fingertips: tuple[Fingertip, ...]
    """One per finger, the thumb's last; for the Allegro index, middle, ring, thumb."""
    fingertip_radius: float
    """[m]"""
    friction_palm: float
    friction_fingers: float
    poses: dict[str, np.ndarray]
    """Named joint angles (N,) [rad]; always contains "home"."""
    swing_joints: tuple[int, ...]
    """Indices of the joints that swing a finger from side to side."""
    urdf_path: Path
    planner: str = ""
    """Planner for objects that have no start for this hand; empty: the task's."""
    ignored_contacts: tuple[tuple[str, str], ...] = ()
    """Pairs of links, besides neighbours, that do not collide because their shapes overlap at
    rest."""
    joint_friction: float = 0.0
    """Dry friction in every joint [N m]; in plants only, not in planners."""
    joint_armature: float = 0.0
    """Inertia of the motor at every joint [kg m²]; in plants only, not in planners."""
    torque: float = 1.0
    """Share of the requested joint torques that a plant's motors apply."""
    gravity: tuple[float, ...] = DOWN
    """(3,) in the world, in which the palm is fixed [m/s²]."""

    @property
    def home(self) -> np.ndarray:
        """(N,) resting pose [rad]."""
        return self.poses["home"]

    @property
    def chains(self) -> tuple[int, ...]:
        """Number of joints of each finger; 4, 4, 4, 4 for the Allegro."""
        starts = [i for i, body in enumerate(self.bodies) if body.parent == 0]
        own = np.concatenate(
            [[0], np.cumsum([body.hinge == self.joint_names[body.joint] for body in self.bodies[1:]])]
        )
        return tuple(np.diff(own[[*(i - 1 for i in starts), len(self.bodies) - 1]]).tolist())

    @functools.cached_property
    def coupling(self) -> tuple[np.ndarray, np.ndarray]:
        """C (H, N) and c (H,) of the hinge angles C q + c [rad] at joint angles q."""
        C = np.zeros((len(self.bodies) - 1, len(self.joint_names)))
        for i, body in enumerate(self.bodies[1:]):
            C[i, body.joint] = body.ratio
        return C, np.array([body.offset for body in self.bodies[1:]])

    def hinge_angles(self, q: np.ndarray) -> np.ndarray:
        """Return the hinge angles (…, H) at joint angles q (…, N) [rad]."""
        C, c = self.coupling
        return np.asarray(q, float) @ C.T + c

    @functools.cached_property
    def alike(self) -> bool:
        """True if no hinge follows another joint."""
        return len(self.bodies) - 1 == len(self.joint_names)

    def kinematics(self) -> KinematicTree:
        """Return the kinematics for JAX, which is imported only here."""
        from dexstack.model.kinematics import KinematicTree

        return KinematicTree(self)

    def pose(self, name: str) -> np.ndarray:
        """Return the joint angles (N,) of a named pose [rad].

        Raises:
            ConfigError: the hand has no pose of that name.
        """
        if name not in self.poses:
            raise ConfigError(f"the hand '{self.name}' has no pose '{name}'; it has {', '.join(self.poses)}")
        return self.poses[name]


def load_hand(hand: str | Path = "right") -> HandModel:
    """Load a packaged hand by its name, or a user's hand by the path of its YAML.

    ``"right"`` and ``"left"`` are the Allegro Hand V4, ``"leap_right"`` and ``"leap_left"`` the
    LEAP Hand.

    Raises:
        ConfigError: an unknown name, a missing or malformed file, an impossible inertia, a home
            pose outside the joint limits.
    """
    if str(hand) in HANDS:
        path = data_dir() / "hands" / f"{HANDS[str(hand)]}.yaml"
    elif Path(hand).suffix in (".yaml", ".yml"):
        path = Path(hand)
    else:
        raise unknown_name("hand", str(hand), (*HANDS, "the path of a hand's YAML file"))
    needed = ("urdf", "side", "palm_link", "palm_mount", "fingertips", "friction", "poses")
    document = read_yaml(path, needed, ("family", "swing_joints", "planner", "ignored_contacts"))
    urdf_path = path.parent / str(document["urdf"])
    name, links, joints = read_urdf(urdf_path)
    bodies, joints, frames = _merge_fixed(urdf_path, str(document["palm_link"]), links, joints)
    return HandModel(
        name=name,
        family=str(document.get("family", name)),
        side=str(document["side"]),
        joint_names=tuple(j.name for j in joints),
        **{
            key: np.array([getattr(j, key) for j in joints])
            for key in ("lower", "upper", "effort", "velocity", "damping")
        },
        quat_WP=quaternion(path, "palm_mount.quaternion", _entry(path, document, "palm_mount", "quaternion")),
        p_WP=number_list(path, "palm_mount.position", _entry(path, document, "palm_mount", "position"), 3),
        bodies=bodies,
        fingertips=_fingertips(path, _entry(path, document, "fingertips", "links"), frames, bodies),
        fingertip_radius=_positive(path, "fingertips.radius", _entry(path, document, "fingertips", "radius")),
        friction_palm=_positive(path, "friction.palm", _entry(path, document, "friction", "palm")),
        friction_fingers=_positive(path, "friction.fingers", _entry(path, document, "friction", "fingers")),
        poses=_poses(path, document["poses"], joints),
        swing_joints=_swing_joints(path, document.get("swing_joints", []), joints),
        urdf_path=urdf_path,
        planner=str(document.get("planner", "")),
        ignored_contacts=_ignored_contacts(path, document.get("ignored_contacts", []), bodies),
    )


def _entry(path: Path, document: dict[str, Any], section: str, key: str) -> Any:
    if not isinstance(document[section], dict) or key not in document[section]:
        raise ConfigError(f"{path}: '{section}' must have an entry '{key}'")
    return document[section][key]


def _positive(path: Path, key: str, value: Any) -> float:
    number = float(number_list(path, key, [value], 1)[0])
    if number <= 0.0:
        raise ConfigError(f"{path}: '{key}' must be positive, got {number:g}")
    return number


def _fingertips(
    path: Path, links: Any, frames: dict[str, tuple[int, np.ndarray, np.ndarray]], bodies: tuple[Body, ...]
) -> tuple[Fingertip, ...]:
    """Return the fingertip of each finger, in joint order, anywhere on its last link."""
    ends = [i for i in range(1, len(bodies)) if i + 1 == len(bodies) or bodies[i + 1].parent == 0]
    if not isinstance(links, list) or len(links) != len(ends):
        raise ConfigError(f"{path}: 'fingertips.links' must name {len(ends)} links, one for each finger")
    for name, end in zip(links, ends, strict=True):
        if name not in frames:
            raise ConfigError(
                f"{path}: the fingertip link '{name}' does not exist; links are {', '.join(frames)}"
            )
        if frames[name][0] != end:
            raise ConfigError(
                f"{path}: the fingertip link '{name}' must be fixed to '{bodies[end].name}', the last link "
                "of its finger"
            )
    return tuple(Fingertip(frames[name][0], frames[name][2]) for name in links)


def _swing_joints(path: Path, names: Any, joints: tuple[Joint, ...]) -> tuple[int, ...]:
    order = {joint.name: i for i, joint in enumerate(joints)}
    unknown = [name for name in names if name not in order] if isinstance(names, list) else [names]
    if unknown:
        raise ConfigError(
            f"{path}: 'swing_joints' lists the unknown joint '{unknown[0]}'; joints are {', '.join(order)}"
        )
    return tuple(order[name] for name in names)


def _ignored_contacts(path: Path, pairs: Any, bodies: tuple[Body, ...]) -> tuple[tuple[str, str], ...]:
    names = [body.name for body in bodies]
    if not isinstance(pairs, list) or not all(
        isinstance(p, list) and len(p) == 2 and all(name in names for name in p) for p in pairs
    ):
        raise ConfigError(f"{path}: 'ignored_contacts' must list pairs of links, of {', '.join(names)}")
    return tuple((a, b) for a, b in pairs)


def _poses(path: Path, section: Any, joints: tuple[Joint, ...]) -> dict[str, np.ndarray]:
    if not isinstance(section, dict) or "home" not in section:
        raise ConfigError(f"{path}: 'poses' must contain joint angles by name, including 'home'")
    poses = {}
    for name, rows in section.items():
        flat = (
            [x for row in rows for x in row]
            if isinstance(rows, list) and all(isinstance(row, list) for row in rows)
            else rows
        )
        poses[str(name)] = number_list(path, f"poses.{name}", flat, len(joints))
        for joint, q in zip(joints, poses[str(name)], strict=True):
            if not joint.lower <= q <= joint.upper:
                limits = f"[{joint.lower:g}, {joint.upper:g}]"
                raise ConfigError(
                    f"{path}: poses.{name} puts '{joint.name}' at {q:g} rad, outside its limits {limits}"
                )
    return poses


def _merge_fixed(
    path: Path, palm: str, links: tuple[Link, ...], joints: tuple[Joint, ...]
) -> tuple[tuple[Body, ...], tuple[Joint, ...], dict[str, tuple[int, np.ndarray, np.ndarray]]]:
    """Return the bodies (palm, then one per revolute joint), the joints that follow no other in
    file order, and each link's (body, R_BL, p_BL)."""
    children = {j.child: j for j in joints}
    by_name = {link.name: link for link in links}
    if palm not in by_name or palm in children:
        raise ConfigError(f"{path}: the palm link '{palm}' must exist and be the root of the tree")
    revolute = tuple(j for j in joints if j.kind == "revolute")
    index = {palm: 0} | {j.child: i + 1 for i, j in enumerate(revolute)}
    own, followed = lead(path, revolute)

    def frame(name: str, depth: int = 0) -> tuple[int, np.ndarray, np.ndarray]:
        """Return (body index, R_BL, p_BL) of a link in its body."""
        if name in index:
            return index[name], np.eye(3), np.zeros(3)
        if name not in children or depth > len(links):
            raise ConfigError(f"{path}: the link '{name}' is not connected to the palm '{palm}'")
        joint = children[name]
        body, R_BP, p_BP = frame(joint.parent, depth + 1)
        return body, R_BP @ joint.R_PC, p_BP + R_BP @ joint.p_PC

    frames = {link.name: frame(link.name) for link in links}
    bodies = []
    for i, name in enumerate(index):
        parts = [(by_name[n], R, p) for n, (b, R, p) in frames.items() if b == i]
        mass = sum(link.mass for link, _, _ in parts)
        moment = sum(link.mass * (p + R @ link.com) for link, R, p in parts)
        com = moment / mass if mass > 0.0 else np.zeros(3)
        inertia = np.zeros((3, 3))
        for link, R, p in parts:
            d = p + R @ link.com - com
            inertia += R @ link.inertia @ R.T + link.mass * (d @ d * np.eye(3) - np.outer(d, d))
        check_inertia(f"body '{name}' of {path}", mass, inertia)
        shapes = tuple(
            Shape(s.kind, s.size, p + R @ s.p, R @ s.R) for link, R, p in parts for s in link.shapes
        )
        if i == 0:
            place = np.eye(3), np.zeros(3), np.array([1.0, 0.0, 0.0])
            bodies.append(Body(name, -1, None, *place, mass, com, inertia, shapes))
            continue
        joint = revolute[i - 1]
        parent, R_BP, p_BP = frames[joint.parent]
        if parent not in (0, i - 1):
            raise ConfigError(
                f"{path}: joint '{joint.name}' must follow the joint that moves its parent link, or begin "
                "at the palm"
            )
        k, ratio, offset = followed[joint.name]
        place = R_BP @ joint.R_PC, p_BP + R_BP @ joint.p_PC, joint.axis
        bodies.append(Body(name, parent, k, *place, mass, com, inertia, shapes, joint.name, ratio, offset))
    _check_fingers(path, bodies, own)
    return tuple(bodies), own, frames


def _check_fingers(path: Path, bodies: list[Body], joints: tuple[Joint, ...]) -> None:
    """Reject a hinge that follows a joint of another finger: fingers meet only in the object."""
    finger: dict[int, int] = {}
    for i, body in enumerate(bodies[1:], 1):
        finger[i] = i if body.parent == 0 else finger[body.parent]
    homes = {body.hinge: finger[i] for i, body in enumerate(bodies[1:], 1)}
    for body in bodies[1:]:
        leader = joints[body.joint].name
        if homes[leader] != homes[body.hinge]:
            raise ConfigError(
                f"{path}: the joint '{body.hinge}' follows '{leader}' of another finger; only joints of one "
                "finger may be coupled"
            )
