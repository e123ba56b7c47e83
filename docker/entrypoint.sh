#!/usr/bin/env bash
# Sources the workspace and lets the system's Python, which ros2 runs under, see the packages that came from PyPI.
set -e
source "/opt/ros/$ROS_DISTRO/setup.bash"
source /ws/install/setup.bash
packages=$(/opt/dexstack/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
export PYTHONPATH="$packages:$PYTHONPATH" PATH="$PATH:/opt/dexstack/venv/bin"
exec "$@"
