"""Properties of every supervisor: one interface, and a planner whose warm start and held command only its
own plans change."""

import numpy as np
import pytest

from dexstack.control.base import Observation, SolveStatus
from dexstack.control.supervisors.base import PlanningContext
from dexstack.control.supervisors.none import NoSupervisor
from dexstack.errors import ConfigError
from dexstack.geometry.rotations import quaternion_product, yaw_quaternion
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.tasks.controller import make_controller
from tests.dexstack.control.planning import GOAL, TASK, make, seen

RESTLESS = (
    ("stall_window", 0.1),
    ("still_window", 0.1),
    ("patience", 2),
    ("patience_still", 1),
    ("placements", 2),
    ("detour_after", 0.1),
)
"""Every supervisor takes over at once."""


def controller(task, supervisor):
    short = (("horizon", 2), ("iterations", 1), *RESTLESS)
    spec = Spec(task, overrides=(*short, ("supervisor", supervisor)))
    settings = read_settings(spec)
    task = make_task(spec, settings)
    return make_controller(task, task.setup(), settings), task.start()


@pytest.fixture(
    scope="module",
    params=[("palm_turn", "none"), ("palm_turn", "gait"), ("reorient", "detour"), ("three_ball", "regrasp")],
    ids=lambda p: p[1],
)
def supervised(request):
    return controller(*request.param)


@pytest.fixture
def standing(supervised):
    """A controller at the start of a rollout, its observation, and a distant goal."""
    supervised, start = supervised
    supervised.supervisor.reset()
    start, q = start.pose_WO, supervised.supervisor.context.rest
    goal = np.concatenate([start[:3], quaternion_product(yaw_quaternion(1.2), start[3:])])
    return supervised, Observation(0.0, start, q, supervised.detector.detect(start, q)), goal


def test_a_bad_observation_repeats_the_last_command_of_the_planner(standing, monkeypatch):
    """Also where forks have evaluated placements or a release."""
    controller, seen, goal = standing
    supervisor, planner, own, heard = (
        controller.supervisor,
        controller.planner,
        type(controller.planner).plan,
        [],
    )

    def overheard(self, *args, **named):
        plan = own(self, *args, **named)
        if self is planner:
            heard.append(plan)
        return plan

    monkeypatch.setattr(type(planner), "plan", overheard)
    for k in range(8):
        supervisor.plan(seen._replace(t=0.1 * k), goal)
    assert supervisor.stalls > 0 or isinstance(supervisor, NoSupervisor)
    answered, bad = heard[-1], seen._replace(t=0.8, q=np.full_like(seen.q, np.nan))
    held = planner.plan(bad, goal)
    assert held.status == SolveStatus.BAD_INPUT
    np.testing.assert_array_equal(held.q_des, answered.q_des)
    np.testing.assert_array_equal(held.displacements, answered.displacements)
    plan = supervisor.plan(bad, goal)
    assert plan.status == SolveStatus.BAD_INPUT and np.isfinite(plan.q_des).all()


def test_rollouts_repeat_after_a_reset(standing):
    controller, seen, goal = standing
    rows = []
    for _ in range(2):
        controller.supervisor.reset()
        rows.append([controller.supervisor.plan(seen._replace(t=0.1 * k), goal) for k in range(6)])
        assert controller.supervisor.stalls == (not isinstance(controller.supervisor, NoSupervisor))
    for first, second in zip(*rows, strict=True):
        assert first.status == second.status
        np.testing.assert_array_equal(first.q_des, second.q_des)


def test_none_is_the_planner(resting):
    planner = make(resting, horizon=2)
    alone = planner.fork()
    scene = resting.detector, resting.hand, resting.obj, resting.q
    context = PlanningContext(planner, *scene, TASK.orientation_error, TASK.nearest, TASK.released)
    supervisor = NoSupervisor(context)
    for k in range(4):
        plans = supervisor.plan(seen(resting, t=0.1 * k), GOAL), alone.plan(seen(resting, t=0.1 * k), GOAL)
        np.testing.assert_array_equal(plans[0].displacements, plans[1].displacements)
        assert plans[0].status == plans[1].status
    assert supervisor.stalls == 0


def test_regrasp_rejects_a_hand(monkeypatch):
    monkeypatch.setattr("dexstack.control.planners.gauss_newton.Mpc.warm_up", lambda *_: 0.0)
    with pytest.raises(ConfigError, match="'regrasp' works only with balls; use 'gait' or 'none' for a hand"):
        controller("palm_turn", "regrasp")
