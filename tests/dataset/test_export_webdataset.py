"""Exported tar files are read by the library they are for, and are the same each time."""

import numpy as np
import pytest

from gradsim.dataset import DatasetReader
from gradsim.dataset.webdataset import export_webdataset
from gradsim.errors import InputError

webdataset = pytest.importorskip("webdataset")


@pytest.fixture(scope="module")
def exported(made, tmp_path_factory):
    out = tmp_path_factory.mktemp("webdataset") / "E"
    return out, export_webdataset(made, out, 64)


def test_webdataset_reads_every_video_of_a_split(exported, made):
    out, names = exported
    assert names == ["train-000000.tar", "test-000000.tar"]
    recordings = DatasetReader(made)
    read = list(webdataset.WebDataset(str(out / names[0]), shardshuffle=False).decode())
    assert [int(video["__key__"]) for video in read] == [0, 1, 2, 3]
    for number, video in enumerate(read):
        np.testing.assert_array_equal(video["npz"]["frames"], recordings.frames(number, 64))
        np.testing.assert_array_equal(video["npz"]["masks"], recordings.masks(number, 64))
        np.testing.assert_array_equal(video["npz"]["body.x"], recordings.states(number)["body.x"])
        assert video["json"] == recordings.label(number)


def test_the_same_bytes_each_time(exported, made, tmp_path):
    out, names = exported
    export_webdataset(made, tmp_path / "E", 64)
    for name in names:
        assert (tmp_path / "E" / name).read_bytes() == (out / name).read_bytes()


def test_nothing_is_written_over(exported, made):
    with pytest.raises(InputError, match="folder with files in it"):
        export_webdataset(made, exported[0])
