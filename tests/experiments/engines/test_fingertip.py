"""A fingertip under 10 N: each engine meets the closed form of its law."""

import pytest

from dexengines import ENGINES
from experiments.engines import fingertip


@pytest.mark.parametrize(
    "engine",
    [e if e in ("mujoco", "hydroelastic") else pytest.param(e, marks=pytest.mark.slow) for e in ENGINES],
)
def test_an_engine_follows_its_law(engine):
    row = fingertip.pressed(engine)
    assert row["reached"], row


def test_the_laws_have_their_limits():
    """The force of a slightly pressed sphere is π E δ²; far from its onset, that of a spring that
    starts ε2 below."""
    assert fingertip.of_hydroelastic(1e-5) == pytest.approx(3.14159 * fingertip.MODULUS * 1e-10, rel=1e-3)
    assert fingertip.of_soft(0.01) == pytest.approx(fingertip.STIFFNESS * (0.01 - 5e-4), rel=1e-6)
