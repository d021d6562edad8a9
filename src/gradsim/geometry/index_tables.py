"""Tables of indices, such as the faces of a mesh: keys of their memory, and the range of their entries."""

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

MOST_TABLES = 256  # of which the range is known

_ranges: dict[tuple, tuple[int, int]] = {}


def memory_key(tensor: Tensor) -> tuple:
    """Hashable key of a tensor's memory and of what PyTorch has written into it; does not keep the memory alive."""
    memory = StorageWeakRef(tensor.untyped_storage())
    return memory, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype, tensor._version


def entry_range(indices: Tensor) -> tuple[int, int]:
    """Least and greatest entry of a table that is not empty, read once for the same memory."""
    if torch.compiler.is_compiling():
        return _read(indices)
    key = memory_key(indices)
    known = _ranges.get(key)
    if known is None:
        while len(_ranges) >= MOST_TABLES:
            _ranges.pop(next(iter(_ranges)), None)
        known = _ranges[key] = _read(indices)
    return known


def _read(indices: Tensor) -> tuple[int, int]:
    low, high = indices.aminmax()
    return int(low), int(high)
