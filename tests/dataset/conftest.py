"""A small data set for all tests of it: five videos in units of two, so that the last unit is not full."""

import pytest

from gradsim.dataset.generate import generate

COUNT, UNIT, SIZES = 5, 2, (32, 64)


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The folder of a whole data set; not to be changed."""
    folder = tmp_path_factory.mktemp("dataset") / "D"
    generate("rigid", COUNT, folder, sizes=SIZES, unit=UNIT)
    return folder
