"""The measure of steps per second says what is missing."""

import sys

from experiments.judge.steps import main


def test_a_python_without_the_peer_is_one_sentence(tmp_path, capsys):
    """The environment of dexstack is measured first."""
    assert (
        main(["--peer", sys.executable, "--peer-path", str(tmp_path), "--rounds", "1", "--steps", "20"]) == 2
    )
    said = capsys.readouterr().err
    assert "HandManipulateBlockRotateZ-v1: " in said and "gymnasium_robotics" in said
