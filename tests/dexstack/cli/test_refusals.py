"""Bad input of the commands: exit code 2 and one sentence, before anything runs."""

import re

import pytest

from dexstack.cli.main import main


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ("eval palm_turn --set pose_period=5", "'pose_period' must lie in"),
        ("eval palm_turn --set orientaton_weight=5", "did you mean 'orientation_weight'"),
        ("eval palm_turn --model implict", "did you mean 'implicit'"),
        ("eval palm_turn --object duck", "unknown object 'duck'"),
        ("eval palm_turn --hand top", "unknown hand 'top'"),
        ("eval palm_turn --theta missing", "no θ 'missing'"),
        ("eval palm_turn --vary mas=2", "'mas'"),
        ("eval palm_turn --vary mass", "--vary takes NAME=VALUE"),
        ("eval palm_turn --vary mass=heavy", "--vary takes NAME=VALUE"),
        ("eval palm_turn --vary latency=5", "'latency' must lie in"),
        ("eval palm_tur", "did you mean 'palm_turn'"),
        ("eval continuous --object nothing", "unknown object 'nothing'"),
        ("eval no/such/task.py", "there is no task file"),
        ("learn --from nowhere.mcap", "cannot read the bag nowhere.mcap"),
        ("learn --from nowhere.npz", "cannot read the recording nowhere.npz"),
        ("learn --require 0.5", "--require needs --evaluate"),
        ("learn --from a.npz --repeat 2", "--from learns once"),
        ("learn --start absent", "no θ 'absent'"),
        ("learn --object duck", "unknown object 'duck'"),
        ("identify", "identify needs either a recording, or --excite MODE to make one"),
        ("identify some.npz --excite sim", "identify needs either a recording, or --excite MODE to make one"),
        ("identify --excite sim --up world --results .", "--up takes NAME=VALUE, got 'world'"),
        ("identify --excite sim --up colour=red --results .", "unknown argument 'colour'"),
        ("identify none.npz", "cannot read the recording"),
        ("identify none.npz --only colour", "unknown quantity to identify 'colour'"),
        ("identify none.npz --also com", "unknown quantity to identify 'com'"),
        ("object add none.stl", "there is no mesh file none.stl"),
        ("object check none", "unknown object 'none'"),
        ("object show none.yaml", "none.yaml"),
        ("hand export middle", "unknown hand 'middle'"),
        ("view none.xml", "dexstack view: there is no model file none.xml"),
    ],
)
def test_unusable_input_is_one_sentence(argv, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dexstack.control.planners.gauss_newton.Mpc.warm_up", lambda *_: 0.0)
    monkeypatch.setattr(
        "dexstack.trials.sweep.run_trials", lambda *_, **__: pytest.fail("trials were started")
    )
    assert main(argv.split()) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert sentence in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ("eval palm_turn --trials 0", "--trials.* whole number above 0"),
        ("eval palm_turn --trials many", "--trials.* whole number above 0"),
        ("eval palm_turn --seed -1", "--seed.* 0 or more"),
        ("eval palm_turn --seconds nan", "--seconds.* number above 0"),
        ("eval palm_turn --goal-yaw 270", r"--goal-yaw.* degrees in \[-180, 180\]"),
        ("eval palm_turn --latency soon", "--latency.* 'measured', or seconds"),
        ("eval palm_turn --require 2", r"--require.* number in \[0, 1\]"),
        ("eval palm_turn --plant ode", "--plant.* invalid choice"),
        ("eval palm_turn --set horizon", "--set.* must be NAME=VALUE"),
        ("bench mpc --solves 0", "--solves"),
        ("bench mpc --seed -1", "--seed"),
        ("bench pose-estimator --seconds 0", "--seconds"),
    ],
)
def test_an_argument_out_of_range_is_rejected_by_its_name(argv, sentence, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv.split())
    assert stop.value.code == 2
    assert re.search(sentence, " ".join(capsys.readouterr().err.split()))
