"""The states of a hand, and where they are kept so that a crash cannot lose them.

========
=====================================================================================================================
state     what the hand does ========
=====================================================================================================================
OFF       nobody drives it READY     it says who it is and where its joints are; its servo is off
ENABLED   the servo is on and follows commands HOLD      the servo is on, holds what it holds with
reduced torque, and takes no commands; it ends at a time or a temperature FAULT     something is
wrong; the servo is off ========
=====================================================================================================================

Only ENABLED and HOLD have torque. ENABLED needs consent: a person's, who calls ``hand/enable``,
again after every stop, fault and crash; or, for a hand that cannot hurt anybody, that of whoever
starts the graph, once. A hand's state is a file of a few bytes in memory (``/dev/shm``), replaced
as a whole at every change: who is started after a crash reads in it what was.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from dexstack.errors import ConfigError


class HandState(StrEnum):
    """See the module's docstring."""

    OFF = "off"
    READY = "ready"
    ENABLED = "enabled"
    HOLD = "hold"
    FAULT = "fault"


class Kept(NamedTuple):
    """What a file says."""

    state: HandState
    why: str
    run: str
    """Which run of the graph wrote it."""


@runtime_checkable
class StateStore(Protocol):
    """Where a driver writes down each of its states."""

    def note(self, state: HandState, why: str) -> None:
        """The hand is in this state now; never raises."""


class NoStore:
    """For a hand that is gone when its driver is."""

    def note(self, state: HandState, why: str) -> None:
        pass


class StateFile:
    """The state of one hand in memory that outlives processes.

    Args:
        folder: where; empty: ``/dev/shm/dexstack-UID``.
        name: of the hand: its serial number.

    Raises:
        ConfigError: the folder cannot be used, or belongs to somebody else.
    """

    def __init__(self, folder: str, name: str) -> None:
        shared = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
        path = Path(folder) if folder else shared / f"dexstack-{os.getuid()}"
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.stat().st_uid != os.getuid():
                raise ConfigError(f"{path} belongs to somebody else; the hand's state cannot be kept there")
        except OSError as error:
            raise ConfigError(f"the hand's state cannot be kept in {path}: {error.strerror}") from None
        self.path = path / f"{re.sub(r'[^A-Za-z0-9_.@-]', '_', name)}.json"
        self.run = _run()

    def read(self) -> Kept | None:
        """What was noted last; None when nothing was. What cannot be read counts as a fault."""
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
        except OSError:  # memory is full: what is there stays, and is no more than an older state
            part.unlink(missing_ok=True)

    @property
    def fresh(self) -> bool:
        """Nothing happened to this hand in this run of the graph that would ask for a person."""
        kept = self.read()
        return kept is None or kept.state is HandState.OFF or kept.run != self.run


def _run() -> str:
    """Who started this process and keeps it running: the same for a process and its replacement
    after a crash."""
    parent = os.getppid()
    try:
        started = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        started = ""
    return f"{parent}-{started}"
