"""``dexstack diagnose hand``, ``calibrate hand`` and ``bench hand`` against emulated hands."""

from __future__ import annotations

import numpy as np
import pytest

from dexstack.hand.calibration import load_offsets

EMULATED = ("--interface", "emulated", "--seconds", "0.5")


def test_a_good_hand_passes_every_layer(dexstack):
    code, results, err = dexstack("diagnose", "hand", *EMULATED, "--yes")
    assert code == 0 and results["good"] and results["broken"] is None, err
    assert [layer["name"] for layer in results["layers"]] == [
        "interface",
        "bus",
        "identity",
        "stream",
        "motion",
    ]
    assert "EMU00001, right, hardware 0x0402" in results["layers"][2]["detail"]
    assert "1 of 16 joints moved as they should" in results["layers"][4]["detail"]


def test_commissioning_moves_every_joint_and_is_kept(dexstack, tmp_path):
    code, results, err = dexstack(
        "diagnose", "hand", *EMULATED, "--all", "--yes", "--calibration-dir", str(tmp_path)
    )
    assert code == 0 and "16 of 16 joints" in results["layers"][4]["detail"], err
    assert [path.name for path in tmp_path.iterdir()] == ["EMU00001.commissioned.yaml"]


@pytest.mark.parametrize(
    ("wiring", "name"),
    [
        ("--motor-gain " + "-1 " * 16, "is inverted"),
        ("--encoder-order 1 0 2 3", "index and middle are swapped"),
        ("--swapped-angle-bytes", "bytes of the angles are swapped"),
    ],
)
def test_a_miswired_hand_is_not_called_good(dexstack, tmp_path, wiring, name):
    here = ("--calibration-dir", str(tmp_path), f"--emulator-arguments={wiring}")
    code, results, err = dexstack("diagnose", "hand", *EMULATED, "--all", "--yes", *here)
    assert code == 1 and name in results["layers"][-1]["detail"], err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "broken", "detail", "remedy"),
    [
        (
            ("--interface", "udp_multicast", "--channel", "239.74.200.1:6302"),
            "bus",
            "no hand on udp_multicast",
            "switch the hand on",
        ),
        (("--interface", "pcan"), "interface", "pcan", "hardware/README.md"),
        (
            ("--interface", "emulated", "--emulator-arguments=--hand left"),
            "identity",
            "this is a left hand",
            "hand:=left",
        ),
        (
            ("--interface", "emulated", "--emulator-arguments=--over-temperature"),
            "identity",
            "over-temperature",
            "cool down",
        ),
        (
            ("--interface", "emulated", "--emulator-arguments=--silent-finger 1"),
            "stream",
            "from finger 1",
            "cable",
        ),
        (
            ("--interface", "emulated", "--emulator-arguments=--loss 0.02"),
            "stream",
            "incomplete",
            "termination",
        ),
        (("--interface", "emulated"), "motion", "not allowed to move", "--yes"),
    ],
)
def test_it_stops_at_the_first_broken_layer_and_names_the_remedy(dexstack, arguments, broken, detail, remedy):
    code, results, err = dexstack("diagnose", "hand", "--seconds", "1", *arguments)
    assert code == 1 and results["broken"] == broken, err
    last = results["layers"][-1]
    assert not last["good"] and detail in last["detail"] and remedy in last["mend"]
    assert all(layer["good"] for layer in results["layers"][:-1])


def test_zero_offsets_are_measured_at_the_stops_and_kept(dexstack, tmp_path):
    offsets = np.linspace(-0.2, 0.2, 16)
    zero = f"--plant swept --zero-offsets {' '.join(f'{x:.4f}' for x in offsets)}"
    command = (
        "calibrate",
        "hand",
        "--interface",
        "emulated",
        "--calibration-dir",
        str(tmp_path),
        "--seconds",
        "20",
    )
    here = (*command, f"--emulator-arguments={zero}")
    code, results, err = dexstack(*here, "--yes", "--dry-run")
    assert code == 0 and results["file"] is None and not list(tmp_path.iterdir()), err
    assert np.abs(results["held_out_deg"]).max() < 2.0
    code, results, _ = dexstack(*here)
    assert code == 1 and not results, "without consent"
    code, results, err = dexstack(*here, "--yes")
    assert code == 0 and results["serial"] == "EMU00001", err
    np.testing.assert_allclose(load_offsets(tmp_path, "EMU00001"), offsets, atol=0.02)
    code, results, err = dexstack(*here, "--yes")  # again, on top of the old ones
    np.testing.assert_allclose(results["zero_offsets"], offsets, atol=0.02)


def test_offsets_that_the_upper_stops_contradict_are_not_kept(dexstack, tmp_path):
    command = (
        "calibrate",
        "hand",
        "--interface",
        "emulated",
        "--calibration-dir",
        str(tmp_path),
        "--yes",
        "--seconds",
    )
    code, results, err = dexstack(*command, "1")
    assert code == 1 and results["file"] is None, err  # not moved
    gains = " ".join(["1"] * 6 + ["1.1"] + ["1"] * 9)
    code, results, err = dexstack(*command, "6", f"--emulator-arguments=--plant swept --encoder-gain {gains}")
    assert (
        code == 1 and not list(tmp_path.iterdir()) and int(np.argmax(np.abs(results["held_out_deg"]))) == 6
    ), err


@pytest.mark.slow
def test_the_servo_loop_is_measured(dexstack):
    """Only the bookkeeping: the timing depends on the load of the machine."""
    limits = ("--period-p99", "10", "--latency-p99", "10", "--cpu", "10")
    code, results, err = dexstack("bench", "hand", "--seconds", "2", "--idle", *limits)
    assert results["over_limit"] == 0 and 0.0 < results["largest_torque_share"] <= 1.0, err
    assert results["period_s"]["p50"] == pytest.approx(0.003, abs=5e-4)
    assert results["sets"] == pytest.approx(667, rel=0.1)
    assert (
        0.0 < results["latency_s"]["p50"] < results["latency_s"]["max"] and 0.0 < results["cpu_share"] < 1.0
    )
    assert code == (0 if results["passed"] else 1) and results["passed"] == all(results["kept"].values())
    code, results, _ = dexstack("bench", "hand", "--seconds", "1", "--idle", "--latency-p99", "1e-9")
    assert code == 1 and not results["kept"]["latency"]


def test_a_hand_s_answers_are_captured(dexstack, tmp_path):
    file = tmp_path / "hand.log"
    code, results, err = dexstack("capture", "hand", str(file), "--interface", "emulated")
    assert code == 0 and set(results["answers"]) >= {"080", "0E0", "200", "220"}, err
    lines = file.read_text().splitlines()
    assert len(lines) == results["frames"] and "200#R" in lines[0]
    code, _, err = dexstack("capture", "hand", str(file), "--interface", "emulated", "--hand", "leap_right")
    assert code == 2 and "Allegro hands on CAN" in err
