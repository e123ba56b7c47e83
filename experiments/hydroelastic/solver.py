"""The convex solver's optimality residual on every step of every scene, with both schemes; nothing
is left unsolved in silence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dexengines.hydroelastic.convex import LAG, TOLERANCE
from dexengines.hydroelastic.system import HydroelasticSystem
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object, object_names
from dexstack.plants.hydroelastic import OBJECT_KINDS, HydroelasticPlant, HydroelasticPlantParams
from experiments.harness import BLUE, GREY, PINK, Outcome, run
from experiments.hydroelastic import systems
from experiments.hydroelastic.grip import wave
from experiments.hydroelastic.systems import SCHEMES

THROWN_EVERY, MOVED_EVERY = 1000, 250
"""Steps after which the object is thrown into the hand again, and after which the hand is sent
somewhere else."""


@dataclass(frozen=True)
class Scene:
    """A system, and what makes it take one step."""

    name: str
    system: HydroelasticSystem
    steps: int
    advance: Callable[[int], None]


def _stepped(
    name: str, system: HydroelasticSystem, steps: int, before: Callable[[int], None] = lambda k: None
) -> Scene:
    def advance(k: int) -> None:
        before(k)
        system.step()

    return Scene(name, system, steps, advance)


def all_scenes(scheme: str, seconds: float = 6.0) -> Iterator[Scene]:
    """One after the other: coins, grips, a dumbbell that tumbles and rubs, the hand that moves
    about with what is thrown in."""
    kind, dt = SCHEMES[scheme], 1e-3
    n = round(seconds / dt)
    for ratio in (0.1, 1.0, 10.0):
        coin = systems.coin(dt, kind)
        rim = 1.0 / np.hypot(1.0, ratio)
        coin.data.qvel[:] = ratio * rim, 0, 0, 0, 0, rim / systems.COIN_RADIUS
        yield _stepped(f"coin, ε₀ = {ratio:g}", coin, n // 6)
    bar = systems.gripper(dt, kind, size=0.01)
    yield _stepped("bar, 0 to 16 N", bar, n // 2, lambda k: systems.press(bar, 8.0 - 8.0 * np.cos(0.01 * k)))
    spatula = systems.spatula(dt, kind, size=0.01)
    yield _stepped("spatula, 1 and 16 N", spatula, n, lambda k: systems.press(spatula, wave(k * dt)))
    yield _stepped("dumbbell in a bowl", systems.dumbbell(dt, kind, friction=0.5), n)
    for name in object_names():
        if "allegro" in load_object(name).starts:
            for compliance in OBJECT_KINDS:
                yield _thrown(name, compliance, scheme, n)


def _thrown(name: str, compliance: str, scheme: str, steps: int) -> Scene:
    """An object that falls spinning on the palm, while the hand is sent to random poses."""
    hand, obj, rng = load_hand(), load_object(name), np.random.default_rng(0)
    start = obj.start("allegro")
    pose = hand.pose(start.hand_pose)
    plant = HydroelasticPlant(hand, obj, HydroelasticPlantParams(scheme=scheme, object_kind=compliance))
    target = pose

    def advance(k: int) -> None:
        nonlocal target
        if k % THROWN_EVERY == 0:
            plant.data.qpos[:] = np.concatenate([pose, start.pose_WO])
            plant.data.qpos[18] += 0.03
            plant.data.qvel[:16] = 0.0
            plant.data.qvel[16:] = rng.normal(size=6) * (0.3, 0.3, 0.3, 5.0, 5.0, 5.0)
        if k % MOVED_EVERY == 0:
            target = pose + 0.4 * rng.normal(size=16)
        torque = 2.0 * (target - plant.joint_position) - 0.05 * plant.joint_velocity
        plant.step(np.clip(torque, -hand.effort, hand.effort))

    return Scene(f"hand, {compliance} {name}", plant.system, steps, advance)


def solver(seconds: float = 6.0) -> Outcome:
    """Run every scene with both schemes and look at each step's residual."""
    rows = []
    for scheme in SCHEMES:
        for scene in all_scenes(scheme, seconds):
            residual, newton, faces = (np.empty(scene.steps) for _ in range(3))
            for k in range(scene.steps):
                scene.advance(k)
                system = scene.system
                residual[k], newton[k], faces[k] = system.workspace.info[2], system.iterations, system.faces
            rows.append(
                {
                    "scene": scene.name,
                    "scheme": scheme,
                    "steps": scene.steps,
                    "faces": faces.mean(),
                    "newton_mean": newton.mean(),
                    "newton_max": newton.max(),
                    "worst_residual": residual.max(),
                    "above_tolerance": int((~(residual <= TOLERANCE)).sum()),
                    "unsolved": system.unsolved,
                    "unsettled": system.unsettled,
                }
            )
    above, unsolved, unsettled, steps = (
        sum(r[key] for r in rows) for key in ("above_tolerance", "unsolved", "unsettled", "steps")
    )
    results = {
        "scenes": rows,
        "tolerance": TOLERANCE,
        "steps": steps,
        "passed": bool(above == 0 and unsolved == 0),
    }
    lines = [
        f"{r['scene']}, {r['scheme']}: {r['steps']} steps, {r['faces']:.0f} faces, Newton {r['newton_mean']:.1f} (at most "
        f"{r['newton_max']:.0f}), worst residual {r['worst_residual']:.1e}, {r['unsettled']} unsettled"
        for r in rows
    ]
    lines += [
        f"{steps} steps: residual above {TOLERANCE:g} in {above}, unsolved {unsolved}; "
        f"friction bounds more than {LAG:g} off the normal impulses (lagged) in {unsettled}"
    ]
    return Outcome(results, _draw(rows), lines)


def _draw(rows: list[dict[str, Any]]) -> Figure:
    figure = Figure(figsize=(9.0, 0.22 * len(rows) + 1.5), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    y = np.arange(len(rows))[::-1]
    colours = [PINK if r["scheme"] == "sap" else BLUE for r in rows]
    left.scatter([r["worst_residual"] for r in rows], y, color=colours)
    left.axvline(TOLERANCE, color=GREY, ls="--")
    left.set(xscale="log", xlabel=f"worst residual of a step (limit {TOLERANCE:g})", yticks=y)
    left.set_yticklabels([f"{r['scene']}, {r['scheme']}" for r in rows], fontsize="small")
    right.scatter([r["newton_max"] for r in rows], y, color=colours, marker="|")
    right.scatter([r["newton_mean"] for r in rows], y, color=colours)
    right.set(xscale="log", xlabel="Newton iterations: mean (dot), most (bar)")
    return figure


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, lambda args: solver(), argv)


if __name__ == "__main__":
    sys.exit(main())
