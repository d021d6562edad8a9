"""Whatever happens to a file, it is found, named and mended."""

import shutil

import pytest

from gradsim.dataset import verify as module
from gradsim.dataset.verify import repair, verify
from gradsim.errors import InputError

FILES = (
    "pictures/frames_32/c.1.0.0.0.0",
    "pictures/masks_64/c.1.0.0.0",
    "labels/000001.parquet",
    "units/000001.json",
)


def flip(path, seed=0):
    content = bytearray(path.read_bytes())
    content[len(content) // 2 + seed] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-7])


@pytest.fixture(scope="module")
def whole(made):
    return verify(made)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("harm", [flip, truncate, lambda path: path.unlink()], ids=["flipped", "truncated", "missing"])
def test_a_harmed_file_is_found_and_named(made, whole, tmp_path, file, harm):
    shutil.copytree(made, tmp_path / "D")
    harm(tmp_path / "D" / file)
    found = verify(tmp_path / "D")
    assert [(fault.file, fault.unit) for fault in found.faults] == [(file, 1)]
    assert found.count == whole.count - 2
    assert found.content_hash != whole.content_hash


def test_repair_makes_again_what_is_wrong_and_nothing_else(made, whole, tmp_path):
    folder = tmp_path / "D"
    shutil.copytree(made, folder)
    before = (folder / "units/000000.json").read_bytes()
    flip(folder / FILES[0])
    (folder / "units/000002.json").unlink()
    flip(folder / "pictures/masks_32/zarr.json")
    (folder / "labels/.000000.parquet.0123.part").write_bytes(b"half")
    found, record = repair(folder)
    assert found.units == [1, 2]
    assert record["videos"] == 3
    after = verify(folder)
    assert after.whole
    assert after.leftovers == ()
    assert after.content_hash == whole.content_hash
    assert (folder / "units/000000.json").read_bytes() == before


def test_what_decodes_to_something_else_is_found(made, monkeypatch):
    """As a faulty reader or another version of a library would."""
    read = module.DatasetReader.masks
    monkeypatch.setattr(
        module.DatasetReader, "masks", lambda self, number, size: read(self, number, size) ^ (number == 2)
    )
    assert [fault.why for fault in verify(made).faults] == ["video 2 decodes to something else than was written"]


def test_any_other_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no data set"):
        verify(tmp_path)
