"""Entry points from Python: simulation, distances, energies."""

from __future__ import annotations

import numpy as np

from dexengines.kernels import entry
from dexengines.lcp.distance import separation
from dexengines.lcp.dynamics import inertia_and_bias, kinematics
from dexengines.lcp.record import FITS, refer
from dexengines.lcp.step import advance


@entry(nogil=True)  # so that scenes can roll concurrently
def roll(addresses, q, v, tau, dt, counts, extremes, qs, vs):
    """Advance by as many steps as tau (T, V) has rows.

    Args:
        addresses: (5,), see :class:`.record.Simulation`.
        qs: (T + 1, Q), vs: (T + 1, V) states after every step, written from row 1 on.

    Returns:
        ``FITS``; or the reason why a step did not finish.
    """
    simulation = refer(addresses)
    for k in range(tau.shape[0]):
        status = advance(simulation, q, v, tau[k], dt, counts, extremes, k)
        if status != FITS:
            return status
        qs[k + 1] = q
        vs[k + 1] = v
    return FITS


@entry
def gaps_at(addresses, q, out):
    """Write lower bounds of the distances of all pairs at q to ``out`` (P,); where they overlap,
    the negative depth."""
    simulation = refer(addresses)
    world, m = simulation.world, simulation.motion
    kinematics(world.tree, q, m)
    shapes = world.shapes
    for k in range(out.size):
        a, b = shapes.pairs[k]
        ba, bb = shapes.body[a], shapes.body[b]
        out[k] = separation(shapes, a, b, m.R[ba], m.p[ba], m.R[bb], m.p[bb], np.zeros(3), np.inf)


@entry
def energy_at(addresses, q, v):
    """Return kinetic and potential energy [J]."""
    simulation = refer(addresses)
    tree, mass, m = simulation.world.tree, simulation.parameters.mass, simulation.motion
    kinematics(tree, q, m)
    inertia_and_bias(tree, mass, v, m)
    kinetic, potential = 0.0, 0.0
    for i in range(v.size):
        kinetic += 0.5 * m.M[i, i] * v[i] * v[i]
        for j in range(i):
            kinetic += m.M[i, j] * v[i] * v[j]
    for b in range(1, tree.parent.size):
        for i in range(3):
            height = m.p[b, i]
            for j in range(3):
                height += m.R[b, i, j] * tree.com_B[b, j]
            potential -= mass[b] * tree.gravity[i] * height
    return kinetic, potential
