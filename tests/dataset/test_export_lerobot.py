"""Exports are read by a reader written from the format's description, version 3.0.

It follows `info.json` as LeRobot does: the paths, the features, for each episode the rows of a file of numbers and the
seconds of a film.
"""

import json
from fractions import Fraction

import av
import numpy as np
import pytest
from pyarrow import parquet
from tolerances import SOLVED, assert_near

from gradsim.dataset import DatasetReader, lerobot
from gradsim.dataset.lerobot import export_lerobot

KEY = "observation.images.camera"


class Reader:
    """A data set of LeRobot's format 3.0."""

    def __init__(self, folder):
        self.folder = folder
        self.info = json.loads((folder / "meta/info.json").read_text())
        self.stats = json.loads((folder / "meta/stats.json").read_text())
        paths = sorted((folder / "meta/episodes").glob("*/*.parquet"))
        self.episodes = [row for path in paths for row in parquet.read_table(path).to_pylist()]
        self.tasks = parquet.read_table(folder / "meta/tasks.parquet").to_pylist()

    def numbers(self, index):
        """Columns of an episode."""
        own = self.episodes[index]
        place = {name: own[f"data/{name}"] for name in ("chunk_index", "file_index")}
        table = parquet.read_table(self.folder / self.info["data_path"].format(**place))
        rows = [row for row in table.to_pylist() if row["episode_index"] == index]
        return {name: np.array([row[name] for row in rows]) for name in table.column_names}

    def frames(self, index):
        """The frames between two times of a film, sought by time."""
        own, fps = self.episodes[index], Fraction(self.info["fps"])
        place = {name: own[f"videos/{KEY}/{name}"] for name in ("chunk_index", "file_index")}
        path = self.folder / self.info["video_path"].format(video_key=KEY, **place)
        start, end = (own[f"videos/{KEY}/{name}_timestamp"] for name in ("from", "to"))
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            container.seek(round(start / stream.time_base), stream=stream)
            half = float(1 / fps / 2)
            inside = lambda frame: start - half < frame.time < end - half
            frames = [f.to_ndarray(format="rgb24") for f in container.decode(stream) if inside(f)]
        return np.stack(frames)


@pytest.fixture(scope="module")
def read(made, tmp_path_factory):
    out = tmp_path_factory.mktemp("lerobot") / "E"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lerobot, "EPISODES", 2)  # of one file: five episodes are three files
        assert export_lerobot(made, out, 64)
    return Reader(out)


@pytest.fixture(scope="module")
def recordings(made):
    return DatasetReader(made)


def test_info_tells_what_is_there(read):
    info = read.info
    assert info["codebase_version"] == "v3.0"
    assert (info["total_episodes"], info["total_frames"], info["fps"]) == (5, 300, 30)
    assert info["splits"] == {"train": "0:4", "test": "4:5"}
    assert info["total_tasks"] == len(read.tasks)
    assert [episode["episode_index"] for episode in read.episodes] == list(range(5))
    assert [episode["gradsim/number"] for episode in read.episodes] == list(range(5))
    assert max(episode[f"videos/{KEY}/file_index"] for episode in read.episodes) == 2


def test_videos_are_those_of_the_data_set_to_the_bit(read, recordings):
    for index, episode in enumerate(read.episodes):
        np.testing.assert_array_equal(read.frames(index), recordings.frames(episode["gradsim/number"], 64))


def test_numbers_are_truth_motion_and_push(read, recordings):
    for index in (0, 3):
        own, truth = read.numbers(index), list(recordings.truth(index).values())
        states, label = recordings.states(index), recordings.label(index)
        np.testing.assert_array_equal(own["observation.state"][:, 3:7], states["body.q"].astype(np.float32))
        np.testing.assert_array_equal(own["observation.environment_state"], np.tile(np.float32(truth), (60, 1)))
        np.testing.assert_array_equal(own["action"][0, :3], np.float32(label["impulse"]))
        assert not own["action"][1:].any()
        np.testing.assert_array_equal(own["index"], np.arange(60) + 60 * index)
        np.testing.assert_array_equal(own["timestamp"], np.float32(np.arange(60) / 30))
        task = read.tasks[own["task_index"][0]]["task"]
        assert label["object"] in task
        assert read.episodes[index]["tasks"] == [task]


def test_features_have_the_shapes_and_types_they_claim(read):
    own = read.numbers(0)
    for name, feature in read.info["features"].items():
        if feature["dtype"] == "video":
            assert read.frames(0).shape[1:] == tuple(feature["shape"])
        else:
            assert own[name].reshape(60, -1).shape[1:] == tuple(feature["shape"])
            assert len(feature["names"] or [None]) == feature["shape"][0]


def test_statistics_are_those_of_all_frames(read):
    values = np.concatenate([read.numbers(k)["observation.state"] for k in range(5)]).astype(float)
    images = np.concatenate([read.frames(k)[::10] for k in range(5)]) / 255
    for name, x in (("observation.state", values), (KEY, images.reshape(-1, 3))):
        told = {key: np.ravel(value) for key, value in read.stats[name].items()}
        assert_near(told["mean"], x.mean(0), SOLVED)
        assert_near(told["std"], x.std(0), SOLVED, scale=1.0)  # of a difference of squares
        np.testing.assert_array_equal((told["min"], told["max"]), (x.min(0), x.max(0)))
    assert np.shape(read.stats[KEY]["mean"]) == (3, 1, 1)
    assert read.episodes[1]["stats/observation.state/count"] == [60]
