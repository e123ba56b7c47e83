"""Write docs/reference.md (commands, arguments, topics, services, parameters) from the code; needs rclpy."""

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
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from dexstack.errors import ConfigError

FILE = Path(__file__).with_name("reference.md")
_RUNTIME_TYPES = {"/tf": "TFMessage", "/tf_static": "TFMessage"}
"""Topics whose message type the nodes import only where it is installed."""
_CALLS = {
    "create_publisher": "writes",
    "newest": "reads",
    "kept": "reads",
    "create_service": "offers",
    "create_client": "calls",
}


def main(argv: Sequence[str] | None = None, file: Path = FILE) -> int:
    """Write the file, or compare it with ``--check``.

    Returns:
        0 if the file is current, 1 if ``--check`` found that it is not, 2 if it cannot be written.
    """
    parser = argparse.ArgumentParser(prog="python -m docs.write_reference", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 if the file is not current"
    )
    check = parser.parse_args(argv).check
    try:
        text = reference()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    current = file.is_file() and file.read_text() == text
    if check and not current:
        print(f"{file} is not current: run `python -m docs.write_reference`")
        return 1
    if not current:
        file.write_text(text)
    print(f"{file} {'is current' if current else 'was written'}")
    return 0


def reference() -> str:
    """Return the text of the file.

    Raises:
        ConfigError: If rclpy is missing, without which the nodes cannot be imported.
    """
    try:
        nodes = list(_nodes())
    except ImportError as error:
        raise ConfigError(f"cannot import the nodes ({error}); install the extra 'ros'") from None
    parts = [
        "# Reference\n\nWritten by `python -m docs.write_reference` from the code.",
        _commands(),
        _arguments(),
        _topics(nodes),
        _services(nodes),
        *map(_parameters, nodes),
        *_tasks(),
        _supervisors(),
        _plants(),
        _trials(),
    ]
    return "\n\n".join(parts) + "\n"


# --- commands and arguments ------------------------------------------------------------------------


def _commands() -> str:
    from dexstack.cli.main import COMMANDS, build_parser

    rows = []
    for name, line in COMMANDS.items():
        rows.append((f"`dexstack {name}`", line))
        inner = _subparsers(_subparsers(build_parser(name)).choices[name])
        for choice in inner._choices_actions if inner else ():
            rows.append((f"`dexstack {name} {choice.dest}`", choice.help or ""))
    return "## Commands\n\nEach has `--help` and `--json FILE|-`.\n\n" + _table(("command", "purpose"), rows)


def _subparsers(parser: argparse.ArgumentParser) -> Any:
    return next((a for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None)


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
        if argument.name == "robot_state":  # its default depends on what is installed
            defaults = dict.fromkeys(defaults, "yes with tf2_msgs")
        rows.append((f"`{argument.name}`", *defaults.values(), values, argument.doc))
    head = (
        "## Arguments of a graph\n\nFor `dexstack up MODE --goal-yaw 45` and "
        "`ros2 launch dexstack MODE.launch.py goal_yaw:=45` alike; – has no effect in that mode.\n\n"
    )
    return head + _table(("argument", *MODES, "values", "meaning"), rows)


# --- nodes -----------------------------------------------------------------------------------------


class _Use(NamedTuple):
    """Use of a topic or service by a node."""

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
    """Yield every module of :mod:`dexstack.nodes` that can be run, in alphabetical order."""
    from dexstack import nodes

    modules = {
        info.name: importlib.import_module(f"dexstack.nodes.{info.name}")
        for info in pkgutil.iter_modules(nodes.__path__)
    }
    for name, module in sorted(modules.items()):
        if not hasattr(module, "main"):
            continue
        (kind,) = (x for x in vars(module).values() if _is_node(x) and x.__module__ == module.__name__)
        uses = [use for source in (module, *_helpers(module)) for use in _uses(source)]
        yield _Node(name, _summary(module), _blocks(module, kind), kind.LIVE, uses)


def _is_node(thing: Any) -> bool:
    from dexstack.nodes.common import StackNode

    return inspect.isclass(thing) and issubclass(thing, StackNode)


def _blocks(module: ModuleType, kind: type) -> list[type]:
    """Return the parameter dataclasses that the node's constructor names, preceded by those of the scene."""
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
            named = [x for a in call.args[1:] for x in (a.value.elts if isinstance(a, ast.Starred) else [a])]
            return scene + [getattr(module, x.id) for x in named if isinstance(x, ast.Name)]
    return scene


def _helpers(module: ModuleType) -> list[ModuleType]:
    """Return the modules of imported helper classes, which may open topics for the node."""
    classes = (x for x in vars(module).values() if inspect.isclass(x) and not _is_node(x))
    names = {x.__module__ for x in classes if x.__module__.startswith("dexstack.nodes.")}
    return [importlib.import_module(name) for name in sorted(names - {module.__name__})]


def _uses(module: ModuleType) -> Iterable[_Use]:
    """Yield the publishers, subscriptions, services and clients with a literal or named topic."""
    for call in ast.walk(ast.parse(inspect.getsource(module))):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)) or len(call.args) < 2:
            continue
        kind, name, *rest = call.args
        topic = (
            name.value if isinstance(name, ast.Constant) else getattr(module, getattr(name, "id", ""), None)
        )
        if call.func.attr in _CALLS and isinstance(topic, str):
            qos = rest[0].id if rest and isinstance(rest[0], ast.Name) else ""
            yield _Use(_CALLS[call.func.attr], _RUNTIME_TYPES.get(topic, ast.unparse(kind)), topic, qos)


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
        "## Topics\n\nNames without a leading slash are in the graph's namespace. Quality of "
        "service: *sensor* best effort, depth 1; *servo* best effort, depth 4; *recent* best effort, "
        "depth 200; *state* reliable, depth 10; *command* reliable, depth 1; *latched* reliable, "
        "transient local, depth 1 (readers also accept volatile publishers such as `ros2 topic pub`); "
        "*reports* reliable, depth 50. Recorder and player use all topics.\n\n"
    )
    return text + _table(("topic", "type", "quality", "written by", "read by"), rows)


def _services(nodes: list[_Node]) -> str:
    rows = []
    for node in nodes:
        for use in node.uses:
            if use.how == "offers":
                rows.append((f"`{use.name.replace('~', node.name)}`", use.kind, node.name))
    text = "## Services\n\nIn addition to those of every lifecycle node (`ros2 lifecycle`, `ros2 param`).\n\n"
    return text + _table(("service", "type", "offered by"), sorted(rows))


_COLUMNS = ("parameter", "default", "range", "live", "meaning")


def _parameters(node: _Node) -> str:
    rows = [row for block in node.blocks for row in _rows(block, node.live)]
    return f"## Node `{node.name}`\n\n{node.doc}\n\n" + _table(_COLUMNS, rows)


def _of(block: type, live: bool = False) -> str:
    """Return the table of one block."""
    rows = list(_rows(block, frozenset(f.name for f in dataclasses.fields(block)) if live else frozenset()))
    return _table(_COLUMNS, rows) if rows else "None."


def _tasks() -> Iterable[str]:
    from dexstack.tasks import TASKS, load_task

    yield (
        "## Tasks\n\nFor `dexstack eval TASK`, `dexstack up MODE --task TASK` and `dexstack learn "
        "TASK`; TASK may be the path of a Python file. A task's parameters belong to every node that "
        "knows the scene, its weights to the node `mpc`."
    )
    for name in TASKS:
        task = load_task(name)
        at_start = (
            "the task's goals"
            if task.opening_yaw is None
            else f"a turn by {math.degrees(task.opening_yaw):g}°"
        )
        about = (
            f"{_summary(sys.modules[task.__module__])} `dexstack up` starts with {at_start}. "
            f"Supervisor: `{task.supervisor}`; servo: node `{task.servo_node}`."
        )
        servo = (
            ""
            if task.servo_node == "hand"
            else f"\n\nParameters of the node `{task.servo_node}`:\n\n{_of(task.servo_params())}"
        )
        weights = _of(task.Weights, live=True)
        yield f"### {name}\n\n{about}\n\n{_of(task.Params)}\n\nWeights:\n\n{weights}{servo}"


def _supervisors() -> str:
    from dexstack.control.supervisors import SUPERVISORS

    parts = ["## Parameters of the supervisors\n\nThey belong to the node `mpc`."]
    for name in SUPERVISORS:
        kind, block = SUPERVISORS.load(name)
        parts.append(f"### {name}\n\n{_summary(kind)}\n\n{_of(block, live=True)}")
    return "\n\n".join(parts)


def _plants() -> str:
    from dexstack.plants import PLANTS, plant_params

    parts = ["## Parameters of the plants\n\nThey belong to the node `simulator`."]
    parts += [f"### {plant}\n\n{_of(plant_params(plant))}" for plant in PLANTS]
    return "\n\n".join(parts)


def _trials() -> str:
    from dexstack.sim.disturbance import Pushes
    from dexstack.sim.sensor import PoseSensor

    about = "Of `dexstack eval`, in the section `simulator` of a parameter file, besides those of the plant."
    tables = "\n\n".join(f"{_summary(block)}\n\n{_of(block)}" for block in (PoseSensor, Pushes))
    return f"## Parameters of trials\n\n{about}\n\n{tables}"


def _summary(thing: Any) -> str:
    """Return the first paragraph of a docstring."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


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
