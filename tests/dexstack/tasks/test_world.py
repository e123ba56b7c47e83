"""Worlds: true properties of a plant that the controller does not know, and their files."""

import mujoco
import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.model.scene import OBJECT_BODY, robot_scene
from dexstack.plants import make_plant
from dexstack.plants.scene_plant import stiffened
from dexstack.tasks.base import NOMINAL_WORLD, World, apply_world, read_world
from dexstack.trials.sweep import vary

ENGINES = ["mujoco", *(pytest.param(e, marks=pytest.mark.slow) for e in ("hydroelastic", "lcp", "soft"))]


def plant_of(world: World, engine: str):
    scene = make_task(Spec(), read_settings(Spec())).setup(world)
    plant = make_plant(engine, scene.robot, scene.obj)
    plant.reset(scene.rest, scene.start.pose_WO)
    return plant


def speed_after(world: World, torque: float, engine: str = "mujoco") -> float:
    """Return the speed of the first joint under a torque, relative to that without [rad/s]."""
    speeds = []
    for tau in (torque, 0.0):
        plant = plant_of(world, engine)
        for _ in range(10):
            plant.step(tau * np.eye(16)[0])
        speeds.append(plant.joint_velocity[0])
    return speeds[0] - speeds[1]


def test_torque_and_damping_of_a_world_act_on_the_joints():
    full = speed_after(NOMINAL_WORLD, 0.3)
    assert speed_after(World(torque=0.5), 0.6) == pytest.approx(full, rel=1e-6)
    assert speed_after(World(joint_damping=2.0), 0.3) < 0.7 * full


@pytest.mark.parametrize("engine", ENGINES)
def test_dry_friction_holds_a_joint(engine):
    assert abs(speed_after(World(joint_friction=0.2), 0.1, engine)) < 0.02 * speed_after(
        NOMINAL_WORLD, 0.1, engine
    )


def test_a_world_is_read_back(tmp_path):
    path = tmp_path / "world.yaml"
    path.write_text("mass: 1.5  # 1.4 to 1.6\ntorque: 0.8\n")
    assert read_world(path) == World(mass=1.5, torque=0.8)
    path.write_text("{}\n")
    assert read_world(path) == NOMINAL_WORLD


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("masss: 1", "unknown entry of the world .*'masss'"),
        ("mass: heavy", "'mass' must be a number"),
        ("mass: -1", "'mass' of a world must be"),
        ("[1]", "must be a mapping of mass, friction"),
        ("joint_friction: -0.1", "'joint_friction' of a world must be"),
        ("com_y: .nan", "'com_y' .*(finite|number)"),
    ],
)
def test_an_invalid_world_is_rejected(tmp_path, text, says):
    (tmp_path / "world.yaml").write_text(text)
    with pytest.raises(ConfigError, match=says):
        read_world(tmp_path / "world.yaml")


def test_balls_have_no_motors():
    task = make_task(Spec(task="three_ball"), read_settings(Spec(task="three_ball")))
    for world in (World(torque=0.5), World(joint_armature=1e-4)):
        with pytest.raises(ConfigError, match="this task has balls"):
            task.setup(world)
    assert task.setup(World(contact_stiffness=0.5)).obj.contact_stiffness == 0.5


def test_a_sweep_starts_from_the_world_given():
    cells = vary(Spec(world=World(mass=2.0)), ["torque=0.5"])
    assert [c.name for c in cells] == ["the world given", "torque 0.5"]
    assert cells[1].spec.world == World(mass=2.0, torque=0.5)


@pytest.mark.parametrize("task", ["palm_turn", "three_ball"])
@pytest.mark.parametrize("seed", range(3))
def test_the_centre_of_mass_moves_and_nothing_else(task, seed):
    com = np.random.default_rng(seed).uniform(-0.01, 0.01, 3)
    made = make_task(Spec(task=task), read_settings(Spec(task=task)))
    scenes = (
        made.setup(),
        made.setup(World(**dict(zip(("com_x", "com_y", "com_z"), com.tolist(), strict=True)))),
    )
    believed, actual = (robot_scene(scene.robot, scene.obj).compile() for scene in scenes)
    b = believed.body(OBJECT_BODY).id
    np.testing.assert_allclose(actual.body_ipos[b], com, atol=1e-12)
    assert not believed.body_ipos[b].any()
    for name in ("body_mass", "body_inertia", "body_iquat", "geom_friction", "geom_pos", "dof_damping"):
        np.testing.assert_allclose(getattr(actual, name), getattr(believed, name), atol=1e-12, err_msg=name)
    assert scenes[0].start.pose_WO == pytest.approx(scenes[1].start.pose_WO)


@pytest.mark.parametrize(
    "engine", ["mujoco", *(pytest.param(e, marks=pytest.mark.slow) for e in ("hydroelastic", "lcp"))]
)
def test_a_free_object_turns_about_its_centre_of_mass(engine):
    """The centre of mass falls on a parabola, and the origin turns about it."""
    com, spin = np.array([0.01, -0.004, 0.006]), np.array([3.0, -5.0, 8.0])
    plant = plant_of(World(com_x=com[0], com_y=com[1], com_z=com[2]), engine)
    pose_WO, steps = np.array([0.3, 0.3, 0.5, 1.0, 0.0, 0.0, 0.0]), 100
    plant.reset(plant.joint_position, pose_WO, np.concatenate([np.zeros(19), spin]))
    for _ in range(steps):
        plant.step(np.zeros(16))
    t, turned = steps * plant.dt, np.empty(3)
    mujoco.mju_rotVecQuat(turned, com, plant.pose_WO[3:])
    fallen = np.array([0.0, 0.0, -0.5 * 9.81 * t * (t + plant.dt)])  # semi-implicit Euler
    np.testing.assert_allclose(
        plant.pose_WO[:3] + turned, pose_WO[:3] + com + np.cross(spin, com) * t + fallen, atol=1e-3
    )
    assert np.linalg.norm(turned - com) > 5e-3


@pytest.mark.parametrize("engine", ENGINES)
def test_a_large_armature_determines_the_acceleration_of_its_joint(engine):
    heavy, t = 1.0, 0.02  # kg m², a thousand times the links'; s
    assert speed_after(World(joint_armature=heavy), 0.3, engine) == pytest.approx(0.3 * t / heavy, rel=0.01)


def height_at_rest(stiffness: float, engine: str) -> float:
    """Return the height of the cube on the palm after half a second [m]."""
    plant = plant_of(World(contact_stiffness=stiffness), engine)
    for _ in range(250):
        plant.step(np.zeros(16))
    return float(plant.pose_WO[2])


@pytest.mark.parametrize("engine", ENGINES)
def test_an_object_on_softer_contacts_lies_lower_unless_contacts_are_rigid(engine):
    soft, believed = (height_at_rest(s, engine) for s in (0.1, 1.0))
    if engine == "lcp":
        assert soft == believed
    else:
        assert believed - soft > 1e-6
    assert (
        plant_of(World(contact_stiffness=0.1), engine).model.opt.timestep
        == plant_of(NOMINAL_WORLD, engine).model.opt.timestep
    )


def test_a_plant_without_contact_stiffness_rejects_another_one():
    with pytest.raises(ConfigError, match="'stiffened', which a world's 'contact_stiffness' needs"):
        stiffened(
            object(),
            apply_world(make_task(Spec(), read_settings(Spec())).setup().obj, World(contact_stiffness=2.0)),
        )
