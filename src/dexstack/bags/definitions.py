"""Message definitions in bags: a type's .msg file and those of all nested types, as by `ros2 bag`."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from dexstack.errors import ConfigError

BUILTIN = re.compile(r"(bool|byte|char|w?string|float(32|64)|u?int(8|16|32|64))$")
SEPARATOR = "\n" + "=" * 80 + "\n"
_FIELD = re.compile(r"^([A-Za-z][\w/]*)(?:<=\d+)?(?:\[[^\]]*\])?\s+\w+")


def full_definition(type_name: str) -> str:
    """Return the definition of ``package/msg/Type``, followed by those of its nested types.

    Raises:
        ConfigError: a definition file is not installed.
    """
    texts: dict[str, str] = {}
    waiting = [type_name]
    while waiting:
        name = waiting.pop(0)
        if name not in texts:
            texts[name] = _definition(name)
            waiting += _parts(name, texts[name])
    first, *others = texts
    return SEPARATOR.join(
        [texts[first], *(f"MSG: {name.replace('/msg/', '/')}\n{texts[name]}" for name in others)]
    )


def _parts(name: str, text: str) -> list[str]:
    """Return the full names of the types in a definition that are not built in."""
    found = []
    for line in text.splitlines():
        field = _FIELD.match(line.partition("#")[0].strip())
        if field and not BUILTIN.match(field[1]):
            package, _, kind = field[1].rpartition("/")
            found.append(f"{package.split('/')[0] or name.split('/')[0]}/msg/{kind}")
    return found


def _definition(name: str) -> str:
    """Read one .msg file, from the ``share`` folder above the Python package of the type."""
    package, _, kind = name.split("/")
    spec = importlib.util.find_spec(package)
    for folder in Path(spec.origin).parents if spec and spec.origin else ():
        path = folder / "share" / package / "msg" / f"{kind}.msg"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise ConfigError(f"no definition of {name} is installed; install the package {package}")
