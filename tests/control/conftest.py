"""The state most tests of the controller start from: the cube at rest on the palm, the fingers around it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from dexstack.contact.contact import Contacts
from dexstack.contact.detector import ContactDetector
from dexstack.model.hand import HandModel, load_hand
from dexstack.model.objects import ObjectModel, load_object


class Resting(NamedTuple):
    hand: HandModel
    obj: ObjectModel
    detector: ContactDetector
    pose_WO: np.ndarray
    q: np.ndarray
    contacts: Contacts


@pytest.fixture(scope="session")
def resting() -> Resting:
    hand, obj = load_hand("right"), load_object("cube")
    detector = ContactDetector(hand, obj)
    start = obj.start("allegro")
    q = hand.pose(start.hand_pose)
    return Resting(hand, obj, detector, start.pose_WO, q, detector.detect(start.pose_WO, q))
