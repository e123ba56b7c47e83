"""Import of a hand from a robot file: fingers found, meshes replaced by shapes, mounted palm up, at
rest around a free space, written as a folder."""

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
from dexstack.onboarding.object_file import plain_name
from dexstack.onboarding.resting import rest
from dexstack.onboarding.robot_file import read_robot


@dataclass(frozen=True)
class HandWishes:
    """Values that are not in the file, or that override it."""

    name: str | None = None
    """None: the robot's name."""
    palm: str | None = None
    """The link that is fixed in the world; None: the last common ancestor of all fingers."""
    tips: tuple[str, ...] = ()
    """The last link of each finger, the thumb's last; empty: all links that carry no further
    joint."""
    up: tuple[float, ...] | None = None
    """(3,) direction out of the palm in the palm frame; None: found from the fingertips' reach."""
    forward: tuple[float, ...] | None = None
    """(3,) direction of the fingers in the palm frame; None: found from them."""
    effort: float | None = None
    """Torque limit of joints without one in the file [N m]."""
    replace: bool = False
    """True to replace a hand of that name in the folder."""


@dataclass(frozen=True)
class AddedHand:
    """Result of :func:`add_hand`."""

    yaml: Path
    hand: HandModel
    draft: Draft
    notes: tuple[str, ...]
    """Assumptions, findings and omissions, one sentence each."""


def add_hand(
    file: str | Path,
    folder: str | Path | None = None,
    wishes: HandWishes = HandWishes(),
    progress: Callable[[str], None] = lambda message: None,
) -> AddedHand:
    """Write a folder with NAME.yaml and NAME.urdf, for ``--hand`` and
    :func:`~dexstack.model.hand.load_hand`.

    Args:
        file: a URDF, or an MJCF.
        folder: None: a folder of the hand's name.
        progress: called with lines of progress.

    Raises:
        ConfigError: the file is not a robot or, see
            :func:`~dexstack.onboarding.hand_draft.draft_hand`, not a hand; a direction is invalid;
            the folder cannot be written, or contains a hand of that name already.
    """
    up, forward = (_direction(key, getattr(wishes, key)) for key in ("up", "forward"))
    if up is not None and forward is not None and np.linalg.norm(np.cross(up, forward)) < 1e-3:
        raise ConfigError(
            "the directions 'up' and 'forward' are parallel; 'up' is out of the palm, 'forward' along the "
            "fingers"
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
        hand = load_hand(write_hand(Path(workshop), name, draft, _provisional(draft), Path(file).name))
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


def _provisional(draft: Draft) -> Rest:
    """Return a mount and a pose to load the hand with before they are found."""
    own, _ = lead(draft.name, [joint for joint in draft.joints if joint.kind == "revolute"])
    home = np.array([np.clip(0.0, joint.lower, joint.upper) for joint in own])
    return Rest("right", np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3), {"home": home})
