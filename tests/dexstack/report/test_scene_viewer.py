"""The live page of a scene over its web socket: the choice of engines and their refusals."""

import signal
import threading
import time

import mujoco
import numpy as np
import pytest

from dexengines import ENGINES
from dexstack.cli.monitor import page_parameters
from dexstack.cli.view import picture

pytest.importorskip("viser")
from dexstack.report.scene_viewer import SceneControls, SceneViewer
from dexstack.sim.live import LiveRun
from experiments.engines.scenes import SCENES
from tests.visitor import Visitor

EGG = SCENES["rest"].xml.replace(
    "</worldbody>",
    '<body pos="1 0 1"><freejoint/><geom name="egg" type="ellipsoid" size=".1 .1 .2"/></body></worldbody>',
)


@pytest.fixture
def shown():
    """A scene with an ellipsoid in MuJoCo, its page, a visitor, and a function to wait."""
    model = mujoco.MjModel.from_xml_string(EGG)
    live = LiveRun(model, "mujoco")
    page = page_parameters("127.0.0.1", 8500)
    viewer = SceneViewer(
        "127.0.0.1", page["port"], page["token"], model, SceneControls(tuple(ENGINES), live.ask, live.restart)
    )
    visitor = Visitor(viewer.url)

    def until(condition, what):
        end = time.monotonic() + 300.0
        while not condition():
            assert time.monotonic() < end, what
            picture(live, viewer)
            time.sleep(0.01)

    until(lambda: viewer.watched, "a visitor")
    yield live, viewer, visitor, until
    visitor.close()
    viewer.close()


def test_an_engine_is_chosen_on_the_page_or_refused_and_the_scene_paused_and_restarted(shown):
    live, viewer, visitor, until = shown
    assert viewer.engine_menu.value == "mujoco"
    until(lambda: len(viewer.patches) == 1, "forces, which MuJoCo has, without surfaces")
    visitor.change(viewer.engine_menu, "lcp")
    until(lambda: "'ellipsoid': 'egg'" in viewer.message.content, "the refusal")
    assert live.engine == "mujoco" and viewer.engine_menu.value == "mujoco"
    visitor.change(viewer.engine_menu, "hydroelastic")
    until(lambda: live.engine == "hydroelastic" and len(viewer.patches) == 2, "pressures and forces")
    assert viewer.engine_menu.value == "hydroelastic" and viewer.message.content == ""
    assert "hydroelastic" in viewer.summary.content and "contacts" in viewer.summary.content

    until(lambda: live.state.time > 0.2, "some time")
    visitor.change(viewer.pause_box, True)
    until(lambda: viewer.paused, "the pause")
    at = live.state.time
    picture(live, viewer)
    assert live.state.time == at
    np.testing.assert_allclose(viewer.bodies[1].position, live.state.q[:3], atol=1e-6)  # viser drops less
    visitor.change(viewer.restart_button, True)
    until(lambda: live.state.time == 0.0, "the start")


def test_the_command_serves_until_it_is_interrupted(tmp_path, capsys, monkeypatch):
    from dexstack.cli import view
    from dexstack.cli.main import main

    scene, looks = tmp_path / "scene.xml", iter(range(3))
    scene.write_text(EGG)

    def look(live, viewer):
        assert threading.current_thread() is threading.main_thread() and live.engine == "hydroelastic"
        if next(looks) == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(SceneViewer, "watched", True)
    monkeypatch.setattr(view, "picture", look)
    assert (
        main(["view", str(scene), "--engine", "hydroelastic", "--no-open", "--port", "8520", "--json"]) == 0
    )
    assert '"engine": "hydroelastic"' in capsys.readouterr().out
