"""A rollout ends when no pose comes; without commands and joint states it continues."""

import pytest
from harness import LOOK, wait_until
from lone_task import lone_task

from dexstack.nodes import task


@pytest.fixture
def scene(domain, probe):
    with lone_task(domain, probe) as made:
        yield made


def test_a_rollout_ends_where_no_pose_comes(scene, monkeypatch):
    monkeypatch.setattr(task, "SILENCE", 50 * LOOK)
    for _ in range(100):  # poses, but neither commands nor joint states
        scene.tick(others=False)
        wait_until(
            lambda: scene.node.time == pytest.approx(scene.t) or scene.tick(others=False), 30, "the pose"
        )
    assert scene.node.phase == "running"
    wait_until(lambda: scene.node.phase == "lost", 30, "the end")
