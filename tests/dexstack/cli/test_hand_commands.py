"""``dexstack diagnose hand``, ``calibrate hand`` and ``bench hand`` against emulated hands."""

import numpy as np
import pytest

from dexstack.hand.calibration import load_offsets

pytest.importorskip("dynamixel_sdk")
EMULATED = ("--interface", "emulated", "--seconds", "0.5")
LEAP = ("--hand", "leap_right")


def emulated(*arguments: str, hand: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Arguments of a command for an emulated hand with these faults."""
    faults = (f"--emulator-arguments={' '.join(arguments)}",) if arguments else ()
    return (*hand, "--interface", "emulated", *faults)


@pytest.mark.parametrize(
    ("arguments", "serial", "identity"),
    [
        (("--hand", "right"), "EMU00001", "EMU00001, right, hardware 0x0402"),
        pytest.param(*(LEAP, "LEAP_EMULATED", "LEAP_EMULATED, 16 motors XC330-M288"), marks=pytest.mark.slow),
    ],
    ids=["allegro", "leap"],
)
def test_commissioning_passes_every_layer_and_is_kept(dexstack, tmp_path, arguments, serial, identity):
    here = (*arguments, "--all", "--yes", "--calibration-dir", str(tmp_path))
    code, results, err = dexstack("diagnose", "hand", *EMULATED, *here)
    assert code == 0 and results["good"] and results["broken"] is None, err
    found = {layer["name"]: layer["detail"] for layer in results["layers"]}
    assert list(found) == ["interface", "bus", "identity", "stream", "motion"]
    assert identity in found["identity"] and "16 of 16 joints" in found["motion"]
    assert "now" in err and [path.name for path in tmp_path.iterdir()] == [f"{serial}.commissioned.yaml"]


@pytest.mark.parametrize(
    ("wiring", "name"),
    [
        pytest.param("--motor-gain " + "-1 " * 16, "is inverted", marks=pytest.mark.slow),
        pytest.param("--encoder-order 1 0 2 3", "index and middle are swapped", marks=pytest.mark.slow),
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
        (LEAP, "interface", "/dev/ttyUSB0", ""),
        (emulated("--hand left"), "identity", "this is a left hand", "hand:=left"),
        (emulated("--over-temperature"), "identity", "over-temperature", "cool down"),
        (emulated("--silent-finger 1"), "stream", "from finger 1", "cable"),
        (emulated("--loss 0.02"), "stream", "incomplete", "termination"),
        (
            emulated("--missing-motor 7", hand=LEAP),
            "bus",
            "motor 7 (mf_dip) does not answer",
            "Dynamixel Wizard",
        ),
        (
            emulated("--failing-motor 2", hand=LEAP),
            "identity",
            "motor 2 (if_pip) reports: overload",
            "off and on",
        ),
        (
            (*emulated("--failing-motor 2", hand=LEAP), "--reboot"),
            "reboot",
            "not allowed to reboot motor 2 (if_pip)",
            "--yes",
        ),
        (
            (*emulated("--failing-motor 2", hand=LEAP), "--reboot", "--yes"),
            "reboot",
            "motor 2 (if_pip) reports: overload",
            "off and on",
        ),
        (emulated("--latency 0.016", hand=LEAP), "stream", "nothing from all motors", "latency_timer"),
        (emulated("--corrupt 0.01", hand=LEAP), "stream", "complete sets", "latency_timer"),
        (emulated(), "motion", "not allowed to move", "--yes"),
    ],
)
def test_it_stops_at_the_first_broken_layer_and_names_the_remedy(dexstack, arguments, broken, detail, remedy):
    code, results, err = dexstack("diagnose", "hand", "--seconds", "1", *arguments)
    assert code == 1 and results["broken"] == broken, err
    last = results["layers"][-1]
    assert not last["good"] and detail in last["detail"] and remedy in last["remedy"]
    assert all(layer["good"] for layer in results["layers"][:-1])


@pytest.mark.parametrize(
    ("hand", "serial"),
    [((), "EMU00001"), pytest.param(LEAP, "LEAP_EMULATED", marks=pytest.mark.slow)],
    ids=["allegro", "leap"],
)
def test_zero_offsets_are_measured_at_the_stops_and_kept(dexstack, tmp_path, hand, serial):
    offsets = np.linspace(-0.2, 0.2, 16)
    arguments = emulated("--plant swept --zero-offsets", *(f"{x:.4f}" for x in offsets), hand=hand)
    here = ("calibrate", "hand", *arguments, "--calibration-dir", str(tmp_path), "--seconds", "20")
    code, results, _ = dexstack(*here)
    assert code == 1 and not results, "without consent"
    code, results, err = dexstack(*here, "--yes", "--dry-run")
    assert code == 0 and results["file"] is None and not list(tmp_path.iterdir()), err
    assert np.abs(results["held_out_deg"]).max() < 2.0
    for _ in range(2):  # the second time on top of the first
        code, results, err = dexstack(*here, "--yes")
        assert code == 0 and results["serial"] == serial, err
        np.testing.assert_allclose(load_offsets(tmp_path, serial), offsets, atol=0.02)


def test_offsets_that_the_upper_stops_contradict_are_not_kept(dexstack, tmp_path):
    command = ("calibrate", "hand", "--interface", "emulated", "--calibration-dir", str(tmp_path))
    command += ("--yes", "--seconds")
    code, results, err = dexstack(*command, "1")
    assert code == 1 and results["file"] is None, err  # not moved
    gains = " ".join(["1"] * 6 + ["1.1"] + ["1"] * 9)
    code, results, err = dexstack(*command, "6", f"--emulator-arguments=--plant swept --encoder-gain {gains}")
    assert (
        code == 1 and not list(tmp_path.iterdir()) and int(np.argmax(np.abs(results["held_out_deg"]))) == 6
    ), err


def test_an_interface_of_another_family_is_refused(dexstack):
    code, _, err = dexstack("diagnose", "hand", *LEAP, "--interface", "socketcan")
    assert code == 2 and "'leap_right' is not reached by socketcan: its interfaces are serial, pty" in err


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
    code, _, err = dexstack("capture", "hand", str(file), *emulated(hand=LEAP))
    assert code == 2 and "Allegro hands on CAN" in err
