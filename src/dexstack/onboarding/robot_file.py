"""Reading of any robot file, URDF or MJCF, through MuJoCo."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np

from dexstack.errors import ConfigError
from dexstack.model.urdf import Mimic, read_mimic
from dexstack.onboarding.primitives import coarse_hull
from dexstack.onboarding.repair import read_mesh
from dexstack.plants.engines import mesh_path, repeated_name


@dataclass(frozen=True)
class RobotFile:
    """A robot compiled by MuJoCo, without merged bodies, and values that MuJoCo does not keep."""

    path: Path
    model: mujoco.MjModel
    speeds: dict[str, float] = field(default_factory=dict)
    """Speed limits by joint name, where the file has them [rad/s]."""
    followers: dict[str, Mimic | str] = field(default_factory=dict)
    """Coupled joints: linearly to another one, or a description of another kind of coupling."""
    balanced: bool = False
    """True if impossible inertias were replaced by spherical ones of the same mean."""
    inferred: tuple[str, ...] = ()
    """Links of a URDF that move without inertia in the file: MuJoCo takes that of their shapes at the
    density of water."""

    @property
    def where(self) -> str:
        return self.path.name


def read_robot(path: str | Path) -> RobotFile:
    """Read a URDF, with meshes in any format of ``object add``, or an MJCF with its includes.

    Raises:
        ConfigError: the file or one of its meshes is missing or malformed, or MuJoCo rejects it.
    """
    path = Path(path)
    try:
        root = ET.fromstring(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read the robot file {path}: {error.strerror}") from None
    except (ET.ParseError, ValueError, LookupError) as error:  # the last two: an unknown encoding
        raise ConfigError(f"{path} is not valid XML: {error}") from None
    if root.tag not in ("robot", "mujoco"):
        raise ConfigError(
            f"{path} is neither URDF nor MJCF: its root element is <{root.tag}>, not <robot> or <mujoco>"
        )
    try:
        if root.tag == "mujoco":
            spec = mujoco.MjSpec.from_file(str(path))
            model = _compiled(spec)
            return RobotFile(
                path, model, followers=_followers(model), balanced=bool(spec.compiler.balanceinertia)
            )
        speeds, mimics = _speeds(path, root), _mimics(path, root)
        assets = _made_readable(path, root)
        spec = mujoco.MjSpec.from_string(ET.tostring(root, encoding="unicode"), assets=assets)
        without = [body for body in spec.bodies if not body.explicitinertial and len(body.geoms)]
        for body in without:
            if not body.joints:  # massless in a URDF, not in MuJoCo
                for geom in body.geoms:
                    geom.mass = 0.0
        inferred = tuple(body.name for body in without if body.joints)
        model = _compiled(spec)
    except (ValueError, UserWarning, mujoco.FatalError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"MuJoCo cannot read {path}: {' '.join(str(error).split())}") from None
    return RobotFile(path, model, speeds, mimics, bool(spec.compiler.balanceinertia), inferred)


def _compiled(spec: mujoco.MjSpec) -> mujoco.MjModel:
    spec.compiler.fusestatic = False  # keep fixed links, which may be fingertips
    spec.compiler.discardvisual = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", "Inertia matrix")  # nearly zero: cannot be simulated
        try:
            return spec.compile()
        except ValueError as error:
            if "balanceinertia" not in str(error):
                raise
            spec.compiler.balanceinertia = True
            return spec.compile()


def _made_readable(path: Path, urdf: ET.Element) -> dict[str, bytes]:
    """Remove visuals and couplings, which are read separately, from a URDF, and refer to the convex
    hulls of its meshes, which are returned by name."""
    if any("xacro" in str(element.tag) for element in urdf.iter()):
        raise ConfigError(
            f"{path} is a xacro file; convert it first: xacro {path.name} > {path.stem}_expanded.urdf"
        )
    written = (
        text
        for e in (*urdf.findall("link"), *urdf.findall("joint"))
        for x in e.iter()
        for text in x.attrib.values()
    )
    if left := next((text for text in written if "${" in text or "$(" in text), None):
        raise ConfigError(
            f"{path} holds '{left}', which xacro has not replaced; convert it first: xacro {path.name} > "
            f"{path.stem}_expanded.urdf"
        )
    if repeated := repeated_name(urdf):
        raise ConfigError(f"{path} has several {repeated}; names must be unique")
    assets: dict[str, bytes] = {}
    hulls: dict[Path, str] = {}
    links = {link.get("name", "") for link in urdf.findall("link")}
    for joint in urdf.findall("joint"):
        for end in (*joint.findall("parent"), *joint.findall("child")):
            if end.get("link") not in links:
                raise ConfigError(
                    f"joint '{joint.get('name')}' of {path} refers to the link '{end.get('link')}', which "
                    "does not exist"
                )
        for mimic in joint.findall("mimic"):
            joint.remove(mimic)
    for link in urdf.findall("link"):
        for visual in link.findall("visual"):
            link.remove(visual)
        for mesh in link.iterfind("collision/geometry/mesh"):
            name = mesh.get("filename", "")
            file = mesh_path(path, name)
            if file is None:
                packages = ", or in its package above it or in AMENT_PREFIX_PATH" if "://" in name else ""
                raise ConfigError(
                    f"the mesh '{name}' of the link '{link.get('name')}' is missing: it is not in "
                    f"{path.parent}{packages}"
                )
            if file not in hulls:
                hulls[file] = f"mesh{len(hulls)}.stl"
                hull = coarse_hull(read_mesh(file).vertices, f"the mesh {file}")
                assets[hulls[file]] = hull.export(file_type="stl")
            mesh.set("filename", hulls[file])
    for own in urdf.findall("mujoco"):
        urdf.remove(own)
    ET.SubElement(
        ET.SubElement(urdf, "mujoco"), "compiler", fusestatic="false", discardvisual="true", strippath="false"
    )
    return assets


def _speeds(path: Path, urdf: ET.Element) -> dict[str, float]:
    found = {}
    for joint in urdf.findall("joint"):
        limit = joint.find("limit")
        text = None if limit is None else limit.get("velocity")
        try:
            speed = float(text) if text else 0.0
        except ValueError:
            raise ConfigError(
                f"joint '{joint.get('name')}' of {path}: 'velocity' must be a number, got '{text}'"
            ) from None
        if np.isfinite(speed) and speed > 0.0:
            found[joint.get("name", "")] = speed
    return found


def _mimics(path: Path, urdf: ET.Element) -> dict[str, Mimic]:
    return {
        joint.get("name", ""): found
        for joint in urdf.findall("joint")
        if (found := read_mimic(f"the <mimic> of joint '{joint.get('name')}' of {path}", joint.find("mimic")))
        is not None
    }


def _followers(model: mujoco.MjModel) -> dict[str, Mimic | str]:
    """Return the joints that are coupled by an equality of degree one or by a driven tendon, and
    those coupled by other equalities or tendons, with a description.

    Under the same tension, joints of the same compliance turn in proportion to their coefficients
    c_i: of a driven tendon over several joints, which have no motors of their own, the first leads
    and the others follow by the ratio c_i/c_0.
    """
    found: dict[str, Mimic | str] = {}
    for e in np.flatnonzero(model.eq_type == mujoco.mjtEq.mjEQ_JOINT):
        j, other = model.eq_obj1id[e], model.eq_obj2id[e]
        (offset, ratio), bent = model.eq_data[e, :2], model.eq_data[e, 2:5].any()
        name = model.joint(j).name
        if other < 0 or ratio == 0.0:
            found[name] = "a constant"
        elif bent:
            found[name] = f"a polynomial of '{model.joint(other).name}'"
        else:  # MuJoCo measures both from their reference positions
            offset = offset + model.qpos0[j] - ratio * model.qpos0[other]
            found[name] = Mimic(model.joint(other).name, ratio, offset)
    for t in range(model.ntendon):
        wrapped = slice(model.tendon_adr[t], model.tendon_adr[t] + model.tendon_num[t])
        of_joints = model.wrap_type[wrapped] == mujoco.mjtWrap.mjWRAP_JOINT
        joints = model.wrap_objid[wrapped][of_joints]
        if len(joints) < 2:
            continue
        names = [model.joint(j).name for j in joints]
        coefficients = model.wrap_prm[wrapped][of_joints]
        if len(tendon_motors(model, joints[0])) and not any(len(joint_motors(model, j)) for j in joints):
            ratios = coefficients[1:] / coefficients[0]
            found |= {
                name: Mimic(names[0], float(ratio), 0.0)
                for name, ratio in zip(names[1:], ratios, strict=True)
            }
        else:
            found |= dict.fromkeys(names, f"the tendon '{model.tendon(t).name}'")
    return found


def joint_motors(model: mujoco.MjModel, joint: int) -> np.ndarray:
    """Return the actuators that act on a joint directly."""
    of_joint = model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT
    return np.flatnonzero(of_joint & (model.actuator_trnid[:, 0] == joint))


def tendon_motors(model: mujoco.MjModel, joint: int) -> dict[int, float]:
    """Return the actuators whose tendons begin at a joint, each with the generalised force on it per
    tension: c_0 + Σ c_i²/c_0, as the other joints of the tendon follow (see :func:`_followers`)."""
    found = {}
    for a in np.flatnonzero(model.actuator_trntype == mujoco.mjtTrn.mjTRN_TENDON):
        t = model.actuator_trnid[a, 0]
        wrapped = slice(model.tendon_adr[t], model.tendon_adr[t] + model.tendon_num[t])
        of_joints = model.wrap_type[wrapped] == mujoco.mjtWrap.mjWRAP_JOINT
        joints, coefficients = model.wrap_objid[wrapped][of_joints], model.wrap_prm[wrapped][of_joints]
        if len(joints) and joints[0] == joint and coefficients[0] != 0.0:
            found[int(a)] = float(np.abs(np.sum(coefficients**2) / coefficients[0]))
    return found
