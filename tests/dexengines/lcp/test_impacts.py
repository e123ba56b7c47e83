"""Responses to impacts at one instant: momentum, energy, and the cases whose answer is known."""

import mujoco
import numpy as np
import pytest

from dexengines.lcp import record
from dexengines.lcp.shapes import sphere
from dexengines.lcp.system import LcpSystem
from experiments.lcp import systems as scenes
from experiments.lcp.impacts import between_walls, cluster, momenta, responses, row


def _at_once(system):
    """Return velocities and kinetic energy before and after the impacts at the start of a step."""
    system.step()
    impacts = responses(system)
    return *impacts[0][0], *impacts[-1][1]


@pytest.mark.parametrize("moving", (1, 2, 3, 4))
def test_as_many_balls_leave_a_cradle_as_come_in(moving):
    system = row(np.ones(5), 1.0)
    system.v[:moving] = 1.0
    _, before, after, energy = _at_once(system)
    np.testing.assert_allclose(after, [0.0] * (5 - moving) + [1.0] * moving, atol=1e-12)
    assert energy == pytest.approx(before, rel=1e-12) and system.counts[record.PLASTIC_ENDS] == 0


def test_two_balls_that_hit_one_from_both_sides_go_back():
    system = row(np.ones(3), 1.0)
    system.v[:] = 1.0, 0.0, -1.0
    assert _at_once(system)[2] == pytest.approx([-1.0, 0.0, 1.0], abs=1e-12)


@pytest.mark.parametrize("restitution", (0.3, 0.9, 1.0))
def test_rows_of_unequal_balls_keep_momentum_and_gain_no_energy(restitution):
    rng = np.random.default_rng(4)
    for _ in range(20):
        masses = rng.uniform(0.5, 2.0, 5)
        system = row(masses, restitution)
        system.v[:] = np.sort(rng.normal(size=5))[::-1]
        start, before, after, energy = _at_once(system)
        assert masses @ after == pytest.approx(masses @ start, abs=1e-12)
        assert energy <= before * (1.0 + 1e-12) and (
            restitution < 1.0 or energy == pytest.approx(before, rel=1e-12)
        )
        assert np.all(np.diff(after) > -2e-6) and system.counts[record.PLASTIC_ENDS] == 0


def test_a_ball_between_walls_keeps_momentum_and_energy():
    """Several bounces a step; the walls are held by their masses."""
    system = between_walls(7.0)
    start = system.energy()
    for _ in range(20):
        system.step()
    assert system.energy() == pytest.approx(start, rel=1e-12)
    assert momenta(system, system.v) == pytest.approx(7.0, rel=1e-12)
    assert abs(system.v[1]) == pytest.approx(7.0, rel=1e-5) and system.counts[record.IMPACTS] >= 30


@pytest.mark.parametrize("friction", (0.0, 0.6))
def test_balls_that_meet_at_once_keep_momentum_and_gain_no_energy(friction):
    """Four that touch each other, turning; restitution differs from pair to pair."""
    rng, hits = np.random.default_rng(7), 0
    for _ in range(30):
        system = cluster(rng, friction)
        masses, x = system.parameters.mass[1:], system.q.reshape(4, 7)[:, :3].copy()
        start, before, after, energy = _at_once(system)
        start, after = start.reshape(4, 6), after.reshape(4, 6)
        np.testing.assert_allclose(masses @ after[:, :3], masses @ start[:, :3], atol=1e-11)
        spin = [masses @ np.cross(x, y[:, :3]) + 4e-4 * masses @ y[:, 3:] for y in (start, after)]
        np.testing.assert_allclose(spin[1], spin[0], atol=1e-11)
        for (_, a), (_, b) in responses(system):
            assert b <= a * (1.0 + 1e-12)
            hits += 1
        assert energy <= before * (1.0 + 1e-12)
    assert hits >= 30


@pytest.mark.parametrize("restitution", (0.3, 0.8, 1.0))
def test_no_impact_in_a_stack_with_friction_gains_energy(restitution):
    rng, hits = np.random.default_rng(3), 0
    for _ in range(6):
        system = scenes.stack(3, restitution=restitution, friction=0.5, gap=2e-5, dt=0.005)
        system.v[2::6] = -2.0 * rng.uniform(size=3)
        system.v[:] += 0.5 * rng.normal(size=system.v.size)
        for _ in range(20):
            momentum = np.abs(system.v[2::6]).sum()  # of 1 kg each; in flight they lag by half a step
            before = system.energy() + 9.81 * 0.005 * (momentum + 3 * 9.81 * 0.005)
            system.step()
            for (_, a), (_, b) in responses(system):
                assert b <= a * (1.0 + 1e-12)
                hits += 1
            assert system.energy() <= before * (1.0 + 1e-8) + 1e-8
        assert system.counts[record.UNSOLVED] == 0
    assert hits >= 60


def test_a_bouncing_ball_loses_by_the_square_of_its_restitution_until_it_rests():
    """Every bounce above the speed that gravity gives within two steps returns e of it; those below
    give nothing back."""
    system, e = scenes.bouncing_ball(restitution=0.7, gravity=9.81), 0.7
    system.q[0] = 0.6
    energies = []
    for _ in range(400):
        system.step()
        energies += [(a, b) for (_, a), (_, b) in responses(system)]
    assert len(energies) >= 6
    for k, (before, after) in enumerate(energies):
        assert after == pytest.approx(e * e * before, rel=1e-12)
        assert before > 0.5 * (2.0 * 9.81 * 0.01) ** 2
        assert k == 0 or before <= energies[k - 1][1] * (1.0 + 1e-12) + 9.81 * 2e-5
    assert abs(system.v[0]) < 1e-9 and 0.1 < system.q[0] < 0.1 + 2e-5


@pytest.mark.parametrize("friction", (0.0, 0.6))
def test_derivatives_through_passes(friction, check_derivatives):
    rng, names = np.random.default_rng(1), ["a", "b", "c"]
    model = scenes.free_bodies({n: (1.0, (1e-3,) * 3) for n in names}, dt=0.01, gravity=0.0)
    system = LcpSystem(
        model, [sphere(n, n, 0.05, friction=friction, restitution=0.6 + 0.1 * i) for i, n in enumerate(names)]
    )
    q, v = system.q.reshape(3, 7), system.v.reshape(3, 6)
    q[:, 0], q[:, 1], q[:, 3] = 0.13 * np.arange(3), 0.01 * np.arange(3), 1.0
    v[:, 0], v[:, 3:] = (5.0, 0.0, -4.0), rng.normal(size=(3, 3))
    directions = {
        "v": rng.normal(size=18),
        "mass": rng.normal(size=4),
        "restitution": 0.1 * rng.normal(size=3),
    }
    check_derivatives(system, np.zeros((4, 18)), directions)
    assert system.counts[record.IMPACTS] >= 3


@pytest.mark.parametrize("restitution", (0.0, 0.6))
def test_every_move_is_its_velocity_times_its_time(restitution):
    """q⁺ = q ⊕ s u, v⁺ = v + s/h (u − v) with one u for bodies in contact, in whatever substep that
    opens no contact again; for bodies in flight the velocities at impacts and between them are those
    of their times."""
    rng, compared, bent, opened = np.random.default_rng(4), 0, 0, 0
    system = scenes.boxes(3, restitution=restitution)
    quats = rng.normal(size=(3, 4))
    q = system.q.reshape(3, 7)
    q[:, 2], q[:, 3:] = 0.3 + 0.4 * np.arange(3), quats / np.linalg.norm(quats, axis=1, keepdims=True)
    system.v[:] = 6.0 * rng.normal(size=18)
    for _ in range(80):
        system.step()
        tape, rest = system.tape, system.model.opt.timestep
        for k in range(1, tape.size[0]):
            if tape.op[k, 0] != record.MOVE:
                continue
            ended, at = tape.op[k, 6] != record.NONE, tape.q[k - 1].copy()
            s = tape.length[k] if ended else rest
            opened += tape.op[k, 8]
            if s > 1e-6 and not tape.op[k, 8]:
                dt, errors = system.model.opt.timestep, []
                part, first = s / rest, tape.op[k, 13]
                end = 0.5 * first + part if ended else 1.0 if first else 1.0 - 0.5 * dt / rest
                for drift in (1.0 / part, (1.0 if first else 0.5) / end):
                    to = at.copy()
                    u = tape.v[k - 1] + drift * (tape.v[k] - tape.v[k - 1])
                    mujoco.mj_integratePos(system.model, to, u, s)
                    errors.append(np.abs(to - tape.q[k]).reshape(3, 7).max(axis=1))
                np.testing.assert_allclose(np.min(errors, axis=0), 0.0, atol=1e-9)
                compared += 1
                bent += tape.op[k, 10] > 0
            rest -= s
        assert rest == 0.0 or not ended
    assert (
        compared > 80
        and opened < compared / 5
        and (bent > 0 or restitution > 0.0)
        and system.counts[record.OVERLAPS] == 0
    )


def test_a_ball_pressed_by_a_motor_comes_to_rest_without_gravity():
    """The speed that bounces comes from the forces, whichever they are."""
    system, e, force = scenes.bouncing_ball(restitution=0.8), 0.8, 10.0
    system.q[0], speeds = 0.5, []
    for _ in range(300):
        system.tau[0] = -force
        system.step()
        speeds += [-start[0][0] for start, _ in responses(system)]
    assert 6 <= len(speeds) <= np.log(speeds[0] / (2.0 * force * 0.01)) / -np.log(e) + 1.0
    assert abs(system.v[0]) < 1e-9 and 0.1 < system.q[0] < 0.1 + 2e-5


def test_balls_that_collapse_onto_each_other_without_forces_come_to_rest():
    """Three in a row with little restitution hit each other infinitely often in finite time
    (McNamara and Young 1992)."""
    system = row(np.ones(3), 0.05)
    system.q[:] += 0.0, 0.01, 0.03
    system.v[:] = 1.0, 0.0, -1.0
    for _ in range(20):
        system.step()
    assert abs(system.v.sum()) < 1e-12 and np.ptp(system.v) < 1e-4 and system.counts[record.PLASTIC_ENDS] == 0
    assert np.all(np.diff(system.q) > 0.1)


def test_accumulating_impacts_are_refused_by_name():
    """A lossless ball between a wall and an approaching plate: v times gap is constant, bounces
    take ever less time."""
    system = row((1e9, 1.0, 1e9), 1.0)
    system.q[:] += 0.01 * np.arange(3)
    system.v[:] = 1.0, 10.0, 0.0
    with pytest.raises(
        FloatingPointError,
        match=r"does not get past .* s: 'ball0' and 'ball1', 'ball1' and 'ball2' meet ever more often",
    ):
        for _ in range(4):
            system.step()
