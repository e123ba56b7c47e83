"""Small mutations of good files, drawn from a seed: what other programs, editors and full disks leave."""

import re

import numpy as np

WORDS = (
    "nan",
    ".inf",
    "-1",
    "0",
    "1e30",
    "1e-30",
    "''",
    "many",
    "[]",
    "{}",
    "[1, 2]",
    "true",
    "~",
    "é☃",
    "1,5",
)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")


def of_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut, overwrite, repeat or replace a part of a file."""
    content = bytearray(content)
    kind = rng.integers(6)
    if kind == 0:
        return bytes(content[: rng.integers(len(content))])
    if kind == 1:
        for k in rng.integers(0, len(content), 1 + rng.integers(20)):
            content[k] = int(rng.integers(256))
    elif kind == 2:
        a, b = sorted(rng.integers(0, len(content), 2))
        content[a:b] = bytes(b - a)
    elif kind == 3:
        a, b = sorted(rng.integers(0, len(content), 2))
        content[b:b] = content[a:b]
    elif kind == 4:
        return rng.bytes(500)
    else:
        return (
            b"",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
            b"<html>404</html>",
        )[rng.integers(3)]
    return bytes(content)


def of_text(text: str, rng: np.random.Generator) -> str:
    """Replace a number or a name, or remove, repeat, move or indent a line; one to three times."""
    for _ in range(1 + rng.integers(3)):
        lines = text.splitlines() or [""]
        k, kind = int(rng.integers(len(lines))), int(rng.integers(7))
        if kind < 3 and (found := list(NUMBER.finditer(text))):
            a, b = found[rng.integers(len(found))].span()
            text = text[:a] + str(rng.choice(WORDS)) + text[b:]
            continue
        if kind == 3:
            del lines[k]
        elif kind == 4:
            lines.insert(k, lines[k])
        elif kind == 5:
            lines[k] = " " * int(rng.integers(1, 5)) + lines[k]
        else:
            name = lines[k].partition(":")[0].strip(" -#") or "x"
            lines[k] = lines[k].replace(name, str(rng.choice(("", "x", "Ünï", "a b", "- a", name[::-1]))), 1)
        text = "\n".join(lines) + "\n"
    return text


def write(path, good: bytes, rng: np.random.Generator, *, text: bool):
    """Write a mutation of a file's content; a quarter of texts are mutated as bytes."""
    if text and rng.random() < 0.75:
        path.write_text(of_text(good.decode(), rng))
    else:
        path.write_bytes(of_bytes(good, rng))
    return path
