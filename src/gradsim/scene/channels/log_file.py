"""Signals of logs: CSV tables, MCAP files and data sets of LeRobot."""

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gradsim.errors import InputError
from gradsim.runtime.input_file import TEXT_BYTES, read_json, regular_file
from gradsim.runtime.optional import require_extra
from gradsim.scene.channels.channel import LogFile
from gradsim.scene.node import did_you_mean

DATES = 1e8  # stamps from which on they are dates [s]: the spring of 1973
MAX_LOG_BYTES = 1 << 33  # [bytes] of an MCAP or parquet file
STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")  # of a path into a message: .name or [k]
DECODERS = {
    "cdr": ("mcap_ros2.decoder", "mcap-ros2-support"),
    "protobuf": ("mcap_protobuf.decoder", "mcap-protobuf-support"),
}


class Signal(NamedTuple):
    """Samples of one column.

    Args:
        times: Increasing stamps, from the start of the scene (n,) [s].
        values: Values (n,), finite.
    """

    times: np.ndarray
    values: np.ndarray


def read_log(log: LogFile, columns: Sequence[str]) -> dict[str, Signal]:
    """Signals of some columns of a log.

    Samples that are empty or nan are left out.

    Raises:
        InputError: If the file is missing, damaged or of another shape, lacks a column, or has stamps that do not increase, or a
            signal has fewer than two samples.
    """
    path = Path(log.file)
    if not path.is_file():
        raise InputError(f"the log {path} does not exist.")
    reader = READERS[path.suffix.lower()]
    return {
        name: _checked(Signal(times - log.start, values), f"`{name}` in {path}")
        for name, (times, values) in reader(path, path.stat().st_mtime_ns, tuple(columns), log.episode).items()
    }


def _checked(signal: Signal, what: str) -> Signal:
    """The finite samples of a signal."""
    finite = np.isfinite(signal.values) & np.isfinite(signal.times)
    signal = Signal(signal.times[finite], signal.values[finite])
    if len(signal.times) < 2:
        raise InputError(f"{what} has {len(signal.times)} samples that are numbers; a signal needs two or more.")
    if back := np.flatnonzero(np.diff(signal.times) <= 0).tolist():
        raise InputError(
            f"{what}: the stamp {signal.times[back[0] + 1]:.9g} s does not come after {signal.times[back[0]]:.9g} s; sort the rows, and "
            "keep one of each time."
        )
    return signal


Samples = dict[str, tuple[np.ndarray, np.ndarray]]  # times [s] and values by column


@lru_cache(maxsize=16)
def _read_csv(path: Path, changed: int, columns: tuple[str, ...], episode: int) -> Samples:
    del changed, episode
    try:
        with regular_file(path, "log", TEXT_BYTES).open(newline="", encoding="utf-8-sig") as file:
            header, *rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row] or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read the log {path}: {error}.") from None
    if "time" not in header:
        raise InputError(
            f"{path} has the columns {', '.join(header) or 'none'}; expected one called time [s], and signals."
        )
    _require(path, columns, header)
    uneven = next((k for k, row in enumerate(rows, 2) if len(row) != len(header)), None)
    if uneven is not None:
        raise InputError(f"{path}, row {uneven}: expected {len(header)} cells, as the header has.")
    number = lambda name: np.array([_number(row[header.index(name)], path, k, name) for k, row in enumerate(rows, 2)])
    times = number("time")
    if len(times) and times[0] > DATES:
        times = times - times[0]
    return {name: (times, number(name)) for name in columns}


def _number(cell: str, path: Path, row: int, column: str) -> float:
    try:
        return float(cell) if cell else math.nan
    except ValueError:
        raise InputError(f"{path}, row {row}: {column} is {cell!r}; expected a number.") from None


def _require(path: Path, columns: Sequence[str], present: Sequence[str]) -> None:
    """Raise `InputError` if a log lacks a column."""
    for name in columns:
        if name not in present:
            hint = did_you_mean(name, list(present)) or f"; it has {', '.join(present)}."
            raise InputError(f"the log {path} has no column `{name}`{hint}")


@lru_cache(maxsize=16)
def _read_mcap(path: Path, changed: int, columns: tuple[str, ...], episode: int) -> Samples:
    del changed, episode
    mcap = require_extra("mcap.reader", "a log in MCAP", "logs")
    samples: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in columns}
    try:
        with regular_file(path, "log", MAX_LOG_BYTES).open("rb") as file:
            reader = mcap.make_reader(file, decoder_factories=_decoders())
            summary = reader.get_summary()
            topics = {channel.topic for channel in summary.channels.values()} if summary else set()
            wanted = {name: _topic(name, topics, path) for name in columns}
            start = summary.statistics.message_start_time if summary and summary.statistics else None
            for message, content in _messages(reader, set(wanted.values()), path):
                start = message.log_time if start is None else start
                for name, topic in wanted.items():
                    if topic == message.topic:
                        samples[name][0].append((message.log_time - start) * 1e-9)
                        samples[name][1].append(_entry(content, name.removeprefix(topic), name, path))
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 -- the libraries raise many kinds on damaged files
        raise InputError(f"cannot read the log {path}: {type(error).__name__}: {error}.") from None
    return {name: (np.array(times), np.array(values)) for name, (times, values) in samples.items()}


class _Stamped(NamedTuple):
    topic: str
    log_time: int


def _messages(reader: Any, topics: set[str], path: Path) -> Iterator[tuple[_Stamped, Any]]:
    """Messages of some topics with their content."""
    decoders: dict[int, Callable[[bytes], Any]] = {}
    factories = _decoders()
    for schema, channel, message in reader.iter_messages(topics=sorted(topics)):
        if channel.id not in decoders:
            choices = (factory.decoder_for(channel.message_encoding, schema) for factory in factories)
            decoder = json.loads if channel.message_encoding == "json" else next((c for c in choices if c), None)
            if decoder is None:
                package = DECODERS.get(channel.message_encoding, ("", ""))[1]
                way = f"pip install {package}" if package else "write it as JSON, or as CSV"
                raise InputError(
                    f"{path}: messages of {channel.topic} are encoded as {channel.message_encoding}: {way}."
                )
            decoders[channel.id] = decoder
        yield _Stamped(channel.topic, message.log_time), decoders[channel.id](message.data)


def _decoders() -> list[Any]:
    """Decoders of messages that are installed."""
    factories = []
    for module, package in DECODERS.values():
        try:
            factories.append(require_extra(module, "a log", package).DecoderFactory())
        except InputError:
            continue
    return factories


def _topic(column: str, topics: set[str], path: Path) -> str:
    """Topic of a column TOPIC.FIELD."""
    fitting = [topic for topic in topics if column.startswith((f"{topic}.", f"{topic}["))]
    if not fitting:
        raise InputError(
            f"the log {path} has no topic of `{column}`; it has {', '.join(sorted(topics)) or 'none'}: write TOPIC.FIELD, such as "
            "/joint_states.position[0]."
        )
    return max(fitting, key=len)


def _entry(content: Any, field: str, column: str, path: Path) -> float:
    """A number in a message, at .name or [k]."""
    for match in STEP.finditer(field):
        key, index = match.groups()
        try:
            if index is not None:
                content = content[int(index)]
            else:
                content = content[key] if isinstance(content, dict) else getattr(content, key)
        except (LookupError, AttributeError, TypeError):
            known = list(content) if isinstance(content, dict) else getattr(content, "__slots__", [])
            raise InputError(
                f"the log {path} has no `{column}` in a message; there are {', '.join(map(str, known))}."
            ) from None
    if isinstance(content, bool) or not isinstance(content, int | float):
        raise InputError(
            f"`{column}` in the log {path} is {content!r:.40}; expected a number: write .FIELD or [k] behind it."
        )
    return float(content)


@lru_cache(maxsize=16)
def _read_lerobot(path: Path, changed: int, columns: tuple[str, ...], episode: int) -> Samples:
    del changed
    parquet = require_extra("pyarrow.parquet", "a log of LeRobot", "data")
    try:
        table = parquet.read_table(regular_file(path, "log", MAX_LOG_BYTES))
    except Exception as error:  # noqa: BLE001 -- the library raises many kinds on damaged files
        raise InputError(f"cannot read the log {path}: {error}.") from None
    if not {"timestamp", "episode_index"} <= set(table.column_names):
        raise InputError(
            f"{path} has the columns {', '.join(table.column_names)}; expected timestamp and episode_index."
        )
    of_episode = np.asarray(table["episode_index"]) == episode
    if not of_episode.any():
        known = np.unique(np.asarray(table["episode_index"]))
        raise InputError(f"{path} has no episode {episode}; it has {known[0]} to {known[-1]}.")
    times, names = np.asarray(table["timestamp"], float)[of_episode], _feature_names(path)
    samples = {}
    for column in columns:
        fitting = [f for f in table.column_names if column == f or column.startswith((f"{f}[", f"{f}."))]
        if not fitting:
            _require(path, [column], table.column_names)
        feature = max(fitting, key=len)
        values = np.array(table[feature].to_pylist(), float)[of_episode]
        if values.ndim > 1:
            part = column.removeprefix(feature)
            values = values[:, _component(part, names.get(feature, []), values.shape[1], column, path)]
        samples[column] = (times, values)
    return samples


def _component(text: str, names: Sequence[str], count: int, column: str, path: Path) -> int:
    """Index of a component of a vector: [k], or .NAME."""
    if text.startswith(".") and text[1:] in names:
        return list(names).index(text[1:])
    match = re.fullmatch(r"\[(\d+)\]", text)
    if match is None or int(match[1]) >= count:
        known = f"[0] to [{count - 1}]" + (f", or .{', .'.join(names)}" if names else "")
        raise InputError(f"`{column}` in {path} names none of its components; there are {known}.")
    return int(match[1])


def _feature_names(path: Path) -> dict[str, list[str]]:
    """Names of the components of vectors, from the data set's `meta/info.json`; none where it is not there."""
    info = next(
        (parent / "meta/info.json" for parent in path.resolve().parents[:4] if (parent / "meta/info.json").is_file()),
        None,
    )
    if info is None:
        return {}
    features = read_json(info, dict, "take the data set as it was made").get("features", {})
    names = {name: feature.get("names") for name, feature in features.items() if isinstance(feature, dict)}
    return {name: list(x) for name, x in names.items() if isinstance(x, list)}


READERS = {".csv": _read_csv, ".mcap": _read_mcap, ".parquet": _read_lerobot}
