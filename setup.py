"""ament_python and pip both build the package from here; what both can read from setup.cfg is
there."""

from glob import glob
from os import walk

from setuptools import setup

setup(
    python_requires=">=3.11",  # colcon cannot read it from setup.cfg
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/dexstack"]),
        ("share/dexstack", ["package.xml"]),
        ("share/dexstack/launch", glob("launch/*.launch.py")),
        *(
            (f"share/dexstack/{folder}", [f"{folder}/{name}" for name in names])
            for top in ("config", "hardware")
            for folder, _, names in walk(top)
            if names
        ),
    ],
)
