"""How the engine's kernels are compiled."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {"cache": True, "_nrt": False}
"""Options of ``numba.njit`` for a function that neither makes nor keeps an array. Without ``_nrt=False`` numba counts references to every
array of every tuple wherever the flow of control branches, which took half the time of a contact surface."""
KERNEL: dict[str, Any] = {**PLAIN, "fastmath": {"contract"}}
"""… and one that may fuse a product with a sum."""
