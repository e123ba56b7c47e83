"""A gripper lifts plates of 20 and 2 mm with 1 and 10 N.

The gripper is two boxes on slides, not the paper's arm with meshes.
"""

from __future__ import annotations

import sys

import numpy as np

from dexengines.lcp.system import LcpSystem
from experiments.harness import Findings, experiment
from experiments.lcp import systems
from experiments.lcp.check import contact_results, sound, watched


def plate() -> Findings:
    """Lift plates of 20 mm and 2 mm."""
    results, lines, passed = {}, [], True
    for thickness in (0.02, 0.002):
        for clamp, again in ((1.0, 1.0), (10.0, 10.0), (10.0, 1.0)):
            system = systems.gripper(thickness)

            def drive(k: int, system: LcpSystem = system, clamp: float = clamp, again: float = again) -> None:
                part = max(k - 20, 0) / 80
                lift = 0.06 * part * part * (3.0 - 2.0 * part)
                system.tau[0] = 0.8 * 8.0 + 400.0 * (lift - system.q[0]) - 40.0 * system.v[0]
                system.tau[1:3] = again if k >= 60 else clamp

            q, _, check = watched(system, 100, drive)
            rise = q[:, 5] - q[0, 5]
            lag = float(np.abs((q[20:, 5] - q[20:, 0]) - (q[20, 5] - q[20, 0])).max())
            turn = float(2.0 * np.linalg.norm(q[20:, 7:10] - q[20, 7:10], axis=1).max())
            held = rise[-1] > 0.04 and lag < 1e-6 and turn < 1e-6
            passed = passed and held and sound(system, check)
            name = f"{1e3 * thickness:g} mm, {clamp:g} then {again:g} N"
            results[name] = {
                "lifted_m": float(rise[-1]),
                "slip_m": lag,
                "turn_rad": turn,
                "held": bool(held),
                **contact_results(system, check),
            }
            lines.append(
                f"{name}: lifted {1e3 * rise[-1]:.1f} mm, slipped {lag:.1e} m, turned {turn:.1e} rad, "
                f"smallest gap {check.smallest:.1e} m"
            )
    return Findings({**results, "passed": bool(passed)}, None, lines)


main = experiment(__spec__.name, __doc__, lambda args: plate())


if __name__ == "__main__":
    sys.exit(main())
