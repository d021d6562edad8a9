"""The shard writer is held to the reader of zarr."""

import numpy as np
import pytest
import zarr
from zarr.codecs import ZstdCodec

from gradsim.dataset.zarr_shard import ShardFile
from gradsim.runtime.atomic import atomic_write

ROOM, SHAPE = 4, (3, 8, 8)


def array(folder):
    encoding = {"name": "default", "separator": "."}
    compressors = ZstdCodec(level=3)
    shape, shards, chunks = ((count, *SHAPE) for count in (6, ROOM, 1))
    return zarr.create_array(
        store=folder,
        shape=shape,
        shards=shards,
        chunks=chunks,
        dtype="u1",
        compressors=compressors,
        chunk_key_encoding=encoding,
    )


def write(path, content, missing=()):
    with atomic_write(path, fsync=True) as file:
        shard = ShardFile(file, ROOM)
        for k, chunk in enumerate(content):
            if k not in missing:
                shard.add(k, chunk)
        shard.close()


def test_zarr_reads_what_was_written_and_zeros_where_nothing_was(tmp_path):
    kept, content = array(tmp_path), np.random.default_rng(0).integers(0, 9, (ROOM, *SHAPE), np.uint8)
    write(tmp_path / "c.0.0.0.0", content, missing=(2,))
    for k in range(ROOM):
        np.testing.assert_array_equal(kept[k], 0 * content[k] if k == 2 else content[k])
    assert not kept[ROOM:].any()


def test_a_changed_index_is_not_read(tmp_path):
    kept = array(tmp_path)
    path = tmp_path / "c.0.0.0.0"
    write(path, np.ones((ROOM, *SHAPE), np.uint8))
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="checksum"):
        kept[0]
