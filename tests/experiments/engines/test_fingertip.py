"""A fingertip under 10 N: every engine's closed form is one of its own law, and met."""

import pytest

from dexengines import ENGINES
from experiments.engines import fingertip


@pytest.mark.parametrize(
    "engine",
    [e if e in ("mujoco", "hydroelastic") else pytest.param(e, marks=pytest.mark.slow) for e in ENGINES],
)
def test_an_engine_gives_way_as_its_law_says(engine):
    row = fingertip.pressed(engine)
    assert row["reached"], row


def test_the_laws_have_their_limits():
    """A sphere that is little pressed is felt as π E δ²; one far from its onset, as a spring that
    begins ε2 below."""
    assert fingertip.of_hydroelastic(1e-5) == pytest.approx(3.14159 * fingertip.MODULUS * 1e-10, rel=1e-3)
    assert fingertip.of_soft(0.01) == pytest.approx(fingertip.STIFFNESS * (0.01 - 5e-4), rel=1e-6)
