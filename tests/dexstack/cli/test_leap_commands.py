"""``dexstack diagnose hand`` and ``calibrate hand`` with a LEAP hand, emulated in simulated
time."""

from __future__ import annotations

import numpy as np
import pytest

from dexstack.hand.calibration import load_offsets

pytest.importorskip("dynamixel_sdk")
EMULATED = ("--hand", "leap_right", "--interface", "emulated")


def test_commissioning_passes_every_layer_and_is_kept(dexstack, tmp_path):
    here = ("--calibration-dir", str(tmp_path), "--seconds", "0.5")
    code, results, err = dexstack("diagnose", "hand", *EMULATED, *here, "--all", "--yes")
    assert code == 0 and results["good"], err
    found = {layer["name"]: layer["detail"] for layer in results["layers"]}
    assert list(found) == ["interface", "bus", "identity", "stream", "motion"]
    assert (
        "LEAP_EMULATED, 16 motors XC330-M288" in found["identity"]
        and "16 of 16 joints moved" in found["motion"]
    )
    assert 330.0 <= float(found["stream"].split()[0]) <= 340.0
    assert [path.name for path in tmp_path.iterdir()] == ["LEAP_EMULATED.commissioned.yaml"]
    assert "now th_ipl moves" in err


@pytest.mark.parametrize(
    ("arguments", "broken", "detail", "remedy"),
    [
        (("--hand", "leap_right"), "interface", "/dev/ttyUSB0", ""),
        (
            (*EMULATED, "--emulator-arguments=--missing-motor 7"),
            "bus",
            "motor 7 (mf_dip) does not answer",
            "Dynamixel Wizard",
        ),
        (
            (*EMULATED, "--motor", "XL330-M288"),
            "identity",
            "is a XC330-M288, XL330-M288 is configured",
            "parameter motor",
        ),
        (
            (*EMULATED, "--emulator-arguments=--failing-motor 2"),
            "identity",
            "motor 2 (if_pip) reports: overload",
            "off and on",
        ),
        (
            (*EMULATED, "--emulator-arguments=--failing-motor 2", "--reboot"),
            "reboot",
            "not allowed to reboot motor 2 (if_pip)",
            "--yes",
        ),
        (
            (*EMULATED, "--emulator-arguments=--failing-motor 2", "--reboot", "--yes"),
            "reboot",
            "motor 2 (if_pip) reports: overload",
            "off and on",
        ),
        (
            (*EMULATED, "--emulator-arguments=--latency 0.016"),
            "stream",
            "nothing from all motors",
            "latency_timer",
        ),
        ((*EMULATED, "--emulator-arguments=--corrupt 0.01"), "stream", "complete sets", "latency_timer"),
        (EMULATED, "motion", "not allowed to move", "--yes"),
    ],
)
def test_it_stops_at_the_first_broken_layer_and_names_the_remedy(dexstack, arguments, broken, detail, remedy):
    code, results, err = dexstack("diagnose", "hand", "--seconds", "1", *arguments)
    assert code == 1 and results["broken"] == broken, err
    last = results["layers"][-1]
    assert not last["good"] and detail in last["detail"] and remedy in last["mend"] and last["mend"]


def test_an_interface_of_another_family_is_refused(dexstack):
    code, _, err = dexstack("diagnose", "hand", "--hand", "leap_right", "--interface", "socketcan")
    assert code == 2 and "'leap_right' is not reached by socketcan: its interfaces are serial, pty" in err


def test_zero_offsets_are_measured_at_the_stops_and_kept(dexstack, tmp_path):
    offsets = np.linspace(-0.2, 0.2, 16)
    zero = f"--plant swept --zero-offsets {' '.join(f'{x:.4f}' for x in offsets)}"
    command = ("calibrate", "hand", *EMULATED, "--calibration-dir", str(tmp_path), "--seconds", "20")
    code, results, err = dexstack(*command, f"--emulator-arguments={zero}", "--yes")
    assert code == 0 and results["serial"] == "LEAP_EMULATED", err
    np.testing.assert_allclose(load_offsets(tmp_path, "LEAP_EMULATED"), offsets, atol=0.01)
