"""Programs started by a fork of a starter process, since this one has threads of every library."""

import json
import subprocess
import sys

import pytest

STARTER = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from dexstack.process.forked import Forked
out = Path(sys.argv[1]) / "out.txt"
signal.signal(signal.SIGTERM, lambda *_: None)
with out.open("a") as log:
    program = Forked("program", ["a", "b c"], {"COLOUR": "blue"}, log, log)
if len(sys.argv) > 2:
    if sys.argv[2] == "REAPED":
        os.waitpid(program.pid, 0)
    elif sys.argv[2] == "TIMEOUT":
        try:
            program.wait(0.1)
        except subprocess.TimeoutExpired:
            print(json.dumps({"running": program.poll() is None}))
        os.kill(program.pid, signal.SIGKILL)
    else:
        while "ready" not in out.read_text():
            time.sleep(0.01)
        os.kill(program.pid, signal.SIGTERM)
print(json.dumps({"code": program.wait(20), "again": program.poll(), "pid": program.pid, "me": os.getpid()}))
"""


def start(tmp_path, code: str, *how: str) -> tuple[list[dict], str]:
    (tmp_path / "program.py").write_text(
        "import os, sys, time\n\n\ndef main():\n" + "".join(f"    {line}\n" for line in code.splitlines())
    )
    command = [sys.executable, "-c", STARTER, str(tmp_path), *how]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in said.stdout.splitlines()], (tmp_path / "out.txt").read_text()


def test_it_has_its_own_arguments_environment_session_and_name_and_no_open_files(tmp_path):
    code = """print(
    sys.argv, dict(os.environ), os.getsid(0) == os.getpid(),
    open('/proc/self/comm').read().strip(), sys.stdin.read() == '',
    [f for f in os.listdir('/proc/self/fd') if int(f) > 3]
)"""  # 3: the listing's own
    [end], said = start(tmp_path, code)
    assert end["code"] == end["again"] == 0
    assert said == "['program', 'a', 'b c'] {'COLOUR': 'blue'} True program True []\n"


@pytest.mark.parametrize(
    ("code", "expected", "words"),
    [
        ("return 3", 3, ""),
        ("sys.exit(2)", 2, ""),
        ("sys.exit('no such hand')", 1, "no such hand"),
        ("raise ValueError('smoke')", 1, "ValueError: smoke"),
        ("import no_such_module", 1, "No module named 'no_such_module'"),
        ("import atexit\natexit.register(print, 'last words')", 0, "last words"),
    ],
)
def test_its_exit_code_is_that_of_a_program(tmp_path, code, expected, words):
    [end], said = start(tmp_path, code)
    assert end["code"] == expected and words in said


@pytest.mark.parametrize(
    ("how", "code", "expected"),
    [
        ("TERM", "print('ready')\ntime.sleep(60)", -15),
        ("TIMEOUT", "time.sleep(60)", -9),
        ("REAPED", "return 3", 0),
    ],
)
def test_signals_end_it_wait_times_out_and_another_thread_may_take_its_exit_code(
    tmp_path, how, code, expected
):
    """Its starter handles the signal."""
    [*before, end], _ = start(tmp_path, code, how)
    assert end["code"] == end["again"] == expected
    assert before == [{"running": True}] * (how == "TIMEOUT")
