"""Parameters of contact detection, importable without JAX."""

from __future__ import annotations

from dataclasses import dataclass

from dexstack.config import param


@dataclass(frozen=True)
class DetectorParams:
    """Parameters of the contact detector."""

    capacity: int = param(12, "number of contact slots, 4 of them reserved for the palm or floor", 6, 36)
    margin: float = param(0.02, "bodies farther apart than this are not in contact [m]", 0.0, 0.1)
    spacing: float = param(0.008, "distance between query points on flat links [m]", 0.001, 0.05)
    outer_links: int = param(
        0, "links of each finger, counted from its tip, that can be in contact; 0: all", 0, 36
    )
    num_planes: int = param(
        96, "support planes of a convex object; each part of another has at most 32", 16, 1024
    )
    sigma: float = param(20000.0, "sharpness of the C-SDF's smooth maximum [1/m]", 100.0, 1e7)
    footprint_tilt: float = param(
        0.05, "metres of distance traded for a metre of spread between palm or floor contacts", 0.0, 1.0
    )
