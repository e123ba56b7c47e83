"""Rows, forces and velocities of the operations on a tape, from which the reverse sweep starts."""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.classes import REFINEMENTS, REGULARISATION, forces_of_classes
from dexengines.lcp.correction import repeat_corrections
from dexengines.lcp.dynamics import factorise, inertias, kinematics, mass_matrix
from dexengines.lcp.rows import SLIDING, add_impulse, impact_right_hand_side, make_rows, move_right_hand_side
from dexengines.lcp.vectors import put


@inner
def recorded_forces(rows, b, cls, f, unregularised):
    """Write to f the forces of recorded classes as the solver found them."""
    if unregularised:
        forces_of_classes(rows.A, b, rows.owner, rows.mu, cls, f, 0, 0.0)
    else:
        forces_of_classes(rows.A, b, rows.owner, rows.mu, cls, f, REFINEMENTS, REGULARISATION)


@inner
def response_rows(world, par, tape, op, q, v, m):
    """Return the rows of a recorded response with the forces of its plastic LCP; m holds poses at q
    and factors of the mass matrix."""
    kinematics(world.tree, q, m)
    inertias(world.tree, par.mass, m)
    mass_matrix(world.tree, m)
    factorise(world.tree.above, m.M)
    rows = make_rows(world, par, tape, m, q, (v, v), (op[1], op[2]), tape.limit[:0], False)
    impact_right_hand_side(rows, v)
    recorded_forces(rows, rows.b, tape.cls[op[3] : op[3] + rows.f.size], rows.f, op[9] & 1)
    return rows


@inner
def start_of_turn(world, par, tape, op, turn):
    """Return where the tape has the entries of a turn of a move."""
    first, last, start = op[1], op[2], op[3]
    for _ in range(turn):
        n = last - first + op[5] - op[4]
        for k in range(first, last):
            if par.friction[world.shapes.friction_of[tape.feature[k, 4]]] != 0.0:
                n += 1 if tape.cls[start + k - first] == SLIDING else world.directions
        start += last - first + n
    return start


@inner
def turned_rows(world, par, tape, op, turn, q, star, slip, h, m):
    """Return the rows and classes of an LCP before the first, with its forces; m holds poses at q
    and factors of the mass matrix. Its modes replace those of the tape."""
    first, last, start = op[1], op[2], start_of_turn(world, par, tape, op, turn)
    put(tape.mode[first:last], tape.cls[start : start + last - first])
    limit = tape.limit[op[4] : op[5]]
    rows = make_rows(world, par, tape, m, q, (star, slip), (first, last), limit, False)
    start += last - first
    cls = tape.cls[start : start + rows.f.size]
    move_right_hand_side(rows, star, h)
    recorded_forces(rows, rows.b, cls, rows.f, (op[9] >> (16 + turn)) & 1)
    return rows, cls


@inner
def repeat_lcps(world, tape, op, start, rows, q, star, h, m, at, us, fs):
    """Repeat the LCPs of a move: velocities us (1 + rounds, V) and forces fs (1 + rounds, n)."""
    n, lift = rows.f.size, np.zeros(rows.f.size)
    for k in range(1 + op[10]):
        r = start + 2 * k * n
        if k > 0:
            repeat_corrections(world, m, tape, rows, q, us[k - 1], h, at, tape.cls[r - n : r], lift)
            kinematics(world.tree, q, m)
        recorded_forces(rows, rows.b + lift, tape.cls[r : r + n], rows.f, (op[9] >> k) & 1)
        put(fs[k], rows.f)
        put(us[k], star)
        add_impulse(rows, us[k])
