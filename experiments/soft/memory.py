"""Temporaries of one evaluation of contact at 4000 × 4000 points: of what is near, dense."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import jax
import mujoco
import numpy as np

from dexengines.soft import cloud
from dexengines.soft.system import Meeting, SoftSystem, Surface
from experiments.harness import Outcome, run
from experiments.soft.speed import temporaries

LESS = 20.0
"""Least ratio of both."""


def measure(points: int = 4000) -> tuple[int, int]:
    """Temporaries of one evaluation of contact [bytes] between two bodies of so many points each:
    of what is near, dense."""
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body name="a"><freejoint/><geom size="0.03" mass="1"/></body>'
        '<body name="b"><freejoint/><geom size="0.03" mass="1"/></body></worldbody></mujoco>'
    )
    ball = cloud.sphere(0.03, 0.03 * np.pi / 2 / np.sqrt(points / 6))
    sizes = []
    for tolerance in (1e-6, None):
        system = SoftSystem(model, [Meeting([Surface("a", "a", ball)], [Surface("b", "b", ball)], tolerance)])
        f = jax.jit(lambda d, q, v, s=system: s.contact(d, s.tree.motion(d.numbers, q, v)).wrench)
        sizes.append(
            temporaries(
                f.lower(system.data, np.asarray(model.qpos0, np.float32), np.zeros(12, np.float32)).compile()
            )
        )
    return sizes[0], sizes[1]


def memory() -> Outcome:
    """Compile both."""
    near, dense = measure()
    results = {
        "near_bytes": near,
        "dense_bytes": dense,
        "ratio": dense / near,
        "asked": LESS,
        "passed": dense >= LESS * near,
    }
    return Outcome(
        results,
        None,
        [f"{near / 1e6:.3f} MB of what is near, {dense / 1e6:.0f} MB dense ({dense / near:.0f}×)"],
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, lambda args: memory(), argv)


if __name__ == "__main__":
    sys.exit(main())
