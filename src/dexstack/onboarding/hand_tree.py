"""Palm and fingers in the tree of a robot's bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import mujoco
import numpy as np

from dexstack.errors import ConfigError, check_names
from dexstack.onboarding.robot_file import RobotFile


class HandTree:
    """Bodies of a robot, by their indices in its MuJoCo model."""

    def __init__(self, robot: RobotFile) -> None:
        self.robot, self.model = robot, robot.model
        self.parent = self.model.body_parentid
        self.jointed = self.model.body_jntnum > 0

    def name(self, body: int) -> str:
        return self.model.body(body).name or f"body_{body}"

    def joint_name(self, joint: int) -> str:
        return self.model.joint(joint).name or f"joint_{joint}"

    def body(self, name: str) -> int:
        names = {self.name(b): b for b in range(1, self.model.nbody)}
        check_names(f"link in {self.robot.where}", [name], names)
        return names[name]

    def path(self, body: int) -> list[int]:
        """Return the body and its ancestors, up to the world's child."""
        found = []
        while body > 0:
            found.append(body)
            body = int(self.parent[body])
        return found

    def palm(self, name: str | None, tips: list[int]) -> int:
        """Return the palm's body: the named one, or the last common ancestor of all tips.

        Raises:
            ConfigError: no such link, or no common ancestor.
        """
        if name is not None:
            return self.body(name)
        ends = tips or self.leaves(range(1, self.model.nbody))
        if len(ends) < 2:
            raise ConfigError(
                f"{self.robot.where} has {len(ends)} links that could be fingertips; give the palm with "
                "--palm"
            )
        above = [[b for b in self.path(end) if b != end] for end in ends]
        common = [b for b in above[0] if all(b in other for other in above)]
        if not common:
            raise ConfigError(
                f"the fingertips of {self.robot.where} have no link in common that could be the palm"
            )
        return common[0]

    def leaves(self, bodies: Sequence[int]) -> list[int]:
        """Return the bodies with joints that carry no further joint, each replaced by the last link
        fixed to it whose name contains "tip", if there is one."""
        every = range(1, self.model.nbody)
        carriers = {b for j in every if self.jointed[j] for b in self.path(int(self.parent[j]))}
        ends = [b for b in bodies if self.jointed[b] and b not in carriers]
        tips = [b for b in every if "tip" in self.name(b).lower()]
        return [[end, *(b for b in tips if b > end and end in self.path(b))][-1] for end in ends]

    def proposed_tips(self, palm: int) -> list[int]:
        root = self.weld_root(palm)
        found = self.leaves([b for b in range(1, self.model.nbody) if b != root and root in self.path(b)])
        if not found:
            raise ConfigError(
                f"no link of {self.robot.where} moves relative to the palm '{self.name(palm)}': there is no "
                "finger"
            )
        return found

    def weld_root(self, body: int) -> int:
        """Return the first of the bodies that are rigidly connected with this one."""
        while not self.jointed[body] and self.parent[body] > 0:
            body = int(self.parent[body])
        return body

    def chains(self, palm: int, tips: list[int]) -> list[list[int]]:
        """Return the bodies with joints of each finger, from the palm to the tip, without those that
        move several fingers.

        Raises:
            ConfigError: a tip does not move relative to the palm, or only with another one.
        """
        root = self.weld_root(palm)
        chains: list[list[int]] = []
        for tip in tips:
            path, what = self.path(tip), f"the tip '{self.name(tip)}' of {self.robot.where}"
            if root not in path:
                raise ConfigError(f"{what} is not connected to the palm '{self.name(palm)}'")
            chain = [b for b in path[: path.index(root)] if self.jointed[b]][::-1]
            if not chain:
                raise ConfigError(f"{what} does not move relative to the palm '{self.name(palm)}'")
            chains.append(chain)
        counts = Counter(b for chain in chains for b in chain)
        own = [[b for b in chain if counts[b] == 1] for chain in chains]
        for tip, chain, left in zip(tips, chains, own, strict=True):
            if not left:
                other = next(end for end, c in zip(tips, chains, strict=True) if end != tip and chain[0] in c)
                joint = self.joint_name(int(self.model.body_jntadr[chain[0]]))
                raise ConfigError(
                    f"the fingers to '{self.name(other)}' and '{self.name(tip)}' of {self.robot.where} "
                    f"share the joint '{joint}'; each finger must have a joint of its own"
                )
        return own

    def thumb(self, palm: int, chains: list[list[int]]) -> int:
        """Return the index of the finger whose direction differs most from the others', the last one
        if they are similar."""
        data = mujoco.MjData(self.model)
        mujoco.mj_kinematics(self.model, data)
        away = np.array([data.xipos[chain[-1]] - data.xpos[chain[0]] for chain in chains])
        away /= np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-9)
        alike = (away @ away.T).sum(axis=1)
        return int(np.argmin(alike)) if np.ptp(alike) > 0.5 else len(chains) - 1
