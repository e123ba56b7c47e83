"""A robot file becomes a hand: its chains found, its meshes fitted, mounted palm up, at rest around
a free space, written as a folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dexstack.errors import ConfigError, writing
from dexstack.model.hand import HandModel, load_hand
from dexstack.model.urdf import lead
from dexstack.onboarding.hand_draft import Draft, draft_hand
from dexstack.onboarding.hand_file import Rest, write_hand
from dexstack.onboarding.add_object import plain_name
from dexstack.onboarding.resting import rest
from dexstack.onboarding.robot_file import read_robot


@dataclass(frozen=True)
class HandWishes:
    """What the file does not say, or what is not to be told from it."""

    name: str | None = None
    """None: the robot's own."""
    palm: str | None = None
    """The link that is fixed in the world; None: the last one that all fingers have in common."""
    tips: tuple[str, ...] = ()
    """The last link of each finger, the thumb's last; empty: all links that move nothing
    further."""
    up: tuple[float, ...] | None = None
    """(3,) direction in the palm frame out of the palm; None: told from where the fingertips
    reach."""
    forward: tuple[float, ...] | None = None
    """(3,) direction in the palm frame in which the fingers point."""
    effort: float | None = None
    """Torque limit of joints of which the file says none [N m]."""
    replace: bool = False
    """Whether a hand of that name in the folder is replaced."""


@dataclass(frozen=True)
class AddedHand:
    """What :func:`add_hand` made."""

    yaml: Path
    hand: HandModel
    draft: Draft
    notes: tuple[str, ...]
    """What was assumed, found or left out, a sentence each."""


AS_IT_IS = HandWishes()


def add_hand(
    file: str | Path,
    folder: str | Path | None = None,
    wishes: HandWishes = AS_IT_IS,
    progress: Callable[[str], None] = lambda message: None,
) -> AddedHand:
    """Write ``folder`` with NAME.yaml and NAME.urdf, which ``--hand`` and
    :func:`~dexstack.model.hand.load_hand` take.

    Args:
        file: a URDF, or an MJCF.
        folder: None: one of the hand's name.
        progress: called with a line now and then.

    Raises:
        ConfigError: the file is no robot, or no hand as
            :func:`~dexstack.onboarding.hand_draft.draft_hand` asks for; a direction is none; the
            folder cannot be written, or holds a hand of that name already.
    """
    up, forward = (_direction(key, getattr(wishes, key)) for key in ("up", "forward"))
    if up is not None and forward is not None and np.linalg.norm(np.cross(up, forward)) < 1e-3:
        raise ConfigError(
            "the directions 'up' and 'forward' are the same: one goes out of the palm, the other along the fingers"
        )
    draft = draft_hand(read_robot(file), wishes.palm, wishes.tips, wishes.effort)
    name = plain_name(wishes.name or draft.name, "a hand")
    folder = Path(folder or name)
    target = folder / f"{name}.yaml"
    if target.exists() and not wishes.replace:
        raise ConfigError(f"there is a hand already: {target}; --yes replaces it")
    chains = np.diff([0, *(k for k, joint in enumerate(draft.joints, 1) if joint.kind == "fixed")]) - 1
    progress(f"{Path(file).name}: fingers of {', '.join(map(str, chains))} joints on '{draft.links[0].name}'")
    with tempfile.TemporaryDirectory(prefix="dexstack-") as workshop:
        hand = load_hand(write_hand(Path(workshop), name, draft, _anyhow(draft), Path(file).name))
        progress("looking for a pose around a free space over the palm")
        mounted = rest(hand, up, forward)
        hand = mounted.hand
        known = Rest(
            hand.side, hand.quat_WP, hand.p_WP, hand.poses, mounted.swing_joints, hand.ignored_contacts
        )
        load_hand(write_hand(Path(workshop), name, draft, known, Path(file).name))
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for made in Path(workshop).iterdir():
                shutil.copyfile(made, folder / made.name)
    return AddedHand(target, load_hand(target), draft, draft.notes + mounted.notes)


def _direction(key: str, value: tuple[float, ...] | None) -> np.ndarray | None:
    if value is None:
        return None
    direction = np.array(value, float)
    if direction.shape != (3,) or not np.isfinite(direction).all() or np.linalg.norm(direction) < 1e-6:
        raise ConfigError(
            f"the direction '{key}' must be three finite numbers in the palm frame, not all zero, got {value}"
        )
    return direction / np.linalg.norm(direction)


def _anyhow(draft: Draft) -> Rest:
    """A mount and a pose to load the hand with, until they are found."""
    own, _ = lead(draft.name, [joint for joint in draft.joints if joint.kind == "revolute"])
    home = np.array([np.clip(0.0, joint.lower, joint.upper) for joint in own])
    return Rest("right", np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3), {"home": home})
