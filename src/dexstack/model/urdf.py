"""Reading of a URDF into links and joints, with physically impossible values rejected.

Inertials, primitive collision shapes, revolute and fixed joints are read; visuals are ignored.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dexstack.errors import ConfigError


@dataclass(frozen=True)
class Shape:
    """A primitive collision shape, posed in the frame of its body.

    ``size`` by ``kind``: box: three half extents; sphere: (radius,); capsule and cylinder: (radius,
    half length) [m], axis along z. A capsule's length is that between the centres of its end
    spheres.
    """

    kind: str
    size: np.ndarray
    p: np.ndarray
    R: np.ndarray


@dataclass(frozen=True)
class Link:
    """A URDF link: mass [kg], centre of mass (3,) [m], inertia (3, 3) about it, link axes [kg
    m²]."""

    name: str
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Mimic:
    """Coupling of a joint to another one: its angle is ``ratio`` times that of ``joint`` plus
    ``offset`` [rad]."""

    joint: str
    ratio: float
    offset: float


@dataclass(frozen=True)
class Joint:
    """A URDF joint. ``R_PC``, ``p_PC``: pose of the child link in the parent link at zero; ``axis``
    in the child's frame; limits [rad, N m, rad/s], damping [N m s/rad]."""

    name: str
    kind: str
    parent: str
    child: str
    R_PC: np.ndarray
    p_PC: np.ndarray
    axis: np.ndarray
    lower: float = 0.0
    upper: float = 0.0
    effort: float = 0.0
    velocity: float = 0.0
    damping: float = 0.0
    mimic: Mimic | None = None


def check_inertia(where: str, mass: float, inertia: np.ndarray) -> None:
    """Reject a mass or rotational inertia (3, 3, about the centre of mass) that no rigid body has.

    Raises:
        ConfigError: not finite, mass not positive, not symmetric positive definite, or principal
            moments that break the triangle inequality I1 + I2 >= I3.
    """
    if not np.isfinite(mass) or mass <= 0.0:
        raise ConfigError(f"{where}: the mass must be positive, got {mass:g} kg")
    if not np.isfinite(inertia).all() or not np.allclose(inertia, inertia.T, rtol=1e-9, atol=0.0):
        raise ConfigError(f"{where}: the inertia must be a finite symmetric matrix")
    moments = np.linalg.eigvalsh(inertia)
    text = ", ".join(f"{m:.4g}" for m in moments)
    if moments[0] <= 0.0:
        raise ConfigError(f"{where}: the inertia is not positive definite (principal moments {text} kg m²)")
    if moments[0] + moments[1] < moments[2] * (1.0 - 1e-9):
        raise ConfigError(
            f"{where}: the inertia is impossible: its principal moments {text} kg m² break the triangle "
            "inequality"
        )


def read_urdf(path: str | Path) -> tuple[str, tuple[Link, ...], tuple[Joint, ...]]:
    """Read robot name, links and joints of a URDF file, in file order.

    Raises:
        ConfigError: a missing or malformed file, an unsupported shape or joint type, an impossible
            inertia, or a joint between links that do not exist.
    """
    path = Path(path)
    try:
        root = ET.parse(path).getroot()
    except OSError as error:
        raise ConfigError(f"cannot read the hand description {path}: {error.strerror}") from None
    except ET.ParseError as error:
        raise ConfigError(f"{path} is not valid XML: {error}") from None
    if root.tag != "robot":
        raise ConfigError(f"{path} is not a URDF: its root element is <{root.tag}>, not <robot>")
    links = tuple(_read_link(path, e) for e in root.findall("link"))
    joints = tuple(_read_joint(path, e) for e in root.findall("joint"))
    names = {link.name for link in links}
    turning = {joint.name for joint in joints if joint.kind == "revolute"}
    for joint in joints:
        if joint.mimic is not None and joint.mimic.joint not in turning - {joint.name}:
            raise ConfigError(
                f"joint '{joint.name}' of {path} follows '{joint.mimic.joint}', which is not another "
                "revolute joint"
            )
        for end in (joint.parent, joint.child):
            if end not in names:
                raise ConfigError(
                    f"joint '{joint.name}' of {path} refers to the link '{end}', which does not exist"
                )
    return root.get("name", path.stem), links, joints


def _numbers(
    where: str, element: ET.Element | None, attribute: str, default: str | None = None, count: int = 1
) -> np.ndarray:
    text = default if element is None else element.get(attribute, default)
    if text is None:
        raise ConfigError(f"{where} lacks '{attribute}'")
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        raise ConfigError(f"{where}: '{attribute}' must be numbers, got '{text}'") from None
    if len(values) != count or not np.isfinite(values).all():
        raise ConfigError(f"{where}: '{attribute}' must be {count} finite numbers, got '{text}'")
    return values


def _origin(where: str, parent: ET.Element) -> tuple[np.ndarray, np.ndarray]:
    origin = parent.find("origin")
    rpy = _numbers(where, origin, "rpy", "0 0 0", 3)
    return _rotation(*rpy), _numbers(where, origin, "xyz", "0 0 0", 3)


def _rotation(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Return Rz(yaw) Ry(pitch) Rx(roll) (3, 3), without scipy, whose import takes half a second at
    the start of every node."""
    (cr, cp, cy), (sr, sp, sy) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


_SIZES = {
    "box": (("size", 3, 0.5),),
    "sphere": (("radius", 1, 1.0),),
    "cylinder": (("radius", 1, 1.0), ("length", 1, 0.5)),
}
"""Attributes of a shape that give its size, with their counts, and the share of each that counts."""


def _read_link(path: Path, element: ET.Element) -> Link:
    name = element.get("name", "")
    where = f"link '{name}' of {path}"
    shapes = []
    for collision in element.findall("collision"):
        R, p = _origin(where, collision)
        geometry = collision.find("geometry")
        shape = geometry[0] if geometry is not None and len(geometry) else None
        if shape is None or shape.tag not in _SIZES:
            kind = "none" if shape is None else shape.tag
            raise ConfigError(f"{where}: collision shapes must be box, sphere or cylinder, got {kind}")
        size = np.concatenate(
            [share * _numbers(where, shape, key, count=n) for key, n, share in _SIZES[shape.tag]]
        )
        if (size <= 0.0).any():
            raise ConfigError(f"{where}: a {shape.tag} must have positive dimensions")
        shapes.append(Shape(shape.tag, size, p, R))
    inertial = element.find("inertial")
    if inertial is None:  # massless
        return Link(name, 0.0, np.zeros(3), np.zeros((3, 3)), tuple(join_capsules(shapes)))
    R, com = _origin(where, inertial)
    mass = float(_numbers(where, inertial.find("mass"), "value")[0])
    tensor = inertial.find("inertia")
    xx, xy, xz, yy, yz, zz = (
        float(_numbers(where, tensor, "i" + key)[0]) for key in ("xx", "xy", "xz", "yy", "yz", "zz")
    )
    inertia = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    check_inertia(where, mass, inertia)
    return Link(name, mass, com, inertia, tuple(join_capsules(shapes)))


def join_capsules(shapes: list[Shape]) -> list[Shape]:
    """Replace every cylinder with a sphere of its radius on each end by a capsule, which URDF
    lacks."""
    rest = list(shapes)
    capsules = []
    for cylinder in [s for s in shapes if s.kind == "cylinder"]:
        radius, half = cylinder.size
        balls = [s for s in rest if s.kind == "sphere" and abs(s.size[0] - radius) < 1e-9]
        tips = [cylinder.p + sign * half * cylinder.R[:, 2] for sign in (-1.0, 1.0)]
        ends = [next((s for s in balls if np.allclose(s.p, tip, atol=1e-9)), None) for tip in tips]
        if all(end is not None for end in ends):
            rest = [s for s in rest if all(s is not part for part in (cylinder, *ends))]
            capsules.append(Shape("capsule", cylinder.size, cylinder.p, cylinder.R))
    return rest + capsules


def _read_joint(path: Path, element: ET.Element) -> Joint:
    name, kind = element.get("name", ""), element.get("type", "")
    where = f"joint '{name}' of {path}"
    if kind not in ("revolute", "fixed"):
        raise ConfigError(f"{where} is of type '{kind}'; only revolute and fixed joints are supported")
    parent, child = element.find("parent"), element.find("child")
    if parent is None or child is None:
        raise ConfigError(f"{where} must name a parent and a child link")
    R, p = _origin(where, element)
    ends = (parent.get("link", ""), child.get("link", ""))
    if kind == "fixed":
        return Joint(name, kind, *ends, R, p, np.array([1.0, 0.0, 0.0]))
    axis = _numbers(where, element.find("axis"), "xyz", "1 0 0", 3)
    if np.linalg.norm(axis) < 1e-6:
        raise ConfigError(f"{where}: the axis must not be zero")
    limit = element.find("limit")
    where_limit = f"the <limit> of {where}"
    lower, upper, effort, velocity = (
        float(_numbers(where_limit, limit, key)[0]) for key in ("lower", "upper", "effort", "velocity")
    )
    damping = float(_numbers(f"the <dynamics> of {where}", element.find("dynamics"), "damping")[0])
    if not lower < upper:
        raise ConfigError(f"{where}: the lower limit {lower:g} must be below the upper limit {upper:g}")
    if min(effort, velocity, damping) <= 0.0:
        raise ConfigError(f"{where}: effort and velocity limits and damping must be positive")
    mimic = read_mimic(f"the <mimic> of {where}", element.find("mimic"))
    return Joint(
        name, kind, *ends, R, p, axis / np.linalg.norm(axis), lower, upper, effort, velocity, damping, mimic
    )


def read_mimic(where: str, element: ET.Element | None) -> Mimic | None:
    """Read a ``<mimic>`` element; None without one.

    Raises:
        ConfigError: malformed numbers, or a multiplier of zero.
    """
    if element is None:
        return None
    ratio, offset = (
        float(_numbers(where, element, key, default)[0])
        for key, default in (("multiplier", "1"), ("offset", "0"))
    )
    if ratio == 0.0:
        raise ConfigError(f"{where}: the multiplier must not be zero; make the joint a fixed one")
    return Mimic(element.get("joint", ""), ratio, offset)


def lead(
    path: str | Path, revolute: Sequence[Joint]
) -> tuple[tuple[Joint, ...], dict[str, tuple[int, float, float]]]:
    """Resolve couplings.

    Returns:
        The revolute joints that follow no other, their limits narrowed by those of their followers;
        and for every joint (index among these, ratio, offset).

    Raises:
        ConfigError: a joint follows itself, or the limits of a joint and its followers exclude each
            other.
    """
    by_name, names = {j.name: j for j in revolute}, [j.name for j in revolute if j.mimic is None]
    followed, lower, upper = {}, [by_name[n].lower for n in names], [by_name[n].upper for n in names]
    for joint in revolute:
        ratio, offset, at, seen = 1.0, 0.0, joint, {joint.name}
        while at.mimic is not None:
            ratio, offset, at = (
                ratio * at.mimic.ratio,
                offset + ratio * at.mimic.offset,
                by_name[at.mimic.joint],
            )
            if at.name in seen:
                raise ConfigError(f"{path}: the joint '{joint.name}' follows itself, through '{at.name}'")
            seen.add(at.name)
        k = names.index(at.name)
        low, high = sorted(((joint.lower - offset) / ratio, (joint.upper - offset) / ratio))
        lower[k], upper[k] = max(lower[k], low), min(upper[k], high)
        followed[joint.name] = k, ratio, offset
    for name, low, high in zip(names, lower, upper, strict=True):
        if not low < high:
            raise ConfigError(
                f"{path}: the limits of the joint '{name}' and of the joints that follow it exclude each "
                "other"
            )
    return tuple(
        replace(by_name[n], lower=low, upper=high) for n, low, high in zip(names, lower, upper, strict=True)
    ), followed
