"""The supervisor with stand-in processes: restarts, giving up, and no orphans."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import wait_until

from dexstack.cli import supervisor
from dexstack.cli.supervisor import NodeSupervisor, attached_environment, graph_environment
from dexstack.errors import ConfigError
from dexstack.graph.modes import MODES, NodeDescription, discovery_range
from tests.acceptance.programs import alive

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Stand(NodeDescription):
    """A node that runs Python code and appends its process id to the file ``pids``."""

    code: str = ""
    pids: str = ""

    @property
    def command(self) -> list[str]:
        register = f"import os; print(os.getpid(), file=open({self.pids!r}, 'a'))"
        return [sys.executable, "-S", "-c", f"{register}\n{self.code}"]


SLEEP = "import time\ntime.sleep(600)"
IGNORES = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(600)"


def pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.is_file() else []


def supervise(tmp_path: Path, *stands: Stand):
    return NodeSupervisor(stands, dict(os.environ), tmp_path, view=sys.stderr).run()


def test_a_run_ends_with_the_node_that_ends_it(tmp_path):
    other = tmp_path / "other"
    end = supervise(
        tmp_path,
        Stand("last", code="", pids=str(tmp_path / "last"), ends_run=True),
        Stand("x", code=SLEEP, pids=str(other)),
    )
    assert not end.stopped and not end.failure and not end.restarts
    assert not any(alive(pid) for pid in pids(other))


def test_a_crashed_node_is_restarted(tmp_path):
    lives, end_of_run = tmp_path / "x", tmp_path / "l"
    once = f"import os\nif len(open({str(lives)!r}).readlines()) == 1: os.kill(os.getpid(), 9)\n{SLEEP}"
    second = (
        f"import time\nopen({str(lives)!r}, 'a')\n"
        f"while len(open({str(lives)!r}).readlines()) < 2: time.sleep(.01)"
    )
    end = supervise(
        tmp_path,
        Stand("x", code=once, pids=str(lives)),
        Stand("last", code=second, pids=str(end_of_run), ends_run=True),
    )
    assert end.restarts == {"x": 1} and not end.failure


@pytest.mark.parametrize(
    ("code", "said", "starts"),
    [
        ("raise SystemExit('the magic smoke is out')", "'x' ended with exit code 1", supervisor.ATTEMPTS),
        ("import sys\nprint('the magic smoke is out', file=sys.stderr)\nsys.exit(2)", "", 1),
    ],
)
def test_a_node_that_cannot_start_ends_the_run_with_its_output(tmp_path, code, said, starts):
    """An unusable configuration, exit code 2, is not tried again."""
    end = supervise(tmp_path, Stand("x", code=code, pids=str(tmp_path / "x"), respawn_delay=0.01))
    assert said in end.failure and "the magic smoke is out" in end.failure
    assert len(pids(tmp_path / "x")) == starts


def test_a_node_that_ignores_interrupts_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "PATIENCE", 0.3)
    ready = tmp_path / "deaf"
    wait = f"import time\nwhile not os.path.exists({str(ready)!r}): time.sleep(.01)\ntime.sleep(0.2)"
    supervise(
        tmp_path,
        Stand("deaf", code=IGNORES, pids=str(ready)),
        Stand("last", code=wait, pids=str(tmp_path / "l"), ends_run=True),
    )
    assert not any(alive(pid) for pid in pids(ready))


SUPERVISE_TWO = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_supervisor import SLEEP, Stand, supervise
folder = Path(sys.argv[2])
end = supervise(folder, *(Stand(name, code=SLEEP, pids=str(folder / name)) for name in ("a", "b")))
sys.exit(0 if end.stopped else 1)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_orphan_is_left(tmp_path, number):
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISE_TWO, str(HERE), str(tmp_path)], stdin=subprocess.DEVNULL
    )
    try:
        both = lambda: pids(tmp_path / "a") + pids(tmp_path / "b")  # noqa: E731
        wait_until(lambda: len(both()) == 2, 20, "two processes")
        started = both()
        assert all(alive(pid) for pid in started)
        process.send_signal(number)
        assert process.wait(10) == (0 if number != signal.SIGKILL else -signal.SIGKILL)
        wait_until(lambda: not any(alive(pid) for pid in started), 5, "the nodes to end")
    finally:
        process.kill()


def test_two_graphs_get_two_domains_and_a_command_joins_the_only_one(monkeypatch):
    monkeypatch.delenv("ROS_DOMAIN_ID", raising=False)
    monkeypatch.delenv("ROS_AUTOMATIC_DISCOVERY_RANGE", raising=False)
    monkeypatch.setattr(supervisor, "CLAIM", "dexstack-test-domain-")  # not those of other tests
    assert "ROS_DOMAIN_ID" not in attached_environment()
    with graph_environment() as first:
        assert first["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
        assert attached_environment().items() >= first.items()
        with graph_environment() as second:
            assert first["ROS_DOMAIN_ID"] != second["ROS_DOMAIN_ID"]
            with pytest.raises(ConfigError, match=f"{second['ROS_DOMAIN_ID']}.*choose with"):
                attached_environment()


def test_a_domain_of_the_user_is_kept_or_refused(monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "77")
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")
    with graph_environment() as one, graph_environment() as two:
        assert {e["ROS_DOMAIN_ID"] for e in (one, two, attached_environment())} == {"77"}
        assert one["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "SUBNET"
    for wrong in ("abc", "233", ""):
        monkeypatch.setenv("ROS_DOMAIN_ID", wrong)
        with pytest.raises(ConfigError, match=f"ROS_DOMAIN_ID must be .*, got '{wrong}'"):
            attached_environment()


@pytest.mark.parametrize(
    ("discovery", "part", "inherited", "expected"),
    [
        ("auto", "all", None, "LOCALHOST"),
        ("auto", "robot", None, "SUBNET"),
        ("auto", "all", "SUBNET", "SUBNET"),
        ("subnet", "all", "LOCALHOST", "SUBNET"),
        ("localhost", "planner", None, "LOCALHOST"),
    ],
)
def test_a_whole_graph_stays_on_this_machine_by_default(monkeypatch, discovery, part, inherited, expected):
    monkeypatch.delenv("ROS_AUTOMATIC_DISCOVERY_RANGE", raising=False)
    if inherited:
        monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", inherited)
    assert discovery_range(discovery, part) == expected
    assert all(
        any(a.name == "discovery" and a.default == "auto" for a in mode.arguments) for mode in MODES.values()
    )
