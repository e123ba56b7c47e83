"""Files and functions stay short."""

import pytest

from tests.sizes import PARTS, long_files, long_functions


@pytest.mark.parametrize("part", PARTS)
def test_files_and_functions_are_short_or_say_why_not(part):
    assert not long_files(part) and not long_functions(part)
