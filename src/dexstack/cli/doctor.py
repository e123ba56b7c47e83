"""``dexstack doctor``: check the installation and this computer, and say how to fix them."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from dexstack.cli import output
from dexstack.cli.options import command
from dexstack.process.kept import cache_folder, usable

GIB = 2**30
PROBE_TIMEOUT = 120.0
"""Longest time of a probe [s]."""
SYSTEM = Path("/")
PIP = f"{shlex.quote(sys.executable)} -m pip install"
VARIABLES = (
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "RMW_IMPLEMENTATION",
    "ROS_DOMAIN_ID",
    "ROS_AUTOMATIC_DISCOVERY_RANGE",
    "FASTRTPS_DEFAULT_PROFILES_FILE",
    "CYCLONEDDS_URI",
    "JAX_PLATFORMS",
    "XLA_FLAGS",
)
"""Environment variables, often set for other projects, that can break an import or a message."""
_ARPHRD_CAN = "280"
_PEAK_SYSTEM, _INTEL = "0c72", "8086"


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    name: str
    usable: bool
    detail: str
    """Result, as a version or an error."""
    fix: str | None = None
    """The command, or instruction, that makes it usable."""
    needed: bool = False
    """True if simulation needs it."""


add_parser = command(
    "doctor",
    description="Check the installation and this computer, and print the commands that fix "
    "them. Exit code 0 if simulation can run.",
)


def run(args: argparse.Namespace) -> int:
    """Run every check.

    Returns:
        0 if everything that simulation needs is usable, otherwise 1.
    """
    with ThreadPoolExecutor() as threads:
        findings = [finding for found in threads.map(checked, CHECKS) for finding in found]
    ready = all(f.usable for f in findings if f.needed)
    results = {
        "simulation": ready,
        "checked": len(findings),
        "failed": sum(not f.usable for f in findings),
        "findings": [
            {
                "name": f.name,
                "usable": f.usable,
                "detail": f.detail,
                "remedy": None if f.usable else f.fix,
                "needed": f.needed,
            }
            for f in findings
        ],
    }
    rows = [(f.name, "yes" if f.usable else "NO" if f.needed else "no", f.detail) for f in findings]
    fixes = [f"  {f.name}: {f.fix}" for f in findings if f.fix and not f.usable]
    verdict = "Simulation can run: dexstack up sim"
    if not ready:
        verdict = "Simulation cannot run until every NO above is fixed."
    views = [output.table("dexstack doctor", ("what", "usable", "found"), rows)]
    views += ["\n".join(["To fix:", *fixes])] if fixes else []
    output.publish(args, "doctor", results, *views, verdict)
    return 0 if ready else 1


def checked(check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Run a check; an exception in it is a finding as well."""
    try:
        return list(check())
    except Exception as error:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        return [Finding(name, False, f"{type(error).__name__}: {error}", needed=check in NEEDED)]


def install(extra: str = "") -> str:
    """Return the command that installs dexstack with an extra, from a checkout or from a wheel."""
    extras = f"[{extra}]" if extra else ""
    if (Path(__file__).parents[3] / "constraints.txt").is_file():
        return f"{PIP} -c constraints.txt -e " + (f"'.{extras}'" if extras else ".")
    return f"{PIP} 'dexstack{extras}'"


class Probe(NamedTuple):
    """Result of :func:`probe`."""

    output: str
    fault: str
    """Last line of its error; empty without one."""
    fix: str
    """Command that unsets the variable at fault; empty if no variable is."""


def probe(code: str) -> Probe:
    """Run Python code in another process; if it fails, repeat it without each of :data:`VARIABLES`."""
    good, said = _python(code, os.environ)
    if good:
        return Probe(said, "", "")
    for name in VARIABLES:
        if name in os.environ and _python(code, {k: v for k, v in os.environ.items() if k != name})[0]:
            return Probe("", f"{said}; it works without {name}={os.environ[name]}", f"unset {name}")
    return Probe("", said, "")


def _python(code: str, environment: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether code succeeds, and its output or the last line of its error."""
    try:
        done = _run([sys.executable, "-c", code], PROBE_TIMEOUT, environment)
    except subprocess.TimeoutExpired:
        return False, f"no answer in {PROBE_TIMEOUT:g} s"
    if done.returncode == 0:
        return True, done.stdout.strip()
    return False, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def _run(
    command: list[str], timeout: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


def _probed(name: str, code: str, fix: str, *, needed: bool = False) -> Finding:
    """Return a finding whose detail is the output or fault of a probe."""
    found = probe(code)
    return Finding(name, not found.fault, found.fault or found.output, found.fix or fix, needed=needed)


# --- what simulation needs


def check_python() -> Iterator[Finding]:
    """Check the version of the interpreter."""
    where = "virtual environment" if sys.prefix != sys.base_prefix else "no virtual environment"
    fix = "python3.11 -m venv .venv, then install again from there"
    new = sys.version_info >= (3, 11)
    yield Finding("Python", new, f"{platform.python_version()}, {where}", fix, needed=True)


def check_libraries() -> Iterator[Finding]:
    """Check the versions of the required packages."""
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
        fits = requirement.specifier.contains(version, prereleases=True)
        (present if fits else absent).append(f"{requirement.name} {version}")
    detail = f"missing or too old: {', '.join(absent)}" if absent else ", ".join(present)
    yield Finding("libraries", not absent, detail, install(), needed=True)


MODELS = """
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.model.scene import build_scene
hand = load_hand()
scene = build_scene(hand, load_object("cube")).compile()
assert scene.nq == len(hand.bodies) - 1 + 7, f"the scene has {scene.nq} coordinates"
print(f"{hand.name} with cube, {scene.ngeom} geoms")
"""


def check_models() -> Iterator[Finding]:
    """Check that hand and object files compile to a scene."""
    yield _probed("models", MODELS, install(), needed=True)


def check_pictures() -> Iterator[Finding]:
    """Check what plots and films need."""
    code = "import matplotlib, PIL, dexstack.report.run; print('ray-cast, no OpenGL')"
    yield _probed("plot and film", code, install(), needed=True)


JAX = """
import jax
devices = jax.devices()
print(jax.__version__, "on", ", ".join(sorted({d.platform for d in devices})))
print(*(d.device_kind for d in devices if d.platform in ("gpu", "cuda", "rocm")), sep=", ")
"""


def check_jax() -> Iterator[Finding]:
    """Check JAX and its devices."""
    finding = _probed("JAX", JAX, install(), needed=True)
    if not finding.usable:
        yield finding
        return
    version, _, gpus = finding.detail.partition("\n")
    yield Finding("JAX", True, version, needed=True)
    if gpus:
        yield Finding("GPU", True, gpus)
    elif shutil.which("nvidia-smi") and (listed := _run(["nvidia-smi", "-L"], 10.0)).returncode == 0:
        detail = f"not used by JAX: {listed.stdout.splitlines()[0]}"
        yield Finding("GPU", False, detail, f"{PIP} 'jax[cuda12]=={version.split()[0]}'")
    else:
        yield Finding("GPU", False, "none found; none is needed")


ROS = """
import rclpy, diagnostic_msgs.msg, geometry_msgs.msg, lifecycle_msgs.msg, rosgraph_msgs.msg
import sensor_msgs.msg, std_msgs.msg, std_srvs.srv, visualization_msgs.msg
print(rclpy.utilities.get_rmw_implementation_identifier())
"""


def check_ros() -> Iterator[Finding]:
    """Check rclpy, the middleware, the interface packages, and messages between processes."""
    setups = sorted((SYSTEM / "opt/ros").glob("*/setup.bash"))
    finding = _probed("ROS 2", ROS, f"source {setups[-1]}" if setups else install("ros"), needed=True)
    if not finding.usable:
        yield finding
        return
    distribution = os.environ.get("ROS_DISTRO") or _wheel_distribution()
    yield replace(finding, detail=f"{distribution}, {finding.detail}")
    yield from check_dds()


def _wheel_distribution() -> str:
    for d in importlib.metadata.distributions():
        name = (d.metadata["Name"] or "").lower()
        if name.startswith("ros-") and name.endswith("-rclpy") and name != "ros-rclpy":
            return f"{name.split('-')[1]} from PyPI, rclpy {d.version}"
    return "unknown distribution"


DDS = """
import os, subprocess, sys, time
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
import rclpy
from std_msgs.msg import String
topic, start = f"/dexstack_doctor_{os.getpid()}", time.monotonic()
talker = subprocess.Popen([sys.executable, "-c", '''
import os, sys, time, rclpy
from std_msgs.msg import String
rclpy.init(args=["--ros-args", "--disable-external-lib-logs"])
publisher = rclpy.create_node("doctor_talker").create_publisher(String, sys.argv[1], 10)
while os.getppid() == int(sys.argv[2]):
    publisher.publish(String(data="knock"))
    time.sleep(0.05)
''', topic, str(os.getpid())])
rclpy.init(args=["--ros-args", "--disable-external-lib-logs"])
node, heard = rclpy.create_node("doctor_listener"), []
node.create_subscription(String, topic, heard.append, 10)
while not heard and time.monotonic() < start + 20.0:
    rclpy.spin_once(node, timeout_sec=0.1)
talker.kill()
talker.wait()
if not heard:
    sys.exit("no message arrived")
print(f"two processes communicate, {time.monotonic() - start:.1f} s after their start", flush=True)
os._exit(0)
"""
"""Discovery takes 0.1 s, starting Python on a busy machine several seconds."""


def check_dds() -> Iterator[Finding]:
    """Check that a message goes from one process to another on this machine."""
    yield _probed("DDS on this machine", DDS, "sudo ip link set lo up multicast on", needed=True)


def check_computer() -> Iterator[Finding]:
    """Check cores, memory, disk and cache."""
    machine = output.machine()
    fix = "give this machine (or container) two cores or more"
    yield Finding("cores", machine["cores"] >= 2, f"{machine['cores']} ({machine['cpu']})", fix)
    lines = (line.split(":") for line in (SYSTEM / "proc/meminfo").read_text().splitlines() if ":" in line)
    memory = {name: int(value.split()[0]) * 1024 for name, value in lines}
    free = memory["MemAvailable"]
    detail = f"{free / GIB:.1f} of {memory['MemTotal'] / GIB:.1f} GiB free"
    yield Finding("memory", free >= 2 * GIB, detail, "close other programs: 2 GiB are needed")
    disk = shutil.disk_usage(Path.cwd()).free
    detail = f"{disk / GIB:.1f} GiB free in this folder"
    yield Finding("disk", disk >= GIB, detail, "free 1 GiB for results and compilation cache")
    cache = cache_folder("jax")
    detail = f"{cache}" if usable(cache) else f"cannot write {cache}: every start compiles again"
    fix = "set XDG_CACHE_HOME to a folder that can be written"
    yield Finding("cache", usable(cache), detail, fix)


# --- what the real hand and the camera need


def check_real_time() -> Iterator[Finding]:
    """Check whether this user may ask for real-time scheduling."""
    limit = f"(RLIMIT_RTPRIO {resource.getrlimit(resource.RLIMIT_RTPRIO)[0]})"
    old, old_parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        line = f"{os.environ.get('USER', 'root')} - rtprio 95"
        fix = f"echo '{line}' | sudo tee /etc/security/limits.d/99-dexstack.conf, then log in again"
        yield Finding("real-time scheduling", False, f"refused {limit}", fix)
    else:
        os.sched_setscheduler(0, old, old_parameter)
        yield Finding("real-time scheduling", True, f"SCHED_FIFO granted {limit}")


def _usb_vendors() -> set[str]:
    return {p.read_text().strip() for p in (SYSTEM / "sys/bus/usb/devices").glob("*/idVendor")}


def check_can() -> Iterator[Finding]:
    """Check python-can (with msgpack, for the emulated hand) and the CAN interface."""
    code = "import can, msgpack; print(getattr(can, '__version__', 'installed'))"
    yield _probed("python-can", code, install("hardware"))
    interfaces = {}
    for folder in sorted((SYSTEM / "sys/class/net").glob("*")):
        kind = folder / "type"
        if kind.is_file() and kind.read_text().strip() == _ARPHRD_CAN and not folder.name.startswith("vcan"):
            interfaces[folder.name] = (folder / "operstate").read_text().strip()
    bring_up = "up type can bitrate 1000000 restart-ms 20"
    good, fix = False, None
    if up := [name for name, state in interfaces.items() if state in ("up", "unknown")]:
        good, detail = True, ", ".join(up)
    elif interfaces:
        name = next(iter(interfaces))
        detail, fix = f"{name} is down", f"sudo ip link set {name} {bring_up}"
    elif pcan := sorted((SYSTEM / "dev").glob("pcan*")):
        good, detail = True, f"{pcan[0].name} of the PCAN driver"
    elif _PEAK_SYSTEM in _usb_vendors():
        detail = "a PEAK adapter without its driver"
        fix = f"sudo modprobe peak_usb && sudo ip link set can0 {bring_up}"
    else:
        detail, fix = "no adapter found", "connect the hand's CAN adapter and power the hand"
    yield Finding("CAN interface", good, detail, fix)


def check_tags() -> Iterator[Finding]:
    """Check what detects tags and draws pictures."""
    code = "import cv2, pupil_apriltags; print(f'OpenCV {cv2.__version__}, pictures without OpenGL')"
    yield _probed("tags in pictures", code, install("camera"))


CAMERA = """
from dexstack.perception.realsense import import_realsense
rs = import_realsense()
print(*(d.get_info(rs.camera_info.name) for d in rs.context().query_devices()), sep=", ")
"""
RULES = "99-realsense-libusb.rules"


def check_camera() -> Iterator[Finding]:
    """Check pyrealsense2 and that a camera can be opened."""
    finding = _probed("camera", CAMERA, install("camera"))
    if finding.detail:
        yield finding
    elif _INTEL in _usb_vendors():
        source = f"https://raw.githubusercontent.com/IntelRealSense/librealsense/master/config/{RULES}"
        fix = f"sudo curl -Lo /etc/udev/rules.d/{RULES} {source} && sudo udevadm control --reload"
        detail = "an Intel USB device, but no RealSense camera that this user may open"
        yield Finding("camera", False, detail, f"{fix}, then reconnect the camera")
    else:
        yield Finding("camera", False, "no RealSense camera found", "connect the camera to a USB 3 port")


OPTIONAL = (
    ("engines", "the engines hydroelastic, lcp and soft", ("numba", "pytetwild", "pynanoinstantmeshes")),
    ("objects", "import of objects that are not convex", ("coacd", "manifold3d", "pymeshfix")),
    ("hardware", "a LEAP hand", ("dynamixel_sdk", "serial")),
    ("gym", "environments of the tasks", ("gymnasium",)),
    ("policies", "trained policies", ("onnxruntime",)),
    ("lerobot", "datasets", ("av", "pandas", "pyarrow")),
    ("ray", "trials over a cluster", ("ray",)),
)
"""Extra, purpose and modules of what has no check of its own."""


def check_extras() -> Iterator[Finding]:
    """Check whether optional libraries are installed, without importing them, which takes seconds."""
    for extra, use, modules in OPTIONAL:
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        detail = f"{', '.join(missing)} not installed" if missing else ", ".join(modules)
        yield Finding(use, not missing, detail, install(extra))


NEEDED = (check_python, check_libraries, check_models, check_pictures, check_jax, check_ros)
CHECKS = (*NEEDED, check_computer, check_real_time, check_can, check_tags, check_camera, check_extras)
