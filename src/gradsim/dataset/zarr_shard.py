"""One file of many compressed chunks: a shard of zarr v3 (codec `sharding_indexed`), written as the chunks come.

    chunk 0 | chunk 1 | ... | offset and length of each, uint64, little-endian | CRC-32C of these

The writer of `zarr` takes a whole shard at once, which for 50 films of 256 × 256 are 600 MB; this one needs one film. The
reader is that of `zarr`. See the specification of zarr v3, section "Sharding codec".
"""

import hashlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

from gradsim.runtime.optional import require_extra

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
        self._zstd = require_extra("numcodecs", "files of a data set", "data").Zstd(level=LEVEL)

    def add(self, k: int, chunk: np.ndarray) -> None:
        """Write the `k`-th chunk."""
        content = self._zstd.encode(np.ascontiguousarray(chunk))
        self._file.write(content)
        self._index[k] = self._at, len(content)
        self._at += len(content)

    def close(self) -> None:
        """Write where the chunks are."""
        index = self._index.tobytes()
        checksum = require_extra("google_crc32c", "files of a data set", "data").value(index)
        self._file.write(index + checksum.to_bytes(4, "little"))


def fingerprint(path: Path) -> dict:
    """Length [bytes] and SHA-256 of a file."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
