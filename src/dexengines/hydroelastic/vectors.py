"""Vectors (x, y, z) as tuples, for the kernels of contact surfaces."""

from __future__ import annotations

from dexengines.kernels import KERNEL, inner


@inner(forceinline=True, **KERNEL)
def dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inner(forceinline=True, **KERNEL)
def cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@inner(forceinline=True, **KERNEL)
def turn(R, v):
    """Return R v."""
    v0, v1, v2 = v[0], v[1], v[2]
    return (
        R[0, 0] * v0 + R[0, 1] * v1 + R[0, 2] * v2,
        R[1, 0] * v0 + R[1, 1] * v1 + R[1, 2] * v2,
        R[2, 0] * v0 + R[2, 1] * v1 + R[2, 2] * v2,
    )


@inner(forceinline=True, **KERNEL)
def turn_back(R, v):
    """Return Rᵀ v."""
    v0, v1, v2 = v[0], v[1], v[2]
    return (
        R[0, 0] * v0 + R[1, 0] * v1 + R[2, 0] * v2,
        R[0, 1] * v0 + R[1, 1] * v1 + R[2, 1] * v2,
        R[0, 2] * v0 + R[1, 2] * v1 + R[2, 2] * v2,
    )


@inner(forceinline=True, **KERNEL)
def into(R, p, x):
    """Return the point x of frame A in frame B, whose pose in A is R, p."""
    return turn_back(R, (x[0] - p[0], x[1] - p[1], x[2] - p[2]))


@inner(forceinline=True, **KERNEL)
def out_of(R, p, y):
    """Return the point y of frame B in frame A."""
    x, y, z = turn(R, y)
    return x + p[0], y + p[1], z + p[2]


@inner(forceinline=True, **KERNEL)
def slope(body, e):
    """Return the gradient of element e's pressure, in its body's frame."""
    return body.element[e, 16], body.element[e, 17], body.element[e, 18]


@inner(forceinline=True, **KERNEL)
def pressure_at(body, e, x):
    """Return the pressure of element e at a point of its body's frame."""
    return dot(slope(body, e), x) + body.element[e, 19]


@inner(forceinline=True, **KERNEL)
def vertex(body, v):
    """Return vertex v of a body."""
    return body.vertex[v, 0], body.vertex[v, 1], body.vertex[v, 2]


@inner(forceinline=True, **KERNEL)
def corner(body, e, k):
    """Return corner k of element e of a body."""
    return vertex(body, body.element_int[e, k])
