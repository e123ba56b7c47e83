"""``dexstack diagnose hand``, ``calibrate hand`` and ``bench hand`` against emulated hands."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from dexstack.cli.main import main
from dexstack.hand.calibration import load_offsets


def dexstack(*argv: str) -> tuple[int, dict, str]:
    """In a process of its own, as it may change its scheduling; exit code, results, stderr."""
    done = subprocess.run([sys.executable, "-m", "dexstack.cli.main", *argv, "--json", "-"], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)["results"] if done.stdout else {}, done.stderr


EMULATED = ("--interface", "emulated", "--seconds", "0.5")


def test_a_good_hand_passes_every_layer():
    code, results, err = dexstack("diagnose", "hand", *EMULATED, "--yes")
    assert code == 0 and results["good"] and results["broken"] is None, err
    assert [layer["name"] for layer in results["layers"]] == ["interface", "bus", "identity", "stream", "wiggle"]
    assert "EMU00001, right, hardware 0x0402" in results["layers"][2]["detail"]
    assert "joint_15.0 moved by" in results["layers"][4]["detail"]


@pytest.mark.parametrize(
    ("arguments", "broken", "detail", "mend"),
    [
        (("--interface", "udp_multicast", "--channel", "239.74.200.1:6302"), "bus", "nobody on udp_multicast", "switch the hand on"),
        (("--interface", "pcan"), "interface", "pcan", "hardware/README.md"),
        (("--interface", "emulated", "--emulator-arguments=--hand left"), "identity", "this is a left hand", "hand:=left"),
        (("--interface", "emulated", "--emulator-arguments=--over-temperature"), "identity", "over-temperature", "cool down"),
        (("--interface", "emulated", "--emulator-arguments=--silent-finger 1"), "stream", "from finger 1", "cable"),
        (("--interface", "emulated", "--emulator-arguments=--loss 0.02"), "stream", "incomplete", "termination"),
        (("--interface", "emulated"), "wiggle", "not allowed to move", "--yes"),
    ],
)
def test_it_stops_at_the_first_broken_layer_and_says_what_mends_it(arguments, broken, detail, mend):
    code, results, err = dexstack("diagnose", "hand", "--seconds", "1", *arguments)
    assert code == 1 and results["broken"] == broken, err
    last = results["layers"][-1]
    assert not last["good"] and detail in last["detail"] and mend in last["mend"]
    assert all(layer["good"] for layer in results["layers"][:-1])


def test_zero_offsets_are_measured_and_kept(tmp_path):
    offsets = np.linspace(-0.2, 0.2, 16)
    here = ("--calibration-dir", str(tmp_path), f"--emulator-arguments=--zero-offsets {' '.join(f'{x:.4f}' for x in offsets)}")
    command = ("calibrate", "hand", *EMULATED, "--pose", "home", *here)
    code, results, err = dexstack(*command, "--yes", "--dry-run")
    assert code == 0 and results["file"] is None and not list(tmp_path.iterdir()), err
    code, results, _ = dexstack(*command)
    assert code == 1 and not results, "nobody said that the hand is in the pose"
    code, results, err = dexstack(*command, "--yes")
    assert code == 0 and results["serial"] == "EMU00001", err
    np.testing.assert_allclose(load_offsets(tmp_path, "EMU00001"), offsets, atol=2e-4)
    code, results, err = dexstack(*command, "--yes")  # again, on top of the old ones
    np.testing.assert_allclose(results["zero_offsets"], offsets, atol=2e-4)
    code, _, err = dexstack("calibrate", "hand", *EMULATED, "--pose", "flat", *here, "--yes")
    assert code == 2 and "the hand was not in that pose" in err
    code, results, _ = dexstack("diagnose", "hand", *EMULATED, "--no-wiggle", *here)
    assert code == 0 and results["layers"][2]["detail"].endswith(" calibrated")


def test_an_unknown_pose_is_refused(capsys):
    assert main(["calibrate", "hand", *EMULATED, "--pose", "lotus", "--yes"]) == 2
    assert "no pose 'lotus'" in capsys.readouterr().err


@pytest.mark.slow
def test_the_servo_loop_is_measured():
    """What is measured, not how well: that depends on what else the machine does."""
    code, results, err = dexstack("bench", "hand", "--seconds", "2", "--idle", "--period-p99", "10", "--latency-p99", "10", "--cpu", "10")
    assert results["over_limit"] == 0 and 0.0 < results["largest_torque_share"] <= 1.0, err
    assert results["period_s"]["p50"] == pytest.approx(0.003, abs=5e-4) and results["sets"] == pytest.approx(667, rel=0.1)
    assert 0.0 < results["latency_s"]["p50"] < results["latency_s"]["max"] and 0.0 < results["cpu_share"] < 1.0
    assert code == (0 if results["passed"] else 1) and results["passed"] == all(results["kept"].values())
    code, results, _ = dexstack("bench", "hand", "--seconds", "1", "--idle", "--latency-p99", "1e-9")
    assert code == 1 and not results["kept"]["latency"]


def test_fuzzing_is_a_command():
    code, results, _ = dexstack("bench", "hand", "--fuzz", "3000", "--seed", "4")
    assert code == 0 and results["checked"] == 3000 and results["failed"] == 0
