#!/usr/bin/env bash
# Installs dexstack from this checkout into a virtual environment; what the images and CI have in common.
#
#   docker/install.sh [--system] [--browser] [--site-packages] [--venv DIR] EXTRAS
#
#   EXTRAS           comma-separated, e.g. ros,hardware or ros,dev
#   --venv DIR       where (default: .venv in the checkout)
#   --system         first install what Debian or Ubuntu must bring, with apt (as root)
#   --browser        also a Chromium, with apt (as root): tests look at the pages with it
#   --site-packages  let the environment see the system's Python packages (a ROS 2 installation's, for example)
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv system=0 browser=0 options=()
while [[ ${1:-} == --* ]]; do
    case $1 in
        --system) system=1 ;;
        --browser) browser=1 ;;
        --site-packages) options+=(--system-site-packages) ;;
        --venv) venv=$2; shift ;;
        *) echo "unknown option $1; see the head of $0" >&2; exit 2 ;;
    esac
    shift
done
if [[ $# != 1 ]]; then
    echo "usage: docker/install.sh [--system] [--site-packages] [--venv DIR] EXTRAS" >&2
    exit 2
fi

if ((system)); then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -q -y --no-install-recommends ca-certificates iproute2 procps python3 python3-venv
    rm -rf /var/lib/apt/lists/*
fi
if ((browser)) && ! command -v chromium >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -q -y --no-install-recommends chromium
fi
python3 -m venv "${options[@]}" "$venv"
"$venv/bin/pip" install --no-cache-dir -c constraints.txt -e ".[$1]"
"$venv/bin/dexstack" --version
