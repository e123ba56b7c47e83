"""Velocity-level steps: rest, growth of the arrays, rejected input."""

import os
import subprocess
import sys

import mujoco
import numpy as np
import pytest

from dexengines.errors import EngineError
from dexengines.forces import contactless
from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.convex import TOLERANCE
from dexengines.hydroelastic.problem import LAGGED, SAP, SolveStatus
from dexengines.hydroelastic.system import Geometry, HydroelasticSystem
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.plants.base import WatchedPlant
from dexstack.plants.hydroelastic import HydroelasticPlant
from experiments.hydroelastic import systems

SCHEMES = (SAP, LAGGED)


def box_on_ground(scheme: int) -> HydroelasticSystem:
    """A rigid box of 0.2 kg and 60 mm just above compliant ground."""
    spec = mujoco.MjSpec()
    spec.option.timestep = 1e-3
    body = spec.worldbody.add_body(name="box", pos=(0.0, 0.0, 0.03))
    body.add_freejoint()
    body.explicitinertial = True
    body.mass, body.inertia, body.ipos = 0.2, (1.2e-4,) * 3, (0.0, 0.0, 0.0)
    ground = Geometry("ground", "world", shapes.half_space(1e6, depth=0.05), 0.5, 0.01)
    box = Geometry("box", "box", shapes.rigid(shapes.box((0.06, 0.06, 0.06), 1.0)), 0.5)
    return HydroelasticSystem(contactless(spec.compile()), [ground, box], scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_box_comes_to_rest_and_its_weight_is_carried(scheme):
    system = box_on_ground(scheme)
    for _ in range(500):
        assert system.step() == SolveStatus.SOLVED
    (patch,) = system.patches()
    assert (patch.a, patch.b) == ("ground", "box")
    np.testing.assert_allclose(patch.force_W, (0, 0, 0.2 * 9.81), atol=1e-4)
    depth = 0.2 * 9.81 / (0.06**2 * 1e6 / 0.05)
    assert system.data.qpos[2] == pytest.approx(0.03 - depth, abs=1e-7)
    assert np.abs(system.data.qvel).max() < 1e-5
    assert system.worst_residual <= TOLERANCE and system.unsolved == 0


def test_arrays_grow_when_faces_do_not_fit():
    system, other = (systems.gripper(1e-3, size=0.02) for _ in range(2))
    other.reserve(1, 8)
    for _ in range(30):
        for s in (system, other):
            systems.press(s, 10.0)
            s.step()
    assert system.faces > 50
    np.testing.assert_array_equal(system.data.qpos, other.data.qpos)


def test_a_state_that_is_not_finite_is_reported_and_nothing_moves():
    system = box_on_ground(LAGGED)
    system.data.qvel[0] = np.nan
    before = system.data.qpos.copy()
    assert system.step() == SolveStatus.NOT_FINITE
    np.testing.assert_array_equal(system.data.qpos, before)


def test_unsupported_systems_are_rejected():
    spec = systems.gripper_spec(1e-3)
    with pytest.raises(EngineError, match="sits on body 'missing'"):
        HydroelasticSystem(
            contactless(spec.compile()), [Geometry("g", "missing", shapes.half_space(1e6, depth=0.1), 0.5)]
        )
    with pytest.raises(EngineError, match="friction and relaxation time of geometry 'g'"):
        HydroelasticSystem(
            contactless(spec.compile()), [Geometry("g", "bar", shapes.half_space(1e6, depth=0.1), -0.5)]
        )
    spec.add_equality(
        type=mujoco.mjtEq.mjEQ_CONNECT, objtype=mujoco.mjtObj.mjOBJ_BODY, name1="left", name2="right"
    )
    with pytest.raises(EngineError, match="equality constraint"):
        HydroelasticSystem(contactless(spec.compile()), [])


def test_the_plant_reports_trouble_until_it_is_reset():
    hand, obj = load_hand(), load_object("cube")
    start = obj.start("allegro")
    plant = HydroelasticPlant(hand, obj)
    for _ in range(5):
        plant.step(np.zeros(16))
    assert isinstance(plant, WatchedPlant) and plant.trouble() == ""
    plant.scene.system.unsolved = 2
    plant.scene.system.workspace.unsettled[0] = 5
    plant.scene.system.contacts.overrun[0, 1] = 3
    assert (
        "2 steps" in plant.trouble()
        and "in 5 steps friction" in plant.trouble()
        and f"{plant.scene.system.geometries[0].name} (3 steps)" in plant.trouble()
    )
    plant.reset(hand.pose(start.hand_pose), start.pose_WO)
    assert plant.trouble() == ""


@pytest.mark.slow
def test_the_number_of_threads_changes_nothing():
    code = (
        "from experiments.hydroelastic import systems; s = systems.gripper(1e-3, size=0.02); "
        "systems.press(s, 10.0)\n"
        "for _ in range(200): s.step()\n"
        "print(s.data.qpos.tobytes().hex(), s.data.qvel.tobytes().hex())"
    )
    threads = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | dict.fromkeys(threads, n),
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for n in ("1", "2")
    ]
    assert found[0] == found[1] and len(found[0]) > 100
