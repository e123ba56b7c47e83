"""Every check sees what it should see, with each failure injected; the exit code follows what
simulation needs."""

import importlib.metadata
import json
import os
import resource
import subprocess
import types

import pytest

from dexstack.cli import doctor
from dexstack.cli.main import main


@pytest.fixture
def system(tmp_path, monkeypatch):
    """An empty computer; returns a function that puts files on it."""
    monkeypatch.setattr(doctor, "SYSTEM", tmp_path)

    def put(**files):
        for path, text in files.items():
            target = tmp_path / path.replace("__", "/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)

    return put


@pytest.fixture
def modules(monkeypatch):
    """Replace what can be imported; a module set to None cannot be."""

    def install(**fakes):
        def fake_import(name):
            module = fakes.get(name.replace(".", "__"), types.ModuleType(name))
            if module is None:
                raise ModuleNotFoundError(f"No module named {name!r}")
            if isinstance(module, Exception):
                raise module
            return module

        monkeypatch.setattr(doctor, "_import", fake_import)

    return install


def only(findings):
    (finding,) = findings
    return finding


def by_name(findings):
    return {f.name: f for f in findings}


# --- the command ---------------------------------------------------------------------------------------------------------------------


def test_this_environment_can_simulate(capsys):
    assert main(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    results = document["results"]
    findings = {f["name"]: f for f in results["findings"]}
    assert document["command"] == "doctor" and results["simulation"] is True
    assert results["checked"] == len(findings) and results["failed"] == sum(
        not f["usable"] for f in findings.values()
    )
    assert all(
        findings[name]["usable"]
        for name in ("Python", "libraries", "models", "plot and film", "JAX", "ROS 2", "DDS on this machine")
    )
    assert {"GPU", "memory", "real-time scheduling", "CAN interface", "tags in pictures", "camera"} <= set(
        findings
    )
    assert all(f["mend"] is None for f in findings.values() if f["usable"])


@pytest.mark.parametrize(("needed", "code"), [(True, 1), (False, 0)])
def test_exit_code_follows_what_simulation_needs(monkeypatch, capsys, needed, code):
    monkeypatch.setattr(
        doctor,
        "CHECKS",
        [lambda: [doctor.Finding("thing", False, "gone [at all]", "fetch '.[thing]'", needed=needed)]],
    )
    assert main(["doctor"]) == code
    shown = capsys.readouterr().out
    assert "gone [at all]" in shown and "  thing: fetch '.[thing]'" in shown
    assert ("cannot run" in shown) == needed


def test_a_check_that_breaks_is_a_finding(monkeypatch):
    def check_ros():
        raise OSError("no such device")

    monkeypatch.setattr(doctor, "NEEDED", (check_ros,))
    finding = only(doctor._guarded(check_ros))
    assert (finding.name, finding.usable, finding.needed) == ("ros", False, True)
    assert "no such device" in finding.detail


# --- needed for simulation -----------------------------------------------------------------------------------------------------------


def test_old_python(monkeypatch):
    monkeypatch.setattr(doctor.sys, "version_info", (3, 10, 4))
    assert not only(doctor.check_python()).usable


def test_libraries_missing_or_too_old(monkeypatch):
    installed = {"mujoco": "3.2.0", "numpy": "2.4.0"}

    def version(name):
        if name not in installed:
            raise doctor.importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(
        doctor.importlib.metadata,
        "requires",
        lambda name: ["mujoco>=4.0", "numpy", "jax", "coal; extra == 'test'"],
    )
    monkeypatch.setattr(doctor.importlib.metadata, "version", version)
    finding = only(doctor.check_libraries())
    assert not finding.usable and finding.needed
    assert finding.detail == "missing or too old: mujoco 3.2.0, jax"
    assert "pip install" in finding.mend


@pytest.mark.parametrize(
    ("check", "module"),
    [(doctor.check_models, "mujoco"), (doctor.check_pictures, "matplotlib"), (doctor.check_jax, "jax")],
)
def test_broken_libraries(modules, check, module):
    modules(**{module: ImportError("libthing.so: cannot open shared object file")})
    finding = only(check())
    assert (
        not finding.usable
        and finding.needed
        and "libthing.so" in finding.detail
        and "pip install" in finding.mend
    )


def fake_jax(*platforms):
    return types.SimpleNamespace(
        __version__="0.10",
        devices=lambda: [types.SimpleNamespace(platform=p, device_kind=f"{p} X") for p in platforms],
    )


def test_gpu_used(modules):
    modules(jax=fake_jax("cpu", "gpu"))
    assert by_name(doctor.check_jax())["GPU"].detail == "gpu X"


@pytest.mark.parametrize("driver", [True, False])
def test_gpu_not_used(modules, monkeypatch, driver):
    modules(jax=fake_jax("cpu"))
    monkeypatch.setattr(doctor.shutil, "which", lambda name: name if driver else None)
    monkeypatch.setattr(
        doctor,
        "_run",
        lambda command, timeout: subprocess.CompletedProcess(command, 0, "GPU 0: Fast One\n", ""),
    )
    finding = by_name(doctor.check_jax())["GPU"]
    assert not finding.usable and not finding.needed
    assert (finding.mend or "").endswith("'jax[cuda12]==0.10'") == driver


@pytest.mark.parametrize("module", ["rclpy", "sensor_msgs__msg", "std_srvs__srv"])
def test_ros_missing(modules, system, module):
    modules(**{module: None})
    finding = only(doctor.check_ros())
    assert not finding.usable and finding.needed
    assert finding.mend.endswith("-m pip install -c constraints.txt -e '.[ros]'")


def test_ros_installed_but_not_sourced(modules, system, tmp_path):
    modules(rclpy=None)
    system(opt__ros__jazzy__setup=".")
    (tmp_path / "opt/ros/jazzy/setup.bash").write_text("")
    assert only(doctor.check_ros()).mend == f"source {tmp_path}/opt/ros/jazzy/setup.bash"


def test_dds_silence(monkeypatch):
    monkeypatch.setattr(doctor, "_PEER", "import sys; sys.exit('no interface is up')")
    finding = only(doctor.check_dds())
    assert not finding.usable and finding.needed
    assert finding.detail == "no interface is up" and finding.mend.startswith("sudo ip link")


def test_small_computer(system, monkeypatch):
    system(proc__meminfo="MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=1000))
    monkeypatch.setattr(doctor.output, "machine", lambda: {"cpu": "tiny", "cores": 1, "python": "3.11"})
    findings = by_name(doctor.check_computer())
    assert not any(f.usable for f in findings.values())
    assert findings["memory"].detail == "0.5 of 1.0 GiB free"


# --- needed for the hand and the camera ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("granted", [True, False])
def test_real_time(monkeypatch, granted):
    def set_scheduler(pid, policy, parameter):
        if not granted:
            raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", set_scheduler)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (0, 0))
    finding = only(doctor.check_real_time())
    assert finding.usable == granted
    assert "rtprio" in (finding.mend or "") or granted


def test_real_time_check_leaves_the_scheduler_as_it_was():
    before = os.sched_getscheduler(0)
    list(doctor.check_real_time())
    assert os.sched_getscheduler(0) == before


CAN = {"sys__class__net__can0__type": "280\n", "sys__class__net__lo__type": "772\n"}


@pytest.mark.parametrize(
    ("files", "usable", "mend"),
    [
        ({}, False, "connect the hand's CAN adapter and power the hand"),
        (
            {"sys__class__net__vcan0__type": "280\n", "sys__class__net__vcan0__operstate": "unknown\n"},
            False,
            "connect the hand's CAN adapter",
        ),
        (
            {**CAN, "sys__class__net__can0__operstate": "down\n"},
            False,
            "sudo ip link set can0 up type can bitrate 1000000",
        ),
        ({**CAN, "sys__class__net__can0__operstate": "up\n"}, True, None),
        ({"dev__pcanusb32": ""}, True, None),
        ({"sys__bus__usb__devices__1-1__idVendor": "0c72\n"}, False, "sudo modprobe peak_usb"),
    ],
)
def test_can(modules, system, files, usable, mend):
    modules()
    system(**files)
    finding = by_name(doctor.check_can())["CAN interface"]
    assert finding.usable == usable
    assert (finding.mend or "").startswith(mend or "")


def test_python_can_missing(modules, system):
    modules(can=None)
    finding = by_name(doctor.check_can())["python-can"]
    assert not finding.usable and finding.mend.endswith("-m pip install -c constraints.txt -e '.[hardware]'")


@pytest.mark.parametrize(
    "missing", ["coacd", "numba", "pytetwild", "optax", "mcap_ros2", "viser", "ray", None]
)
def test_every_extra_is_looked_for(monkeypatch, missing):
    monkeypatch.setattr(doctor, "_is_installed", lambda name: name != missing)
    findings = by_name(doctor.check_extras())
    expected = {use for use, modules in doctor.EXTRAS.values() if missing in modules}
    assert {name for name, f in findings.items() if not f.usable} == expected and bool(expected) == (
        missing is not None
    )
    for extra, (use, _) in doctor.EXTRAS.items():
        assert not findings[use].needed and findings[use].mend.endswith(
            f"-m pip install -c constraints.txt -e '.[{extra}]'"
        )


def test_the_extras_are_those_of_the_package():
    """Each one of setup.cfg has a check, here or where its device or its middleware is looked for;
    peers and tests need none."""
    extras = set(importlib.metadata.metadata("dexstack").get_all("Provides-Extra"))
    elsewhere = {"ros", "hardware", "camera", "realsense"}
    assert (
        extras - set(doctor.EXTRAS) - elsewhere <= {"peers", "baseline", "test", "docs"}
        and set(doctor.EXTRAS) <= extras
    )


def fake_realsense(*names):
    devices = [types.SimpleNamespace(get_info=lambda key, name=name: name) for name in names]
    context = types.SimpleNamespace(query_devices=lambda: devices)
    return types.SimpleNamespace(context=lambda: context, camera_info=types.SimpleNamespace(name="name"))


@pytest.mark.parametrize(
    ("module", "files", "detail", "mend"),
    [
        (None, {}, "No module named", "'.[realsense]'"),
        (fake_realsense("D435"), {}, "D435", None),
        (fake_realsense(), {}, "no RealSense camera", "connect the camera"),
        (fake_realsense(), {"sys__bus__usb__devices__2-1__idVendor": "8086\n"}, "may open", "sudo curl"),
    ],
)
def test_camera(modules, system, module, files, detail, mend):
    modules(pyrealsense2=module)
    system(**files)
    finding = only(doctor.check_camera())
    assert finding.usable == (mend is None)
    assert detail in finding.detail and (mend is None or mend in finding.mend)
