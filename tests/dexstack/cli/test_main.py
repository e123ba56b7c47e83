"""Dispatch, exit codes and start-up time of the ``dexstack`` command."""

import subprocess
import sys
import types

import pytest

from dexstack.cli import main as cli
from dexstack.errors import ConfigError


@pytest.fixture
def command(monkeypatch):
    """Replace the command ``eval`` by a fake with a given ``run`` that records its arguments."""
    module = types.ModuleType("dexstack.cli.eval")
    module.add_parser = lambda subparsers: subparsers.add_parser("eval").add_argument("--trials", type=int)
    module.seen = []

    def install(run):
        module.run = lambda args: (module.seen.append(args.trials), run())[1]
        monkeypatch.setitem(sys.modules, "dexstack.cli.eval", module)
        return module

    return install


def fail(error):
    raise error


@pytest.mark.parametrize("status", [0, 1])
def test_the_exit_code_is_that_of_the_command(command, status):
    module = command(lambda: status)
    assert cli.main(["eval", "--trials", "3"]) == status
    assert module.seen == [3]


def test_config_errors_are_one_line_and_exit_2(command, capsys):
    command(lambda: fail(ConfigError("parameter 'kp' must be finite")))
    assert cli.main(["eval"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "dexstack eval: parameter 'kp' must be finite\n" and captured.out == ""


def test_other_errors_keep_their_traceback(command):
    command(lambda: fail(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(["eval"])


def test_ctrl_c_exits_130(command, capsys):
    command(lambda: fail(KeyboardInterrupt()))
    assert cli.main(["eval"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("argv", [[], ["juggle"], ["eval", "--trials", "many"]])
def test_wrong_usage_exits_2(command, argv, capsys):
    command(lambda: 0)
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    assert stop.value.code == 2
    assert "usage: dexstack" in capsys.readouterr().err


def test_help_names_every_command_and_imports_none_of_them():
    code = """
import sys
from dexstack.cli.main import main
try:
    main(["--help"])
except SystemExit:
    pass
heavy = {"numpy", "jax", "mujoco", "rclpy", "rich", "scipy", "yaml"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in cli.COMMANDS)


def test_a_closed_pipe_is_quiet():
    code = (
        "import sys, types; module = types.ModuleType('dexstack.cli.eval')\n"
        "module.add_parser = lambda s: s.add_parser('eval')\n"
        "module.run = lambda args: print('x' * 1000000) or 0\n"
        "sys.modules['dexstack.cli.eval'] = module\n"
        "from dexstack.cli.main import main; sys.exit(main(['eval']))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 1
    process.stderr.close()


def test_the_help_shows_each_default_once():
    parser = cli.Parser()
    parser.add_argument("--seed", default=0, help="seed")
    parser.add_argument("--engine", nargs="+", default=["lcp", "soft"], help="100 %% of the engines")
    parser.add_argument("--seconds", default=None, help="duration (default: the task's)")
    parser.add_argument("--films", action="store_true", help="make films")
    shown = " ".join(parser.format_help().split())
    assert "seed (default: 0)" in shown and "100 % of the engines (default: lcp soft)" in shown
    assert shown.count("default:") == 3
