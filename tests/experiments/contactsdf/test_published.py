"""The published θ: the packaged files are the converted vectors."""

import numpy as np

from experiments.contactsdf.published import PUBLISHED, STEP, converted, main


def test_the_packaged_files_are_the_published_vectors(capsys):
    assert main([]) == 0


def test_masses_over_h_squared_are_squared_reciprocals():
    vector = PUBLISHED["palm_turn", "cube"]
    theta = converted(vector, 16)
    np.testing.assert_allclose(
        theta.inertia / STEP**2, np.square([1.0 / vector[1]] * 3 + [1.0 / x for x in vector[2:5]])
    )
    np.testing.assert_allclose(theta.friction, 0.5433, atol=1e-4)  # as their planner for the hand uses it
