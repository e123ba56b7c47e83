"""Checks of the lcp engine on cylinders, which are exact: they stand, roll as the closed form says,
and tumble."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from dexengines.lcp import record
from dexengines.lcp.rows import TARGET
from dexengines.lcp.system import LcpSystem
from experiments.harness import BLUE, GREEN, PINK, Outcome, run
from experiments.lcp import systems
from experiments.lcp.check import SubstepCheck, sound
from experiments.lcp.rest import STEPS

RADIUS, SLOPE, GRAVITY = 0.1, 0.1, 9.81
LYING = (np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0)
"""Along y."""
TUMBLES = 6
"""Scenes of tumbling cylinders per time step."""


def _stand(dt: float, seconds: float) -> dict:
    system = systems.cylinders(1, RADIUS, dt=dt)
    system.q[2] = 0.1 + TARGET
    start, energy, drift, gain, check = system.q.copy(), system.energy(), 0.0, -np.inf, SubstepCheck(system)
    steps = round(seconds / dt)
    for _ in range(steps):
        system.step()
        check.after_step()
        drift, gain = max(drift, float(np.abs(system.q - start).max())), max(gain, system.energy() - energy)
    substeps = float(system.counts[record.SUBSTEPS] / steps)
    return {
        "steps": steps,
        "substeps_per_step": substeps,
        "drift_m": drift,
        "energy_gain_J": gain,
        "intersections": {
            "checked": check.checked,
            "failed": int(check.smallest <= 0.0),
            "worst": check.smallest,
        },
        "passed": bool(sound(system, check) and substeps <= 1.01 and drift <= 1e-9 and gain <= 1e-12),
    }


def _down(friction: float, dt: float, seconds: float) -> tuple[dict, np.ndarray]:
    """Down a slope, lying across it. Its figures; speeds (steps + 1,)."""
    system = systems.cylinders(1, RADIUS, 0.2, dt=dt, friction=friction, slope=SLOPE)
    normal, down = (
        np.array([np.sin(SLOPE), 0.0, np.cos(SLOPE)]),
        np.array([np.cos(SLOPE), 0.0, -np.sin(SLOPE)]),
    )
    system.q[:3], system.q[3:7] = (RADIUS + TARGET) * normal, LYING
    check, steps = SubstepCheck(system), round(seconds / dt)
    speed, turning = np.zeros(steps + 1), np.zeros(steps + 1)
    for k in range(steps):
        system.step()
        check.after_step()
        speed[k + 1], turning[k + 1] = system.v[:3] @ down, system.v[5]
    lever = RADIUS + 0.5 * TARGET  # contact is midway between the surfaces
    roll = GRAVITY * np.sin(SLOPE) / (1.0 + 0.5 * (RADIUS / lever) ** 2)
    slide = GRAVITY * (np.sin(SLOPE) - friction * np.cos(SLOPE))
    expected = max(roll, slide)
    error = float(np.abs(np.diff(speed) / dt - expected).max())
    slip = float(np.abs(speed - lever * np.abs(turning)).max())
    rolls = roll >= slide
    return {
        "friction": friction,
        "acceleration_m_s2": float((speed[-1] - speed[0]) / (steps * dt)),
        "closed_form_m_s2": float(expected),
        "worst_error_m_s2": error,
        "slip_m_s": slip if rolls else None,
        "intersections": {
            "checked": check.checked,
            "failed": int(check.smallest <= 0.0),
            "worst": check.smallest,
        },
        "passed": bool(sound(system, check) and error <= 1e-9 and (slip <= 1e-9 or not rolls)),
    }, speed


def tumbling_cylinders(seed: int, dt: float) -> LcpSystem:
    """Three cylinders above the floor in random poses with random spins."""
    system = systems.cylinders(3, 0.08, 0.1, dt=dt)
    rng = np.random.default_rng(seed)
    for i in range(3):
        quat = rng.normal(size=4)
        system.q[7 * i : 7 * i + 7] = 0.0, 0.05 * i, 0.3 + 0.4 * i, *(quat / np.linalg.norm(quat))
    system.v[:] = rng.normal(size=18) * 2
    return system


def _tumble(dt: float, seconds: float) -> dict:
    most, total, gain, smallest, checked, clean = 0, 0, -np.inf, np.inf, 0, True
    for seed in range(TUMBLES):
        system = tumbling_cylinders(seed, dt)
        check, start = SubstepCheck(system), system.energy()
        for _ in range(round(seconds / dt)):
            before = int(system.counts[record.SUBSTEPS])
            system.step()
            check.after_step()
            most, gain = (
                max(most, int(system.counts[record.SUBSTEPS]) - before),
                max(gain, system.energy() - start),
            )
        smallest, checked = min(smallest, check.smallest), checked + check.checked
        total, clean = total + int(system.counts[record.SUBSTEPS]), clean and sound(system, check)
    return {
        "steps": TUMBLES * round(seconds / dt),
        "substeps": total,
        "most_substeps": most,
        "energy_gain_J": gain,
        "intersections": {"checked": checked, "failed": int(smallest <= 0.0), "worst": smallest},
        "passed": bool(clean and gain <= 1e-9),
    }


def cylinder(seconds: float = 10.0, tumbling: float = 1.5) -> Outcome:
    """A cylinder stands, rolls and slides down a slope; three tumble."""
    stands = {f"{1e3 * dt:g} ms": _stand(dt, seconds) for dt in STEPS}
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    ax = figure.subplots()
    descents = {}
    for friction, colour in ((0.5, BLUE), (0.02, PINK)):
        name = "rolls" if friction > np.tan(SLOPE) / 3.0 else "slides"
        descents[name], speed = _down(friction, 0.01, min(seconds, 2.0))
        t = 0.01 * np.arange(len(speed))
        ax.plot(t, speed, color=colour, label=f"{name}, μ {friction:g}")
        ax.plot(t, descents[name]["closed_form_m_s2"] * t, ":", color=GREEN)
    ax.set(
        xlabel="time [s]",
        ylabel="speed [m/s]",
        title=f"a cylinder on a slope of {SLOPE:g} rad (dotted: closed form)",
    )
    ax.legend()
    tumbles = {f"{1e3 * dt:g} ms": _tumble(dt, tumbling) for dt in STEPS}
    runs = [*stands.values(), *descents.values(), *tumbles.values()]
    lines = [
        f"stands for {seconds:g} s at {name}: {r['substeps_per_step']:.4f} sub-steps per step, drift {r['drift_m']:.1e} m, energy at most "
        f"{r['energy_gain_J']:.1e} J above the start"
        for name, r in stands.items()
    ]
    for name, r in descents.items():
        slip = "" if r["slip_m_s"] is None else f", slip at most {r['slip_m_s']:.1e} m/s"
        lines.append(f"{name} at {r['closed_form_m_s2']:.4f} m/s² within {r['worst_error_m_s2']:.1e}{slip}")
    lines += [
        f"three tumble at {name}: {r['substeps']} sub-steps in {r['steps']} steps, most {r['most_substeps']}, "
        f"smallest distance {r['intersections']['worst']:.1e} m, energy at most {r['energy_gain_J']:.1e} J above the start"
        for name, r in tumbles.items()
    ]
    passed = all(r["passed"] for r in runs)
    return Outcome({"stands": stands, "slope": descents, "tumbles": tumbles, "passed": passed}, figure, lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, lambda args: cylinder(), argv)


if __name__ == "__main__":
    sys.exit(main())
