"""The scene suite and the foreign models, shortened."""

import dataclasses

import pytest

from experiments.engines import foreign, suite
from experiments.engines.scenes import SCENES

PENDULUM = """<mujoco><worldbody><body><joint axis="0 1 0" {joint}/><geom type="capsule" size="0.02 0.1"
pos="0 0 -0.1"/></body></worldbody>
</mujoco>"""


def test_one_limit_decides(monkeypatch, outcome):
    argv = ["--engines", "mujoco", "--scenes", "rest", "fall", "bounce"]
    code, results = outcome(suite.main, *argv)
    rest, fall, bounce = results["rows"]
    assert (
        code == 0
        and rest["reached"]
        and 1e-6 < rest["depth_mean_m"] < rest["depth_worst_m"] < 3e-3
        and "energy_error_j" not in rest
    )
    assert fall["reached"] and fall["energy_error_j"] == pytest.approx(
        0.5 * 9.81 * fall["figure"], rel=0.05
    )  # it lies lower, at the same speed
    assert not bounce["claimed"] and "reached" not in bounce
    monkeypatch.setitem(SCENES, "rest", dataclasses.replace(SCENES["rest"], limit=1e-12))
    assert suite.main(argv) == 1


@pytest.mark.slow
def test_a_foreign_model_runs_or_is_rejected_by_name(tmp_path, monkeypatch, capsys, outcome):
    monkeypatch.setattr(foreign, "FILES", {"free": "free.xml", "ball": "ball.xml", "broken": "broken.xml"})
    (tmp_path / "free.xml").write_text(PENDULUM.format(joint=""))
    (tmp_path / "ball.xml").write_text(
        PENDULUM.format(joint='name="j" type="ball" limited="true" range="0 1"')
    )
    (tmp_path / "broken.xml").write_text("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>")
    argv = ["--folder", str(tmp_path), "--engines", "mujoco", "soft", "--seconds", "0.1"]
    code, results = outcome(foreign.main, *argv)
    assert code == 1
    rows = {(r["model"], r["engine"]): r for r in results["rows"]}
    for engine in ("mujoco", "soft"):
        assert rows["free", engine]["moved_rightly"] and rows["free", engine]["ran"]
        assert "MuJoCo says" in rows["broken", engine]["said"]
    assert rows["ball", "mujoco"]["ran"] and "'ball joint with a stop': 'j'" in rows["ball", "soft"]["said"]
    assert [t["loaded"] for t in results["engines"]] == [2, 1]
    (tmp_path / "free.xml").unlink()
    assert foreign.main(argv) == 2 and "holds no free.xml" in capsys.readouterr().err
