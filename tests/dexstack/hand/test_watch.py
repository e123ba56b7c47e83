"""The watch over the joints' motion by itself."""

import numpy as np
import pytest

from dexstack.hand.watch import UNWATCHED, MotionWatch, Trip, TripKind, WatchParams

N, DAMPING, PERIOD = 16, 0.05, 0.003
LONER, TWIN = 5, 1
"""A joint that is pushed back, and the same of another finger, whose torque would explain that."""


def watch_over() -> MotionWatch:
    """Of joints that may stand still under any torque."""
    limits = WatchParams(frozen_ticks=UNWATCHED)
    return MotionWatch(np.full(N, -2.0), np.full(N, 2.0), np.full(N, DAMPING), limits, PERIOD)


def pushed_back(obeys: int) -> Trip | None:
    """The trip of a hand whose joint :data:`LONER` goes where the torque of :data:`TWIN` would have
    it, against its own, after one joint has gone along its own."""
    watch, q = watch_over(), np.zeros(N)
    for k in range(80):
        tau, speed, push = np.zeros(N), np.zeros(N), 0.1 + 0.05 * np.sin(0.1 * k)
        tau[obeys] = push
        if k < 40:
            speed[obeys] = push / DAMPING
        else:
            tau[TWIN], tau[LONER] = push, -0.01 - 0.05 * np.cos(0.03 * k) ** 2
            speed[LONER] = push / DAMPING
        trip = watch.look(q, tau, q, PERIOD)
        if trip:
            return trip
        q = q + PERIOD * speed
    return None


def test_the_torque_of_a_joint_that_obeys_explains_no_other():
    """A cube that rests on a finger pushes it back while the next one happens to push as well."""
    trip = pushed_back(0)
    assert trip is not None and trip.kind is TripKind.RUNAWAY and trip.joint == LONER
    assert pushed_back(TWIN) is None


@pytest.mark.parametrize("shift", [4, 8, 12])
def test_fingers_in_another_order_are_found(shift):
    """Every joint goes as another's torque would have it: none obeys, so that all are still
    explained."""
    watch, rng, q, trip = watch_over(), np.random.default_rng(shift), np.zeros(N), None
    size, phase = rng.choice([-0.1, 0.1], N), rng.uniform(0.0, 6.28, N)
    for k in range(200):
        tau = size * (1.0 + 0.4 * np.sin(0.1 * k + phase))
        trip = trip or watch.look(q, tau, q, PERIOD)
        q = q + PERIOD * np.roll(tau, shift) / DAMPING
    against = np.roll(size, shift) * size < 0.0
    assert against.any() and trip is not None and trip.kind is TripKind.RUNAWAY and against[trip.joint]
