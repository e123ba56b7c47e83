"""ament_python and pip both build the package from here; all metadata is in setup.cfg."""

from setuptools import setup

setup()
