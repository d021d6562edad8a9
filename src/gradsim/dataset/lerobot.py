"""Export of a data set in the format of LeRobot, version 3.0 (github.com/huggingface/lerobot, `LeRobotDataset`).

One video is one episode; those for training come first. The features are:

    observation.images.camera        the video, see `EpisodeVideo`
    observation.state                position and velocity of the body, see `MOTIONS`
    observation.environment_state    the true parameters, the same in all frames
    action                           the known push: impulse [N s] and point [m], in the frame that it begins with

1000 episodes share one video file and one table; `meta/` has the ranges of frames of each episode.

The mp4 files hold the frames of consecutive episodes, with random access. H.264 in RGB is lossless; FFmpeg, and so
LeRobot's readers, decode it, but browsers show wrong colours. If the installed PyAV lacks it, the codec is H.264 in
yuv420p, with errors of over 100 grey levels at coloured edges.

`FeatureStatistics` computes minimum, maximum, mean and standard deviation of features, of each episode and of all.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from gradsim.dataset.reader import DatasetReader
from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_path
from gradsim.runtime.optional import require_extra

if TYPE_CHECKING:
    from av.video.stream import VideoStream


GROUP = 10  # frames between key frames: random access decodes 5 extra frames on average
LOSSLESS_ENCODING = "libx264rgb", "rgb24", {"crf": "0", "preset": "veryfast"}
LOSSY_ENCODING = "libx264", "yuv420p", {"crf": "10", "preset": "veryfast"}


class EpisodeVideo:
    """Writer of an mp4 file.

    Args:
        path: Path that ends in .mp4.
        size: Width and height [px].
        fps: Frames per second.
    """

    def __init__(self, path: Path, size: int, fps: float):
        import av

        self._av = av
        encoder, pixels, options = LOSSLESS_ENCODING if LOSSLESS_ENCODING[0] in av.codecs_available else LOSSY_ENCODING
        rate = Fraction(fps).limit_denominator(100_000)
        self._container = av.open(str(path), "w", options={"movflags": "faststart"})
        options = {**options, "g": str(GROUP), "bf": "0"}
        self._stream = cast("VideoStream", self._container.add_stream(encoder, rate=rate, options=options))
        self._stream.width = self._stream.height = size
        self._stream.pix_fmt = pixels
        self._stream.codec_context.time_base = 1 / rate
        self._at, self._tick, self._pixels = 0, 1 / rate, pixels
        self.about: dict[str, Any] = {
            "video.height": size,
            "video.width": size,
            "video.codec": "h264",
            "video.pix_fmt": "gbrp" if pixels == "rgb24" else pixels,
            "video.is_depth_map": False,
            "video.fps": fps,
            "video.channels": 3,
            "has_audio": False,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure) -> None:
        if failure[0] is None:
            self._container.mux(self._stream.encode(None))
        self._container.close()

    def add(self, frames: np.ndarray) -> None:
        """Append frames (T, size, size, 3) uint8."""
        for image in frames:
            frame = self._av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format=self._pixels)
            frame.pts, frame.time_base = self._at, self._tick
            self._container.mux(self._stream.encode(frame))
            self._at += 1


class FeatureStatistics:
    """Running statistics by feature."""

    def __init__(self):
        self._sums: dict[str, list[np.ndarray]] = {}

    def add(self, name: str, values: np.ndarray, count: int | None = None) -> dict[str, list]:
        """Add rows of a feature.

        Args:
            name: Name of the feature.
            values: Values (rows, numbers); of images (pixels, 3), with statistics of shape (3, 1, 1).
            count: Number of frames; None: the number of rows.

        Returns:
            Statistics of these rows, as in `meta/episodes`.
        """
        x = values.astype(np.float64)
        images = count is not None
        moments = [x.min(0), x.max(0), x.sum(0), (x * x).sum(0), np.array(len(x)), np.array(count or len(x))]
        if name in self._sums:
            low, high, *sums = self._sums[name]
            sums = [a + b for a, b in zip(sums, moments[2:], strict=True)]
            self._sums[name] = [np.minimum(low, moments[0]), np.maximum(high, moments[1]), *sums]
        else:
            self._sums[name] = moments
        return _statistics(moments, images)

    def summary(self) -> dict[str, dict[str, list]]:
        """Statistics of all rows, as in `meta/stats.json`."""
        return {name: _statistics(sums, sums[4] != sums[5]) for name, sums in self._sums.items()}


def _statistics(sums: list[np.ndarray], images: bool) -> dict[str, list]:
    low, high, total, squares, rows, count = sums
    mean = total / rows
    std = np.sqrt(np.maximum(squares / rows - mean * mean, 0))
    statistics = {"min": low, "max": high, "mean": mean, "std": std}
    return {key: (v[:, None, None] if images else v).tolist() for key, v in statistics.items()} | {
        "count": [int(count)]
    }


EPISODES, CHUNK = 1000, 1000  # episodes of one file, files of one folder
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEOS = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
META = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
KEY = "observation.images.camera"
STATE, TRUTH, ACTION = "observation.state", "observation.environment_state", "action"
MOTIONS = {  # names of the components, by the quantities of a body
    ("x", "q", "v", "l"): "x y z qx qy qz qw vx vy vz lx ly lz",
    ("x", "v"): "x y z vx vy vz",  # of a soft body: means over its vertices
}
PUSH = "impulse_x impulse_y impulse_z point_x point_y point_z"
COUNTERS = {"timestamp": "float32", **dict.fromkeys(("frame_index", "episode_index", "index", "task_index"), "int64")}
STATISTICS_STRIDE = 10  # frames between those in the statistics of images


def export_lerobot(
    folder: str | Path,
    out: str | Path,
    size: int | None = None,
    report: Callable[[int, int], None] = lambda finished, total: None,
) -> bool:
    """Write the finished videos of a data set in LeRobot's format; arguments as for `export_webdataset`.

    Returns:
        True if the videos are lossless.

    Raises:
        InputError: If the folder holds no data set, the size is not available, videos have different parameters, or
            `out` is not empty.
    """
    recordings = DatasetReader(folder)
    size = recordings.settings.sizes[0] if size is None else size
    rows = sorted(recordings.table(["number", "object", "split"]), key=lambda row: row["split"] != "train")
    if not rows:
        raise InputError(f"{folder} has no finished videos; run gradsim dataset verify.")
    truths, kind = list(recordings.truth(rows[0]["number"])), recordings.settings.kind
    tasks = sorted({_task(kind, row["object"]) for row in rows})
    stats, episodes, video = FeatureStatistics(), [], {}
    with atomic_path(Path(out)) as draft:
        for file, first in enumerate(range(0, len(rows), EPISODES)):
            place = {"chunk_index": file // CHUNK, "file_index": file % CHUNK}
            path = _made(draft / VIDEOS.format(video_key=KEY, **place))
            with EpisodeVideo(path, size, recordings.settings.fps) as videos:
                columns: list[dict[str, np.ndarray]] = []
                for k, row in enumerate(rows[first : first + EPISODES]):
                    index = first + k
                    if list(recordings.truth(row["number"])) != truths:
                        raise InputError(f"video {row['number']} of {folder} has other unknowns than the first.")
                    frames = recordings.frames(row["number"], size)
                    videos.add(frames)
                    numbers = _numbers(recordings, row["number"], index, tasks.index(_task(kind, row["object"])))
                    columns.append(numbers)
                    episode_stats = {name: stats.add(name, values) for name, values in numbers.items()}
                    episode_stats[KEY] = stats.add(
                        KEY, frames[::STATISTICS_STRIDE].reshape(-1, 3) / 255, len(frames[::STATISTICS_STRIDE])
                    )
                    episodes.append(
                        _episode(row, index, k, len(frames), recordings.settings.fps, place, kind, episode_stats)
                    )
                    report(index + 1, len(rows))
                video = videos.about
            _write(_made(draft / DATA.format(**place)), _table(columns))
        for file, first in enumerate(range(0, len(episodes), EPISODES)):
            place = {"chunk_index": file // CHUNK, "file_index": file % CHUNK}
            _write(
                _made(draft / META.format(**place)),
                require_extra("pyarrow", "files of a data set", "data").Table.from_pylist(
                    episodes[first : first + EPISODES]
                ),
            )
        _write(draft / "meta/tasks.parquet", _tasks(tasks))
        features = _features(columns[0], truths, size, video, recordings)
        info = _info(recordings, rows, len(tasks), features)
        (draft / "meta/info.json").write_text(json.dumps(info, indent=4))
        (draft / "meta/stats.json").write_text(json.dumps(stats.summary(), indent=4))
    return video["video.pix_fmt"] == "gbrp"


def _task(kind: str, thing: str) -> str:
    return f"watch a {kind} {thing} that is pushed"


def _numbers(recordings: DatasetReader, number: int, episode: int, task: int) -> dict[str, np.ndarray]:
    """Columns of one episode, (frames, numbers) each."""
    label, states = recordings.label(number), recordings.states(number)
    count, fps = len(next(iter(states.values()))), label["fps"]
    names = tuple(name.rpartition(".")[2] for name in states)
    soft = names == ("x", "v")
    state = [values.reshape(count, -1, 3).mean(1) if soft else values for values in states.values()]
    action = np.zeros((count, 6))
    if label["impulse"]:
        action[0] = [*label["impulse"], *(label["impulse_point"] or (0, 0, 0))]
    frames = np.arange(count)
    counters = (frames / fps, frames, np.full(count, episode), episode * count + frames, np.full(count, task))
    return {
        STATE: np.concatenate(state, 1).astype(np.float32),
        TRUTH: np.tile(np.array(list(recordings.truth(number).values()), np.float32), (count, 1)),
        ACTION: action.astype(np.float32),
        **{name: x[:, None].astype(kind) for (name, kind), x in zip(COUNTERS.items(), counters, strict=True)},
    }


def _episode(row, index: int, k: int, frames: int, fps: float, place: Mapping[str, int], kind: str, stats) -> dict:
    """Metadata of an episode, the `k`-th in its files."""
    entry = {
        "episode_index": index,
        "tasks": [_task(kind, row["object"])],
        "length": frames,
        "dataset_from_index": index * frames,
        "dataset_to_index": (index + 1) * frames,
        f"videos/{KEY}/from_timestamp": k * frames / fps,
        f"videos/{KEY}/to_timestamp": (k + 1) * frames / fps,
        "gradsim/number": row["number"],
    }
    for what in ("data", "meta/episodes", f"videos/{KEY}"):
        entry |= {f"{what}/{name}": value for name, value in place.items()}
    return entry | {f"stats/{name}/{key}": value for name, feature in stats.items() for key, value in feature.items()}


def _table(columns: Sequence[Mapping[str, np.ndarray]]) -> Any:
    pa, arrays = require_extra("pyarrow", "files of a data set", "data"), {}
    for name in columns[0]:
        values = np.concatenate([column[name] for column in columns])
        flat = pa.array(values.ravel())
        arrays[name] = flat if name in COUNTERS else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return pa.table(arrays)


def _tasks(tasks: Sequence[str]) -> Any:
    """Table of tasks; its index in pandas is the text."""
    pa = require_extra("pyarrow", "files of a data set", "data")
    columns = [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy_kind, "metadata": None}
        for name, kind, numpy_kind in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    ]
    about = {"index_columns": ["task"], "column_indexes": [], "columns": columns, "pandas_version": "2.2.0"}
    table = pa.table({"task_index": list(range(len(tasks))), "task": list(tasks)})
    return table.replace_schema_metadata({"pandas": json.dumps(about)})


def _features(
    numbers: Mapping[str, np.ndarray],
    truths: Sequence[str],
    size: int,
    video: Mapping[str, Any],
    recordings: DatasetReader,
) -> dict[str, dict]:
    states = recordings.states(recordings.numbers[0])
    motion = MOTIONS[tuple(name.rpartition(".")[2] for name in states)].split()
    names = {STATE: motion, TRUTH: list(truths), ACTION: PUSH.split()}
    features = {
        KEY: {"dtype": "video", "shape": [size, size, 3], "names": ["height", "width", "channels"], "info": video}
    }
    for name, values in numbers.items():
        features[name] = {"dtype": str(values.dtype), "shape": [values.shape[1]], "names": names.get(name)}
    return features


def _info(recordings: DatasetReader, rows: Sequence[Mapping], tasks: int, features: Mapping) -> dict:
    train, fps = sum(row["split"] == "train" for row in rows), recordings.settings.fps
    splits = {"train": f"0:{train}", "test": f"{train}:{len(rows)}"}
    return {
        "codebase_version": "v3.0",
        "robot_type": None,
        "total_episodes": len(rows),
        "total_frames": len(rows) * recordings.settings.frames,
        "total_tasks": tasks,
        "chunks_size": CHUNK,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": int(fps) if fps == int(fps) else fps,
        "splits": {name: where for name, where in splits.items() if len(set(where.split(":"))) > 1},
        "data_path": DATA,
        "video_path": VIDEOS,
        "features": dict(features),
    }


def _write(path: Path, table: Any) -> None:
    require_extra("pyarrow.parquet", "files of a data set", "data").write_table(table, path, compression="snappy")


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
