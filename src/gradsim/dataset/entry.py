"""The statement that a unit is whole: hashes of its videos and of its files, and what it took.

It ends with a hash of itself, so that a changed byte in it is found like one in any other file.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from gradsim.dataset.shard_file import synced


class Damaged(ValueError):
    """A file is not what was written; the message says how."""


@dataclass(frozen=True)
class Entry:
    """One whole unit.

    Attributes:
        unit: Its number.
        settings: `Settings.digest` of the data set that it belongs to.
        videos: `labels.digest` of each of its videos, in order.
        files: By name as in `Layout.files`, "bytes" and "sha256".
        cpu_s, wall_s: What it took [s].
    """

    unit: int
    settings: str
    videos: tuple[str, ...]
    files: dict[str, dict]
    cpu_s: float
    wall_s: float

    def write(self, path: Path) -> None:
        """Keep it; from then on the unit counts."""
        content = asdict(self)
        with synced(path) as file:
            file.write(json.dumps({**content, "seal": _seal(content)}, indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> "Entry":
        """That of a file.

        Raises:
            FileNotFoundError: If there is none.
            Damaged: If it is not as it was written.
        """
        try:
            content = json.loads(path.read_bytes())
            seal = content.pop("seal")
            if seal != _seal(content):
                raise Damaged("its content was changed")
            return cls(**{**content, "videos": tuple(content["videos"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(str(error)) from None


def _seal(content: dict) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
