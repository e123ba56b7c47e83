"""The check of a hand: the servo's response against the linear model, and findings on spoilt hands."""

from dataclasses import replace

import numpy as np
import pytest

from dexstack.model.hand import load_hand
from dexstack.onboarding.hand_check import (
    STEP,
    check_hand,
    limits,
    linear_response,
    masses,
    response,
    strengths,
)


@pytest.fixture(scope="module", params=["right", "leap_right"])
def hand(request):
    return load_hand(request.param)


def test_a_packaged_hand_is_plausible(hand):
    figures, findings = check_hand(hand, [])
    assert findings == []
    assert all(0.05 < reach < 0.3 for reach in figures["reach_m"].values())
    assert set(figures["thumb_gap_m"].values()) == {0.0}


def test_the_servo_responds_as_the_linear_model(hand):
    deviation = response(hand, "mujoco") - linear_response(hand)
    assert np.abs(deviation).max() < 0.05 * STEP


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["hydroelastic", "lcp", "soft"])
def test_the_servo_responds_alike_in_every_engine(hand, plant):
    assert np.abs(response(hand, plant) - linear_response(hand)).max() < 0.05 * STEP


def spoilt(hand, **changes):
    bodies = list(hand.bodies)
    bodies[3] = replace(bodies[3], **changes)
    return replace(hand, bodies=tuple(bodies))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda h: spoilt(h, inertia=1e4 * h.bodies[3].inertia), "radius of gyration of 'link_2.0'"),
        (lambda h: spoilt(h, inertia=np.diag([1e-9, 1e-9, 1e-5])), "is of no rigid body"),
        (lambda h: spoilt(h, mass=0.0), "'link_2.0' has no mass"),
        (lambda h: replace(h, upper=h.upper * 180 / np.pi), "limits in degrees"),
        (lambda h: replace(h, effort=100.0 * h.effort), "effort limits placeholders"),
    ],
)
def test_what_is_implausible_is_named(spoil, says):
    hand = spoil(load_hand("right"))
    found = [*masses(hand), *limits(hand), *strengths(hand)]
    assert any(says in finding for finding in found)
