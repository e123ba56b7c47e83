"""States of a hand, and their storage across crashes.

* OFF: not driven.
* READY: identified and sending joint angles; the servo is off.
* ENABLED: the servo is on and follows commands.
* HOLD: the servo is on, holds with reduced torque and takes no commands, until a time or a
  temperature.
* FAULT: the servo is off because of a fault.

Only ENABLED and HOLD have torque. ENABLED needs consent: that of a person, who calls
``hand/enable``, again after every stop, fault and crash; or, for a hand that cannot injure, that of
the person who starts the graph, once. The state of a hand is a small file in memory (``/dev/shm``),
replaced as a whole at every change: a process started after a crash reads the last state from it.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from dexstack.errors import ConfigError


class HandState(StrEnum):
    """See the module's docstring."""

    OFF = "off"
    READY = "ready"
    ENABLED = "enabled"
    HOLD = "hold"
    FAULT = "fault"


class Kept(NamedTuple):
    """Content of a state file."""

    state: HandState
    why: str
    run: str
    """The run of the graph that wrote it."""


class StateStore:
    """Stores the states of a driver; this class stores nothing, for a hand whose state ends with its
    driver."""

    def note(self, state: HandState, why: str) -> None:
        """Store the current state; never raises."""


class StateFile(StateStore):
    """The state of one hand in memory that outlives processes.

    Args:
        folder: folder of the file; empty: ``/dev/shm/dexstack-UID``.
        name: serial number of the hand.

    Raises:
        ConfigError: the folder cannot be used, or belongs to another user.
    """

    def __init__(self, folder: str, name: str) -> None:
        shared = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
        path = Path(folder) if folder else shared / f"dexstack-{os.getuid()}"
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.stat().st_uid != os.getuid():
                raise ConfigError(f"{path} belongs to another user; the hand's state cannot be kept there")
        except OSError as error:
            raise ConfigError(f"the hand's state cannot be kept in {path}: {error.strerror}") from None
        self.path = path / f"{re.sub(r'[^A-Za-z0-9_.@-]', '_', name)}.json"
        self.run = _run()

    def read(self) -> Kept | None:
        """Return the last state, None without any. An unreadable file counts as a fault."""
        try:
            document = json.loads(self.path.read_text())
            return Kept(HandState(document["state"]), str(document["why"]), str(document["run"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            return Kept(HandState.FAULT, f"{self.path} cannot be read", "")

    def note(self, state: HandState, why: str) -> None:
        part = self.path.with_suffix(f".{os.getpid()}.part")
        try:
            part.write_text(
                json.dumps(
                    {
                        "state": state.value,
                        "why": why,
                        "run": self.run,
                        "pid": os.getpid(),
                        "time": time.time(),
                    }
                )
            )
            part.replace(self.path)
        except OSError:  # memory is full: the older state stays
            part.unlink(missing_ok=True)

    @property
    def fresh(self) -> bool:
        """True if nothing in this run of the graph requires a person's consent."""
        kept = self.read()
        return kept is None or kept.state is HandState.OFF or kept.run != self.run


def _run() -> str:
    """Return an identifier of the parent process, the same for a process and its replacement after
    a crash."""
    parent = os.getppid()
    try:
        started = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        started = ""
    return f"{parent}-{started}"
