"""The page of a whole graph, and of its bag, in a browser; makes the picture of docs/ros2.md.

``DEXSTACK_PICTURES=docs python -m pytest -m slow tests/dexstack/nodes/test_page_of_a_run.py``
writes ``docs/monitor.png``.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import browser
import pytest
from harness import NODES, wait_until

from tests.acceptance.programs import DEXSTACK, Program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.flaky(reruns=2),  # in real time: a node may wait too short on a busy machine
    pytest.mark.skipif(browser.PROGRAM is None, reason="no Chromium here (Debian: apt-get install chromium)"),
]
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\?token=\S+?(?=[;\s])")


def address(said) -> str:
    return wait_until(lambda: ADDRESS.search(said() + " "), 60, "the page's address")[0]


def keep(picture: bytes) -> None:
    if folder := os.environ.get("DEXSTACK_PICTURES"):
        Path(folder, "monitor.png").write_bytes(picture)


def test_a_run_is_watched_stopped_and_continued_in_another_plant_and_its_bag_is_shown(
    start, probe, domain, tmp_path
):
    bag = tmp_path / "run.mcap"
    run = start("--monitor", "--goal-yaw", "90", "--seconds", "600", "--record", str(bag))
    with contextlib.closing(browser.Browser(address(lambda: run.err), tmp_path / "first")) as window:
        window.wait_for("document.body.innerText.includes('Stop the hand')", 120)
        wait_until(lambda: set(probe.reports) >= set(NODES) and probe.phase() == "reached", 180, "the goal")
        window.dismiss_notes()
        window.check("transparent hand")
        window.wait_for("document.body.innerText.includes('reached')", 30)
        wait_until(lambda: window.colourful() > 200, 60, "the object to be drawn")
        keep(window.screenshot())
        window.click("Stop the hand")
        wait_until(lambda: probe.values("hand").get("enabled") == "False", 30, "the hand to stop")
        window.choose("mujoco", "hydroelastic")
        window.click("Change the plant")
        wait_until(lambda: probe.values("simulator").get("plant") == "hydroelastic", 300, "the other engine")
        window.click("Enable the hand")
        wait_until(lambda: probe.values("hand").get("enabled") == "True", 30, "the hand to be enabled")
    assert run.interrupt() == 0, run.err

    replay = Program([*DEXSTACK, "replay", str(bag), "--loop"], tmp_path / "replay")
    with replay, Program([*DEXSTACK, "monitor", "--no-open"], tmp_path / "monitor") as monitor:
        said = lambda: monitor.out + monitor.err  # noqa: E731
        with contextlib.closing(browser.Browser(address(said), tmp_path / "second", phone=True)) as window:
            window.wait_for("/(running|reached)\\s+time [1-9]/.test(document.body.innerText)", 120)
            viewport = window.evaluate("document.querySelector('meta[name=viewport]').content")
            assert "width=device-width" in viewport
            assert window.evaluate("document.documentElement.scrollWidth <= innerWidth"), "fits the phone"
