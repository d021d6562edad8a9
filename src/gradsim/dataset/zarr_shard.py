"""One file of many compressed chunks: a shard of zarr v3 (codec `sharding_indexed`), written as the chunks come.

    chunk 0 | chunk 1 | ... | offset and length of each, uint64, little-endian | CRC-32C of these

The writer of `zarr` takes a whole shard at once, which for 50 films of 256 × 256 are 600 MB; this one needs one film. The
reader is that of `zarr`. See the specification of zarr v3, section "Sharding codec".
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import numpy as np

from gradsim.dataset.optional import extra

LEVEL = 3  # of zstd: 9 saves 7 % of the bytes in three times the time
NONE = 2**64 - 1  # offset and length of a chunk that is not there


class ShardFile:
    """Chunks of one array, in order.

    Args:
        file: Where they go.
        room: Chunks of a full shard; those that are never added read as zeros.
    """

    def __init__(self, file: BinaryIO, room: int):
        self._file, self._at = file, 0
        self._index = np.full((room, 2), NONE, "<u8")
        self._zstd = extra("numcodecs").Zstd(level=LEVEL)

    def add(self, k: int, chunk: np.ndarray) -> None:
        """Write the `k`-th chunk."""
        content = self._zstd.encode(np.ascontiguousarray(chunk))
        self._file.write(content)
        self._index[k] = self._at, len(content)
        self._at += len(content)

    def close(self) -> None:
        """Write where the chunks are."""
        index = self._index.tobytes()
        checksum = extra("google_crc32c").value(index)
        self._file.write(index + checksum.to_bytes(4, "little"))


@contextmanager
def synced(path: Path) -> Iterator[BinaryIO]:
    """A file that appears whole, when the block ends well, or not at all; also if the power fails.

    Two processes that write the same file do not meet: each has a draft of its own beside it, and the last one stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid4().hex[:12]}.part")
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):  # the name, too
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def fingerprint(path: Path) -> dict:
    """Length [bytes] and SHA-256 of a file."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
