"""Transitions, pairs of states one model step apart, cut out of recordings, and their ring buffer."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import jax
import numpy as np

from dexstack.contact.contact import Contacts
from dexstack.errors import ConfigError

RECORDED = ("t", "pose_WO", "q", "q_command")
"""Required arrays of a recording: K samples of time [s], object pose (K, 7), joint angles (K, N),
active joint target (K, N)."""
MATCH = 0.1
"""Tolerance of the time of a sample one step later, as a share of the step."""
LONGEST_JUMP = 0.05
"""Longest motion of the object between two samples without an interruption [m]: as far as it falls in
0.1 s."""


class Transitions(NamedTuple):
    """K transitions; each array's first axis is K. The same fields without it are one
    transition."""

    pose_WO: np.ndarray
    """(K, 7)"""
    q: np.ndarray
    """(K, N)"""
    qd: np.ndarray
    """(K, N) joint velocity at the start [rad/s]; unused by models without velocity."""
    twist_WO: np.ndarray
    """(K, 6) object velocity at the start: linear in world [m/s], angular in body axes [rad/s];
    unused by models without velocity."""
    q_before: np.ndarray
    """(K, N) active joint target just before the start [rad]; unused by models without a limit of
    the target's speed."""
    q_command: np.ndarray
    """(K, N) constant joint target equivalent, for a free joint, to the targets of the step
    [rad]."""
    contacts: Contacts
    """Contact set at the start."""
    next_pose_WO: np.ndarray
    next_q: np.ndarray

    @property
    def count(self) -> int:
        return len(self.pose_WO)

    def digest(self) -> str:
        """Return the SHA-256 of the numbers, to identify the data of a learned θ."""
        total = hashlib.sha256()
        for leaf in jax.tree.leaves(self):
            total.update(np.ascontiguousarray(leaf).tobytes())
        return total.hexdigest()


def at_rest(pose_WO: np.ndarray, q: np.ndarray, contacts: Contacts) -> Transitions:
    """Return one transition without motion, as an example of the shapes."""
    pose, q = (np.asarray(a, np.float32)[None] for a in (pose_WO, q))
    contacts = jax.tree.map(lambda a: np.asarray(a)[None], contacts)
    return Transitions(pose, q, np.zeros_like(q), np.zeros((1, 6), np.float32), q, q, contacts, pose, q)


def concatenate(parts: list[Transitions]) -> Transitions:
    """Concatenate transitions."""
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def take(transitions: Transitions, index: np.ndarray | slice) -> Transitions:
    """Return the transitions at an index."""
    return jax.tree.map(lambda leaf: leaf[index], transitions)


def rotation_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the rotation vectors (K, 3) in body axes from the quaternions ``a`` (K, 4) to ``b`` (K,
    4), wxyz [rad]."""
    w = np.sum(a * b, axis=1)
    v = a[:, :1] * b[:, 1:] - b[:, :1] * a[:, 1:] - np.cross(a[:, 1:], b[:, 1:])
    v *= np.where(w < 0, -1.0, 1.0)[:, None]
    sine = np.linalg.norm(v, axis=1)
    angle = 2 * np.arctan2(sine, np.abs(w))
    return v * np.where(sine > 1e-9, angle / np.maximum(sine, 1e-9), 2.0)[:, None]


def check_recording(recording: Mapping[str, np.ndarray], joints: int, where: str) -> None:
    """Reject a recording that :func:`cut` cannot use.

    Raises:
        ConfigError: an array is missing or of another size.
    """
    for name in RECORDED:
        if name not in recording:
            raise ConfigError(f"{where} has no '{name}'; learning needs {', '.join(RECORDED)}")
    K = len(recording["t"])
    sizes = {"t": (K,), "pose_WO": (K, 7), "twist_WO": (K, 6)}
    sizes |= dict.fromkeys(("q", "q_command", "qd"), (K, joints))
    for name, size in sizes.items():
        if name in recording and np.shape(recording[name]) != size:
            raise ConfigError(
                f"'{name}' of {where} has the shape {np.shape(recording[name])}, {size} expected"
            )


def cut(
    recording: Mapping[str, np.ndarray],
    step: float,
    cover: np.ndarray,
    detect: Callable[[np.ndarray, np.ndarray], Contacts],
) -> Transitions | None:
    """Return the transitions of length ``step`` [s] in a recording, or None without any.

    A transition never spans an interruption: a gap in the samples, a clock that goes back, an object
    that jumps (a reset between two rollouts). Samples with a non-finite entry are left out.
    Velocities that were not recorded are difference quotients over the sample before; the first
    sample after an interruption then has none and starts no transition.

    Args:
        recording: see :data:`RECORDED`, and optionally ``qd`` (K, N), ``twist_WO`` (K, 6) and
            ``rollout`` (K,), whose changes are interruptions too.
        step: h of the model [s].
        cover: (N,) share of a command that a free joint covers in one step, by which newer targets
            have larger weights.
        detect: returns the contact set at an object pose (7,) and joint angles (N,).
    """
    arrays = {
        name: np.asarray(recording[name], float)
        for name in (*RECORDED, "qd", "twist_WO", "rollout")
        if name in recording
    }
    t = arrays["t"]
    finite = np.isfinite(np.column_stack([arrays[name] for name in RECORDED])).all(axis=1)
    rows: list[tuple[np.ndarray, ...]] = []
    for first, last in segments(arrays, finite, step):
        index = np.arange(first, last)
        qd, twist = velocities(arrays, index)
        rate = -np.log1p(-np.clip(cover, 0.0, 1 - 1e-9)) / step
        for i in index[np.isfinite(qd).all(axis=1)]:
            j = first + int(np.argmin(np.abs(t[first:last] - t[i] - step)))
            if j <= i or abs(t[j] - t[i] - step) > MATCH * step:
                continue
            # weight of each target in a free joint's motion until the end of the step:
            # e^{-r(t_j − t_{k+1})} − e^{-r(t_j − t_k)}
            left = np.exp(-rate[None, :] * (t[j] - t[i : j + 1])[:, None])
            weight = np.diff(left, axis=0)
            command = np.sum(weight * arrays["q_command"][i:j], axis=0) / np.sum(weight, axis=0)
            pose, q, k = arrays["pose_WO"][i], arrays["q"][i], i - first
            before, after = arrays["q_command"][i - 1] if k else q, (arrays["pose_WO"][j], arrays["q"][j])
            rows.append((pose, q, qd[k], twist[k], before, command, detect(pose, q), *after))
    if not rows:
        return None
    columns = list(zip(*rows, strict=True))
    contacts = jax.tree.map(lambda *field: np.stack(field), *columns[6])
    stacked = [np.stack(c).astype(np.float32) for c in (*columns[:6], *columns[7:])]
    return Transitions(*stacked[:6], contacts, *stacked[6:])


def segments(arrays: Mapping[str, np.ndarray], finite: np.ndarray, step: float) -> Iterator[tuple[int, int]]:
    """Yield [first, last) of the stretches without interruptions."""
    t = arrays["t"]
    if not len(t):
        return
    gap = np.diff(t)
    broken = (gap <= 0) | (gap > (1 + MATCH) * step) | ~finite[1:] | ~finite[:-1]
    with np.errstate(invalid="ignore"):
        broken |= np.linalg.norm(np.diff(arrays["pose_WO"][:, :3], axis=0), axis=1) > LONGEST_JUMP
    if "rollout" in arrays:
        broken |= np.diff(arrays["rollout"]) != 0
    edges = np.concatenate([[0], 1 + np.flatnonzero(broken), [len(t)]])
    for first, last in itertools.pairwise(edges):
        if last - first >= 2:
            yield int(first), int(last)


def velocities(arrays: Mapping[str, np.ndarray], index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return joint and object velocities of a stretch of samples. Without recorded ones they are
    difference quotients: the first sample's are NaN for joints, and zero for the object."""
    pose, dt = arrays["pose_WO"][index], np.diff(arrays["t"][index])[:, None]
    if "qd" in arrays:
        qd = arrays["qd"][index]
    else:
        qd = np.vstack([np.full((1, arrays["q"].shape[1]), np.nan), np.diff(arrays["q"][index], axis=0) / dt])
    if "twist_WO" in arrays:
        return qd, arrays["twist_WO"][index]
    moved = np.hstack([np.diff(pose[:, :3], axis=0), rotation_between(pose[:-1, 3:], pose[1:, 3:])]) / dt
    return qd, np.vstack([np.zeros((1, 6)), moved])


class RingBuffer:
    """The newest transitions, at most ``capacity`` of them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._newest: Transitions | None = None

    @property
    def count(self) -> int:
        """Number of transitions in the buffer."""
        return 0 if self._newest is None else self._newest.count

    def add(self, transitions: Transitions) -> None:
        """Add transitions, in place of the oldest when the buffer is full."""
        parts = [part for part in (self._newest, transitions) if part is not None]
        self._newest = take(concatenate(parts), slice(-self.capacity, None))

    def all(self) -> Transitions:
        """Return all transitions in the buffer, the oldest first.

        Raises:
            ConfigError: the buffer is empty.
        """
        if self._newest is None:
            raise ConfigError("the buffer contains no transitions")
        return self._newest
