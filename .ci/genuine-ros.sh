#!/usr/bin/env bash
# Runs the tests that need genuine launch, launch_ros and ros2cli, which are not on PyPI: from their sources, in an environment of its own.
#
#   .ci/genuine-ros.sh FOLDER [BRANCH]
#
#   FOLDER  receives sources and environment; kept, so that a second run is short
#   BRANCH  of ROS 2's repositories (default: kilted, the release that rclpy from PyPI is of)
#
# Needs git and the network, github.com included: .ci/run does not, and skips these tests. On a ROS 2 installation `pytest` runs them as it is.
# composition_interfaces is not on PyPI either; launch_ros imports it for nodes that are composed, which no test starts, so that an empty
# package stands in for it.
set -euo pipefail
if [[ $# -lt 1 ]]; then
    echo "usage: .ci/genuine-ros.sh FOLDER [BRANCH]" >&2
    exit 2
fi
folder=$(realpath -m "$1") branch=${2:-kilted}
cd "$(dirname "$0")/.."

packages=(
    ros2/launch:launch ros2/launch:launch_xml ros2/launch:launch_yaml
    ros2/launch_ros:launch_ros ros2/launch_ros:ros2launch
    ros2/rosidl_runtime_py:.
    ros2/ros2cli:ros2cli ros2/ros2cli:ros2node ros2/ros2cli:ros2param ros2/ros2cli:ros2topic ros2/ros2cli:ros2service
    ros2/ros2cli:ros2action ros2/ros2cli:ros2interface ros2/ros2cli:ros2lifecycle ros2/ros2cli:ros2pkg ros2/ros2cli:ros2run
)
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q -c constraints.txt -e '.[ros,dev]'
"$folder/venv/bin/pip" install -q setuptools wheel osrf-pycommon catkin-pkg argcomplete
sources=()
for package in "${packages[@]}"; do
    repository=${package%:*}
    [[ -d $folder/$repository ]] || git clone -q --depth 1 --branch "$branch" "https://github.com/$repository.git" "$folder/$repository"
    sources+=("$folder/$repository/${package#*:}")
done
"$folder/venv/bin/pip" install -q --no-deps --no-build-isolation "${sources[@]}"
site=$("$folder/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$site/composition_interfaces/srv"
touch "$site/composition_interfaces/__init__.py"
printf 'class LoadNode:\n    class Request: ...\n    class Response: ...\n' >"$site/composition_interfaces/srv/__init__.py"
export PATH="$folder/venv/bin:$PATH" AMENT_PREFIX_PATH="$folder/venv"
mkdir -p "$folder/venv/share/ament_index/resource_index/packages"
touch "$folder/venv/share/ament_index/resource_index/packages/dexstack"
"$folder/venv/bin/python" -m pytest -n 0 -m '' tests/dexstack/nodes/test_launch.py tests/dexstack/nodes/test_ros2cli.py
