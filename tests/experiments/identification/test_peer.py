"""The peer finds what moved a hand, and says how sure it is; without it the experiment goes on
alone."""

import numpy as np
import pytest

from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.identification.rollouts import servo_of
from dexstack.identification.unknowns import chosen
from dexstack.tasks.base import World
from experiments.identification import peer
from tests.dexstack.identification.test_fit import wave


@pytest.mark.slow
@pytest.mark.skipif(not peer.installed(), reason="mujoco.sysid is not installed")
def test_it_finds_the_motors(monkeypatch):
    monkeypatch.setattr(peer, "MOST", 10)
    settings = read_settings(Spec())
    task = make_task(Spec(), settings)
    servo = servo_of(task, settings)
    found = peer.found(
        task, servo, wave(task, servo, World(torque=0.75), 5.0, delay=0.008), chosen(("torque", "delay"))
    )
    np.testing.assert_allclose(found.value, (0.75, 0.008), rtol=0.02, atol=0.002)
    assert (found.low < found.value).all() and (found.value < found.high).all() and found.seconds > 0.0
