"""A pinched spatula under a grip that tightens and loosens: the patch's torque holds it, lets it
turn, and stops it again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import mujoco
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from dexengines.hydroelastic.convex import TOLERANCE
from dexstack.plants.base import Patch
from experiments.harness import BLUE, GREEN, GREY, PINK, Outcome, run
from experiments.hydroelastic import systems
from experiments.hydroelastic.systems import SCHEMES

PERIOD, DUTY, TIGHT, LOOSE = 6.0, 0.75, 16.0, 1.0
"""Square wave of the grip force [s, -, N, N]."""
BRIEF = 0.4
"""For how long the grip of a second run is loose [s], so that it tightens while the spatula
turns."""
CLOSING, STOPPING = 0.3, 0.1
"""After these times the fingers have closed about the spatula, and a grip that tightened has
stopped it [s]."""
STILL, TURNS, FAILS = np.radians([1.0, 5.0, 20.0])
"""A held spatula turns less, a released one more; point contact is seen to fail from the last
on."""


def wave(t: float) -> float:
    """Grip force [N]."""
    return TIGHT if t % PERIOD < DUTY * PERIOD else LOOSE


def brief(t: float) -> float:
    """Grip force [N], once loose for :data:`BRIEF`."""
    return LOOSE if DUTY * PERIOD <= t < DUTY * PERIOD + BRIEF else TIGHT


class Run:
    """The spatula's pitch (n,) [rad] at the end of every step under a grip force, and how the
    engine did."""

    def __init__(
        self, scheme: str, seconds: float, dt: float, size: float, force: Callable[[float], float]
    ) -> None:
        systems.spatula(
            dt, SCHEMES[scheme], size=size
        ).step()  # loads or compiles the kernels, outside what is timed
        self.system = system = systems.spatula(dt, SCHEMES[scheme], size=size)
        n = round(seconds / dt)
        self.pitch, self.slid, self.faces = np.empty(n), np.empty(n), np.empty(n)
        self.patches: dict[float, Patch] = {}
        """On the left finger, by grip force: the last step with that force before it changed for
        the first time."""
        start = time.process_time()
        for k in range(n):
            systems.press(system, force(k * dt))
            system.step()
            self.pitch[k], self.faces[k] = systems.pitch(system.data.qpos[5:9]), system.faces
            self.slid[k] = np.hypot(system.data.qpos[2], system.data.qpos[4])
            if force(k * dt) != force((k + 1) * dt) or k == n - 1:
                self.patches.setdefault(force(k * dt), system.patches()[0])
        self.cpu = time.process_time() - start
        self.pitch = np.unwrap(self.pitch)


def by_points(seconds: float, dt: float) -> tuple[np.ndarray, int]:
    """The same with MuJoCo's own contact: pitch (n,) [rad], and the most points at one time while
    the grip is first tight."""
    model = systems.spatula_spec(dt).compile()
    data = mujoco.MjData(model)
    pitch, points = np.empty(round(seconds / dt)), 0
    for k in range(len(pitch)):
        data.qfrc_applied[:2] = wave(k * dt)
        mujoco.mj_step(model, data)
        pitch[k] = systems.pitch(data.qpos[5:9])
        if k * dt < DUTY * PERIOD:
            points = max(points, data.ncon)
    return np.unwrap(pitch), points


def grip(scheme: str = "lagged", seconds: float = 12.0, dt: float = 1e-3, size: float = 0.01) -> Outcome:
    """A spatula pinched beside its centre of mass holds while the grip is tight, turns while it is
    loose and stops when it tightens.

    It would come to rest in the loose grip, too, once its lever is short enough: a second run
    tightens while it turns.
    """
    wide = Run(scheme, seconds, dt, size, wave)
    release, end = DUTY * PERIOD, DUTY * PERIOD + BRIEF
    short = Run(scheme, end + 1.0, dt, size, brief)
    point, points = by_points(seconds, dt)

    def turned(pitch: np.ndarray, start: float, stop: float) -> float:
        return float(np.ptp(pitch[round(start / dt) : round(stop / dt)]))

    starts = np.arange(0.0, seconds, PERIOD)
    held = [turned(wide.pitch, s + (STOPPING if s else CLOSING), min(s + release, seconds)) for s in starts]
    loose = [
        turned(wide.pitch, s + release, min(s + PERIOD, seconds)) for s in starts if s + release < seconds
    ]
    stopped, went_on = (
        turned(short.pitch, end + STOPPING, end + 1.0),
        turned(wide.pitch, end + STOPPING, end + 1.0),
    )
    failed = turned(point, CLOSING, release)
    residual = max(r.system.worst_residual for r in (wide, short))
    unsolved = wide.system.unsolved + short.system.unsolved
    results = {
        "scheme": scheme,
        "dt_s": dt,
        "turn_while_tight_rad": held,
        "turn_while_loose_rad": loose,
        "turn_after_tightening_rad": stopped,
        "turn_had_it_not_tightened_rad": went_on,
        "slid_m": float(wide.slid.max()),
        "point_contact_turn_while_tight_rad": failed,
        "point_contacts": points,
        "faces": float(wide.faces.mean()),
        "worst_residual": residual,
        "unsolved": unsolved,
        "real_time_factor": seconds / wide.cpu,
        "passed": bool(
            max(held) < STILL
            and min(loose) > TURNS
            and stopped < STILL
            and went_on > TURNS
            and wide.slid.max() < systems.FINGER_AXES[0]
            and failed > FAILS
            and residual <= TOLERANCE
            and unsolved == 0
        ),
    }
    lines = [
        f"pressure field: turns {_degrees(held)} while tight ({TIGHT:g} N), {_degrees(loose)} while loose ({LOOSE:g} N), "
        f"and sags {1e3 * wide.slid.max():.0f} mm in all",
        f"tightened after {BRIEF:g} s, while it turns: {_degrees([stopped])} more; not tightened: {_degrees([went_on])} more",
        f"point contact (MuJoCo, at most {points} points at a time): turns {_degrees([failed])} while tight",
        f"{wide.faces.mean():.0f} faces, real-time factor {seconds / wide.cpu:.1f}, worst residual {residual:.1e}, {unsolved} unsolved",
    ]
    return Outcome(results, _draw(wide, short, point, dt), lines)


def _degrees(angles: list[float]) -> str:
    return " and ".join(f"{x:.0f}°" if x > 1.0 else f"{x:.2f}°" for x in np.degrees(angles))


def _draw(wide: Run, short: Run, point: np.ndarray, dt: float) -> Figure:
    figure = Figure(figsize=(10.0, 5.0), layout="constrained")
    ax = figure.subplot_mosaic(
        [["force", "tight"], ["angle", "tight"], ["angle", "loose"]],
        width_ratios=(2.2, 1),
        height_ratios=(2, 1, 3),
    )
    t = dt * np.arange(1, len(wide.pitch) + 1)
    ax["force"].plot(t, [wave(x - dt) for x in t], color=GREY)
    ax["force"].set_ylabel("grip [N]")
    ax["angle"].plot(t, np.degrees(point), color=PINK, lw=1, label="point contact (MuJoCo)", alpha=0.6)
    ax["angle"].plot(t, np.degrees(wide.pitch), color=BLUE, label="pressure field contact")
    ax["angle"].plot(
        t[: len(short.pitch)],
        np.degrees(short.pitch[: len(t)]),
        color=GREEN,
        ls="--",
        label=f"… tight again after {BRIEF:g} s",
    )
    ax["angle"].set(xlabel="time [s]", ylabel="pitch of the spatula [°]")
    ax["angle"].sharex(ax["force"])
    ax["angle"].legend(loc="upper right")
    for name, force in (("tight", TIGHT), ("loose", LOOSE)):
        if force in wide.patches:
            _draw_patch(ax[name], wide.patches[force], f"patch at {force:g} N")
    return figure


def _draw_patch(ax: Axes, patch: Patch, title: str) -> None:
    corners = 1e3 * patch.vertex_W[:, [0, 2]]
    faces = PolyCollection(
        [corners[i:j] for i, j in zip(patch.start[:-1], patch.start[1:], strict=True)],
        edgecolors="k",
        linewidths=0.3,
    )
    faces.set_array(1e-3 * patch.pressure)
    ax.add_collection(faces)
    ax.figure.colorbar(faces, ax=ax, label="pressure [kPa]")
    ax.set(xlabel="x [mm]", ylabel="z [mm]", title=title, xlim=(-20, 20), ylim=(-20, 20), aspect="equal")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, lambda args: grip(args.scheme), argv, arguments=systems.add_scheme)


if __name__ == "__main__":
    sys.exit(main())
