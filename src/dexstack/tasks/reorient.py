"""Turn an object in the hand to a sequence of arbitrary orientations, without reset."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.geometry.rotations import geodesic_angle
from dexstack.model.objects import Start
from dexstack.tasks.base import Goal, JudgeParams, Outcome
from dexstack.tasks.palm_turn import PalmTurn

RANDOM, REST = "random", "rest"
TUNED_TOLERANCE = 0.1
"""Tolerance for which the weights are tuned [rad]."""


@dataclass(frozen=True)
class ReorientParams(JudgeParams):
    """Parameters of the task. Tolerance and hold are the field's usual ones: 0.4 rad, reached at
    once."""

    tolerance: float = param(0.4, "orientation error below which a goal counts as reached [rad]", 1e-3, 3.2)
    hold: float = param(0.0, "time for which it must hold [s]", 0.0, 60.0)
    drop_distance: float = param(
        0.1, "an object farther than this from its place has been dropped [m]", 1e-3, 10.0
    )
    drop_below: float = param(
        -0.01, "an object whose centre is lower than this has been dropped [m]", -10.0, 10.0
    )
    draw: str = param(
        RANDOM,
        "goals: 'random' in SO(3), 'rest' (24 turns of a cube), or a file of quaternions w x y z, one a line",
    )
    least_turn: float = param(np.pi / 2, "smallest turn from one random goal to the next [rad]", 0.0, 3.0)
    patience: float = param(80.0, "a trial ends after this time without another goal reached [s]", 0.1, 1e6)
    cap: int = param(200, "… or with this many goals reached", 1, 1000000)
    forward: float = param(
        0.03,
        "largest distance of the goals from the start, towards the middle of the fingers' first links [m]",
        0.0,
        0.2,
    )
    uphill: float = param(
        0.06,
        "distance of the goals from there on a palm that is not level, against gravity's part along it, "
        "times that part's share [m]",
        0.0,
        0.2,
    )


class Reorient(PalmTurn):
    """The cost of :class:`~dexstack.tasks.palm_turn.PalmTurn` with an infinite stream of goals in
    SO(3).

    Goals lie over the fingers, at most ``forward`` from the start towards the middle of the fingers'
    first links. A large object starts there, and is soon dropped farther out; one narrower than the
    gap between neighbouring knuckles stays at its start, since it sinks between the fingers. Where the
    palm is not level they lie uphill of there, since an object that slips does so downhill. The
    height of a goal is that at which the object just touches the surface that bears it at the start.
    The stream continues until the object is dropped or a goal is not reached in time; the measure is
    the number of goals reached. A trial succeeds if it reaches the cap.

    The terms that keep the object in place and the fingertips around it balance an orientation error
    of some tenths of a radian, which then remains. Therefore ω_q scales with
    0.1 rad / tolerance.
    """

    name = "reorient"
    Params = ReorientParams
    supervisor = "detour"
    opening_yaw = None
    required_rate = 0.0

    @functools.cached_property
    def _place(self) -> np.ndarray:
        """(3,) position of the object in its start orientation [m]."""
        from dexstack.model.placing import room_over_fingers  # imports MuJoCo

        hand = self.robot()
        place = np.array(self.start().pose_WO[:3])
        place[0] += min(self.params.forward, room_over_fingers(hand, self._object(hand), place[0]))
        place[:2] -= self.params.uphill * np.array(self.gravity[:2]) / np.linalg.norm(self.gravity)
        return place

    def _precision(self) -> float:
        return TUNED_TOLERANCE / self.params.tolerance

    def goals(self, k: int, seed: int) -> Iterator[Goal]:
        """
        Raises:
            ConfigError: the file of goals is missing or malformed.
        """
        rng = np.random.default_rng((seed, k))
        last = self.start().pose_WO[3:]
        for quat in self._orientations(k, rng):
            if self.params.draw == RANDOM and geodesic_angle(quat, last) < self.params.least_turn:
                continue
            last = quat
            yield self.at(quat, "any orientation")

    def _orientations(self, k: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        if self.params.draw == RANDOM:
            while True:
                drawn = rng.normal(size=4)
                yield drawn / np.linalg.norm(drawn)
        listed = cube_turns() if self.params.draw == REST else read_orientations(Path(self.params.draw))
        while True:
            yield from (
                listed[rng.permutation(len(listed))]
                if self.params.draw == REST
                else np.roll(listed, -k, axis=0)
            )

    def seconds(self) -> float:
        return self.params.cap * self.params.patience

    def over(self, reached_at: Sequence[float], t: float) -> bool:
        p = self.params
        return len(reached_at) >= p.cap or t - (reached_at[-1] if reached_at else 0.0) >= p.patience

    def dropped(self, pose_WO: np.ndarray, start: Start) -> bool:
        return super().dropped(pose_WO, replace(start, pose_WO=self._place)) or bool(
            pose_WO[2] < self.params.drop_below
        )

    def succeeded(self, outcome: Outcome) -> bool:
        return not outcome.dropped and len(outcome.reached_at) >= self.params.cap

    def figures(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """Return statistics of consecutive goals."""
        from dexstack.report.statistics import errors, wilson

        counts = np.array([len(o.reached_at) for o in outcomes])
        drops = sum(o.dropped for o in outcomes)
        timeouts = sum(not o.dropped and not self.succeeded(o) for o in outcomes)
        attempts = int(counts.sum()) + drops + timeouts
        return {
            "consecutive": {
                "mean": float(counts.mean()),
                "median": float(np.median(counts)),
                "max": int(counts.max()),
                "min": int(counts.min()),
                "n": len(counts),
                "each": counts.tolist(),
            },
            "goals_per_minute": 60.0 * float(counts.sum()) / sum(o.seconds for o in outcomes),
            "time_to_goal_s": errors(
                itertools.chain.from_iterable(np.diff([0.0, *o.reached_at]) for o in outcomes)
            ),
            "failures": {"drop": drops, "timeout": timeouts},
            "failure_rate": {
                "of_goals": (drops + timeouts) / attempts,
                "interval": wilson(drops + timeouts, attempts),
            },
        }

    def picture(self, path: Path, outcomes: Sequence[Outcome], title: str) -> Path:
        from dexstack.report.trials import write_survival

        return write_survival(path, [len(o.reached_at) for o in outcomes], title)


def cube_turns() -> np.ndarray:
    """Return the 24 rotations (24, 4) that map a cube to itself."""
    half = np.sqrt(0.5)
    axes = np.eye(4)
    pairs = [
        half * (axes[i] + sign * axes[j]) for i in range(4) for j in range(i + 1, 4) for sign in (1.0, -1.0)
    ]
    thirds = [0.5 * np.array([1.0, *signs]) for signs in itertools.product((1.0, -1.0), repeat=3)]
    return np.array([*axes, *pairs, *thirds])


def read_orientations(path: Path) -> np.ndarray:
    """Read unit quaternions (K, 4) from a file with w x y z in each line.

    Raises:
        ConfigError: missing or malformed file.
    """
    try:
        read = np.loadtxt(path, ndmin=2)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the file of goals {path} cannot be read: {error}") from error
    length = (
        np.linalg.norm(read, axis=1) if read.ndim == 2 and read.shape[1] == 4 and len(read) else np.zeros(1)
    )
    if not (np.isfinite(length) & (length > 1e-6)).all():
        raise ConfigError(f"the file of goals {path} must hold one quaternion w x y z in each line")
    return read / length[:, None]
