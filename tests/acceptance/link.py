"""Two emulated machines: two network namespaces joined by a wire that delays, drops, or is cut.

The wire is a process (``python -m tests.acceptance.link A B``) with a TAP device in each namespace.
It carries each frame after ``delay`` ± ``jitter`` (uniform), or drops it with probability ``loss``;
frames keep their order. It needs root, `ip` and /dev/net/tun, but no traffic control in the kernel.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import os
import random
import select
import shutil
import struct
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from types import TracebackType

from dexstack.errors import ConfigError
from tests.acceptance.programs import Program

CARD = "wire"
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI, _CLONE_NEWNET = 0x400454CA, 0x0002, 0x1000, 0x40000000
_FRAME = 2048


def missing() -> str:
    """Return why two namespaces cannot be made here; empty if they can."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return "two network namespaces need root and `ip`"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    name = f"dexstack-{os.getpid()}-try"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"network namespaces are not permitted: {done.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=False)
    return ""


class TwoMachines:
    """Two namespaces and the wire between them; a context manager.

    Args:
        delay: one-way delay of each frame [s].
        jitter: largest deviation from it [s].
        loss: share of frames that are dropped.
        seed: seed of jitter and loss.

    Raises:
        ConfigError: namespaces are not permitted here.
    """

    def __init__(self, *, delay: float = 0.0, jitter: float = 0.0, loss: float = 0.0, seed: int = 0) -> None:
        self._arguments = [f"--delay={delay}", f"--jitter={jitter}", f"--loss={loss}", f"--seed={seed}"]
        self.names = tuple(f"dexstack-{os.getpid()}-{side}" for side in "ab")

    def __enter__(self) -> TwoMachines:
        if reason := missing():
            raise ConfigError(reason)
        with contextlib.ExitStack() as stack:
            for name in self.names:
                _ip("netns", "add", name)
                stack.callback(_ip, "netns", "del", name)
            command = [sys.executable, "-m", "tests.acceptance.link", *self.names, *self._arguments]
            wire = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._wire = stack.enter_context(wire)  # ends with its standard input
            if wire.stdout.readline() != "ready\n":
                raise ConfigError("the wire between the namespaces cannot be made")
            for k, name in enumerate(self.names):
                _ip("-n", name, "address", "add", f"10.213.77.{k + 1}/24", "dev", CARD)
                _ip("-n", name, "link", "set", "lo", "up")
                _ip("-n", name, "link", "set", CARD, "up", "multicast", "on")
                _ip("-n", name, "route", "add", "224.0.0.0/4", "dev", CARD)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def on(self, machine: int, command: list[str]) -> list[str]:
        """Return the command that runs ``command`` on machine 0 or 1."""
        return ["ip", "netns", "exec", self.names[machine], *command]

    def start(self, machine: int, command: list[str], folder: Path) -> Program:
        """Start a program on machine 0 or 1, in a ROS domain that spans both; ``folder`` gets its output."""
        own = {k: v for k, v in os.environ.items() if not k.startswith(("ROS_", "FASTDDS"))}
        across = {"ROS_DOMAIN_ID": "7", "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}
        return Program(self.on(machine, command), folder, own | across)

    def cut(self) -> None:
        """Drop every frame until :meth:`join`."""
        self._say("cut")

    def join(self) -> None:
        """Carry frames again."""
        self._say("join")

    def _say(self, word: str) -> None:
        self._wire.stdin.write(word + "\n")
        self._wire.stdin.flush()
        self._wire.stdout.readline()


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"`ip {' '.join(arguments)}`: {done.stderr.strip()}")


def _card(namespace: str) -> int:
    """Open a TAP device in a namespace; return its file descriptor."""
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.setns(there, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH22x", CARD.encode(), _IFF_TAP | _IFF_NO_PI))
        return file
    finally:
        libc.setns(here, _CLONE_NEWNET)
        os.close(here)
        os.close(there)


def carry(cards: tuple[int, int], delay: float, jitter: float, loss: float, seed: int) -> None:
    """Carry frames until standard input ends, which also says ``cut`` and ``join``."""
    rng = random.Random(seed)
    on_the_way: tuple[deque[tuple[float, bytes]], ...] = (deque(), deque())  # to each card, in order
    other = {cards[0]: 1, cards[1]: 0}
    whole = True
    while True:
        now = time.monotonic()
        for frames, card in zip(on_the_way, cards, strict=True):
            while frames and frames[0][0] <= now:
                with contextlib.suppress(OSError):  # device down or queue full: drop the frame
                    os.write(card, frames.popleft()[1])
        due = min((frames[0][0] for frames in on_the_way if frames), default=now + 1.0)
        readable, _, _ = select.select([*cards, sys.stdin], [], [], max(0.0, due - now))
        now = time.monotonic()
        for card in readable:
            if card is sys.stdin:
                word = sys.stdin.readline()
                if not word:
                    return
                whole = word != "cut\n"
                if not whole:
                    for frames in on_the_way:
                        frames.clear()
                print(word, end="", flush=True)
                continue
            with contextlib.suppress(BlockingIOError):
                while True:
                    frame = os.read(card, _FRAME)
                    if whole and rng.random() >= loss:
                        frames = on_the_way[other[card]]
                        arrives = now + delay + rng.uniform(-jitter, jitter)
                        frames.append((max(arrives, frames[-1][0] if frames else 0.0), frame))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("namespaces", nargs=2)
    for name in ("delay", "jitter", "loss"):
        p.add_argument(f"--{name}", type=float, default=0.0)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    cards = (_card(args.namespaces[0]), _card(args.namespaces[1]))
    print("ready", flush=True)
    carry(cards, args.delay, args.jitter, args.loss, args.seed)


if __name__ == "__main__":
    main()
