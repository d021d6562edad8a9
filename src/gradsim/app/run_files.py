"""result.json and history.json of run folders, as the commands that read them expect them."""

from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict  # of `typing` pydantic takes it from Python 3.12 on

from gradsim.errors import InputError, Status
from gradsim.runtime.input_file import read_json

WAY_OUT = "run the command that made the folder again"


class UnknownRecord(TypedDict):
    """Estimate of one unknown."""

    value: float | None
    low: NotRequired[float | None]
    high: NotRequired[float | None]
    std: NotRequired[float | None]
    truth: NotRequired[float | None]
    unit: NotRequired[str]
    interval95: NotRequired[list[float | None] | None]


class WordsRecord(TypedDict):
    """A finding that is stated in words; further keys are not checked."""

    words: str


class PriorsRecord(TypedDict):
    """Numbers with a prior, and shares of variances."""

    numbers: list[dict[str, Any]]
    shares: dict[str, Any]


class ResultRecord(TypedDict):
    """Keys of result.json that all readers need; further ones are not checked."""

    command: NotRequired[str]
    status: NotRequired[str | None]
    title: NotRequired[str]
    unknowns: NotRequired[dict[str, UnknownRecord] | int | None]
    unknowns_8bit: NotRequired[dict[str, UnknownRecord] | None]
    clips: NotRequired[list[Any] | None]
    profiles: NotRequired[list[WordsRecord] | None]
    residual_diagnostics: NotRequired[WordsRecord | None]
    discretization: NotRequired[dict[str, Any] | None]
    known_numbers: NotRequired[WordsRecord | None]
    priors: NotRequired[PriorsRecord | None]
    notes: NotRequired[list[str] | None]
    frames_dropped: NotRequired[list[int] | None]
    frames_repeated: NotRequired[list[int] | None]
    frames_excluded: NotRequired[list[int] | None]
    frames_suspected: NotRequired[list[str] | None]
    mask_faults: NotRequired[list[str] | None]


class HistoryRecord(TypedDict):
    """Keys of history.json that all readers need."""

    stages: NotRequired[list[dict[str, Any]] | None]
    starts: NotRequired[dict[str, Any] | None]


def read_result(folder: str | Path) -> dict:
    """Content of result.json; empty if there is none.

    Raises:
        InputError: If it is damaged: the message names the key.
    """
    path = Path(folder) / "result.json"
    if not path.exists():
        return {}
    read_json(path, ResultRecord, WAY_OUT)
    content = read_json(path, dict, WAY_OUT)
    if (status := content.get("status")) is not None and status not in list(Status):
        raise InputError(f"{path} is damaged (`status` is {status[:40]!r}, none of {', '.join(Status)}); {WAY_OUT}.")
    for key, rows in content.items():
        for name, row in rows.items() if key.startswith("unknowns") and isinstance(rows, dict) else ():
            defaults = {
                "low": None,
                "high": None,
                "std": None,
                "truth": None,
                "unit": "",
                "interval95": None,
                "identifiable": False,
            }
            rows[name] = {**defaults, **row} if isinstance(row, dict) else row
    return content


def read_history(folder: str | Path) -> dict:
    """Content of history.json; empty if there is none.

    Raises:
        InputError: If it is damaged.
    """
    path = Path(folder) / "history.json"
    if not path.exists():
        return {}
    read_json(path, HistoryRecord, WAY_OUT)
    return read_json(path, dict, WAY_OUT)
