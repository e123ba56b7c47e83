"""``dexstack doctor``: each check with its failure injected, and the exit code."""

import configparser
import importlib.metadata
import json
import os
import resource
import types
from pathlib import Path

import pytest

from dexstack.cli import doctor
from dexstack.cli.doctor import Probe
from dexstack.cli.main import main


@pytest.fixture
def system(tmp_path, monkeypatch):
    """An empty computer; returns a function that puts files on it."""
    monkeypatch.setattr(doctor, "SYSTEM", tmp_path)

    def put(files):
        for path, text in files.items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)

    return put


NEEDED = {"Python", "libraries", "models", "plot and film", "JAX", "ROS 2", "DDS on this machine"}
"""Findings without which nothing can be simulated."""


def by_name(findings):
    return {f.name: f for f in findings}


def test_this_environment_can_simulate(capsys):
    assert main(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    results = document["results"]
    findings = {f["name"]: f for f in results["findings"]}
    assert document["command"] == "doctor" and results["simulation"] is True
    assert results["checked"] == len(findings)
    assert results["failed"] == sum(not f["usable"] for f in findings.values())
    assert {name for name, f in findings.items() if f["needed"]} == NEEDED
    assert all(f["remedy"] is None for f in findings.values() if f["usable"])


@pytest.mark.parametrize(("needed", "code"), [(True, 1), (False, 0)])
def test_exit_code_follows_what_simulation_needs(monkeypatch, capsys, needed, code):
    finding = doctor.Finding("thing", False, "gone [at all]", "fetch '.[thing]'", needed=needed)
    monkeypatch.setattr(doctor, "CHECKS", [lambda: [finding]])
    assert main(["doctor"]) == code
    shown = capsys.readouterr().out
    assert "gone [at all]" in shown and "  thing: fetch '.[thing]'" in shown
    assert ("cannot run" in shown) == needed


def test_an_exception_in_a_check_is_a_finding(monkeypatch):
    def check_ros():
        raise OSError("no such device")

    monkeypatch.setattr(doctor, "NEEDED", (check_ros,))
    [finding] = doctor.checked(check_ros)
    assert (finding.name, finding.usable, finding.needed) == ("ros", False, True)
    assert "no such device" in finding.detail


def test_a_failed_import_is_reported_by_its_last_line():
    found = doctor.probe("import no_such_module")
    assert found.fault == "ModuleNotFoundError: No module named 'no_such_module'" and not found.fix
    assert doctor.probe("print('good')") == Probe("good", "", "")


def test_the_variable_that_breaks_an_import_is_named(tmp_path, monkeypatch):
    (tmp_path / "colorsys.py").write_text("raise ImportError('of another project')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = doctor.probe("import colorsys")
    assert found.fix == "unset PYTHONPATH"
    assert "of another project" in found.fault and f"PYTHONPATH={tmp_path}" in found.fault


def test_old_python(monkeypatch):
    monkeypatch.setattr(doctor.sys, "version_info", (3, 10, 4))
    [finding] = doctor.check_python()
    assert not finding.usable


def test_libraries_missing_or_too_old(monkeypatch):
    installed = {"mujoco": "3.2.0", "numpy": "2.4.0"}

    def version(name):
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    required = ["mujoco>=4.0", "numpy", "jax", "coal; extra == 'test'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: required)
    monkeypatch.setattr(importlib.metadata, "version", version)
    [finding] = doctor.check_libraries()
    assert not finding.usable and finding.needed and finding.fix == doctor.install()
    assert finding.detail == "missing or too old: mujoco 3.2.0, jax"


NET = "sys/class/net"
CAN = {f"{NET}/can0/type": "280\n", f"{NET}/lo/type": "772\n"}
BROKEN = {"fault": "ImportError: libthing.so: cannot open shared object file"}


@pytest.mark.parametrize(
    ("check", "name", "probe", "files", "detail", "fix"),
    [
        (doctor.check_models, "models", BROKEN, {}, "libthing.so", doctor.install()),
        (doctor.check_models, "models", BROKEN | {"fix": "unset X"}, {}, "libthing.so", "unset X"),
        (doctor.check_pictures, "plot and film", BROKEN, {}, "libthing.so", doctor.install()),
        (doctor.check_jax, "JAX", BROKEN, {}, "libthing.so", doctor.install()),
        (doctor.check_jax, "JAX", {"output": "0.10 on cpu, gpu\ngpu X"}, {}, "0.10 on cpu, gpu", None),
        (doctor.check_jax, "GPU", {"output": "0.10 on cpu, gpu\ngpu X"}, {}, "gpu X", None),
        (doctor.check_ros, "ROS 2", BROKEN, {}, "libthing.so", doctor.install("ros")),
        (doctor.check_ros, "ROS 2", BROKEN, {"opt/ros/jazzy/setup.bash": ""}, "", "opt/ros/jazzy/setup.bash"),
        (doctor.check_dds, "DDS on this machine", {"fault": "no message"}, {}, "no message", "sudo ip link"),
        (doctor.check_can, "python-can", BROKEN, {}, "libthing.so", doctor.install("hardware")),
        (doctor.check_can, "CAN interface", {}, {}, "no adapter", "connect the hand's CAN adapter"),
        (
            doctor.check_can,
            "CAN interface",
            {},
            {f"{NET}/vcan0/type": "280\n", f"{NET}/vcan0/operstate": "unknown\n"},
            "no adapter",
            "connect the hand's CAN adapter",
        ),
        (
            doctor.check_can,
            "CAN interface",
            {},
            {**CAN, f"{NET}/can0/operstate": "down\n"},
            "can0 is down",
            "sudo ip link set can0 up type can bitrate 1000000",
        ),
        (doctor.check_can, "CAN interface", {}, {**CAN, f"{NET}/can0/operstate": "up\n"}, "can0", None),
        (doctor.check_can, "CAN interface", {}, {"dev/pcanusb32": ""}, "pcanusb32", None),
        (
            doctor.check_can,
            "CAN interface",
            {},
            {"sys/bus/usb/devices/1-1/idVendor": "0c72\n"},
            "a PEAK adapter",
            "sudo modprobe peak_usb",
        ),
        (doctor.check_camera, "camera", BROKEN, {}, "libthing.so", doctor.install("camera")),
        (doctor.check_camera, "camera", {"output": "D435"}, {}, "D435", None),
        (doctor.check_camera, "camera", {}, {}, "no RealSense camera", "connect the camera"),
        (
            doctor.check_camera,
            "camera",
            {},
            {"sys/bus/usb/devices/2-1/idVendor": "8086\n"},
            "may open",
            "sudo curl",
        ),
    ],
)
def test_a_check_names_the_state_and_the_fix(system, monkeypatch, check, name, probe, files, detail, fix):
    monkeypatch.setattr(
        doctor, "probe", lambda code: Probe(**{"output": "", "fault": "", "fix": "", **probe})
    )
    system(files)
    finding = by_name(check())[name]
    assert finding.usable == (fix is None) and detail in finding.detail
    assert fix is None or fix in finding.fix
    assert finding.needed == (name in NEEDED)


@pytest.mark.parametrize("driver", [True, False])
def test_gpu_not_used(monkeypatch, tmp_path, driver):
    monkeypatch.setattr(doctor, "probe", lambda code: Probe("0.10 on cpu", "", ""))
    if driver:
        (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: Fast One'\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    finding = by_name(doctor.check_jax())["GPU"]
    assert not finding.usable and not finding.needed
    assert (finding.fix or "").endswith("'jax[cuda12]==0.10'") == driver


def test_small_computer(system, monkeypatch, tmp_path):
    system({"proc/meminfo": "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n", "file": ""})
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=1000))
    monkeypatch.setattr(doctor.output, "machine", lambda: {"cpu": "tiny", "cores": 1, "python": "3.11"})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    findings = by_name(doctor.check_computer())
    assert not any(f.usable or f.needed for f in findings.values())
    assert findings["memory"].detail == "0.5 of 1.0 GiB free"
    assert "cannot write" in findings["cache"].detail


@pytest.mark.parametrize("granted", [True, False])
def test_real_time(monkeypatch, granted):
    def set_scheduler(pid, policy, parameter):
        if not granted:
            raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", set_scheduler)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (0, 0))
    [finding] = doctor.check_real_time()
    assert finding.usable == granted
    assert "rtprio" in (finding.fix or "") or granted


def test_the_real_time_check_restores_the_scheduler():
    before = os.sched_getscheduler(0)
    list(doctor.check_real_time())
    assert os.sched_getscheduler(0) == before


@pytest.mark.parametrize("missing", ["coacd", "numba", "pytetwild", "serial", "ray", None])
def test_optional_libraries(monkeypatch, missing):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else name)
    findings = by_name(doctor.check_extras())
    expected = {use for _, use, modules in doctor.OPTIONAL if missing in modules}
    assert {name for name, f in findings.items() if not f.usable} == expected
    assert bool(expected) == (missing is not None)
    for extra, use, _ in doctor.OPTIONAL:
        assert not findings[use].needed and findings[use].fix == doctor.install(extra)


@pytest.mark.parametrize(
    ("checkout", "extra", "command"),
    [
        (True, "bags", "-c constraints.txt -e '.[bags]'"),
        (True, "", "-c constraints.txt -e ."),
        (False, "bags", "'dexstack[bags]'"),
        (False, "", "'dexstack'"),
    ],
)
def test_the_install_command_fits_checkout_or_wheel(monkeypatch, tmp_path, checkout, extra, command):
    if not checkout:
        monkeypatch.setattr(doctor, "__file__", str(tmp_path / "a/b/c/doctor.py"))
    assert doctor.install(extra).endswith(f"-m pip install {command}")


def test_the_extras_are_those_of_the_package():
    """Each extra has a check, in OPTIONAL or of its own; those for development need none."""
    setup = configparser.ConfigParser()
    setup.read(Path(__file__).parents[3] / "setup.cfg")
    checked = {extra for extra, *_ in doctor.OPTIONAL} | {"ros", "hardware", "camera"}
    assert set(setup["options.extras_require"]) == checked | {"all", "dev", "peers"}
