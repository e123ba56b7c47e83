"""Rollouts of many scenes at once."""

import mujoco
import numpy as np
import pytest

from dexengines import ENGINES, load, rollout
from dexengines.errors import EngineError
from dexengines.scene import State, stack

COMPILED = ("lcp", "soft")
engines = pytest.mark.parametrize(
    "engine", [pytest.param(e, marks=[pytest.mark.slow] if e in COMPILED else []) for e in ENGINES]
)
SLIDE = """<mujoco><option timestep="0.002" cone="elliptic"/><worldbody><geom name="floor" type="plane"
size="0 0 1" friction="0.01"/>
  <body pos="0 0 {half}"><joint name="x" type="slide" axis="1 0 0" frictionloss="{loss}"/><joint name="z"
  type="slide" axis="0 0 1"/>
  <geom type="box" size="0.05 0.05 {half}" mass="0.5" friction="0.4"/></body></worldbody><actuator><motor
  joint="x"/></actuator></mujoco>"""
STEPS = 40


def made(engine: str, half: float, loss: float = 0.1):
    return load(mujoco.MjModel.from_xml_string(SLIDE.format(half=half, loss=loss)), engine)


def starts(scenes) -> State:
    return stack(s.reset()._replace(v=np.array([1.0 + 0.1 * k, 0.0])) for k, s in enumerate(scenes))


@engines
def test_rollouts_in_a_batch_equal_single_rollouts(engine):
    """Scenes of different geometry and joint friction, one of them twice, under different
    controls."""
    scenes = [made(engine, 0.05), made(engine, 0.04), made(engine, 0.05, 0.3)]
    scenes.append(scenes[1])
    states = starts(scenes)
    controls = np.random.default_rng(1).uniform(-2.0, 2.0, (4, STEPS, 1))
    found = rollout(scenes, states, controls, threads=2)
    alone = stack(
        s.rollout(State(*row), c)
        for s, row, c in zip(scenes, zip(*states, strict=True), controls, strict=True)
    )
    assert found.time.shape == (4, STEPS + 1) and found.q.shape == found.v.shape == (4, STEPS + 1, 2)
    assert len({row.tobytes() for row in found.q}) == 4
    for one, other in zip(found, alone, strict=True):
        if engine == "soft":
            np.testing.assert_allclose(one, other, rtol=0.0, atol=1e-9)
        else:
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_soft_scenes_of_one_structure_share_a_program():
    a, b = made("soft", 0.05), made("soft", 0.05, 0.3)
    assert a.program is b.program
    assert a.program is not made("soft", 0.02).program  # another number of points


def test_a_batch_may_mix_engines_and_continue():
    scenes = [made("mujoco", 0.05), made("hydroelastic", 0.05), made("mujoco", 0.04)]
    found = rollout(scenes, starts(scenes), np.zeros((STEPS, 1)))
    on = rollout(scenes, State(*(column[:, -1] for column in found)), np.zeros((0, 1)))
    for one, other in zip(on, found, strict=True):
        np.testing.assert_array_equal(one[:, 0], other[:, -1])
    alone = scenes[0].rollout(State(0.0, *(column[1] for column in starts(scenes)[1:])), np.zeros((STEPS, 1)))
    assert (np.abs(found.q[1] - alone.q) < 2e-3).all()  # hydroelastic moves as MuJoCo does


def test_bad_input_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes down what diverged
    one, other = made("mujoco", 0.05), load(mujoco.MjModel.from_xml_string("<mujoco><worldbody/></mujoco>"))
    states, controls = starts([one]), np.zeros((2, 1))
    for scenes, first, given, message in (
        ([], states, controls, "at least one scene"),
        ([one, other], states, controls, r"must have one nq, got \[0, 2\]"),
        ([one, one], states, controls, r"2 scenes need 2 states, got \[1\]"),
        (
            [one],
            states,
            np.zeros((2, 2)),
            r"controls must be finite and \(T, 1\) or \(1, T, 1\), got \(2, 2\)",
        ),
        ([one], states, np.full((2, 1), np.nan), "must be finite"),
        ([one], states._replace(q=np.full((1, 2), np.inf)), controls, "'q' must"),
    ):
        with pytest.raises(EngineError, match=message):
            rollout(scenes, first, given)
    with pytest.raises(EngineError, match="and one thread"):
        rollout([one], states, controls, threads=0)
    with pytest.raises(FloatingPointError, match=r"diverged at .* s \(mujoco\)"):
        rollout([one], states, np.full((2, 1), 1e300))
