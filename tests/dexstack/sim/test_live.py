"""A scene that runs while its engine changes."""

import time

import mujoco
import numpy as np
import pytest

from dexengines import load
from dexstack.errors import ConfigError
from dexstack.sim.live import LiveRun
from experiments.engines.scenes import SCENES

EGG = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/><body pos="0 0 0.2"><freejoint/>
  <geom name="egg" type="ellipsoid" size=".1 .1 .2" mass="1"/></body></worldbody></mujoco>"""


def run(xml: str, engine: str = "mujoco", **more) -> LiveRun:
    return LiveRun(mujoco.MjModel.from_xml_string(xml), engine, **more)


def until_made(live: LiveRun) -> list[float]:
    """Advance until no engine is being prepared; return the times meanwhile."""
    times, end = [], time.monotonic() + 300.0
    while live.awaited and time.monotonic() < end:
        live.advance(0.002)
        times.append(float(live.state.time))
        time.sleep(0.001)
    assert not live.awaited
    return times


def test_a_scene_continues_in_another_engine_from_its_present_state():
    live = run(SCENES["slide"].xml)
    v = live.state.v.copy()
    v[0] = 1.0
    live.state = live.state._replace(v=v)
    while live.state.time < 1.0:  # until it rests, since the moment of the switch depends on the wall clock
        live.advance(0.02)
    live.ask("hydroelastic")
    times = until_made(live)
    assert live.engine == "mujoco" and times[-1] > times[0], "the old one continues"
    before = live.state
    live.advance(0.0)
    assert (live.engine, live.said) == ("hydroelastic", "")
    assert live.state.time == pytest.approx(before.time + 1e-3)
    # the same step by a separate scene from the state at the switch
    alone = load(mujoco.MjModel.from_xml_string(SCENES["slide"].xml), "hydroelastic").step(
        before, live.control
    )
    np.testing.assert_allclose(live.state.q, alone.q, atol=1e-9)
    np.testing.assert_allclose(live.state.v, alone.v, atol=1e-6)
    np.testing.assert_allclose(live.state.q[:3], before.q[:3], atol=5e-3)
    assert np.linalg.norm(live.state.q[:3] - live.start.q[:3]) > 5e-3, "it does not start again"
    end = live.state.time + 0.5
    while live.state.time < end and not live.stopped:  # until it rests in this engine
        live.advance(0.02)
    contacts, patches = live.touching()
    assert (
        abs(sum(c.force_W[2] for c in contacts)) == pytest.approx(0.5 * 9.81, rel=0.2) and len(patches) == 1
    )
    live.restart()
    live.advance(0.0)
    assert live.state is live.start and live.engine == "hydroelastic"


def test_an_engine_that_rejects_the_scene_reports_why_and_the_old_one_continues():
    live = run(EGG)
    live.ask("lcp")
    until_made(live)
    at = live.state.time
    live.advance(0.02)
    assert live.said.startswith("the lcp engine does not take the feature 'ellipsoid': 'egg'")
    assert live.engine == "mujoco" and live.state.time > at


def test_the_last_of_several_requests_counts():
    live = run(EGG)
    for engine in ("lcp", "soft", "hydroelastic"):
        live.ask(engine)
    until_made(live)
    live.advance(0.0)
    assert (live.engine, live.said) == ("hydroelastic", "")


def test_a_motion_that_diverges_stops_until_a_restart():
    live = run(SCENES["slide"].xml, "hydroelastic")
    live.state = live.state._replace(v=np.full(6, 1e200))
    live.advance(0.01)
    assert live.stopped and "diverged" in live.said
    live.restart()
    live.advance(0.01)
    assert not live.stopped and live.said == "" and live.state.time == pytest.approx(0.01)


def test_a_missing_keyframe_is_rejected():
    with pytest.raises(ConfigError, match="no keyframe 'home'"):
        run(EGG, keyframe="home")
