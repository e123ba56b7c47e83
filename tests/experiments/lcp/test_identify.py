"""Gradients by parameters, put to use."""

import numpy as np

from experiments.lcp.identify import TRUTH, Flight, by_gradient


def test_friction_and_restitution_are_found_from_a_flight_without_noise():
    flight = Flight()
    np.testing.assert_allclose(by_gradient(flight, flight.seen(TRUTH)), TRUTH, atol=1e-9)
