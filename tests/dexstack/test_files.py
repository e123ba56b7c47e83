"""Files that are written as a whole."""

from pathlib import Path

import pytest

from dexstack.errors import ConfigError
from dexstack.files import whole, write_text


def test_an_interrupted_write_leaves_the_file_as_it_was(tmp_path):
    file = tmp_path / "a" / "x.txt"
    write_text(file, "before")
    with pytest.raises(KeyboardInterrupt), whole(file) as out:
        out.write(b"half")
        raise KeyboardInterrupt
    assert file.read_text() == "before" and [p.name for p in file.parent.iterdir()] == ["x.txt"]


def test_links_are_followed_devices_stay_and_folders_are_refused(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("before")
    link.symlink_to(file)
    write_text(link, "after")
    assert link.is_symlink() and file.read_text() == "after"
    write_text("/dev/null", "gone")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(ConfigError):
        write_text(tmp_path, "x")
