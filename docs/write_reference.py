"""Write docs/reference.md: commands, arguments, topics, services and parameters, from the code
itself; needs rclpy."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import math
import pkgutil
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from dexstack.errors import ConfigError

FILE = Path(__file__).with_name("reference.md")
GROUPS = ("bench", "calibrate", "diagnose", "hand", "object")
"""Commands that have subcommands, one module each."""
_CALLS = {
    "create_publisher": "writes",
    "newest": "reads",
    "create_service": "offers",
    "create_client": "calls",
}


def main() -> int:
    """Write the file, or with ``--check`` only compare it.

    Returns:
        0 when the file is current (now), 1 when ``--check`` found that it is not, 2 when it cannot
        be written.
    """
    parser = argparse.ArgumentParser(prog="python -m docs.write_reference", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 if the file is not what it would be"
    )
    check = parser.parse_args().check
    try:
        text = reference()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    current = FILE.is_file() and FILE.read_text() == text
    if not check and not current:
        FILE.write_text(text)
    print(
        f"{FILE} {'is current' if current else 'is not current: run `python -m docs.write_reference`' if check else 'was written'}"
    )
    return int(check and not current)


def reference() -> str:
    """The text of the file.

    Raises:
        ConfigError: rclpy is not there, without which nodes cannot be imported.
    """
    try:
        nodes = list(_nodes())
    except ImportError as error:
        raise ConfigError(f"the nodes cannot be imported ({error}); install the extra 'ros'") from None
    parts = [
        "# Reference\n\nWritten by `python -m docs.write_reference` from the code; a test says so when it is not current.",
        _commands(),
        _arguments(),
    ]
    parts += [
        _topics(nodes),
        _services(nodes),
        *(_parameters(node) for node in nodes),
        *_tasks(),
        _supervisors(),
        _plants(),
    ]
    return "\n\n".join(parts) + "\n"


# --- commands and arguments -----------------------------------------------------------------------------------------------------------


def _commands() -> str:
    from dexstack.cli.main import COMMANDS

    rows = []
    for name, line in COMMANDS.items():
        rows.append((f"`dexstack {name}`", line))
        if name in GROUPS:
            rows += [(f"`dexstack {name} {sub}`", summary) for sub, summary in _subcommands(name)]
    return "## Commands\n\nEach has `--help` and `--json FILE|-`.\n\n" + _table(
        ("command", "what it does"), rows
    )


def _subcommands(group: str) -> Iterable[tuple[str, str]]:
    parser = argparse.ArgumentParser()
    importlib.import_module(f"dexstack.cli.{group}").add_parser(parser.add_subparsers())
    (outer,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    (inner,) = [a for a in outer.choices[group]._actions if isinstance(a, argparse._SubParsersAction)]
    return [(choice.dest, choice.help or "") for choice in inner._choices_actions]


def _arguments() -> str:
    from dexstack.graph.modes import ARGUMENTS, MODES

    rows = []
    for argument in ARGUMENTS:
        defaults = {}
        for mode, description in MODES.items():
            own = next(a for a in description.arguments if a.name == argument.name)
            defaults[mode] = "–" if own.name in description.without_effect else _value(own.default)
        values = ", ".join(argument.choices) or (
            f"{argument.lo:g} … {argument.hi:g}" if argument.lo is not None else ""
        )
        if argument.name == "robot_state":  # the one that depends on what is installed
            defaults = dict.fromkeys(defaults, "yes with tf2_msgs")
        rows.append((f"`{argument.name}`", *defaults.values(), values, argument.doc))
    head = (
        "## Arguments of a graph\n\n`dexstack up MODE --goal-yaw 45` and `ros2 launch dexstack MODE.launch.py goal_yaw:=45` take the same; "
        "– has no effect in that mode.\n\n"
    )
    return head + _table(("argument", *MODES, "values", "what it is"), rows)


# --- nodes ----------------------------------------------------------------------------------------------------------------------------


class _Use(NamedTuple):
    """What a node does with a topic or a service."""

    how: str
    kind: str
    name: str
    qos: str


class _Node(NamedTuple):
    name: str
    doc: str
    blocks: list[type]
    live: frozenset[str]
    uses: list[_Use]


def _nodes() -> Iterable[_Node]:
    """Every node there is, in alphabetical order: the modules of :mod:`dexstack.nodes` that can be
    run."""
    from dexstack import nodes

    modules = {
        info.name: importlib.import_module(f"dexstack.nodes.{info.name}")
        for info in pkgutil.iter_modules(nodes.__path__)
    }
    for name, module in sorted(modules.items()):
        if not hasattr(module, "main"):
            continue
        (kind,) = (x for x in vars(module).values() if _is_node(x) and x.__module__ == module.__name__)
        own = _uses(module, inspect.getsource(module))
        yield _Node(
            name,
            inspect.getdoc(module) or "",
            _blocks(module, kind),
            kind.LIVE,
            [*own, *_uses_of_helpers(module)],
        )


def _is_node(thing: Any) -> bool:
    from dexstack.nodes.common import StackNode

    return inspect.isclass(thing) and issubclass(thing, StackNode)


def _blocks(module: ModuleType, kind: type) -> list[type]:
    """The parameter dataclasses that the node's constructor names, after those of every node that
    knows the scene."""
    from dexstack.graph.parameters import SceneParams
    from dexstack.nodes.scene import SceneNode

    scene = [SceneParams] if issubclass(kind, SceneNode) else []
    for call in ast.walk(ast.parse(inspect.getsource(module))):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "__init__"
            and call.args
        ):
            return scene + [getattr(module, a.id) for a in call.args[1:] if isinstance(a, ast.Name)]
    return scene


def _uses_of_helpers(module: ModuleType) -> Iterable[_Use]:
    """What classes open that a node's module imports from other modules of nodes, and that are no
    nodes themselves."""
    for helper in vars(module).values():
        elsewhere = (
            inspect.isclass(helper)
            and helper.__module__.startswith("dexstack.nodes.")
            and helper.__module__ != module.__name__
        )
        if elsewhere and not _is_node(helper):
            yield from _uses(importlib.import_module(helper.__module__), inspect.getsource(helper))


def _uses(module: ModuleType, source: str) -> Iterable[_Use]:
    """Publishers, subscriptions, services and clients that some source of a module creates under a
    name it says."""
    for call in ast.walk(ast.parse(source)):
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in _CALLS
            and len(call.args) >= 2
        ):
            continue
        kind, name, *rest = call.args
        names = _names(module, name)
        qos = (
            rest[0].id
            if rest and isinstance(rest[0], ast.Name) and call.func.attr in ("create_publisher", "newest")
            else ""
        )
        for text in names:
            yield _Use(_CALLS[call.func.attr], ast.unparse(kind), text, qos)


def _names(module: ModuleType, node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    value = getattr(module, node.id, None) if isinstance(node, ast.Name) else None
    return [value] if isinstance(value, str) else []


def _topics(nodes: list[_Node]) -> str:
    topics: dict[str, dict[str, Any]] = defaultdict(
        lambda: {"types": set(), "writes": set(), "reads": set(), "qos": set()}
    )
    for node in nodes:
        for use in node.uses:
            if use.how in ("writes", "reads"):
                topic = topics[use.name]
                topic["types"].add(use.kind)
                topic[use.how].add(node.name)
                topic["qos"] |= {use.qos.lower()} - {""}
    topics["/diagnostics"]["writes"] = {"every node"}
    rows = []
    for name, topic in sorted(topics.items(), key=lambda item: item[0].strip("/")):
        cells = [", ".join(sorted(topic[key])) for key in ("types", "qos", "writes", "reads")]
        rows.append((f"`{name}`", *cells))
    text = (
        "## Topics\n\nNames without a leading slash are in the graph's namespace. Quality of service: *sensor* best effort, depth 1; "
        "*servo* best effort, depth 4; *recent* best effort, depth 200; *state* reliable, depth 10; *command* reliable, depth 1; *latched* "
        "reliable, transient local, depth 1, where readers hear publishers too that keep nothing, as `ros2 topic pub`; *reports* reliable, "
        "depth 50. The recorder and the player take every topic there is.\n\n"
    )
    return text + _table(("topic", "type", "quality", "written by", "read by"), rows)


def _services(nodes: list[_Node]) -> str:
    rows = []
    for node in nodes:
        for use in node.uses:
            if use.how == "offers":
                rows.append((f"`{use.name.replace('~', node.name)}`", use.kind, node.name))
    text = "## Services\n\nBeside those of every ROS 2 lifecycle node (`ros2 lifecycle`, `ros2 param`).\n\n"
    return text + _table(("service", "type", "offered by"), sorted(rows))


_COLUMNS = ("parameter", "default", "range", "live", "what it is")


def _parameters(node: _Node) -> str:
    summary = node.doc.split("\n\n")[0].replace("\n", " ")
    rows = [row for block in node.blocks for row in _rows(block, node.live)]
    return f"## Node `{node.name}`\n\n{summary}\n\n" + _table(_COLUMNS, rows)


def _of(block: type, live: bool = False) -> str:
    """The table of one block."""
    rows = list(_rows(block, frozenset(f.name for f in dataclasses.fields(block)) if live else frozenset()))
    return _table(_COLUMNS, rows) if rows else "None."


def _tasks() -> Iterable[str]:
    from dexstack.tasks import TASKS, load_task

    yield (
        "## Tasks\n\nFor `dexstack eval TASK`, `dexstack up MODE --task TASK` and `dexstack learn TASK`; a task of your own is the path of "
        "its Python file. The parameters of the task belong to every node that knows the scene, the weights of its cost to the node `mpc`."
    )
    for name in TASKS:
        task = load_task(name)
        at_start = (
            "its own goals" if task.opening_yaw is None else f"a turn by {math.degrees(task.opening_yaw):g}°"
        )
        about = (
            f"{(inspect.getdoc(sys.modules[task.__module__]) or '').splitlines()[0]} `dexstack up` asks for {at_start}; "
            f"the supervisor is `{task.supervisor}`; the robot is moved by the node `{task.servo_node}`."
        )
        servo = (
            ""
            if task.servo_node == "hand"
            else f"\n\nOf the node `{task.servo_node}`:\n\n{_of(task.servo_params())}"
        )
        yield f"### {name}\n\n{about}\n\n{_of(task.Params)}\n\nWeights:\n\n{_of(task.Weights, live=True)}{servo}"


def _supervisors() -> str:
    from dexstack.control.supervisors import SUPERVISORS

    parts = ["## Parameters of the supervisors\n\nOf the node `mpc`, with `supervisor` of that name."]
    for name in SUPERVISORS:
        kind, block = SUPERVISORS.load(name)
        summary = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
        parts.append(f"### {name}\n\n{summary}\n\n{_of(block, live=True)}")
    return "\n\n".join(parts)


def _plants() -> str:
    from dexstack.plants import PLANTS, plant_params

    parts = ["## Parameters of the plants\n\nOf the node `simulator`, with `plant` of that name."]
    parts += [f"### {plant}\n\n{_of(plant_params(plant))}" for plant in PLANTS]
    return "\n\n".join(parts)


def _rows(block: type, live: frozenset[str]) -> Iterable[tuple[str, ...]]:
    for f in dataclasses.fields(block):
        lo, hi = f.metadata.get("lo"), f.metadata.get("hi")
        span = (
            ""
            if lo is None and hi is None
            else f"{'−∞' if lo is None else _value(lo)} … {'∞' if hi is None else _value(hi)}"
        )
        yield (
            f"`{f.name}`",
            _value(f.default),
            span,
            "yes" if f.name in live else "",
            f.metadata.get("doc", ""),
        )


def _value(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_value(x) for x in value) + "]"
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.6g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(
        lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    )


if __name__ == "__main__":
    sys.exit(main())
