"""A rollout whose object is not seen any more ends, as what it is; a robot that is silent may be
switched on again by a person."""

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
    for _ in range(100):  # the controller and the robot say nothing more, the object is seen
        scene.tick(others=False)
        wait_until(
            lambda: scene.node._last.t == pytest.approx(scene.t) or scene.tick(others=False), 30, "the pose"
        )
    assert scene.node._phase == "running"
    wait_until(lambda: scene.node._phase == "lost", 30, "the end")
