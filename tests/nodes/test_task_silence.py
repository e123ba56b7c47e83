"""A rollout whose robot or object is not heard of any more ends, as what it is."""

import pytest
from harness import LOOK, wait_until
from lone_task import lone_task

from dexstack.nodes import task


@pytest.fixture
def scene(domain, probe):
    with lone_task(domain, probe) as made:
        yield made


@pytest.mark.parametrize("who", ["robot", "object"])
def test_a_rollout_ends_where_nobody_speaks(scene, who, monkeypatch):
    wait_until(lambda: scene.tick() or scene.node._robot.heard > 0.0, 30, "the robot")
    for _ in range(20):
        scene.tick()
        wait_until(lambda: scene.node._last.t == pytest.approx(scene.t) or scene.tick(), 30, "the pose")
    assert scene.node._phase == "running"
    monkeypatch.setattr(task, "SILENCE", 20 * LOOK)
    scene.robot_speaks = who != "robot"
    wait_until(lambda: (who == "robot" and scene.tick()) or scene.node._phase == "lost", 30, "the end")


def test_a_robot_that_never_spoke_is_not_missed(domain, probe, monkeypatch):
    with lone_task(domain, probe, robot_speaks=False) as scene:
        monkeypatch.setattr(task, "SILENCE", 0.0)
        scene.node._heard = float("inf")
        scene.node._look_for_silence()
        assert scene.node._phase == "running"
