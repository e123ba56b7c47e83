"""Results of a run: recording, plot, page and film."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from dexstack.errors import ConfigError
from dexstack.geometry.rotations import yaw_quaternion
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.model.scene import build_scene
from dexstack.report.film import FPS, GOAL, write_film
from dexstack.report.run import write_run
from dexstack.report.run_page import write_page
from tests.dexstack.report import browser


@pytest.fixture(scope="module")
def scene():
    return build_scene(load_hand(), load_object("cube"), floor=True).compile()


@pytest.fixture(scope="module")
def recording():
    """A cube that turns by 90° within one second."""
    t = np.arange(0.0, 1.001, 0.02)
    start = load_object("cube").start("allegro").pose_WO
    pose = np.tile(start, (len(t), 1))
    pose[:, 3:] = [yaw_quaternion(np.pi / 2 * x) for x in t]
    goal = np.tile(np.concatenate([start[:3], yaw_quaternion(np.pi / 2)]), (len(t), 1))
    return {
        "t": t,
        "q": np.tile(load_hand().home, (len(t), 1)),
        "pose_WO": pose,
        "goal_WO": goal,
        "solve_t": t,
        "solve_s": np.full(len(t), 0.0015),
    }


def frames(path):
    with Image.open(path) as film:
        result = []
        for k in range(film.n_frames):
            film.seek(k)
            result.append((np.asarray(film.convert("RGB")).astype(int), film.info["duration"]))
    return result


def test_write_run_writes_everything(tmp_path, scene, recording):
    written = write_run(tmp_path / "new" / "folder", recording, scene)
    assert set(written) == {"recording", "plot", "page", "film"}
    assert all(
        path.parent == tmp_path / "new" / "folder" and path.stat().st_size > 1000 for path in written.values()
    )
    with np.load(written["recording"]) as stored:
        assert set(stored) == set(recording)
        np.testing.assert_array_equal(stored["pose_WO"], recording["pose_WO"])


def test_the_page_holds_the_numbers_and_is_self_contained(tmp_path, recording):
    q = recording["q"] + np.linspace(0.0, 0.1, len(recording["t"]))[:, None]
    command = np.where(np.arange(len(q))[:, None] < 2, np.nan, q + 0.01)
    shown = {**recording, "q": q, "q_command": command, "contacts": np.full(len(q), 7.0)}
    names = load_hand().joint_names
    text = write_page(tmp_path / "run.html", shown, 0.1, names, "a <run> & more").read_text()
    assert "<title>a &lt;run&gt; &amp; more</title>" in text and 'name="viewport"' in text
    assert not re.findall(r"(?:src|href)=|https?://|url\(|import\b", text)
    charts = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)[1])
    lines = {s["name"]: (c, s) for c in charts for s in c["series"]}
    assert {
        *names,
        *(f"{name} commanded" for name in names),
        "object",
        "goal",
        "error",
        "solve",
        "candidates",
    } <= set(lines)
    for i, name in enumerate(names):
        chart, line = lines[name]
        np.testing.assert_allclose(line["y"], q[:, i], rtol=1e-4, atol=1e-9)
        assert len(chart["t"]) == len(line["y"]) and lines[f"{name} commanded"][1]["y"][:2] == [None, None]
    np.testing.assert_allclose(lines["solve"][1]["y"], 1.5)


@pytest.mark.slow
@pytest.mark.skipif(browser.PROGRAM is None, reason="no Chromium here (Debian: apt-get install chromium)")
@pytest.mark.parametrize("phone", [False, True])
def test_the_page_draws_in_a_browser(phone, tmp_path, recording):
    page = write_page(
        tmp_path / "run.html", {**recording, "q_command": recording["q"] + 0.01}, 0.1, load_hand().joint_names
    )
    (tmp_path / "profile").mkdir()
    window = browser.Browser(page.as_uri(), tmp_path / "profile", phone=phone)
    try:
        window.wait_for("document.querySelectorAll('canvas').length == 8")
        assert window.evaluate("document.documentElement.scrollWidth <= innerWidth")
        blue = "c => {const g = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;"
        blue += "for (let i = 0; i < g.length; i += 4) n += g[i + 2] > g[i] + 60; return n}"
        drawn = window.evaluate(f"[...document.querySelectorAll('canvas')].map({blue})")
        assert min(drawn) > 50, drawn
        before = window.evaluate("view[1] - view[0]")
        rect = "document.querySelector('canvas').getBoundingClientRect()"
        box = window.evaluate(f"(r => [r.x + 0.4 * r.width, r.x + 0.7 * r.width, r.y + 20])({rect})")
        for kind, x in (("mousePressed", box[0]), ("mouseMoved", box[1]), ("mouseReleased", box[1])):
            window.call("Input.dispatchMouseEvent", type=kind, x=x, y=box[2], button="left", clickCount=1)
        assert 0.2 * before < window.evaluate("view[1] - view[0]") < 0.5 * before
        shown = window.evaluate("document.body.innerText")
        assert re.search(r"object [456]", shown), "the yaw where the pointer is"
    finally:
        window.close()


def test_film_shows_the_turn_in_real_time_or_a_long_run_faster(tmp_path, scene, recording):
    shown = frames(write_film(tmp_path / "a.gif", recording, scene, width=200, height=150))
    assert sum(duration for _, duration in shown) / 1000 == pytest.approx(1.0 + 1 / FPS, abs=0.1)
    first, last = shown[0][0], shown[-1][0]
    assert first.shape == (150, 200, 3)
    centre = np.s_[30:110, 40:130]
    assert np.mean(np.abs(first[centre] - last[centre]).max(axis=2) > 40) > 0.05  # the cube has turned
    near_goal_colour = np.abs(first[centre] - GOAL).max(axis=2) < 60
    assert near_goal_colour.sum() > 30  # the outline of the goal
    slow = {**recording, "t": 40.0 * recording["t"]}
    shown = frames(write_film(tmp_path / "b.gif", slow, scene, width=80, height=60, seconds=2.0))
    assert sum(duration for _, duration in shown) / 1000 == pytest.approx(2.0, abs=0.2)


def test_a_run_without_samples_leaves_its_recording(tmp_path, scene, recording):
    short = {k: v[:1] for k, v in recording.items()}
    assert set(write_run(tmp_path, short, scene)) == {"recording"}
    empty = {
        k: np.zeros(0) for k in recording
    }  # as the console writes them when it is stopped before the first sample
    assert set(write_run(tmp_path, empty, scene)) == {"recording"}


def test_samples_of_a_diverged_plant_and_a_constant_goal_can_be_drawn(tmp_path, scene, recording):
    pose = recording["pose_WO"].copy()
    pose[10:] = np.nan
    broken = {**recording, "pose_WO": pose, "goal_WO": recording["goal_WO"][0]}
    written = write_run(tmp_path, broken, scene)
    assert sum(duration for _, duration in frames(written["film"])) / 1000 == pytest.approx(
        0.18 + 1 / FPS, abs=0.1
    )


def test_missing_arrays_and_unwritable_folders_are_one_sentence(tmp_path, scene, recording):
    with pytest.raises(ConfigError, match="no 'goal_WO'"):
        write_run(tmp_path, {k: v for k, v in recording.items() if k != "goal_WO"}, scene)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write the results folder"):
        write_run(tmp_path / "file", recording, scene)
