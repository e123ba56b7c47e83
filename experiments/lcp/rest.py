"""Checks of the lcp engine on boxes that rest and boxes that tumble, and the one that counts intersections over all checks."""

from __future__ import annotations

import time

import numpy as np
from matplotlib.figure import Figure

from dexstack.engines.lcp import record, scenes
from dexstack.engines.lcp.step import MOST_SUBSTEPS
from experiments.checks import BLUE, GREEN, GREY, PINK, Check
from experiments.lcp.check import SubstepCheck

STEPS = (0.002, 0.01)
"""Time steps [s]."""
TUMBLES = 10
"""Scenes of tumbling boxes per time step."""


def rest(seconds: float = 10.0) -> Check:
    """A box and a stack of five stay where they are."""
    figure = Figure(figsize=(7.5, 3.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    results, lines, passed = {}, [], True
    for ax, count in zip(axes, (1, 5), strict=True):
        for dt, colour in zip(STEPS, (BLUE, PINK), strict=True):
            system = scenes.stack(count, dt=dt)
            check, start, energy, gain = SubstepCheck(system), system.q.copy(), system.energy(), -np.inf
            steps = round(seconds / dt)
            drift, seconds_stepping = np.empty(steps), 0.0
            for k in range(steps):
                begin = time.process_time()
                system.step()
                seconds_stepping += time.process_time() - begin
                check.after_step()
                drift[k] = np.abs(system.q - start).max()
                gain = max(gain, system.energy() - energy)
            c = system.counts
            substeps = c[record.SUBSTEPS] / steps
            name = f"{'box' if count == 1 else f'stack of {count}'}, {1e3 * dt:g} ms"
            good = substeps <= 1.01 and drift.max() <= 1e-9 and gain <= 1e-12 and check.smallest > 0.0
            good = good and not (c[record.UNSOLVED] or c[record.CAPPED] or c[record.OVERLAPS])
            passed = passed and bool(good)
            results[name] = {
                "steps": steps,
                "substeps_per_step": float(substeps),
                "drift_m": float(drift.max()),
                "energy_gain_J": float(gain),
                "step_s": seconds_stepping / steps,
                "warm_starts": int(c[record.WARM]),
                "intersections": {"checked": check.checked, "failed": int(check.smallest <= 0.0), "worst": check.smallest},
            }
            lines.append(
                f"{name}: {substeps:.4f} sub-steps per step, drift {drift.max():.1e} m, energy at most {gain:.1e} J above the start, "
                f"{1e6 * seconds_stepping / steps:.0f} µs per step"
            )
            ax.semilogy(dt * np.arange(1, steps + 1), np.maximum(drift, 1e-18), color=colour, label=f"{1e3 * dt:g} ms")
        ax.set(xlabel="time [s]", title="a box" if count == 1 else f"a stack of {count}")
    axes[0].set_ylabel("largest drift [m]")
    axes[0].legend()
    return Check({"runs": results, "passed": passed}, figure, lines)


def _tumbling(seed: int, dt: float):
    system = scenes.boxes(3, dt=dt)
    rng = np.random.default_rng(seed)
    for i in range(3):
        quat = rng.normal(size=4)
        system.q[7 * i : 7 * i + 7] = 0.0, 0.05 * i, 0.3 + 0.4 * i, *(quat / np.linalg.norm(quat))
    system.v[:] = rng.normal(size=18) * 2
    return system


def tumble(seconds: float = 1.5) -> Check:
    """Three boxes fall on the floor and on each other, from random poses with random spins."""
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    ax = figure.subplots()
    results, lines, passed = {}, [], True
    for dt, colour in zip((*STEPS, 0.005), (BLUE, PINK, GREEN), strict=True):
        capped, most, total, smallest, checked, gain, steps, unsolved = 0, 0, 0, np.inf, 0, 0.0, round(seconds / dt), 0
        for seed in range(TUMBLES):
            system = _tumbling(seed, dt)
            check, energies = SubstepCheck(system), [system.energy()]
            for _ in range(steps):
                before = int(system.counts[record.SUBSTEPS])
                system.step()
                check.after_step()
                most = max(most, int(system.counts[record.SUBSTEPS]) - before)
                energies.append(system.energy())
            c = system.counts
            capped, total, unsolved = capped + int(c[record.CAPPED]), total + int(c[record.SUBSTEPS]), unsolved + int(c[record.UNSOLVED])
            smallest, checked = min(smallest, check.smallest), checked + check.checked
            gain = max(gain, max(energies) - energies[0])
            label = f"{1e3 * dt:g} ms" if seed == 0 else None
            ax.plot(dt * np.arange(steps + 1), energies, color=colour, lw=0.8, alpha=0.5, label=label)
        passed = passed and capped == 0 and unsolved == 0 and smallest > 0.0 and gain <= 1e-9
        results[f"{1e3 * dt:g} ms"] = {
            "steps": TUMBLES * steps,
            "substeps": total,
            "most_substeps": most,
            "capped": capped,
            "unsolved": unsolved,
            "energy_gain_J": gain,
            "intersections": {"checked": checked, "failed": int(smallest <= 0.0), "worst": smallest},
        }
        lines.append(
            f"{1e3 * dt:g} ms: {total} sub-steps in {TUMBLES * steps} steps, at most {most} in one; the cap of {MOST_SUBSTEPS} hit "
            f"{capped} times, smallest distance {smallest:.1e} m, energy at most {gain:.1e} J above the start"
        )
    ax.set(xlabel="time [s]", ylabel="energy [J]", title=f"{TUMBLES} times three tumbling boxes")
    ax.legend()
    return Check({"runs": results, "passed": bool(passed)}, figure, lines)


def _counted(results: dict) -> list[tuple[int, int, float]]:
    """Every ``intersections`` entry of nested results: configurations checked, failed, smallest distance."""
    found = []
    for key, value in results.items():
        if key == "intersections":
            found.append((value["checked"], value["failed"], value["worst"]))
        elif isinstance(value, dict):
            found += _counted(value)
    return found


def intersections() -> Check:
    """Run every check and see what coal says of each sub-step."""
    from experiments.lcp import scenes as lcp

    names = ("balls", "prisms", "cubes", "bounce", "plate", "bowling", "rest", "tumble", "cylinder", "ccd", "palm")
    results, lines, worst = {}, [], []
    for name in names:
        counted = _counted(getattr(lcp, name)().results)
        checked, failed, smallest = sum(c[0] for c in counted), sum(c[1] for c in counted), min(c[2] for c in counted)
        results[name] = {"checked": checked, "failed": failed, "worst": smallest}
        lines.append(f"{name}: {checked} configurations, smallest distance {smallest:.1e} m")
        worst.append(smallest)
    figure = Figure(figsize=(6.5, 3.4), layout="constrained")
    ax = figure.subplots()
    ax.barh(names, np.maximum(worst, 1e-18), color=[GREY if w > 0.0 else PINK for w in worst])
    ax.set(xscale="log", xlabel="smallest distance [m]", title="distances at every sub-step, by coal")
    return Check({"checks": results, "passed": not any(r["failed"] for r in results.values())}, figure, lines)
