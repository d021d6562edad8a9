"""What is read is what was made; truths, cameras and motions fit the pictures."""

import json
import pickle
import shutil

import numpy as np
import pytest
import torch
from dataset_cases import COUNT
from torch.utils.data import DataLoader

from gradsim.dataset import DatasetReader, VideoDataset, sample
from gradsim.dataset.render import render_sample, visible_scene
from gradsim.errors import InputError


@pytest.fixture(scope="module")
def recordings(made):
    return DatasetReader(made)


def test_a_video_is_read_as_it_was_drawn(recordings):
    drawn = sample("rigid", 3)
    made = render_sample(drawn, (32, 64))
    np.testing.assert_array_equal(recordings.frames(3, 64), made.frames[64])
    np.testing.assert_array_equal(recordings.masks(3, 32, slice(5, 9)), made.masks[32][5:9])
    for name, states in recordings.states(3).items():
        np.testing.assert_array_equal(states, made.states[name])
    assert recordings.truth(3) == drawn.truth
    assert recordings.scene(3) == visible_scene(drawn.scene)
    assert recordings.label(4)["split"] == "test"


def test_the_camera_sees_the_motion_where_the_mask_is(recordings):
    """The projected centre of mass lies in the mask's box: convex bodies, masks of whole bodies."""
    for number in range(COUNT):
        label, mask = recordings.label(number), recordings.masks(number, 64)[0]
        K, R = (np.reshape(label[name], (3, 3)) for name in ("K_64", "R"))
        seen = K @ (R @ recordings.states(number)["body.x"][0] + label["t"])
        rows, columns = np.nonzero(mask)
        assert columns.min() < seen[0] / seen[2] < columns.max() + 1
        assert rows.min() < seen[1] / seen[2] < rows.max() + 1


def test_videos_that_are_not_there_are_refused(recordings):
    for number in (-1, COUNT, 1000):
        with pytest.raises(InputError, match=f"no video {number}; it has 5 of 5"):
            recordings.frames(number, 64)
    with pytest.raises(InputError, match="size: got 256"):
        recordings.frames(0, 256)


def test_a_reader_travels_to_another_process(recordings):
    recordings.frames(0, 64)
    copy = pickle.loads(pickle.dumps(recordings))
    np.testing.assert_array_equal(copy.masks(1, 64), recordings.masks(1, 64))


def test_the_splits_share_nothing_and_hold_everything(made):
    train, test, every = (VideoDataset(made, split=split) for split in ("train", "test", "all"))
    assert test.numbers == [4]
    assert train.numbers + test.numbers == every.numbers == list(range(COUNT))
    assert train.names == tuple(sample("rigid", 0).truth)


def test_frames_and_truths_come_as_tensors(made):
    videos = VideoDataset(made, size=64, frames=[0, 59])
    frames, truth = videos[2]
    drawn = sample("rigid", 2)
    torch.testing.assert_close(truth, torch.tensor([drawn.truth[name] for name in videos.names]))
    assert frames.shape == (2, 3, 64, 64)
    kept = VideoDataset(made, size=64, frames=[0, 59], dtype=torch.uint8)[2][0]
    torch.testing.assert_close(frames, kept / 255)
    masks, _ = VideoDataset(made, size=64, kind="masks")[2]
    assert masks.shape == (60, 1, 64, 64)
    assert masks.max() == 1
    assert ((videos.low < truth) & (truth < videos.high)).all()


def test_workers_of_a_loader_read_what_one_process_reads(made):
    videos = VideoDataset(made, size=32, dtype=torch.uint8)
    videos[0]  # open files do not travel
    (frames, truths), *_ = DataLoader(videos, batch_size=COUNT, num_workers=2)
    for k in range(COUNT):
        torch.testing.assert_close(frames[k], videos[k][0])
        torch.testing.assert_close(truths[k], videos[k][1])


@pytest.mark.parametrize("given", [{"size": 48}, {"split": "tset"}, {"dtype": torch.float64}, {"kind": "depth"}])
def test_what_the_data_set_lacks_is_refused(made, given):
    with pytest.raises(InputError, match=f"{next(iter(given))}: got"):
        VideoDataset(made, **given)


FILES = ("pictures/frames_32/c.0.0.0.0.0", "pictures/masks_32/c.0.0.0.0", "labels/000000.parquet")


@pytest.fixture
def copied(made, tmp_path):
    shutil.copytree(made, tmp_path / "D")
    return tmp_path / "D"


def read_all(folder):
    recordings = DatasetReader(folder)
    return recordings.frames(0, 32), recordings.masks(0, 32), recordings.label(0)


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_noticed_on_read(copied, name):
    path, rng = copied / name, np.random.default_rng(0)
    written = path.read_bytes()
    for place in rng.integers(len(written), size=20):
        changed = bytearray(written)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(InputError, match=f"{path.name} was changed.*gradsim dataset repair"):
            read_all(copied)
    path.write_bytes(written)
    read_all(copied)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_an_error_not_a_black_video(copied, name):
    (copied / name).unlink()
    with pytest.raises(InputError, match="is missing"):
        read_all(copied)


def test_a_damaged_manifest_does_not_hide_its_videos(copied):
    (copied / "units" / "000001.json").write_text("{")
    with pytest.raises(InputError, match="000001.json is damaged"):
        len(DatasetReader(copied))


@pytest.mark.parametrize(("key", "value"), [("unit", 0), ("sizes", []), ("fps", 0), ("seed", "3"), ("frames", 10**12)])
def test_damaged_settings_name_their_key(copied, key, value):
    settings = json.loads((copied / "dataset.json").read_text())
    (copied / "dataset.json").write_text(json.dumps({**settings, key: value}))
    with pytest.raises(InputError, match=f"dataset.json is damaged .*`{key}"):
        DatasetReader(copied)


def test_an_array_that_states_more_videos_than_a_data_set_may_have_is_refused(copied):
    for path in (copied / "pictures").glob("*_*/zarr.json"):
        header = json.loads(path.read_text())
        header["shape"][0] = 10**15
        path.write_text(json.dumps(header))
    with pytest.raises(InputError, match="is damaged .its arrays state"):
        read_all(copied)
