"""``dexstack doctor``: what is installed and usable on this computer, and the command that mends
what is not."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from dexstack.cli import output
from dexstack.errors import ConfigError

GIB = 2**30
DDS_TIMEOUT = (
    20.0  # s; discovery takes 0.1 s, starting two Python processes on a busy machine several seconds
)
SYSTEM = Path("/")
PIP = f"{shlex.quote(sys.executable)} -m pip install"
_ARPHRD_CAN = "280"
_PEAK_SYSTEM, _INTEL = "0c72", "8086"


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    name: str
    usable: bool
    detail: str
    """What was found."""
    mend: str | None = None
    """A command (or, where none helps, what to do) when it is not usable."""
    needed: bool = False
    """Whether simulation needs it."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "doctor",
        help="what is installed and usable here, and the command that mends what is not",
        description="Says what is installed and usable here, and the command that mends what is not. Exit code 0 when simulation can run.",
    )
    output.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Run every check; 0 when what simulation needs is usable."""
    findings = [finding for check in CHECKS for finding in _guarded(check)]
    ready = all(f.usable for f in findings if f.needed)
    results = {
        "simulation": ready,
        "checked": len(findings),
        "failed": sum(not f.usable for f in findings),
        "findings": [asdict(f) | {"mend": None if f.usable else f.mend} for f in findings],
    }
    rows = [(f.name, "yes" if f.usable else "NO" if f.needed else "no", f.detail) for f in findings]
    mends = [f"{f.name}: {f.mend}" for f in findings if f.mend and not f.usable]
    verdict = (
        "Simulation can run: dexstack up sim"
        if ready
        else "Simulation cannot run until every NO above is mended."
    )
    views = [output.table("dexstack doctor", ("what", "usable", "found"), rows)]
    views += ["To mend:\n" + "\n".join(f"  {m}" for m in mends)] if mends else []
    output.publish(args, "doctor", results, *views, verdict)
    return 0 if ready else 1


def _guarded(check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """A check that fails in a way it did not foresee is itself a finding."""
    try:
        return list(check())
    except Exception as error:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        return [Finding(name, False, f"{type(error).__name__}: {error}", needed=check in NEEDED)]


def _import(name: str) -> ModuleType:
    return importlib.import_module(name)


def _imports(*names: str) -> str | None:
    """Why the first of the modules that cannot be imported cannot, or None."""
    for name in names:
        try:
            _import(name)
        except Exception as error:  # a broken extension module raises all sorts of things
            return f"{name}: {type(error).__name__}: {error}".splitlines()[0]
    return None


def _run(command: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


# --- what simulation needs -----------------------------------------------------------------------------------------------------------


def check_python() -> Iterable[Finding]:
    """Interpreter version."""
    where = "virtual environment" if sys.prefix != sys.base_prefix else "no virtual environment"
    new_enough = sys.version_info >= (3, 11)
    mend = "python3.11 -m venv .venv, then install again from there"
    yield Finding("Python", new_enough, f"{platform.python_version()}, {where}", mend, needed=True)


def check_libraries() -> Iterable[Finding]:
    """The packages that dexstack itself asks for, at the versions it asks for."""
    from packaging.requirements import Requirement

    absent, present = [], []
    for text in importlib.metadata.requires("dexstack") or ():
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            absent.append(requirement.name)
            continue
        (present if requirement.specifier.contains(version, prereleases=True) else absent).append(
            f"{requirement.name} {version}"
        )
    detail = f"missing or too old: {', '.join(absent)}" if absent else ", ".join(present)
    yield Finding("libraries", not absent, detail, f"{PIP} -c constraints.txt -e .", needed=True)


def check_models() -> Iterable[Finding]:
    """Hand and object files compile to a scene."""
    fault = _imports("mujoco", "dexstack.model.scene", "dexstack.model.hand", "dexstack.model.objects")
    if fault is None:
        hand, cube = (
            _import("dexstack.model.hand").load_hand(),
            _import("dexstack.model.objects").load_object("cube"),
        )
        scene = _import("dexstack.model.scene").build_scene(hand, cube).compile()
        fault = None if scene.nq == len(hand.bodies) - 1 + 7 else f"the scene has {scene.nq} coordinates"
    yield Finding(
        "models",
        fault is None,
        fault or f"{hand.name} with cube, {scene.ngeom} geoms",
        f"{PIP} -c constraints.txt -e .",
        needed=True,
    )


def check_pictures() -> Iterable[Finding]:
    """Plot and film can be made."""
    fault = _imports("matplotlib", "PIL", "dexstack.report.run")
    yield Finding(
        "plot and film",
        fault is None,
        fault or "ray-cast, no OpenGL",
        f"{PIP} -c constraints.txt -e .",
        needed=True,
    )


def check_jax() -> Iterable[Finding]:
    """JAX and what it computes on."""
    fault = _imports("jax")
    if fault is not None:
        yield Finding("JAX", False, fault, f"{PIP} -c constraints.txt -e .", needed=True)
        return
    jax = _import("jax")
    devices = jax.devices()
    yield Finding(
        "JAX", True, f"{jax.__version__} on {', '.join(sorted({d.platform for d in devices}))}", needed=True
    )
    gpus = [d.device_kind for d in devices if d.platform in ("gpu", "cuda", "rocm")]
    if gpus:
        yield Finding("GPU", True, ", ".join(gpus))
    elif shutil.which("nvidia-smi") and (listed := _run(["nvidia-smi", "-L"], 10.0)).returncode == 0:
        yield Finding(
            "GPU",
            False,
            f"not used by JAX: {listed.stdout.splitlines()[0]}",
            f"{PIP} 'jax[cuda12]=={jax.__version__}'",
        )
    else:
        yield Finding("GPU", False, "none found; none is needed")


def check_ros() -> Iterable[Finding]:
    """rclpy, the middleware and the interface packages."""
    packages = (
        "diagnostic_msgs",
        "geometry_msgs",
        "lifecycle_msgs",
        "rosgraph_msgs",
        "sensor_msgs",
        "std_msgs",
        "visualization_msgs",
    )
    fault = _imports("rclpy", *(f"{name}.msg" for name in packages), "std_srvs.srv")
    if fault is None:
        rmw = _import("rclpy.utilities").get_rmw_implementation_identifier()
        distribution = os.environ.get("ROS_DISTRO") or _wheel_distribution()
        yield Finding("ROS 2", True, f"{distribution}, {rmw}", needed=True)
        yield from check_dds()
        return
    installed = sorted((SYSTEM / "opt/ros").glob("*/setup.bash"))
    mend = f"source {installed[-1]}" if installed else f"{PIP} -c constraints.txt -e '.[ros]'"
    yield Finding("ROS 2", False, fault, mend, needed=True)


def _wheel_distribution() -> str:
    for d in importlib.metadata.distributions():
        name = (d.metadata["Name"] or "").lower()
        if name.startswith("ros-") and name.endswith("-rclpy") and name != "ros-rclpy":
            return f"{name.split('-')[1]} from PyPI, rclpy {d.version}"
    return "unknown distribution"


_PEER = """
import sys, time
import rclpy
from std_msgs.msg import String
role, topic, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
rclpy.init()
node = rclpy.create_node(f"doctor_{role}")
end = time.monotonic() + seconds
heard = []
if role == "listener":
    node.create_subscription(String, topic, lambda m: heard.append(m.data), 10)
    while not heard and time.monotonic() < end:
        rclpy.spin_once(node, timeout_sec=0.1)
    print("heard" if heard else "silence")
else:
    publisher = node.create_publisher(String, topic, 10)
    while time.monotonic() < end:
        publisher.publish(String(data="knock"))
        time.sleep(0.05)
node.destroy_node()
rclpy.try_shutdown()
"""


def check_dds() -> Iterable[Finding]:
    """A message goes from one process to another without leaving the machine."""
    topic, environment = (
        f"/dexstack_doctor_{os.getpid()}",
        {**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"},
    )
    start = time.monotonic()
    peers = [
        subprocess.Popen(
            [sys.executable, "-c", _PEER, role, topic, str(DDS_TIMEOUT)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for role in ("listener", "talker")
    ]
    listener, talker = peers
    try:
        said, complaint = listener.communicate(timeout=DDS_TIMEOUT + 10.0)
    except subprocess.TimeoutExpired:
        said, complaint = "", "no answer"
    finally:
        for peer in peers:
            peer.kill()
        listener.wait()
        talker.communicate()
    heard = "heard" in said
    detail = (
        f"two processes talk, {time.monotonic() - start:.1f} s from their start"
        if heard
        else (complaint.strip().splitlines() or ["silence"])[-1]
    )
    yield Finding("DDS on this machine", heard, detail, "sudo ip link set lo up multicast on", needed=True)


def check_computer() -> Iterable[Finding]:
    """Cores, memory and disk."""
    cores = output.machine()["cores"]
    yield Finding(
        "cores",
        cores >= 2,
        f"{cores} ({output.machine()['cpu']})",
        "give this machine (or container) two cores or more",
    )
    memory = {
        k: int(v.split()[0]) * 1024
        for k, v in (x.split(":") for x in (SYSTEM / "proc/meminfo").read_text().splitlines() if ":" in x)
    }
    free = memory["MemAvailable"]
    yield Finding(
        "memory",
        free >= 2 * GIB,
        f"{free / GIB:.1f} of {memory['MemTotal'] / GIB:.1f} GiB free",
        "close other programs: 2 GiB are needed",
    )
    disk = shutil.disk_usage(Path.cwd())
    yield Finding(
        "disk",
        disk.free >= GIB,
        f"{disk.free / GIB:.1f} GiB free in this folder",
        "free 1 GiB for results and compilation cache",
    )


# --- what the real hand and the camera need ------------------------------------------------------------------------------------------


def check_real_time() -> Iterable[Finding]:
    """Whether a process of this user may ask for real-time scheduling."""
    soft, _ = resource.getrlimit(resource.RLIMIT_RTPRIO)
    old, old_parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        mend = f"echo '{os.environ.get('USER', 'root')} - rtprio 95' | sudo tee /etc/security/limits.d/99-dexstack.conf, then log in again"
        yield Finding("real-time scheduling", False, f"refused (RLIMIT_RTPRIO {soft})", mend)
    else:
        os.sched_setscheduler(0, old, old_parameter)
        yield Finding("real-time scheduling", True, f"SCHED_FIFO granted (RLIMIT_RTPRIO {soft})")


def _usb_vendors() -> set[str]:
    return {p.read_text().strip() for p in (SYSTEM / "sys/bus/usb/devices").glob("*/idVendor")}


def check_can() -> Iterable[Finding]:
    """python-can (with msgpack, for the emulated hand) and an interface that is up."""
    fault = _imports("can", "msgpack")
    if fault is None:
        yield Finding("python-can", True, str(getattr(_import("can"), "__version__", "installed")))
    else:
        yield Finding("python-can", False, fault, f"{PIP} -c constraints.txt -e '.[hardware]'")
    interfaces = {}
    for folder in (SYSTEM / "sys/class/net").glob("*"):
        if (folder / "type").is_file() and (folder / "type").read_text().strip() == _ARPHRD_CAN:
            interfaces[folder.name] = (folder / "operstate").read_text().strip()
    up = [
        name
        for name, state in interfaces.items()
        if state in ("up", "unknown") and not name.startswith("vcan")
    ]
    if up:
        yield Finding("CAN interface", True, ", ".join(sorted(up)))
    elif real := sorted(name for name in interfaces if not name.startswith("vcan")):
        yield Finding(
            "CAN interface",
            False,
            f"{real[0]} is down",
            f"sudo ip link set {real[0]} up type can bitrate 1000000 restart-ms 20",
        )
    elif pcan := sorted((SYSTEM / "dev").glob("pcan*")):
        yield Finding("CAN interface", True, f"{pcan[0].name} of the PCAN driver")
    elif _PEAK_SYSTEM in _usb_vendors():
        mend = "sudo modprobe peak_usb && sudo ip link set can0 up type can bitrate 1000000 restart-ms 20"
        yield Finding("CAN interface", False, "a PEAK adapter without its driver", mend)
    else:
        yield Finding(
            "CAN interface", False, "no adapter found", "connect the hand's CAN adapter and power the hand"
        )


def check_tags() -> Iterable[Finding]:
    """What finds tags in pictures, and draws pictures of them."""
    fault = _imports("cv2", "pupil_apriltags")
    found = fault or f"OpenCV {_import('cv2').__version__}, pictures are drawn on the processor, no OpenGL"
    yield Finding("tags in pictures", fault is None, found, f"{PIP} -c constraints.txt -e '.[camera]'")


def check_camera() -> Iterable[Finding]:
    """pyrealsense2 and a camera it can open."""
    fault = _imports("pyrealsense2")
    if fault is not None and "libusb" in fault and _imports("libusb_package") is None:
        try:
            _import("dexstack.perception.realsense").import_realsense()
            fault = None
        except ConfigError as error:
            fault = str(error)
    if fault is not None:
        yield Finding("camera", False, fault, f"{PIP} -c constraints.txt -e '.[realsense]'")
        return
    rs = _import("pyrealsense2")
    names = [d.get_info(rs.camera_info.name) for d in rs.context().query_devices()]
    if names:
        yield Finding("camera", True, ", ".join(names))
    elif _INTEL in _usb_vendors():
        rules = "99-realsense-libusb.rules"
        source = f"https://raw.githubusercontent.com/IntelRealSense/librealsense/master/config/{rules}"
        mend = f"sudo curl -Lo /etc/udev/rules.d/{rules} {source} && sudo udevadm control --reload, then reconnect the camera"
        yield Finding(
            "camera", False, "an Intel USB device, but no RealSense camera that this user may open", mend
        )
    else:
        yield Finding("camera", False, "no RealSense camera found", "connect the camera to a USB 3 port")


EXTRAS = {
    "decompose": ("objects that are not convex, and adding objects", ("coacd", "manifold3d", "pymeshfix")),
    "hydroelastic": ("the plant 'hydroelastic'", ("numba", "pytetwild")),
    "lcp": ("the plant 'lcp'", ("numba",)),
    "soft": ("the plant 'soft'", ("numba", "pynanoinstantmeshes")),
    "learn": ("learning", ("optax",)),
    "bags": ("bags", ("mcap", "mcap_ros2")),
    "monitor": ("the browser page", ("viser",)),
    "leap": ("a LEAP hand", ("dynamixel_sdk", "serial")),
    "ray": ("trials over a cluster", ("ray",)),
}
"""What an extra of setup.cfg is for, and the modules that it brings; those of a hand on CAN and of
the camera have checks of their own."""


def check_extras() -> Iterable[Finding]:
    """The optional libraries: looked for, not imported, since some take seconds."""
    for extra, (use, modules) in EXTRAS.items():
        missing = [name for name in modules if not _is_installed(name)]
        detail = f"{', '.join(missing)} not installed" if missing else ", ".join(modules)
        yield Finding(use, not missing, detail, f"{PIP} -c constraints.txt -e '.[{extra}]'")


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


NEEDED = (check_python, check_libraries, check_models, check_pictures, check_jax, check_ros)
CHECKS = (*NEEDED, check_computer, check_real_time, check_can, check_tags, check_camera, check_extras)
