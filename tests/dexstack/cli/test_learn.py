"""``dexstack learn``: arguments, files, exit codes; learning itself is tested with the library."""

import numpy as np
import pytest
import yaml

from dexstack.cli.main import main
from dexstack.report.learning import interval

QUICK = ["--model", "dsdf", "--set", "horizon=2", "--set", "iterations=1", "--set", "epochs=2"]
SHORT = ["learn", "palm_turn", "--start", "uninformed", "--steps", "150", "--every", "100", *QUICK]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("learn")


@pytest.fixture(scope="module")
def learned(folder, outcome):
    """Two updates on policy, their θ and their rollouts."""
    return outcome(main, *SHORT, "--save", folder / "mine.yaml", "--record", folder / "rollouts.npz")


def steps_of(learned):
    """Environment steps it learned from in the end."""
    return learned[1]["curves"][0]["points"][-1]["steps"]


@pytest.mark.slow
def test_learning_on_policy_lowers_the_loss_and_leaves_files(learned, folder):
    status, results = learned
    assert status == 0
    (curve,) = results["curves"]
    first, second, third = (p["steps"] for p in curve["points"])
    assert (
        first == 0 and 100 <= second <= 102 and 150 <= third <= 204
    )  # whole rollouts; one ends early where the object is dropped
    assert curve["points"][-1]["update"]["loss_after"] < curve["points"][1]["update"]["loss_before"]
    document = yaml.safe_load((folder / "mine.yaml").read_text())
    assert document["object"] == "cube" and document["learned"]["data"]["sha256"] == results["data_sha256"]
    with np.load(folder / "rollouts.npz") as recording:
        assert set(recording.files) == {"t", "pose_WO", "q", "q_command", "qd", "twist_WO", "rollout"}
        assert len(np.unique(recording["rollout"])) == 2


@pytest.mark.slow
def test_recorded_rollouts_teach_again_and_the_saved_theta_is_taken(learned, folder, outcome, capsys):
    files = "--start", folder / "mine.yaml", "--from", folder / "rollouts.npz"
    code, results = outcome(main, *SHORT, *files)
    assert code in (0, 1), "whether the held-out end is predicted better is not this test's"
    assert "no trials were run" in capsys.readouterr().out
    again = results["curves"][0]["points"]
    assert again[-1]["steps"] > 2 * steps_of(learned), "a recording has a transition for every sample"
    assert again[-1]["update"]["loss_after"] <= again[-1]["update"]["loss_before"]


def test_the_interval_is_students():
    values = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])
    mean, half = interval(values)
    np.testing.assert_allclose(mean, [2.0, 5.0])
    np.testing.assert_allclose(half, [4.30265 / np.sqrt(3), 0.0], rtol=1e-4)
    assert np.isnan(interval(values[:1])[1]).all()


@pytest.mark.slow
def test_the_three_balls_learn_and_plan_with_what_they_learned(folder, outcome):
    """θ in newtons per metre, for that robot and object; the other task's planner refuses it."""
    theta = folder / "balls.yaml"
    argv = ["learn", "three_ball", "--start", "uninformed", "--steps", "100", "--every", "100", *QUICK]
    code, results = outcome(main, *argv, "--save", theta)
    point = results["curves"][0]["points"][-1]
    assert (
        code in (0, 1)
        and point["steps"] >= 99
        and point["update"]["loss_after"] < point["update"]["loss_before"]
    )
    document = yaml.safe_load(theta.read_text())
    assert document["hand"] == "3 balls" and len(document["theta"]["stiffness"]["value"]) == 9
    trial = [
        "--model",
        "dsdf",
        "--theta",
        str(theta),
        "--trials",
        "1",
        "--seconds",
        "0.3",
        "--require",
        "0",
        "--results",
        str(folder),
    ]
    assert main(["eval", "three_ball", *trial]) == 0
    assert main(["eval", "palm_turn", "--theta", str(theta)]) == 2


@pytest.mark.parametrize(("ends", "status"), [((2.0, 1.5, 1.0), 0), ((2.0, 1.0, 2.5), 1)])
def test_the_loss_over_transitions_held_out_judges(ends, status, monkeypatch, outcome, resting):
    """Whatever the loss over the transitions that were learned from did."""
    from dexstack.learning import on_policy
    from dexstack.learning.loss import Update
    from dexstack.learning.on_policy import Point
    from dexstack.learning.transitions import at_rest

    data = at_rest(resting.pose_WO, resting.q, resting.contacts)

    def learn(loop, first, *, steps, every, seed, score_with):
        for k, held_out in enumerate(ends):
            yield Point(100 * k, first, Update(1.0, 0.5, 1, 0) if k else None, held_out, []), data, []

    monkeypatch.setattr("dexstack.control.planners.gauss_newton.Mpc.warm_up", lambda *_: 0.0)
    monkeypatch.setattr(on_policy, "learn_on_policy", learn)
    code, results = outcome(main, "learn")
    points = results["curves"][0]["points"]
    assert code == status and [p["held_out_loss"] for p in points] == list(ends)
