"""A task as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np

from dexstack.control.policies.features import DEFAULT, FeatureStack, Sight as PolicySight
from dexstack.control.policies.mapping import NORMALISED, TARGET, PolicyMapping
from dexstack.errors import ConfigError, check_names
from dexstack.graph.settings import Spec, make_task, perception_file, read_settings
from dexstack.hand.servo import ServoParams
from dexstack.sim.simulation import Rollout, Sight, Simulation
from dexstack.tasks.base import NOMINAL_WORLD, Task, World, read_world
from dexstack.tasks.worlds import drawn

REWARDS = {
    "dense": "progress of the orientation error [rad], +1 a goal reached, −1 if dropped",
    "sparse": "+1 a goal reached, −1 if dropped",
}
Observation = np.ndarray | dict[str, np.ndarray]
"""Features (D,) float32; with pictures the entries ``features`` and ``picture`` (H, W, 3) uint8."""
DROP = -1.0
GOAL = 1.0


@dataclass(frozen=True)
class EnvOptions:
    """Keyword arguments of an environment."""

    task: str | type[Task] = "reorient"
    """Name, path of a Python file, or class."""
    hand: str = "right"
    """Side, or path of a hand's YAML."""
    object: str = "cube"
    """Name, or path of an object's YAML."""
    plant: str = "mujoco"
    """Physics engine, see :data:`dexstack.plants.PLANTS`."""
    perception: str | Path = ""
    """Preset of ``config/perception``, or a parameter file, with the pose sensor's delay, noise and
    outages; empty: exact."""
    world: World | Mapping[str, float] | str | Path = NOMINAL_WORLD
    """True properties of the plant, a mapping of them, or a file; ``reset`` may draw others."""
    rate: float = 20.0
    """Steps a second [Hz]."""
    seconds: float | None = None
    """Simulated time of a rollout [s]; None: the task's."""
    reward: str = "dense"
    """Of :data:`REWARDS`."""
    features: Sequence[str] = DEFAULT
    """Features of one moment, in order."""
    history: int = 1
    """Number of moments in an observation."""
    picture: Sequence[int] = ()
    """Height and width of a picture in the observation [px], taken when the measured pose was; empty:
    none."""
    action: str = NORMALISED
    """``normalised`` (−1 … 1 between the joint limits) or ``target`` [rad, m]."""
    files: Sequence[str | Path] = ()
    """Further parameter files; the last wins."""
    set: Mapping[str, Any] = field(default_factory=dict)
    """Single parameters that win over all files."""

    def __post_init__(self) -> None:
        check_names("reward", [self.reward], REWARDS)
        check_names("action", [self.action], (NORMALISED, TARGET))
        if self.picture and (len(self.picture) != 2 or min(self.picture) < 1):
            raise ConfigError(f"'picture' must be height and width, got {self.picture}")

    def spec(self) -> Spec:
        """Return the description of the run."""
        files = (*map(str, self.files), *([str(perception_file(self.perception))] if self.perception else []))
        overrides = tuple(sorted({"pose_period": 1.0 / self.rate, **self.set}.items()))
        return Spec(self.task, self.object, self.hand, files, overrides, self.plant)


class HandEnv(gymnasium.Env):
    """One task with a hand, an object and a plant, as the graph has it.

    Observations are features (see :data:`~dexstack.control.policies.features.FEATURES`) of the joint
    positions, the measured object pose, the goal and the target in force, with a picture if one is
    asked for. Actions are joint targets, which reach the servo after the loop's latency; the servo with
    its limits and its watch applies torques at its own rate. Steps last one pose period. A rollout
    terminates when the judge says so (dropped, last goal reached, or the task's own end) or the servo
    has tripped, and is truncated after ``seconds``. Trials of `dexstack eval` with the same seed, trial
    and targets are the same to the bit.
    """

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, *, render_mode: str | None = None, **options: Any) -> None:
        """
        Args:
            options: of :class:`EnvOptions`.

        Raises:
            ConfigError: unknown option or name, unusable file, or parameter out of range.
        """
        check_names("option of the environment", options, [f.name for f in fields(EnvOptions)])
        self.options, self.render_mode = EnvOptions(**options), render_mode
        spec = self.options.spec()
        settings = read_settings(spec)
        self.task = make_task(spec, settings)
        self.simulation = Simulation(self.task, settings, spec.plant, _world(self.options.world))
        """Plant, servo and sensor."""
        self._seconds = self.task.seconds() if self.options.seconds is None else self.options.seconds
        self._initial_world = self.simulation.world
        robot, rate = self.simulation.setup.robot, 1.0 / self.simulation.timing.pose_period
        servo = self.simulation.servo.params
        gains = {"kp": servo.kp, "kd": servo.kd} if isinstance(servo, ServoParams) else {}
        self.mapping = PolicyMapping(
            robot.joint_names,
            rate,
            tuple(self.options.features),
            self.options.history,
            action=self.options.action,
            **gains,
        )
        """What a policy that was trained here needs for deployment; write it with
        :func:`~dexstack.control.policies.mapping.write_mapping`."""
        self._lower, self._upper = np.array(robot.lower, float), np.array(robot.upper, float)
        self._stack = FeatureStack(self.mapping.features, self._lower, self._upper, self.mapping.history)
        self._artists: dict[tuple[int, int], Any] = {}
        scaled = self.options.action == NORMALISED
        limits = (np.full(len(x), s) if scaled else x for x, s in ((self._lower, -1.0), (self._upper, 1.0)))
        self.action_space = gymnasium.spaces.Box(*limits, dtype=np.float64)
        rest, pose_WO = self.simulation.setup.rest, self.simulation.setup.start.pose_WO
        size = len(self._stack.add(PolicySight(0.0, rest, pose_WO, pose_WO, rest, rest)))
        self.observation_space: gymnasium.Space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        if self.options.picture:
            picture = gymnasium.spaces.Box(0, 255, (*self.options.picture, 3), np.uint8)
            self.observation_space = gymnasium.spaces.Dict(
                {"features": self.observation_space, "picture": picture}
            )

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a rollout.

        Args:
            seed: of start pose, noise, pushes, goals and drawn worlds; None: the next of the sequence.
            options: ``trial`` (k): the k-th trial of `dexstack eval` with this seed; ``world``: a
                :class:`~dexstack.tasks.base.World`, a mapping of its fields, a file, or ``"random"``
                to draw one (see :mod:`dexstack.tasks.worlds`); ``goals``: orientations or poses of
                the object, an iterable of (7,).

        Raises:
            ConfigError: an unknown option, or a world that the plant rejects.
        """
        super().reset(seed=seed)
        options = dict(options or {})
        check_names("option of reset", options, ("trial", "world", "goals"))
        drawn_seed = int(self.np_random.integers(2**31)) if seed is None else int(seed)
        world = options.get("world", self._initial_world)
        world = drawn(drawn_seed) if isinstance(world, str) and world == "random" else _world(world)
        if world != self.simulation.world:
            self.simulation.set_world(world)
            self._artists.clear()
        k = int(options.get("trial", 0))
        goals = map(self.task.at_pose, options["goals"]) if "goals" in options else None
        self._rollout: Rollout = self.simulation.rollout(
            goals or self.task.goals(k, drawn_seed), drawn_seed + k, self._seconds
        )
        self._sights: Iterator[Sight] = self._rollout.sights()
        self._stack.reset()
        self._target = np.array(self.simulation.setup.rest, float)
        self._action = np.zeros(len(self._target))
        self._reached = 0
        self._sight = next(self._sights, None)
        if self._sight is None:
            raise ConfigError("a rollout shorter than the delay of the first pose has no observation")
        self._error = self._true_error()
        return self._observation(), self._info()

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Send joint targets and advance to the next pose."""
        assert self._sight is not None, "call reset first"
        self._action = np.array(action, float)
        self._target = self.mapping.target(self._action, self._target, self._lower, self._upper)
        latency = self.simulation.timing.latency
        self._rollout.command(self._target, self._sight.t + latency)
        following, judge = next(self._sights, None), self._rollout.judge
        self._sight = following or self._sight
        ended = judge.dropped or judge.over or judge.complete or self.simulation.servo.trip is not None
        reached = len(judge.reached_at) - self._reached
        self._reached += reached
        before, self._error = self._error, self._true_error()
        dense = self.options.reward == "dense" and not reached
        progress = before - self._error if dense else 0.0
        reward = progress + GOAL * reached + DROP * judge.dropped
        return self._observation(), float(reward), bool(ended), following is None and not ended, self._info()

    def render(self) -> np.ndarray | None:
        """Return a picture (H, W, 3) of the plant's state with the goal as an outline."""
        if self.render_mode is None:
            return None
        plant, goal_WO = self.simulation.plant, self._rollout.judge.goal.pose_WO
        artist = self._artist(300, 400)
        return np.asarray(artist.frame(plant.joint_position, plant.pose_WO, goal_WO, plant.time))

    def _artist(self, height: int, width: int) -> Any:
        """Return the artist of pictures of the plant's robot and object of a size [px]."""
        if (height, width) not in self._artists:
            from dexstack.model.scene import robot_scene
            from dexstack.report.film import Artist

            actual = self.simulation.actual
            scene = robot_scene(actual.robot, actual.obj).compile()
            self._artists[height, width] = Artist(scene, width, height)
        return self._artists[height, width]

    def _true_error(self) -> float:
        """Return the orientation error of the true pose [rad]."""
        return float(self.task.orientation_error(self.simulation.plant.pose_WO, self._rollout.judge.goal))

    def _observation(self) -> Observation:
        assert self._sight is not None
        t, sample, _ = self._sight
        goal_WO = self.task.nearest(sample.pose_WO, self._rollout.judge.goal.pose_WO)
        now = PolicySight(t, sample.q_now, sample.pose_WO, goal_WO, self._target, self._action)
        features = self._stack.add(now).astype(np.float32)
        if not self.options.picture:
            return features
        pose_WO, q = sample.exposed
        return {"features": features, "picture": self._artist(*self.options.picture).picture(q, pose_WO)}

    def _info(self) -> dict[str, Any]:
        judge, plant = self._rollout.judge, self.simulation.plant
        outcome = judge.outcome(self._rollout.t, np.array(plant.pose_WO))
        return {
            "t": self._rollout.t,
            "pose_WO": np.array(outcome.pose_WO),
            "goal_WO": np.array(judge.goal.pose_WO),
            "orientation_error": self._error,
            "position_error": self.task.position_error(outcome.pose_WO, judge.goal),
            "goals_reached": len(judge.reached_at),
            "dropped": outcome.dropped,
            "is_success": bool(self.task.succeeded(outcome)),
            "trouble": self.simulation.trouble(),
        }


def _world(world: World | Mapping[str, float] | str | Path) -> World:
    if isinstance(world, World):
        return world
    return World(**world) if isinstance(world, Mapping) else read_world(Path(world))
