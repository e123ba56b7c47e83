"""Identification: a world is recovered from a recording of its plant, undetermined unknowns are named,
unusable recordings are rejected."""

from dataclasses import replace

import numpy as np
import pytest

from dexengines.mujoco import MujocoScene
from dexengines.scene import State
from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.identification import rollouts
from dexstack.identification.fit import identify
from dexstack.identification.rollouts import Predictor, Simulated, applied_targets, in_order, servo_of
from dexstack.identification.unknowns import chosen, first_guess, floors, values, world_and_delay
from dexstack.plants import make_plant
from dexstack.tasks.base import World


def wave(
    task, servo, world: World, seconds: float, delay: float = 0.0, size: float = 0.15, plant: str = "mujoco"
):
    """Record fingers that swing about their rest, with the cube among them; commands act ``delay``
    after their row."""
    believed, actual = task.setup(), task.setup(world)
    plant, law = make_plant(plant, actual.robot, actual.obj), task.servo(believed.robot, servo)
    plant.reset(believed.rest, actual.start.pose_WO)
    law.reset()
    law.enable()
    rng = np.random.default_rng(1)
    rate, phase = rng.uniform(2.0, 8.0, 16), rng.uniform(0.0, 6.0, 16)
    rows, ticks, tau = [], 0, np.zeros(16)
    for k in range(round(seconds / plant.dt)):
        t = k * plant.dt
        if k % 10 == 0:
            swing = believed.rest + size * np.sin(rate * t + phase)
            command = np.clip(swing, believed.robot.lower, believed.robot.upper)
            rows.append((t, plant.pose_WO, plant.joint_position, command))
        if k % 10 == round(delay / plant.dt):
            law.set_command(rows[-1][3], t)
        if t >= ticks * servo.period - 1e-9:
            ticks += 1
            tau = law.step(plant.joint_position, t).tau
        plant.step(tau)
    assert law.trip is None
    columns = map(np.array, zip(*rows, strict=True))
    return dict(zip(("t", "pose_WO", "q", "q_command"), columns, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("truth", "names", "size", "seconds", "errors"),
    [
        (
            {"torque": 0.75, "joint_damping": 1.3, "joint_friction": 0.012, "mass": 1.5, "delay": 0.008},
            (),
            0.15,
            25.0,
            {"torque": 0.015, "joint_damping": 0.039, "joint_friction": 0.0024, "mass": 0.15, "delay": 0.002},
        ),
        (
            {"com_x": -0.006, "com_y": 0.004},
            ("com_x", "com_y", "delay"),
            0.3,
            12.0,
            {"com_x": 2e-3, "com_y": 2e-3},
        ),
        (
            {"joint_armature": 3e-4, "contact_stiffness": 0.4},
            ("joint_armature", "contact_stiffness", "delay"),
            0.3,
            25.0,
            {"joint_armature": 3e-5, "contact_stiffness": 0.12},
        ),
    ],
    ids=["motors, friction and delay", "centre of mass", "armature and stiffness"],
)
def test_a_world_is_recovered(palm, truth, names, size, seconds, errors):
    actual = World(**{name: value for name, value in truth.items() if name != "delay"})
    recording, said = wave(*palm, actual, seconds, truth.get("delay", 0.0), size), []
    fit = identify(*palm, recording, chosen(names), most=60, say=said.append)
    found = dict(zip((u.name for u in fit.unknowns), values(fit.unknowns, fit.x), strict=True))
    for name, error in errors.items():
        assert found[name] == pytest.approx(truth[name], abs=error), name
        assert getattr(fit if name == "delay" else fit.world, name) == found[name]
    assert fit.after < (0.5 if names else 0.2) * fit.before and said
    low, high = fit.interval().T
    assert (low < high).all() and fit.told[0 if names else 2 :].all()


@pytest.mark.slow
def test_a_world_is_recovered_through_rollouts_of_its_own_plant(palm):
    """Fitted rollouts of another plant predict held-out windows worse."""
    plant = "hydroelastic"
    truth, unknowns = World(mass=1.5, friction=0.6), chosen(("mass", "friction", "delay"))
    recording = wave(*palm, truth, 8.0, size=0.3, plant=plant)
    own, other = (
        identify(*palm, recording, unknowns, most=30, plant=Simulated(name)) for name in (plant, "mujoco")
    )
    np.testing.assert_allclose((own.world.mass, own.world.friction), (truth.mass, truth.friction), rtol=0.05)
    assert own.told.all() and own.after < 0.5 * other.after


def test_floors_are_absolute_for_small_quantities_and_relative_for_large_ones():
    """An offset has its floor in metres."""
    unknowns = chosen(("joint_friction", "mass"), ("com_z",))
    at = {u.name: k for k, u in enumerate(unknowns)}
    few, many = (
        np.array([{"joint_friction": np.log(f), "mass": 0.0, "com_z": 0.0}[name] for name in at])
        for f in (1e-3, 1.0)
    )
    assert floors(unknowns, few)[at["joint_friction"]] * 1e-3 == pytest.approx(3e-4, rel=0.01)
    assert floors(unknowns, many)[at["joint_friction"]] == pytest.approx(0.01, rel=0.01)
    np.testing.assert_allclose(floors(unknowns, few)[[at["mass"], at["com_z"]]], [0.01, 5e-4])


def test_a_diverging_rollout_does_not_affect_others(monkeypatch):
    class Thrower(MujocoScene):
        def __init__(self):
            pass

        def rollout(self, state, controls):
            if state.q[0] == 2.0:
                raise FloatingPointError
            return State(np.zeros(4), np.tile(state.q, (4, 1)), np.zeros((4, 1)), np.zeros((4, 0)))

    def together(*given):
        raise FloatingPointError

    monkeypatch.setattr(rollouts, "rollout", together)
    start = State(np.zeros(3), np.array([[1.0], [2.0], [3.0]]), np.zeros((3, 1)), np.zeros((3, 0)))
    q = rollouts.rolled([Thrower(), Thrower()], start, np.zeros((2, 3, 3, 0)))
    np.testing.assert_array_equal(q[:, -1, 0], [1.0, np.nan, 3.0, 1.0, np.nan, 3.0])


def test_models_of_all_worlds_share_their_layout(palm):
    """They run in the same buffers."""
    changes = ({}, {"size": 1.05}, {"com_x": -0.004}, {"com_z": 1e-9}, {"mass": 2.0, "torque": 0.5})
    models = [Predictor(*palm).scene(World(**change)).model for change in changes]
    assert len({(m.nM, m.nC, m.nD, m.nbuffer) for m in models}) == 1


def test_unknowns_that_a_recording_does_not_determine_are_named(palm):
    """At rest neither friction nor delay is observable."""
    fit = identify(*palm, wave(*palm, World(), 4.0, size=0.0), chosen(("friction", "delay")), most=10)
    assert not fit.told.any()
    np.testing.assert_allclose(np.sqrt(np.diag(fit.covariance)), [u.spread for u in fit.unknowns], rtol=0.3)


def test_short_and_incomplete_recordings_are_rejected(palm):
    recording = wave(*palm, World(), 2.0)
    with pytest.raises(ConfigError, match="stretches of 10 samples without interruption; 8 or more"):
        identify(*palm, recording, chosen(()), where="short.npz")
    del recording["q_command"]
    with pytest.raises(ConfigError, match=r"short\.npz has no 'q_command'"):
        identify(*palm, recording, chosen(()), where="short.npz")
    with pytest.raises(ConfigError, match="unknown quantity to identify 'masss'"):
        chosen(("masss",))
    settings = read_settings(Spec(task="three_ball"))
    with pytest.raises(ConfigError, match="only hands can be identified"):
        servo_of(make_task(Spec(task="three_ball"), settings), settings)


def test_a_plant_without_a_scene_is_rejected(palm, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\n\n\n@dataclass\nclass Params:\n    pass\n\n\nclass PLANT:\n    "
        "Params = Params\n"
    )
    with pytest.raises(ConfigError, match="has no make_scene"):
        Predictor(*palm, Simulated(str(file)))


def test_fitted_numbers_map_to_a_world_and_a_delay():
    unknowns = chosen(())
    world, delay = world_and_delay(unknowns, first_guess(unknowns))
    assert world.joint_friction == pytest.approx(0.005) and delay == 0.02
    assert replace(world, joint_friction=0.0) == World()
    assert not {"com_x", "com_y", "com_z", "size"} & {u.name for u in unknowns}
    world, _ = world_and_delay(chosen(("mass",), ("com_x",)), np.array([0.0, -0.004]))
    assert world == World(com_x=-0.004) and len(chosen((), ("com_z", "mass"))) == len(unknowns) + 1
    world, delay = world_and_delay(chosen(("mass",)), np.array([np.log(2.0)]))
    assert world.mass == pytest.approx(2.0) and replace(world, mass=1.0) == World() and delay == 0.02


def test_targets_keep_the_servos_speed_limit(palm):
    t = np.concatenate([np.arange(0.0, 1.0, 0.02), np.arange(0.0, 1.0, 0.02)])
    q = np.where(np.arange(100) % 50 < 25, 0.0, 1.0)[:, None] * np.ones(16)
    recording = in_order({"t": t, "q_command": q})
    assert (np.diff(recording["t"]) > 0.0).all()
    targets = applied_targets(recording, palm[1])
    at = np.interp([0.49, 0.55, 0.7], targets.t, targets.q[:, 0])
    np.testing.assert_allclose(at, (0.0, palm[1].slew_rate * 0.05, 1.0), atol=0.05)


def test_a_command_has_the_time_of_its_stamp_and_counts_once(palm):
    t = np.arange(0.0, 1.0, 0.02)
    asked = np.sin(5.0 * t)[:, None] * np.ones(16)
    rows = np.repeat(np.arange(0, 50, 2), 2)  # each stands in two rows, the second 20 ms late
    recording = in_order({"t": t, "t_command": t[rows], "q_command": asked[rows]})
    targets = applied_targets(recording, palm[1])
    at = np.interp(t[4:48:2] + 0.03, targets.t, targets.q[:, 0])
    np.testing.assert_allclose(at, asked[4:48:2, 0], atol=1e-6)
    assert (np.diff(targets.t) > 0.0).all()
