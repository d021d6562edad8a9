"""The small data set of all tests here."""

import pytest
from dataset_cases import COUNT, SIZES, UNIT

from gradsim.dataset.generate import generate


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The folder of a whole data set; not to be changed."""
    folder = tmp_path_factory.mktemp("dataset") / "D"
    generate("rigid", COUNT, folder, sizes=SIZES, unit=UNIT)
    return folder
