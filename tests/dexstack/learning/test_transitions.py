"""Transitions from recordings: pairs of samples, interruptions, and varying commands."""

import numpy as np
import pytest

from dexstack.contact.contact import empty_contacts
from dexstack.errors import ConfigError
from dexstack.learning.transitions import RingBuffer, check_recording, cut, rotation_between, take

H = 0.1
COVER = np.full(16, 1 - np.exp(-1.0))


def nothing(pose, q):
    return empty_contacts(3)


def recording(n=21, dt=0.02, **other):
    t = dt * np.arange(n)
    pose = np.tile([0.0, 0, 0.04, 1, 0, 0, 0], (n, 1))
    pose[:, 0] = 0.01 * t
    q = np.tile(t[:, None], (1, 16))
    return {"t": t, "pose_WO": pose, "q": q, "q_command": q + 0.1, **other}


def test_samples_one_step_apart_are_paired():
    r = recording()
    out = cut(r, H, COVER, nothing)
    assert out.count == 15  # 16 pairs are 0.1 s apart; the first has no velocity
    np.testing.assert_allclose(out.next_q - out.q, H, atol=1e-6)
    np.testing.assert_allclose(out.qd, 1.0, atol=1e-5)
    np.testing.assert_allclose(out.twist_WO[:, 0], 0.01, atol=1e-5)
    assert out.contacts.phi.shape == (15, 3)


def test_recorded_velocities_are_used():
    r = recording(qd=np.full((21, 16), 7.0), twist_WO=np.full((21, 6), 3.0))
    out = cut(r, H, COVER, nothing)
    assert out.count == 16 and np.all(out.qd == 7.0) and np.all(out.twist_WO == 3.0)


def test_a_varying_command_is_replaced_by_an_equivalent_constant_one():
    """Against the servo's first-order lag, q̇ = r (q_des − q), integrated exactly between samples."""
    rng = np.random.default_rng(0)
    r = recording(n=6)
    r["q_command"] = rng.normal(size=(6, 16))
    rate = -np.log(1 - COVER) / H
    q = np.zeros(16)
    for command in r["q_command"][:5]:
        q = command + (q - command) * np.exp(-rate * 0.02)
    r["qd"] = np.zeros((6, 16))
    out = cut(r, H, COVER, nothing)
    np.testing.assert_allclose(COVER * out.q_command[0], q, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "where", "by"),
    [
        ("t", np.s_[10:], 0.5),
        ("t", np.s_[10:], -0.2),
        ("pose_WO", np.s_[10:, 1], 0.06),
        ("rollout", np.s_[10:], 1.0),
        ("q", np.s_[10, 3], np.nan),
    ],
    ids=["gap", "backwards", "jump", "rollout", "nan"],
)
def test_no_transition_spans_an_interruption(name, where, by):
    """Such as the reset of fingers and object between two rollouts."""
    r = recording(rollout=np.zeros(21))
    r[name][where] += by
    r["q"][10:] += 100.0  # to reveal a transition across it
    out = cut(r, H, COVER, nothing)
    assert 0 < out.count < cut(recording(), H, COVER, nothing).count - 4
    assert np.nanmax(np.abs(out.next_q - out.q)) < 1.0 and np.abs(out.qd).max() < 2.0
    assert np.isfinite(out.q).all()


def test_a_recording_too_short_has_none():
    assert cut(recording(n=3), H, COVER, nothing) is None
    assert cut(recording(n=0), H, COVER, nothing) is None


@pytest.mark.parametrize(
    ("change", "complaint"), [({"q": None}, "no 'q'"), ({"q": np.zeros((21, 9))}, r"\(21, 16\) expected")]
)
def test_an_unusable_recording_is_rejected_in_a_sentence(change, complaint):
    r = {name: a for name, a in {**recording(), **change}.items() if a is not None}
    with pytest.raises(ConfigError, match=complaint):
        check_recording(r, 16, "there.npz")


def test_the_ring_keeps_the_newest_in_order():
    data = cut(recording(n=61), H, COVER, nothing)
    ring = RingBuffer(20)
    with pytest.raises(ConfigError, match="no transitions"):
        ring.all()
    for first in range(0, 50, 7):
        ring.add(take(data, slice(first, min(first + 7, 50))))
    assert ring.count == 20
    np.testing.assert_array_equal(ring.all().q, data.q[30:50])
    ring.add(take(data, slice(0, 45)))
    np.testing.assert_array_equal(ring.all().q, data.q[25:45])


def test_rotation_between_is_the_rotation_vector():
    from scipy.spatial.transform import Rotation

    rng = np.random.default_rng(1)
    a = Rotation.random(20, rng=rng)
    turn = Rotation.from_rotvec(rng.normal(0, 0.7, (20, 3)) * (np.arange(20)[:, None] > 2))
    b = (a * turn).as_quat(scalar_first=True) * np.where(np.arange(20) % 2, 1, -1)[:, None]
    np.testing.assert_allclose(rotation_between(a.as_quat(scalar_first=True), b), turn.as_rotvec(), atol=1e-9)
