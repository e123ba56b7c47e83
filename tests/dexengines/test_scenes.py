"""The same scenes in every engine with one threshold each; contact reports; rejected input."""

import mujoco
import numpy as np
import pytest

from dexengines import ENGINES, load
from dexengines.errors import EngineError
from experiments.engines.scenes import SCENES
from experiments.engines.suite import first_state, rollout

COMPILED = ("lcp", "soft")
engines = pytest.mark.parametrize(
    "engine", [pytest.param(e, marks=[pytest.mark.slow] if e in COMPILED else []) for e in ENGINES]
)
RAIL = """<mujoco><option timestep="0.001"/><worldbody><body pos="0 0 1"><joint name="spring" type="slide"
axis="1 0 0" stiffness="100"/>
  <geom size="0.05" mass="1"/></body></worldbody></mujoco>"""

TWO = """<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody>
  <body><joint name="a" type="slide" axis="1 0 0"/><geom size="0.05" mass="1"/></body>
  <body pos="0 1 0"><joint name="b" type="slide" axis="1 0 0"/><geom size="0.05" mass="3"/></body></worldbody>
  <equality><joint joint1="b" joint2="a" polycoef="0.1 -2 0 0 0" solref="0.01 1"/></equality>
  <actuator><motor joint="a"/></actuator></mujoco>"""
RUB = """<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody><body><joint name="rub" type="slide"
axis="1 0 0" frictionloss="2"/>
  <geom size="0.05" mass="1"/></body></worldbody><actuator><motor joint="rub"/></actuator></mujoco>"""


def scene(name: str, engine: str):
    return load(mujoco.MjModel.from_xml_string(SCENES[name].xml), engine)


@engines
@pytest.mark.parametrize("name", ("rest", "slide", "pendulum", "grip"))
def test_a_scene_meets_its_threshold(name, engine):
    found = SCENES[name].judge(rollout(scene(name, engine), SCENES[name]))
    assert found <= SCENES[name].limit


@pytest.mark.parametrize("engine", ("mujoco", "hydroelastic", pytest.param("lcp", marks=pytest.mark.slow)))
def test_stacked_boxes_stay_and_contacts_carry_their_weight(engine):
    made, stack = scene("stack", engine), SCENES["stack"]
    states = rollout(made, stack)
    assert stack.judge(states) <= stack.limit
    contacts = made.contacts(type(states)(*(column[-1] for column in states)))
    borne = {"low": np.zeros(3), "high": np.zeros(3)}
    for c in contacts:
        assert abs(c.gap) < 1e-3 and c.normal_W @ c.force_W >= 0.0
        for body, sign in ((c.body_a, -1.0), (c.body_b, 1.0)):
            if body in borne:
                borne[body] += sign * c.force_W
    for force in borne.values():
        np.testing.assert_allclose(force, (0.0, 0.0, 0.5 * 9.81), atol=0.05 * 0.5 * 9.81)


@engines
def test_a_mass_oscillates_on_a_spring(engine):
    made = load(mujoco.MjModel.from_xml_string(RAIL), engine)
    state = made.reset()._replace(q=np.array([0.1]))
    states = made.rollout(state, np.zeros((628, 0)))
    assert states.q[-1, 0] == pytest.approx(0.1, abs=1e-3)  # one period of 2π √(m/k)
    assert states.q[314, 0] == pytest.approx(-0.1, abs=1e-3)


@engines
def test_a_joint_follows_another(engine):
    """b = 0.1 − 2 a: a force of 13 N on a moves an effective mass of 1 + 2² · 3 kg."""
    made = load(mujoco.MjModel.from_xml_string(TWO), engine)
    states = made.rollout(made.reset()._replace(q=np.array([0.0, 0.1])), np.full((300, 1), 13.0))
    np.testing.assert_allclose(states.v[-1], (0.3, -0.6), rtol=0.02)
    np.testing.assert_allclose(states.q[-1, 1], 0.1 - 2.0 * states.q[-1, 0], atol=1e-3)
    right = load(mujoco.MjModel.from_xml_string(TWO), "mujoco").rollout(
        made.reset()._replace(q=np.array([0.0, 0.0])), np.zeros((100, 1))
    )
    found = made.rollout(made.reset()._replace(q=np.array([0.0, 0.0])), np.zeros((100, 1)))
    np.testing.assert_allclose(
        found.q[[10, 30, 99]], right.q[[10, 30, 99]], atol=2e-3
    )  # 0.1 m apart at first, as soft as MuJoCo's


@engines
def test_the_inertia_of_a_motor_and_a_tendon_acts_on_their_joints(engine):
    """A slide of 1 kg under 10 N, with 8 kg of its motor's, that carries another of 1 kg, tied to
    it by a tendon of 3 kg."""
    xml = """<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody>
      <body><joint name="a" type="slide"/><geom size=".1" mass="1" contype="0" conaffinity="0"/>
      <body><joint name="b" type="slide"/><geom size=".1" mass="1" contype="0" conaffinity="0"/></body>
      </body></worldbody>
      <tendon><fixed name="t" armature="3"><joint joint="a" coef="1"/><joint joint="b" coef="-1"/></fixed>
      </tendon>
      <actuator><motor joint="a" gear="2" armature="2"/></actuator></mujoco>"""
    scene = load(mujoco.MjModel.from_xml_string(xml), engine)
    v = scene.rollout(scene.reset(), np.full((100, 1), 5.0)).v[-1]
    np.testing.assert_allclose(v, 0.1 * np.linalg.solve([[13.0, -2.0], [-2.0, 4.0]], [10.0, 0.0]), rtol=1e-6)


@engines
def test_dry_friction_stops_a_joint_and_holds_it(engine):
    """2 N slow 1 kg down by 2 m/s²; a force of 1.5 N does not move it, one of 3 N by 1 m/s²."""
    made = load(mujoco.MjModel.from_xml_string(RUB), engine)
    states = made.rollout(made.reset()._replace(v=np.array([1.0])), np.zeros((700, 1)))
    np.testing.assert_allclose(states.v[[100, 300, 450], 0], (0.8, 0.4, 0.1), atol=0.01)
    assert states.q[-1, 0] == pytest.approx(0.25, rel=0.02) and abs(states.v[-1, 0]) < 1e-3
    held = made.rollout(made.reset(), np.full((1000, 1), 1.5))
    assert held.q[-1, 0] < 2e-3
    moved = made.rollout(made.reset(), np.full((1000, 1), 3.0))
    assert moved.v[-1, 0] == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("engine", ("mujoco", "hydroelastic"))
def test_a_stored_state_can_be_continued(engine):
    made = scene("grip", engine)
    start = first_state(made, SCENES["grip"])
    ahead = made.rollout(start, np.full((50, 2), 10.0))
    again = made.rollout(start, np.full((50, 2), 10.0))
    np.testing.assert_array_equal(again.q, ahead.q)
    middle = type(ahead)(*(column[25] for column in ahead))
    np.testing.assert_allclose(made.rollout(middle, np.full((25, 2), 10.0)).q[-1], ahead.q[-1], atol=1e-7)


@pytest.mark.parametrize(
    ("engine", "xml", "message"),
    [
        (
            "lcp",
            "<body><joint type='ball'/><geom size='.1'/></body>",
            "lcp engine does not take the feature 'ball joint': 'of body 1'",
        ),
        (
            "soft",
            "<body name='a'><joint name='j'/><geom size='.1'/></body></worldbody><equality>"
            "<joint name='bent' joint1='j' polycoef='0 0 1 0 0'/></equality><worldbody>",
            "soft engine .* 'equality constraint': 'bent'",
        ),
        (
            "soft",
            "<body><joint name='s' type='slide'/><geom size='.1'/></body></worldbody><tendon><fixed "
            "name='rope' limited='true' range='0 1'>"
            "<joint joint='s' coef='1'/></fixed></tendon><worldbody>",
            "soft engine .* 'tendon with a stop': 'rope'",
        ),
        (
            "lcp",
            "<geom name='floor' type='plane' size='1 1 1'/><body><freejoint/><geom name='egg' "
            "type='ellipsoid' size='.1 .1 .2'/></body>",
            "lcp engine does not take the feature 'ellipsoid': 'egg'",
        ),
    ],
)
def test_unsupported_features_are_rejected_by_name(engine, xml, message):
    with pytest.raises(EngineError, match=message):
        load(mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{xml}</worldbody></mujoco>"), engine)


def test_bad_input_is_rejected(tmp_path):
    with pytest.raises(EngineError, match=r"unknown engine 'bullet'.*known: hydroelastic, lcp, mujoco, soft"):
        load(tmp_path / "scene.xml", "bullet")
    with pytest.raises(EngineError, match="there is no model file"):
        load(tmp_path / "scene.xml")
    (tmp_path / "scene.xml").write_text("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>")
    with pytest.raises(EngineError, match=r"scene.xml: MuJoCo says: .*mass"):
        load(tmp_path / "scene.xml")
    model = mujoco.MjModel.from_xml_string(RAIL)
    with pytest.raises(EngineError, match="time step must be positive"):
        load(model, dt=0.0)
    with pytest.raises(EngineError, match="unknown option of the mujoco engine 'scheme'"):
        load(model, scheme="sap")
    made = load(model)
    with pytest.raises(EngineError, match="'q' must be"):
        made.step(made.reset()._replace(q=np.zeros(2)))
    with pytest.raises(EngineError, match="'control' must be 0"):
        made.step(made.reset(), [1.0])
    with pytest.raises(EngineError, match="no keyframe 'home'"):
        made.reset("home")


URDF = """<robot name="r"><link name="base"/><link name="arm">
<inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><mesh filename="package://my_robot/meshes/box.stl"/></geometry></collision></link>
<joint name="j" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint>
</robot>"""


@pytest.mark.parametrize("where", ["my_robot/urdf", "other/urdf", "elsewhere"])
def test_a_urdf_finds_its_meshes_by_package(tmp_path, monkeypatch, where):
    """In its own package, in a neighbour of its package, which has a mesh of the same name, and where
    packages are installed."""
    import trimesh

    share = tmp_path / "install" / "share" if where == "elsewhere" else tmp_path
    for package, size in (("my_robot", 0.1), ("other", 0.3)):
        (share / package / "meshes").mkdir(parents=True)
        trimesh.creation.box((size, size, size)).export(share / package / "meshes" / "box.stl")
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/opt/none:{tmp_path / 'install'}")
    (tmp_path / where).mkdir(parents=True)
    urdf = tmp_path / where / "robot.urdf"
    urdf.write_text(URDF)
    made = load(urdf, dt=0.004)
    assert made.model.nq == 1 and made.dt == 0.004 and made.model.nmesh == 1
    assert made.model.mesh_vert.max() == pytest.approx(0.05)


@engines
def test_a_marker_that_collides_with_nothing_is_taken(engine):
    xml = """<mujoco><worldbody><geom type="plane" size="1 1 0.1"/>
    <body pos="0 0 0.3"><freejoint/><geom type="box" size="0.02 0.02 0.02"/></body>
    <body name="goal" mocap="true" pos="0 0 0.2">
      <geom type="ellipsoid" size="0.02 0.03 0.02" {0}/></body></worldbody></mujoco>"""
    without = 'contype="0" conaffinity="0"'
    made = load(mujoco.MjModel.from_xml_string(xml.format(without)), engine)
    states = made.rollout(made.reset(), np.zeros((100, 0)))
    fall = 0.5 * 9.81 * (100 * made.dt) ** 2  # through the marker, whose top is at 0.22 m
    assert 0.3 - states.q[-1, 2] == pytest.approx(fall, rel=0.03)
    if engine != "mujoco":
        with pytest.raises(EngineError, match="'body moved from outside': 'goal'"):
            load(mujoco.MjModel.from_xml_string(xml.format("")), engine)


def test_names_that_are_repeated_are_said(tmp_path):
    (tmp_path / "robot.urdf").write_text(URDF.replace('name="arm"', 'name="base"'))
    with pytest.raises(EngineError, match=r"robot.urdf has several links named 'base'"):
        load(tmp_path / "robot.urdf")


@engines
def test_a_stiff_servo_is_stable_and_arrives(engine):
    """A position servo of 2 kN m/rad and 200 N m s/rad on 1e-4 kg m² is 4000 times too stiff for an
    explicit step."""
    xml = """<mujoco><option timestep="0.002" gravity="0 0 0" integrator="implicitfast"/><worldbody><body>
    <joint name="j" damping="0.1"/>
      <geom type="box" size="0.02 0.02 0.02" mass="0.3"/></body></worldbody>
      <actuator><position joint="j" kp="2000" kv="200"/></actuator></mujoco>"""
    made = load(mujoco.MjModel.from_xml_string(xml), engine)
    states = made.rollout(made.reset(), np.full((500, 1), 0.3))
    assert states.q[-1, 0] == pytest.approx(0.3, abs=1e-4) and states.q.max() < 0.31
    assert states.q[50, 0] == pytest.approx(
        0.3 * (1.0 - np.exp(-10.0 * 0.1)), abs=0.01
    )  # overdamped: d/k is its time constant
