"""A world as the planner's θ: every factor changes its numbers, and no others."""

from dataclasses import replace

import numpy as np
import pytest

from dexstack.control.params import MpcParams, PlannerParams
from dexstack.control.theta_file import make_theta
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.identification.theta import theta_of_world
from dexstack.tasks.base import World


@pytest.fixture(scope="module")
def believed():
    settings = read_settings(Spec())
    return make_task(Spec(), settings), settings


def same(a, b, *but):
    for name in set(a._fields) - set(but):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def test_theta_of_the_nominal_world_is_the_planners(believed):
    task, settings = believed
    scene = task.setup()
    own = make_theta(scene.robot, scene.obj, settings[PlannerParams], settings[MpcParams].step)
    same(theta_of_world(*believed, World()), own)
    same(theta_of_world(*believed, World(joint_friction=0.02)), own)
    learned = {**settings, PlannerParams: replace(settings[PlannerParams], theta="none of this name")}
    same(theta_of_world(task, learned, World()), own)


def slower(cover):
    """Share of its way that a joint covers with half the torque or twice the damping."""
    return 1.0 - np.sqrt(1.0 - cover)


@pytest.mark.parametrize(
    ("world", "changed"),
    [
        (World(mass=2.0), {"mass": lambda x: 2.0 * x, "inertia": lambda x: 2.0 * x}),
        (World(friction=0.5), {"friction": lambda x: 0.5 * x}),
        (World(torque=0.5), {"stiffness": lambda x: 0.5 * x, "cover": slower}),
        (World(joint_damping=2.0), {"cover": slower}),
        (World(size=1.1), {"inertia": lambda x: x * np.array([1.0] * 3 + [1.21] * 3)}),
    ],
)
def test_every_factor_changes_only_its_numbers(believed, world, changed):
    own, found = theta_of_world(*believed, World()), theta_of_world(*believed, world)
    same(found, own, *changed)
    for name, expected in changed.items():
        np.testing.assert_allclose(getattr(found, name), expected(getattr(own, name)), rtol=1e-5)
