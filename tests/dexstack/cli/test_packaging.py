"""The metadata for pip and for ROS agree."""

import configparser
import importlib.metadata
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dexstack import __version__

ROOT = Path(__file__).parents[3]


def test_package_xml_agrees_with_the_package():
    package = ElementTree.parse(ROOT / "package.xml").getroot()
    assert package.findtext("name") == "dexstack" and package.get("format") == "3"
    assert package.findtext("version") == __version__ == importlib.metadata.version("dexstack")
    # colcon drops the package's environment hook in silence when the address is not valid
    assert re.fullmatch(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", package.find("maintainer").get("email"))


def test_every_node_can_be_run_by_ros2_and_its_messages_are_declared():
    nodes = {path.stem: path.read_text() for path in (ROOT / "src/dexstack/nodes").glob("*.py")}
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options.entry_points"]["console_scripts"].splitlines()
    scripts = dict(line.split(" = ") for line in lines if "dexstack.nodes." in line)
    runnable = {name for name, text in nodes.items() if "\nmain = " in text}
    assert scripts == {name: f"dexstack.nodes.{name}:main" for name in runnable}
    used = {
        name
        for text in nodes.values()
        for name in re.findall(r"^from (\w+_(?:msgs|srvs|interfaces))\.", text, re.M)
    }
    package = ElementTree.parse(ROOT / "package.xml").getroot()
    assert used <= {e.text for e in package.findall("exec_depend")}


def test_every_requirement_is_pinned():
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    pins = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    assert len(pins) == len(lines)
    required = {canonicalize_name(Requirement(text).name) for text in importlib.metadata.requires("dexstack")}
    assert required - {"dexstack"} and required - {"dexstack"} <= set(pins)


def test_data_files_are_installed_with_the_code(tmp_path):
    pytest.importorskip(
        "setuptools",
        reason="virtual environments of Python 3.12 and later have no setuptools",
    )
    command = [sys.executable, "setup.py", "-q", "install_data", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    share = tmp_path / "share" / "dexstack"
    for folder in ("config", "hardware", "launch"):
        here = {
            path.relative_to(ROOT)
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert here and here == {
            path.relative_to(share) for path in (share / folder).rglob("*") if path.is_file()
        }
