"""The sampling planner: damping in contacts, penetration of noisy poses, and concurrent searches."""

import threading
from dataclasses import replace

import mujoco
import numpy as np
import pytest
import trimesh
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from dexstack.control.base import Pull, SolveStatus
from dexstack.control.params import PlannerParams
from dexstack.control.planners.rollouts import Rollouts, use_box_geoms
from dexstack.geometry.decomposition import Surface
from dexstack.identification.theta import theta_of_world
from dexstack.model.mount import DOWN, inclined
from dexstack.model.objects import load_object
from dexstack.model.scene import robot_scene
from dexstack.tasks.base import World
from tests.dexstack.control.planning import GOAL, SAMPLING, TASK, check_limits, make, seen, settings

DT = 0.01


@pytest.fixture(scope="module")
def rollouts(resting):
    return Rollouts(resting.hand, resting.obj, (np.ones(16), 0.02, 0.3), DT, 1)


def rolled(model, start, targets, steps=1):
    """Return (qpos, qvel) after targets of ``steps`` steps each."""
    d = mujoco.MjData(model)
    d.qpos[:], d.qvel[:] = start
    for target in targets:
        d.ctrl[:] = target
        mujoco.mj_step(model, d, steps)
    return d.qpos.copy(), d.qvel.copy()


def simulated(rollouts, start, targets, dt, integrator):
    """Return (qpos, qvel) after targets of DT each in plain MuJoCo with steps dt."""
    m = rollouts.model.__copy__()
    m.dof_armature[:16] -= DT * (m.dof_damping[:16] + 0.02)
    m.opt.timestep, m.opt.integrator = dt, integrator
    m.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_EULERDAMP)
    return rolled(m, start, targets, round(DT / dt))


def test_without_contact_a_step_is_the_implicit_one(rollouts, resting):
    """(M + hD) Δv = h f, in the mass matrix or in the integrator."""
    rng = np.random.default_rng(0)
    start = rollouts.coordinates(seen(resting)), np.concatenate([rng.normal(size=16), np.zeros(6)])
    start[0][16:19] = 1.0
    targets = resting.q + 0.2 * rng.normal(size=(1, 16))
    (q, v), (q_implicit, v_implicit) = (
        rolled(rollouts.model, start, targets),
        simulated(rollouts, start, targets, DT, mujoco.mjtIntegrator.mjINT_IMPLICITFAST),
    )
    np.testing.assert_allclose(v[:16], v_implicit[:16], atol=1e-3)
    np.testing.assert_allclose(q[:16], q_implicit[:16], atol=1e-5)


def test_fingers_that_strike_the_cube_move_it_as_fine_steps_do(rollouts, resting):
    """Compared with steps of 1/50, and nearer to them than equally long steps whose contacts ignore the
    damping."""
    rng = np.random.default_rng(1)
    off = []
    for _ in range(20):
        start = rollouts.coordinates(seen(resting)), np.zeros(22)
        targets = np.cumsum(0.15 * rng.normal(size=(10, 16)), axis=0) + resting.q
        fine = simulated(rollouts, start, targets, DT / 50, mujoco.mjtIntegrator.mjINT_IMPLICITFAST)[0]
        ours = rolled(rollouts.model, start, targets)[0]
        coarse = simulated(rollouts, start, targets, DT, mujoco.mjtIntegrator.mjINT_IMPLICITFAST)[0]
        off.append([np.linalg.norm(x[16:19] - fine[16:19]) for x in (ours, coarse)])
    ours, coarse = np.sqrt(np.mean(np.square(off), axis=0))
    assert ours < 0.002 and ours < 0.5 * coarse, (ours, coarse)


@pytest.mark.parametrize("gravity", [inclined(20.0, "x"), DOWN])
def test_a_cube_measured_inside_the_palm_is_not_thrown(rollouts, resting, gravity):
    """3 mm deep, it would otherwise leave at more than 0.1 m/s."""
    deep = seen(resting, pose_WO=resting.pose_WO - np.array([0, 0, 0.003, 0, 0, 0, 0]))
    rollouts.model.opt.gravity[:] = gravity
    state = rollouts.state([deep], lambda t: resting.q, 0.0)
    q, pose = rollouts.roll(state, np.tile(resting.q, (1, 20, 1)), 1)
    assert np.ptp(pose[0, :, 2]) < 1e-3 and pose[0, 0, 2] > deep.pose_WO[2] + 0.002
    np.testing.assert_allclose(q[0, 0], resting.q, atol=0.02)


def test_velocities_come_from_past_observations(rollouts, resting):
    """The object's by least squares, the joints' from the last two."""
    v, w, qd = np.array([0.1, -0.2, 0.05]), np.array([0.5, 1.0, -0.7]), np.linspace(-1, 1, 16)
    observations = []
    for k in range(4):
        t = 0.02 * k
        quat = Rotation.from_rotvec(w * t).as_quat(scalar_first=True)
        observations.append(
            seen(resting, t=t, pose_WO=np.concatenate([[0, 0, 0.3] + v * t, quat]), q=resting.q + qd * t)
        )
    np.testing.assert_allclose(rollouts.velocity(observations), np.concatenate([qd, v, w]), atol=1e-6)
    assert not rollouts.velocity(observations[:1]).any()


def test_an_answer_acts_when_it_is_due_and_searches_are_repeatable(resting):
    """The old plan continues until then, and is discarded after a long gap between observations."""
    rows = []
    for _ in range(2):
        planner = make(resting, planner="sampling", horizon=2, sampling_delay=0.04, **SAMPLING)
        for t in (*(0.02 * k for k in range(7)), 5.0):
            rows.append([*planner.plan(seen(resting, t=t), GOAL).q_des, planner.acts_since])
    np.testing.assert_array_equal(rows[:8], rows[8:])
    np.testing.assert_allclose(
        np.array(rows)[:8, -1], [0.0, 0.0, 0.04, 0.04, 0.08, 0.08, 0.12, 5.0], atol=1e-9
    )


def test_in_real_time_a_plan_goes_on_until_a_late_search_is_done(resting, monkeypatch):
    planner = make(
        resting, planner="sampling", horizon=2, sampling_delay=0.04, sampling_wait=False, **SAMPLING
    )
    planner.warm_up()
    planner.plan(seen(resting, t=0.0), GOAL)
    roll, may_end = planner.rollouts.roll_best, threading.Event()
    planner.finish_search()
    monkeypatch.setattr(planner.rollouts, "roll_best", lambda *args: (may_end.wait(10.0), roll(*args))[1])
    planner.plan(seen(resting, t=0.04), GOAL)
    for k in range(3, 9):
        plan = planner.plan(seen(resting, t=0.02 * k), GOAL)
        assert plan.status.usable and planner.acts_since == pytest.approx(0.04, abs=0.02)
    may_end.set()
    planner.finish_search()
    for k in range(2, 100):  # however long searches take on this machine
        planner.plan(seen(resting, t=0.1 * k), GOAL)
    assert planner.acts_since > 0.07


def test_in_real_time_an_answer_acts_at_the_nearest_observation(resting, monkeypatch):
    """Poses come a little before or after their time: one that is 2 ms early still finds the
    answer, one that is 20 ms early does not."""
    planner = make(
        resting, planner="sampling", horizon=2, sampling_delay=0.04, sampling_wait=False, **SAMPLING
    )
    planner.warm_up()
    acting = []
    for t in (0.0, 0.02, 0.038, 0.06, 0.078):
        planner.pace = 0.0  # however long searches take on this machine
        planner.plan(seen(resting, t=t), GOAL)
        planner.finish_search()
        acting.append(planner.acts_since)
    np.testing.assert_allclose(acting, [0.0, 0.0, 0.04, 0.04, 0.078], atol=1e-9)


@pytest.mark.parametrize(
    ("pace", "plans", "acts"),
    [(0.0, 32, 0.06), (1e-3, 32, 0.06), (2e-3, 18, 0.06), (0.01, 8, 0.1), (1.0, 8, 8.02)],
)
def test_in_real_time_a_search_has_as_many_samples_as_finish_in_time(resting, pace, plans, acts):
    """All on a machine that is quick enough; the fewest, and later, on one that is too slow even
    for them."""
    params = {**SAMPLING, "sampling_plans": 32}
    planner = make(resting, planner="sampling", horizon=2, sampling_delay=0.04, sampling_wait=False, **params)
    planner.plan(seen(resting, t=0.0), GOAL)
    planner.finish_search()
    planner.reset()
    planner.pace = pace
    rolled, roll = [], planner.rollouts.roll_best
    planner.rollouts.roll_best = lambda state, targets, *rest: (
        rolled.append(len(targets)),
        roll(state, targets, *rest),
    )[1]
    plan = planner.plan(seen(resting, t=0.02), GOAL)
    assert planner.finish_search() == pytest.approx(acts)
    assert (f"{plans} of 32 plans" in plan.warning) == (plans < 12)
    assert rolled[-1] == plans and np.isfinite(plan.cost)


def test_box_shaped_parts_become_boxes(resting, rollouts):
    """Of the size and at the place of their mesh; other parts do not change."""
    geom, scene = rollouts.model.geom("object"), robot_scene(resting.hand, resting.obj).compile()
    assert geom.type == mujoco.mjtGeom.mjGEOM_BOX and scene.geom("object").type == mujoco.mjtGeom.mjGEOM_MESH
    np.testing.assert_allclose(geom.size, scene.geom("object").size, atol=1e-6)
    np.testing.assert_allclose(
        rollouts.model.geom_pos[geom.id], scene.geom_pos[scene.geom("object").id], atol=1e-6
    )
    np.testing.assert_allclose(rollouts.model.body("object").inertia, scene.body("object").inertia, rtol=1e-6)
    stick = Rollouts(resting.hand, load_object("stick"), (np.ones(16), 0.02, 0.3), DT, 1).model
    assert stick.geom("object").type == mujoco.mjtGeom.mjGEOM_MESH


@pytest.mark.parametrize(("gap", "parts"), [(0.004, 1), (0.02, 2)])
def test_an_object_with_narrow_dents_is_its_hull(resting, gap, parts):
    """Two blocks of 30 mm with a gap between them, of 6 % and of 25 % of their hull."""
    blocks = [trimesh.creation.box((0.03, 0.04, 0.05)) for _ in range(2)]
    for side, block in zip((-1.0, 1.0), blocks, strict=True):
        block.apply_translation((side * (0.03 + gap) / 2.0, 0.0, 0.0))
    both = trimesh.util.concatenate(blocks)
    surface = Surface(np.asarray(both.vertices), np.asarray(both.faces))
    obj = replace(resting.obj, surface=surface)
    assert len(obj.parts) == 2
    model = Rollouts(resting.hand, obj, (np.ones(16), 0.02, 0.3), DT, 1).model
    solid = [g for g in range(model.ngeom) if model.geom(g).name in ("object", "object/part1")]
    assert len(solid) == parts
    low, high = (
        f([model.geom_pos[g] + sign * model.geom_size[g] for g in solid], axis=0)
        for f, sign in ((np.min, -1.0), (np.max, 1.0))
    )
    np.testing.assert_allclose(high - low, both.extents, atol=1e-6)
    assert model.body("object").mass == pytest.approx(obj.mass)


def test_round_parts_have_few_corners(resting):
    """A ball of 2562 corners keeps 256, between which faces lie at most 0.8 mm inside it."""
    ball = trimesh.creation.icosphere(subdivisions=4, radius=0.04)
    obj = replace(resting.obj, surface=Surface(np.asarray(ball.vertices), np.asarray(ball.faces)))
    model = Rollouts(resting.hand, obj, (np.ones(16), 0.02, 0.3), DT, 1).model
    mesh = int(model.geom("object").dataid[0])
    at = int(model.mesh_graphadr[mesh])
    corners = int(model.mesh_graph[at])
    kept = model.mesh_graph[at + 2 + corners : at + 2 + 2 * corners]  # their numbers in the mesh
    hull = ConvexHull(model.mesh_vert[model.mesh_vertadr[mesh] + kept])
    assert corners == 256 and -hull.equations[:, 3].max() > 0.04 - 8e-4


def test_listed_pairs_give_the_contacts_of_a_broad_phase(resting, rollouts):
    """Bit for bit those of a scene whose links do not collide with each other."""
    listed, scene = rollouts.model, robot_scene(resting.hand, resting.obj)
    use_box_geoms(scene, resting.obj)
    scene.option.timestep, scene.option.cone, scene.option.impratio = DT, mujoco.mjtCone.mjCONE_PYRAMIDAL, 1.0
    searched = scene.compile()
    searched.geom_contype[searched.geom_bodyid != searched.body("object").id] = 0
    rng, met = np.random.default_rng(2), 0
    for _ in range(30):
        pose = np.concatenate(
            [
                resting.pose_WO[:3] + rng.normal(0, 0.01, 3),
                Rotation.random(rng=rng).as_quat(scalar_first=True),
            ]
        )
        q = rollouts.coordinates(seen(resting, pose_WO=pose, q=resting.q + 0.3 * rng.normal(size=16)))
        found = []
        for m in (listed, searched):
            d = mujoco.MjData(m)
            d.qpos[:] = q
            mujoco.mj_forward(m, d)
            order = np.lexsort(np.column_stack([d.contact.geom, d.contact.dist]).T)
            found.append(
                [x[order] for x in (d.contact.geom, d.contact.dist, d.contact.friction, d.contact.dim)]
            )
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        met += len(found[0][0])
    assert met > 30


def test_a_smaller_u_max_makes_a_weaker_servo(resting):
    planner = make(resting, planner="sampling", horizon=2, **SAMPLING)
    planner.params = replace(planner.params, u_max=0.05)
    planner.plan(seen(resting, t=0.0), GOAL)
    np.testing.assert_allclose(planner.rollouts.model.actuator_forcerange, np.tile([-0.05, 0.05], (16, 1)))


@pytest.mark.parametrize(("mass", "expected"), [(0.05, 0.2), (0.2, 0.2), (0.3, 0.3), (5.0, None)])
def test_a_heavy_object_is_pushed_harder_up_to_the_effort_limits(resting, mass, expected):
    expected = expected or np.mean(resting.hand.effort)  # at 1 N m/rad
    values = {"planner": "sampling", "horizon": 2, "u_max": 0.2, "sampling_mass": 0.2, **SAMPLING}
    heavy = resting._replace(obj=replace(resting.obj, mass=mass))
    planner = make(heavy, **values)
    planner.plan(seen(heavy, t=0.0), GOAL)
    assert planner.u_max == pytest.approx(expected)
    force = planner.rollouts.model.actuator_forcerange
    np.testing.assert_allclose(force[:, 1], np.minimum(expected, resting.hand.effort), rtol=1e-6)
    np.testing.assert_array_equal(force[:, 0], -force[:, 1])
    any_mass = make(heavy, **values | {"sampling_mass": 1e6})
    assert any_mass.u_max == 0.2


def test_rollouts_follow_a_palm_that_turns(resting):
    planner = make(resting, planner="sampling", horizon=2, **SAMPLING)
    planner.gravity = inclined(90.0)
    plan = planner.plan(seen(resting, t=0.0, pose_WO=np.array([0, 0, 1.0, 1, 0, 0, 0])), GOAL)
    n = 20
    np.testing.assert_allclose(plan.prediction[-1][:3], [9.81 * DT**2 * n * (n + 1) / 2, 0, 1], atol=1e-6)


def test_rollouts_use_a_new_theta_from_the_next_search_on(resting):
    """θ of a world with other mass, friction and motors, against a model of that world."""
    planner = make(resting, planner="sampling", horizon=2, **SAMPLING)
    world = World(mass=2.0, friction=0.5, torque=0.6, joint_damping=1.3)
    params = settings(planner="sampling", horizon=2, **SAMPLING)
    planner.plan(seen(resting, t=0.0), GOAL)
    planner.theta = theta_of_world(TASK, params, world)
    planner.plan(seen(resting, t=0.02), GOAL)
    hand, obj, _ = TASK.setup(world)
    usual = PlannerParams()
    other = Rollouts(hand, obj, (np.full(16, 0.6 * usual.kp), 0.6 * usual.kd, planner.u_max), DT, 1).model
    found = planner.rollouts.model
    for name in (
        "body_mass",
        "body_inertia",
        "actuator_gainprm",
        "actuator_forcerange",
        "dof_armature",
        "dof_invweight0",
    ):
        np.testing.assert_allclose(getattr(found, name), getattr(other, name), rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(found.pair_friction, other.pair_friction, rtol=1e-6)
    np.testing.assert_allclose(
        found.dof_damping[:16] + usual.kd, other.dof_damping[:16] + 0.6 * usual.kd, rtol=1e-5
    )


def test_a_fork_has_its_own_theta(resting):
    planner = make(resting, planner="sampling", horizon=2, **SAMPLING)
    other = planner.fork()
    other.theta = planner.theta._replace(mass=np.float32(1.0))
    other.plan(seen(resting), GOAL)
    assert other.rollouts.model.body("object").mass == 1.0
    assert planner.rollouts.model.body("object").mass == pytest.approx(resting.obj.mass)


@pytest.mark.parametrize(("error", "fine"), [(0.3, True), (0.5, False)])
def test_only_near_the_goal_half_of_the_samples_are_perturbed_finely(resting, monkeypatch, error, fine):
    planner = make(
        resting, planner="sampling", horizon=2, sampling_plans=400, sampling_share=1.0, sampling_fine=0.01
    )
    rolled_out, roll = [], planner.rollouts.roll_best
    monkeypatch.setattr(
        planner.rollouts,
        "roll_best",
        lambda state, targets, *rest: (rolled_out.append(targets), roll(state, targets, *rest))[1],
    )
    turn = Rotation.from_euler("z", error) * Rotation.from_quat(resting.pose_WO[3:], scalar_first=True)
    planner.plan(seen(resting), np.concatenate([resting.pose_WO[:3], turn.as_quat(scalar_first=True)]))
    (targets,) = rolled_out
    away = np.abs(targets[1:, -1] - targets[0, -1]).max(axis=1)
    small = np.mean(away < 0.1 * np.median(away[away > np.quantile(away, 0.75)]))
    assert 0.4 < small < 0.6 if fine else small == 0.0


def test_commands_change_at_most_by_sampling_change(resting):
    """Drawn from side to side, commands change faster without the limit."""
    change = {}
    for share in (0.5, 10.0):
        planner = make(resting, planner="sampling", horizon=2, sampling_change=share, **SAMPLING)
        q_des = []
        for k in range(12):
            pull = Pull(np.full(16, (-1) ** (k // 3) * planner.u_max), 1e4)
            q_des.append(planner.plan(seen(resting, t=0.02 * k), GOAL, pull).q_des)
        change[share] = np.abs(np.diff(q_des, axis=0)).max() / planner.u_max
    assert change[0.5] <= 0.5 + 1e-6 < change[10.0]


def test_worse_rollouts_end_early_and_the_others_are_as_if_rolled_at_once(rollouts, resting, monkeypatch):
    rng = np.random.default_rng(0)
    B, T, every = 12, 10, 4
    targets = resting.q + 0.2 * rng.normal(size=(B, T * every, 16))
    targets[0] += 1.0  # the current plan is the worst
    state = rollouts.state([seen(resting)], lambda _: resting.q, 0.0)
    q_all, pose_all = rollouts.roll(state, targets, every)
    rolled_steps = []
    advance = rollouts._advance
    monkeypatch.setattr(
        rollouts, "_advance", lambda s, t, e: rolled_steps.append(t.shape[:2]) or advance(s, t, e)
    )
    seen_costs = []

    def cost(q, pose_WO):
        seen_costs.append(np.sum((q - resting.q) ** 2, axis=(1, 2)))
        return seen_costs[-1]

    q, pose_WO, costs, whole = rollouts.roll_best(state, targets, every, cost, 2)
    left = np.arange(B)
    for now in seen_costs[:2]:
        half = left[np.argsort(now[left])[: -(-len(left) // 2)]]
        left = np.union1d(half, 0)
    np.testing.assert_array_equal(whole, left)
    assert rolled_steps == [(12, 8), (7, 8), (5, 24)]
    np.testing.assert_allclose(q[whole], q_all[whole], atol=1e-4)
    np.testing.assert_allclose(pose_WO[whole], pose_all[whole], atol=1e-4)
    np.testing.assert_array_equal(costs, seen_costs[-1])
    ended = np.setdiff1d(np.arange(B), whole)
    np.testing.assert_allclose(q[ended, :2], q_all[ended, :2], atol=1e-4)
    np.testing.assert_array_equal(q[ended, 4:], np.repeat(q[ended, 4:5], 6, axis=1))


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_short_horizons_are_rolled_out_as_well(rollouts, resting, steps):
    targets = np.tile(resting.q, (4, 2 * steps, 1))
    state = rollouts.state([seen(resting)], lambda _: resting.q, 0.0)
    q, pose_WO, costs, whole = rollouts.roll_best(state, targets, 2, lambda q, _: np.arange(len(q)), 2)
    np.testing.assert_allclose(q[whole], rollouts.roll(state, targets, 2)[0][whole], atol=1e-6)
    assert pose_WO.shape == (4, steps, 7) and costs[0] == 0.0 and 0 in whole


def test_rollouts_of_the_contact_model_take_the_place_of_mujocos(resting):
    """On one thread or two."""
    found = []
    for threads in (1, 2):
        planner = make(
            resting, planner="sampling", sampling_rollouts="contactsdf", sampling_threads=threads, **SAMPLING
        )
        plan = planner.plan(seen(resting), GOAL)
        assert plan.status == SolveStatus.OK
        check_limits(planner, resting.hand, resting.q, plan)
        found.append(plan.q_des)
    np.testing.assert_allclose(*found, atol=1e-6)
