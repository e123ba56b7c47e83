"""Checks of the lcp engine that involve motion: simulate, judge, draw. Each returns its figures and a picture."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import trimesh
from matplotlib.figure import Figure

from dexstack.engines.lcp import gradient, record, scenes
from dexstack.engines.lcp.shapes import Geometry
from dexstack.engines.lcp.system import LcpSystem
from dexstack.errors import ConfigError
from experiments.checks import BLUE, GREEN, GREY, PINK, Check
from experiments.lcp.ccd import ccd
from experiments.lcp.check import SubstepCheck
from experiments.lcp.cylinder import cylinder
from experiments.lcp.rest import intersections, rest, tumble

__all__ = ["balls", "bounce", "bowling", "ccd", "cubes", "cylinder", "intersections", "palm", "plate", "prisms", "rest", "tumble"]
TARGET = np.array([0.3, 0.2])
NIMBLE_SECONDS = 4.5e-3
"""Nimble 0.10.52 through torch, forward and backward of the same 20 steps, on a machine of the same kind (not in this run)."""

SETTLED = 5.0
"""The start poses put the cube's centre right over the palm's edge: it tips, by the 0.8 mm that a finger's link lies lower [s]."""


def _panel(width: float = 6.5, height: float = 3.8) -> tuple[Figure, object]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _watched(system: LcpSystem, steps: int, drive: Callable[[int], None] | None = None) -> tuple[np.ndarray, np.ndarray, SubstepCheck]:
    """Simulate with every sub-step's distances checked. Configurations (steps + 1, Q), velocities, the check."""
    check = SubstepCheck(system)
    q, v = [system.q.copy()], [system.v.copy()]
    for k in range(steps):
        if drive is not None:
            drive(k)
        system.step()
        check.after_step()
        q.append(system.q.copy())
        v.append(system.v.copy())
    return np.array(q), np.array(v), check


def _contact_results(system: LcpSystem, check: SubstepCheck) -> dict[str, object]:
    return {
        "intersections": {"checked": check.checked, "failed": int(check.smallest <= 0.0), "worst": check.smallest},
        "substeps": int(system.counts[record.SUBSTEPS]),
        "unsolved": int(system.counts[record.UNSOLVED]),
        "capped": int(system.counts[record.CAPPED]),
    }


def _sound(system: LcpSystem, check: SubstepCheck) -> bool:
    c = system.counts
    return check.smallest > 0.0 and not (c[record.UNSOLVED] or c[record.CAPPED] or c[record.OVERLAPS])


def two_balls_in_closed_form(velocity: np.ndarray, duration: float = 0.2) -> np.ndarray:
    """Where the struck ball ends: elastic, frictionless spheres of equal mass in continuous time."""
    start, radius = np.array([-0.4, 0.0]), 0.05
    a, b, c = velocity @ velocity, start @ velocity, start @ start - 4.0 * radius**2
    hit = (-b - np.sqrt(b * b - a * c)) / a
    n = -(start + hit * velocity) / (2.0 * radius)
    return (duration - hit) * (velocity @ n) * n


def _balls_once(system: LcpSystem, velocity: np.ndarray) -> gradient.Rollout:
    system.forget()
    system.q[:], system.v[:] = (-0.4, 0.0, 0.0, 0.0), (*velocity, 0.0, 0.0)
    return gradient.rollout(system, np.zeros((20, 4)))


def _nimble_core(python: Path, velocity: np.ndarray) -> dict[str, float | str]:
    script = Path(__file__).with_name("nimble_peer.py")
    try:
        done = subprocess.run([str(python), str(script), *map(str, velocity)], capture_output=True, text=True, timeout=120)
    except OSError as error:
        raise ConfigError(f"cannot run {python}: {error.strerror}") from None
    if done.returncode:
        raise ConfigError(f"{python} cannot time Nimble: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def balls(tolerance: float = 1e-9, nimble: Path | None = None) -> Check:
    """Aim one ball so that the other ends at the target: Gauss–Newton on the engine's own derivative.

    Args:
        tolerance: distance from the target at which it ends [m].
        nimble: a Python with nimblephysics, to time its compiled part beside.
    """
    system = scenes.two_balls()
    directions = {"v": np.eye(2, 4)}
    velocity, track, misses, iterations = np.array([4.0, -0.1]), [], [], 0
    check = SubstepCheck(system)
    for iterations in range(20):  # noqa: B007
        run = _balls_once(system, velocity)
        check.after_step()
        track.append(run.q)
        misses.append(float(np.linalg.norm(two_balls_in_closed_form(velocity) - TARGET)))
        if misses[-1] <= tolerance:
            break
        J = gradient.directional(system, run, directions)[:, 2:4].T
        velocity = velocity - np.linalg.solve(J, run.q[-1, 2:4] - TARGET)
    seconds = []
    for _ in range(300):
        begin = time.process_time()
        run = _balls_once(system, velocity)
        gradient.directional(system, run, directions)
        seconds.append(time.process_time() - begin)
    ours = float(np.median(seconds))
    mesh = _polygon_balls()
    mesh.v[:2] = velocity
    coarse, _, mesh_check = _watched(mesh, 20)
    mesh_miss = float(np.linalg.norm(coarse[-1, 2:4] - TARGET))
    ratio = NIMBLE_SECONDS / ours
    results = {
        "iterations": iterations,
        "velocity": velocity,
        "position_error_m": misses[-1],
        "position_errors_m": misses,
        "polygon_balls_error_m": mesh_miss,
        **_contact_results(system, check),
        "polygon_balls": _contact_results(mesh, mesh_check),
        "ours_s": ours,
        "peer_s": NIMBLE_SECONDS,
        "ratio": ratio,
        "peer": {"name": "Nimble with torch (measured elsewhere)", "version": "0.10.52"},
        "passed": bool(
            misses[-1] <= tolerance and iterations <= 6 and ratio >= 40.0 and check.smallest > 0.0 and mesh_check.smallest > 0.0
        ),
    }
    if nimble is not None:
        results["peer_core"] = _nimble_core(nimble, velocity)
    figure, ax = _panel()
    for q, alpha, label in ((track[0], 0.35, "first guess"), (track[-1], 1.0, "solution")):
        ax.plot(q[:, 0], q[:, 1], "o-", ms=3, color=BLUE, alpha=alpha, label=f"struck by, {label}")
        ax.plot(q[:, 2], q[:, 3], "o-", ms=3, color=PINK, alpha=alpha, label=f"struck, {label}")
    ax.plot(*TARGET, "*", ms=14, color=GREEN, label="target")
    ax.set(aspect="equal", xlabel="x [m]", ylabel="y [m]", title=f"{misses[-1]:.1e} m from the target after {iterations} iterations")
    ax.legend(fontsize=8)
    lines = [
        f"start velocity ({velocity[0]:.7f}, {velocity[1]:.7f}) m/s after {iterations} Gauss–Newton iterations; the struck ball ends "
        f"{misses[-1]:.1e} m from the target in continuous time",
        f"the same with balls of 320 triangles: {mesh_miss:.1e} m",
        f"20 steps forward and backward: {1e6 * ours:.0f} µs, Nimble with torch {1e3 * NIMBLE_SECONDS:.1f} ms (measured elsewhere): "
        f"{ratio:.0f} times",
    ]
    if nimble is not None:
        core = results["peer_core"]["seconds"]
        lines.append(f"Nimble's compiled part alone, in this run: {1e6 * core:.0f} µs, {core / ours:.1f} times ours")
    return Check(results, figure, lines)


def _polygon_balls() -> LcpSystem:
    system = scenes.two_balls()
    points = np.asarray(trimesh.creation.icosphere(2, radius=0.05).vertices)
    polygons = [Geometry(g.name, g.body, points, friction=0.0, restitution=1.0) for g in system.geometries]
    return LcpSystem(system.model, polygons)


def prisms(steps: int = 150) -> Check:
    """Prisms of 3 to 8 sides slide to rest."""
    figure, ax = _panel()
    worst, rows, sound, smallest, checked = 0.0, [], True, np.inf, 0
    for sides in range(3, 9):
        for heading, directions in ((0.0, 2), (0.4, 2), (0.4, 3)):
            system = scenes.sliding_prism(sides, heading, directions=directions)
            _, v, check = _watched(system, steps)
            speed = np.linalg.norm(v[:, :2], axis=1)
            change = np.diff(speed)[speed[1:] > 0.0144]
            error = float(np.abs(change + 0.0144).max())
            worst, sound = max(worst, error), sound and _sound(system, check)
            smallest, checked = min(smallest, check.smallest), checked + check.checked
            rows.append({"sides": sides, "heading_rad": heading, "directions": directions, "error": error})
            if heading == 0.0:
                ax.plot(0.01 * np.arange(steps + 1), speed, color=BLUE, alpha=0.2 + 0.1 * (sides - 3), label=f"{sides} sides")
    results = {
        "worst_error_m_s": worst,
        "runs": rows,
        "intersections": {"checked": checked, "failed": int(smallest <= 0.0), "worst": smallest},
        "passed": bool(worst <= 1e-9 and sound),
    }
    ax.set(xlabel="time [s]", ylabel="speed [m/s]", title="prisms slide to rest, μ 0.16, g 9")
    ax.legend(fontsize=8)
    lines = [f"3 … 8 sides, along an axis and across, 4 and 6 sides of the friction polygon: 0.0144 m/s per step within {worst:.1e}"]
    return Check(results, figure, lines)


def cubes(steps: int = 150) -> Check:
    """A cube slides into another; both come to rest."""
    system = scenes.two_cubes()
    _, v, check = _watched(system, steps)
    speed = v[:, [0, 6]]
    total = speed.sum(axis=1)
    hit = int(np.argmax(speed[:, 1] > 1e-3))
    sliding = np.diff(total)
    before = np.abs(sliding[: hit - 1] + 0.0144).max()
    both = (speed[1:] > 0.0145).all(axis=1) & (np.arange(1, steps + 1) > hit + 1)
    after = np.abs(sliding[both] + 0.0288).max(initial=0.0 if both.any() else np.inf)
    rest = float(np.abs(v[-1]).max())
    impulse = float(abs(sliding[hit - 1] + 0.0144))
    results = {
        "hit_step": hit,
        "friction_error_before": float(before),
        "friction_error_after": float(after),
        "momentum_error_at_impact": impulse,
        "speed_at_end": rest,
        **_contact_results(system, check),
        "passed": bool(before <= 1e-9 and after <= 1e-9 and rest < 1e-9 and impulse <= 0.0145 and _sound(system, check)),
    }
    figure, ax = _panel()
    t = 0.01 * np.arange(steps + 1)
    ax.plot(t, speed[:, 0], color=GREY, label="first cube")
    ax.plot(t, speed[:, 1], color=BLUE, label="second cube")
    ax.set(xlabel="time [s]", ylabel="speed [m/s]", title="a cube hits a cube at 0.5 m")
    ax.legend()
    lines = [
        f"deceleration within {before:.1e} m/s per step before the impact, {after:.1e} after it; at rest at the end within {rest:.1e} m/s",
        f"sum of speeds over the step of the impact: {impulse:.1e} m/s besides one cube's friction; smallest gap {check.smallest:.1e} m",
    ]
    return Check(results, figure, lines)


def bounce() -> Check:
    """The paper's figure 2: how the height after an elastic bounce follows the height before it."""
    system = scenes.bouncing_ball()
    heights, ends, slopes, check = np.linspace(0.1005, 0.1195, 39), [], [], SubstepCheck(system)
    for y in heights:
        system.forget()
        system.q[0], system.v[0] = y, -1.0
        run = gradient.rollout(system, np.zeros((2, 1)))
        check.after_step()
        ends.append(run.q[-1, 0])
        slopes.append(gradient.jacobian(system, run, ("q",))["q"][0, 0])
    error = float(np.abs(np.array(slopes) + 1.0).max())
    exact = float(np.abs(np.array(ends) - (0.2 + 0.02 - heights)).max())
    passed = error <= 1e-9 and exact <= 1e-9 and check.smallest > 0.0
    results = {"slope_error": error, "height_error_m": exact, **_contact_results(system, check), "passed": bool(passed)}
    figure, ax = _panel()
    ax.plot(heights, ends, color=BLUE)
    ax.set(xlabel="height at the start [m]", ylabel="height after two steps [m]", title="∂y₂/∂y₀ = −1 through an impact")
    return Check(results, figure, [f"∂y₂/∂y₀ = −1 within {error:.1e} at {len(heights)} heights; y₂ itself within {exact:.1e} m"])


def bowling(steps: int = 100) -> Check:
    """A ball at 10 m/s into ten pins."""
    system = scenes.bowling()
    energy = [system.energy()]
    q, _, check = _watched(system, steps, lambda k: energy.append(system.energy()))
    energy.append(system.energy())
    pins = q[-1, 7:].reshape(10, 7)
    fallen = int(np.sum(1.0 - 2.0 * (pins[:, 4] ** 2 + pins[:, 5] ** 2) < np.cos(np.radians(45.0))))
    gain = float(np.max(np.array(energy) - np.minimum.accumulate(energy)) / energy[0])
    results = {
        **_contact_results(system, check),
        "fallen": fallen,
        "energy_gain": gain,
        "energy_left": energy[-1] / energy[0],
        "passed": bool(_sound(system, check) and fallen > 0 and max(energy) <= energy[0] * (1.0 + 1e-9)),
    }
    figure, ax = _panel(7.5, 3.6)
    ax.plot(q[:, 0], q[:, 1], "-", color=PINK, label="ball")
    for i in range(10):
        ax.plot(q[:, 7 * (i + 1)], q[:, 7 * (i + 1) + 1], "-", color=BLUE, lw=1, label="pins" if i == 0 else None)
        ax.plot(*q[0, 7 * (i + 1) : 7 * (i + 1) + 2], "o", color=GREY, ms=4)
    ax.set(
        aspect="equal",
        xlabel="x [m]",
        ylabel="y [m]",
        title=f"{fallen} of 10 pins fallen after {0.01 * steps:g} s; smallest gap {check.smallest:.1e} m",
    )
    ax.legend(fontsize=8)
    lines = [
        f"{fallen} pins fall; {check.checked} configurations checked, smallest distance {check.smallest:.1e} m",
        f"energy: {100 * energy[-1] / energy[0]:.1f} % left, never above the start; largest rise within the run {100 * gain:.2g} %",
    ]
    return Check(results, figure, lines)


def plate() -> Check:
    """A gripper lifts a plate, 20 mm and 2 mm thick."""
    figure = Figure(figsize=(7.5, 3.6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    results, lines, passed = {}, [], True
    for ax, thickness in zip(axes, (0.02, 0.002), strict=True):
        for clamp, again in ((1.0, 1.0), (10.0, 10.0), (10.0, 1.0)):
            system = scenes.gripper(thickness)

            def drive(k: int, system: LcpSystem = system, clamp: float = clamp, again: float = again) -> None:
                part = max(k - 20, 0) / 80
                lift = 0.06 * part * part * (3.0 - 2.0 * part)
                system.tau[0] = 0.8 * 8.0 + 400.0 * (lift - system.q[0]) - 40.0 * system.v[0]
                system.tau[1:3] = again if k >= 60 else clamp

            q, _, check = _watched(system, 100, drive)
            rise = q[:, 5] - q[0, 5]
            lag = float(np.abs((q[20:, 5] - q[20:, 0]) - (q[20, 5] - q[20, 0])).max())
            turn = float(2.0 * np.linalg.norm(q[20:, 7:10] - q[20, 7:10], axis=1).max())
            held = rise[-1] > 0.04 and lag < 1e-6 and turn < 1e-6
            passed = passed and held and _sound(system, check)
            name = f"{1e3 * thickness:g} mm, {clamp:g} then {again:g} N"
            results[name] = {
                "lifted_m": float(rise[-1]),
                "slip_m": lag,
                "turn_rad": turn,
                "held": bool(held),
                **_contact_results(system, check),
            }
            lines.append(
                f"{name}: lifted {1e3 * rise[-1]:.1f} mm, slipped {lag:.1e} m, turned {turn:.1e} rad, smallest gap {check.smallest:.1e} m"
            )
            ax.plot(0.01 * np.arange(101), 1e3 * rise, label=f"{clamp:g} N then {again:g} N")
        ax.set(xlabel="time [s]", title=f"plate of {1e3 * thickness:g} mm")
    axes[0].set_ylabel("height of the plate [mm]")
    axes[0].legend(fontsize=8)
    return Check({**results, "passed": bool(passed)}, figure, lines)


def palm(seconds: float = 60.0, name: str = "cube") -> Check:
    """The hand holds its pose under its servo, an object rests on the palm."""
    from dexstack.engines.lcp.plant import LcpPlant
    from dexstack.model.gravity import GravityCompensation
    from dexstack.model.hand import load_hand
    from dexstack.model.objects import load_object

    hand, obj = load_hand(), load_object(name)
    gravity, start = GravityCompensation(hand), obj.start("allegro")
    pose = hand.pose(start.hand_pose)
    plant = LcpPlant(hand, obj)
    plant.step(np.zeros(16))  # loads or compiles the kernels, outside what is timed
    plant.reset(pose, start.pose_WO)
    check = SubstepCheck(plant.system)
    n = round(seconds / plant.dt)
    track, stepping = np.empty((n, 3)), 0.0
    for k in range(n):
        q = plant.joint_position
        torque = np.clip(1.0 * (pose - q) + gravity(q), -hand.effort, hand.effort)
        begin = time.process_time()
        plant.step(torque)
        stepping += time.process_time() - begin
        check.after_step()
        track[k] = plant.pose_WO[:3]
    settled = track[min(round(SETTLED / plant.dt), n - 1)]
    drift = float(np.linalg.norm(track[-1] - settled))
    factor = seconds / stepping
    results = {
        "object": name,
        "seconds": seconds,
        "real_time_factor": factor,
        "drift_m": drift,
        **_contact_results(plant.system, check),
        "worst_residual": float(plant.system.extremes[record.RESIDUAL]),
        "passed": bool(drift < 1e-6 and factor >= 1.0 and _sound(plant.system, check)),
    }
    figure, ax = _panel()
    t = plant.dt * np.arange(n)
    for i, colour in enumerate((BLUE, PINK, GREEN)):
        ax.plot(t[::10], 1e3 * (track[::10, i] - settled[i]), color=colour, label="xyz"[i])
    ax.set(xlabel="time [s]", ylabel=f"motion since {SETTLED:g} s [mm]", title=f"{name} on the palm: real-time factor {factor:.1f}")
    ax.legend()
    lines = [
        f"{name} on the palm, {seconds:g} s: moves {drift:.1e} m after the first {SETTLED:g} s, real-time factor {factor:.1f}, "
        f"{plant.system.counts[record.SUBSTEPS] / (n or 1):.3f} sub-steps per step",
        f"smallest distance {check.smallest:.1e} m in {check.checked} configurations checked",
    ]
    return Check(results, figure, lines)
