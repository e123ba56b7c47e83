"""What Python calls: simulations, distances and energies, their arguments turned into references once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dexstack.engines.lcp.distance import separation
from dexstack.engines.lcp.dynamics import Motion, inertia_and_bias, kinematics
from dexstack.engines.lcp.record import FITS, Memory, Parameters, Tape, World
from dexstack.engines.lcp.reference import by_reference
from dexstack.engines.lcp.step import advance


class Simulation(NamedTuple):
    """All that a simulation reads and writes besides its state."""

    world: World
    parameters: Parameters
    tape: Tape
    memory: Memory
    motion: Motion
    complex_motion: Motion
    """Room for derivatives."""


@njit(cache=True)
def refer(simulation):
    """A reference to a simulation, which must outlive it: passing it costs little, however many arrays there are."""
    return by_reference(simulation)


@njit(cache=True)
def roll(simulation, q, v, tau, dt, counts, extremes, qs, vs):
    """Advance by as many steps as tau (T, V) has rows.

    Args:
        simulation: as :func:`refer` returns it.
        qs: (T + 1, Q), vs: (T + 1, V) states after every step, written from row 1 on.

    Returns:
        ``FITS``; or what kept a step from finishing.
    """
    world, par, tape, memory, m = simulation.world, simulation.parameters, simulation.tape, simulation.memory, simulation.motion
    for k in range(tau.shape[0]):
        status = advance(world, par, q, v, tau[k], dt, tape, memory, m, counts, extremes, k)
        if status != FITS:
            return status
        qs[k + 1] = q
        vs[k + 1] = v
    return FITS


@njit(cache=True)
def gaps_at(world, q, m, out):
    """Lower bounds of the distances of all pairs at q, into ``out`` (P,)."""
    world, m = by_reference(world), by_reference(m)
    kinematics(world.tree, q, m)
    shapes = world.shapes
    for k in range(out.size):
        a, b = shapes.pairs[k]
        ba, bb = shapes.body[a], shapes.body[b]
        out[k] = separation(shapes, a, b, m.R[ba], m.p[ba], m.R[bb], m.p[bb], np.zeros(3))


@njit(cache=True)
def energy_at(world, mass, q, v, m):
    """Kinetic and potential energy [J]."""
    world, m = by_reference(world), by_reference(m)
    tree = world.tree
    kinematics(tree, q, m)
    inertia_and_bias(tree, mass, v, m)
    energy = 0.0
    for i in range(v.size):
        energy += 0.5 * m.M[i, i] * v[i] * v[i]
        for j in range(i):
            energy += m.M[i, j] * v[i] * v[j]
    for b in range(1, tree.parent.size):
        for i in range(3):
            height = m.p[b, i]
            for j in range(3):
                height += m.R[b, i, j] * tree.com_B[b, j]
            energy -= mass[b] * tree.gravity[i] * height
    return energy
