"""ament_python and pip both build the package from here; all metadata is in setup.cfg."""

from glob import glob

from setuptools import setup

setup(
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/dexstack"]),
        ("share/dexstack", ["package.xml"]),
        ("share/dexstack/launch", glob("launch/*.launch.py")),
        ("share/dexstack/config", glob("config/*")),
    ],
)
