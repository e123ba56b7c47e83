"""Arrays that the kernels of rollouts take, and their constants.

Numba widens a product of a ``float32`` with a Python number, so all constants are ``float32``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

ZERO, ONE, TWO, FAR = np.float32(0), np.float32(1), np.float32(2), np.float32(1e30)
NEGLIGIBLE = np.float32(17.0)
"""Exponent below which a term e^−x of a smooth maximum is below single precision."""
BLOCK = 16
"""Support planes come in multiples of this."""
PER_LINK = 2
"""Largest number of contacts of one link, as of the detector."""
SUPPORTS = 4
"""Largest number of contacts with the base, as of the detector."""
OPTIONS = {"fastmath": True, "_nrt": False}
"""Options of the kernels."""


class Limbs(NamedTuple):
    """A robot of H hinges or slides; body h + 1 is moved by hinge h, body 0 is the base."""

    slides: np.ndarray
    """(H,) 1 for a slide, 0 for a hinge."""
    parent: np.ndarray
    """(H,) body on which hinge h is."""
    turn: np.ndarray
    """(H, 3, 3, 3) constant, cosine and sine part of the rotation from its parent."""
    offset: np.ndarray
    """(H, 3) origin in its parent [m]."""
    axis: np.ndarray
    """(H, 3) unit axis in the body's frame."""
    joint: np.ndarray
    """(H,) joint that drives hinge h, which is ``ratio`` times it plus ``shift``."""
    ratio: np.ndarray
    shift: np.ndarray
    base: np.ndarray
    """(4, 3) orientation of the base in the world (3, 3), and position."""
    chain: np.ndarray
    """(H + 1,) chain of each body."""
    first: np.ndarray
    """(F + 1,) first joint of each chain, and N."""
    ancestors: np.ndarray
    """(H + 1, A) hinges that move each body, ended by −1."""
    limits: np.ndarray
    """(2, N) lower and upper."""
    begin: np.ndarray
    """(H + 2,) first query point of each body."""
    points: np.ndarray
    """(4, Q) centres of query spheres in their bodies, and radii [m]."""
    ball: np.ndarray
    """(H + 1, 5) sphere around each body's query centres: centre and radius, and the largest query
    radius [m]."""
    boxes: np.ndarray
    """(X, 5, 3) boxes of the base in the world: orientation (3, 3), centre, half sizes [m]."""
    friction: np.ndarray
    """(H + 1,) factor on the friction of θ at contacts with each body."""
    plane: np.ndarray
    """(4,) plane of the base in the world, normal and offset; used without boxes."""


class Bodies(NamedTuple):
    """O objects, each of P convex parts with K support planes n·x + b ≤ 0 and F points that may touch
    the base."""

    normals: np.ndarray
    """(O, P, 3, K)"""
    offsets: np.ndarray
    """(O, P, K) [m]"""
    feet: np.ndarray
    """(O, F, 3) [m]"""


class Physics(NamedTuple):
    """Numbers of B plans."""

    Q: np.ndarray
    """(B, 6 + N) diagonal of the step problem."""
    pull: np.ndarray
    """(B, N) stiffness of the joints."""
    weight: np.ndarray
    """(B, 3) gravity on the object in the world [N]."""
    friction: np.ndarray
    """(B,)"""
    body: np.ndarray
    """(B,) object."""


class Numbers(NamedTuple):
    """Scalars."""

    u_max: Any
    margin: Any
    sigma: Any
    tilt: Any
    stiffness: Any
    smoothing: Any
    momentum: Any


class Room(NamedTuple):
    """Memory of one plan."""

    R: np.ndarray
    p: np.ndarray
    axis: np.ndarray
    planes: np.ndarray
    """(6, K) a selection of planes, values of planes, and the largest of each block."""
    at: np.ndarray
    """(4, Qmax) points in the object's frame, and their largest plane of the parts so far."""
    peak: np.ndarray
    """(Qmax,)"""
    near: np.ndarray
    """(candidates, 7) distance, point, normal."""
    near_body: np.ndarray
    order: np.ndarray
    feet: np.ndarray
    """(F, 5) points in the world, distance, and distance from those chosen."""
    phi: np.ndarray
    link: np.ndarray
    friction: np.ndarray
    J_object: np.ndarray
    """(C, 3, 6) relative velocity at the contacts along normal and tangents, by the object's."""
    J_chain: np.ndarray
    """(C, 3, M) the same by the joints of the contact's chain."""
    H_object: np.ndarray
    H_chain: np.ndarray
    """(F, M, M)"""
    H_cross: np.ndarray
    """(F, M, 6)"""
    g: np.ndarray
    """(6 + N,) gradient, then a Newton step."""
    dq: np.ndarray
    b: np.ndarray
    R_WO: np.ndarray
    used: np.ndarray
