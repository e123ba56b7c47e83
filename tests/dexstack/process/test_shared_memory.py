"""Shared memory of Fast DDS: segments of killed nodes are removed, those of living nodes are not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dexstack.process.shared_memory import FOLDER, clear_abandoned

NODE = """
import os, sys
from pathlib import Path
before = set(os.listdir("/dev/shm"))
import rclpy
from dexstack.nodes.common import StackNode
rclpy.init()
node = StackNode("other")
new = sorted(set(os.listdir("/dev/shm")) - before)
print(*(n for n in new if n.endswith("_el") and "port" not in n), flush=True)
sys.stdin.read()
node.destroy_node()
rclpy.shutdown()
os._exit(0)  # without garbage collection, as a node ends
"""


@pytest.fixture
def node():
    """A process with a node, and the locks that appeared when it started."""
    pytest.importorskip("rclpy")
    if not FOLDER.is_dir():
        pytest.skip("no shared memory")
    environment = os.environ | {
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "FASTDDS_BUILTIN_TRANSPORTS": "UDPv4",
        "ROS_DOMAIN_ID": "97",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", NODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        locks = [FOLDER / name for name in process.stdout.readline().split()]
        assert locks, "Fast DDS uses no shared memory here"
        yield process, locks
    finally:
        process.kill()
        process.communicate()


def held(process: subprocess.Popen, locks: list[Path]) -> list[Path]:
    """Return the locks and segments of this process; other nodes may start at the same time."""
    mapped = Path(f"/proc/{process.pid}/maps").read_text()
    mine = [lock for lock in locks if str(lock).removesuffix("_el") in mapped]
    assert mine
    return mine + [Path(str(lock).removesuffix("_el")) for lock in mine]


def test_memory_of_a_living_node_stays_until_it_ends(node):
    process, locks = node
    mine = held(process, locks)
    clear_abandoned(age=0.0)
    assert all(file.exists() for file in mine)
    process.communicate("")
    assert process.returncode == 0 and not any(file.exists() for file in mine)


def test_memory_of_a_killed_node_is_removed(node):
    process, locks = node
    mine = held(process, locks)
    process.kill()
    process.wait()
    assert all(file.exists() for file in mine), "the kill itself must not remove it"
    clear_abandoned(age=0.0)
    assert not any(file.exists() for file in mine)


def test_young_segments_and_other_files_stay(tmp_path):
    for name in (
        "fastdds_0123456789abcdef",
        "fastdds_0123456789abcdef_el",
        "fastdds_port7000_el",
        "fastdds_port7000",
        "mine_el",
    ):
        (tmp_path / name).touch()
    assert clear_abandoned(tmp_path) == 0 and len(list(tmp_path.iterdir())) == 5
    assert clear_abandoned(tmp_path, age=0.0) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "fastdds_port7000",
        "fastdds_port7000_el",
        "mine_el",
    ]
