"""Edges of meshes, and the functions of `edge_kernels.py` for other kernels."""

from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, members, specialize
from gradsim.engine.launch import check_memory
from gradsim.geometry.index_tables import memory_key, table_bytes
from gradsim.runtime.warp_init import init_warp

if TYPE_CHECKING:
    from gradsim.render.coverage import edge_kernels
else:
    edge_kernels = "gradsim.render.coverage.edge_kernels"

MESHES = 256  # cached meshes: bodies cut by the near plane have another table of faces in every frame


def mesh_of(faces: Tensor) -> tuple[wp.array, wp.array]:
    """Faces and edges of a mesh, cached by the table of faces."""
    return _adjacency(_table(faces), str(faces.device))


@lru_cache(MESHES)
def _adjacency(table: bytes, device: str) -> tuple[wp.array, wp.array]:
    faces = np.frombuffer(table, np.int32).reshape(-1, 3)
    init_warp()
    return (
        wp.array(faces, dtype=wp.vec3i, device=device),
        wp.array(np.array(edges_of(faces), np.int32).reshape(-1, 4), dtype=wp.vec4i, device=device),
    )


def edges_of(faces: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Edges of triangles (m, 3) as rows (a, b, face in which it runs from a to b, face in which it runs back).

    -1: no face, at borders. Edges of more than two faces, or of faces with different orientations, have several
    consecutive rows.
    """
    owners: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for k, (a, b, c) in enumerate(faces.tolist()):
        for i, j in ((a, b), (b, c), (c, a)):
            owners.setdefault((min(i, j), max(i, j)), ([], []))[i > j].append(k)
    return [(a, b, *pair) for (a, b), ways in owners.items() if a != b for pair in zip_longest(*ways, fillvalue=-1)]


def is_closed(faces: Tensor) -> bool:
    """True if each edge of triangles (m, 3) runs once in each direction."""
    return open_edge(faces) is None


def open_edge(faces: Tensor) -> tuple[int, int] | None:
    """First edge of triangles (m, 3) that does not run once in each direction; None if there is none."""
    return _open_edge(_table(faces))


@lru_cache(MESHES)
def _open_edge(table: bytes) -> tuple[int, int] | None:
    rows = edges_of(np.frombuffer(table, np.int32).reshape(-1, 3))
    return next(((a, b) for a, b, forward, back in rows if forward < 0 or back < 0), None)


def index_range(faces: Tensor) -> tuple[int, int]:
    """Least and greatest index of a table that is not empty."""
    return _index_range(_table(faces))


@lru_cache(MESHES)
def _index_range(table: bytes) -> tuple[int, int]:
    indices = np.frombuffer(table, np.int32)
    return int(indices.min()), int(indices.max())


_tables: dict[tuple, tuple[bytes | None, bytes]] = {}


def _table(faces: Tensor) -> bytes:
    """Table of faces as bytes: always the same object for the same memory, since hashing a large one takes long."""
    check_memory(faces)
    key, entries = memory_key(faces), table_bytes(faces)
    known = _tables.get(key)
    if known is None or known[0] != entries:
        while len(_tables) >= MESHES:
            _tables.pop(next(iter(_tables)), None)
        known = _tables[key] = entries, faces.cpu().numpy().astype(np.int32).tobytes()
    return known[1]


def functions(dtype: torch.dtype, *names: str) -> dict[str, Any]:
    """Functions and structs of the template, by name."""
    return members(specialize(edge_kernels, lane_of(dtype)), *names)
