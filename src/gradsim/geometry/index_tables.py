"""Tables of indices, such as the faces of a mesh: keys of their memory, and the range of their entries."""

import ctypes

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.multiprocessing.reductions import StorageWeakRef

MOST_TABLE_BYTES = 512**2  # of tables that are compared as bytes
MOST_TABLES = 64  # whose ranges are kept


def memory_key(tensor: Tensor) -> tuple:
    """Hashable key of a tensor's memory and of what PyTorch has written into it; does not keep the memory alive.

    What is written past PyTorch, as by NumPy, `table_bytes` tells, but of large tables. A tensor of inference mode has no count of writes.
    """
    memory, writes = StorageWeakRef(tensor.untyped_storage()), None if tensor.is_inference() else tensor._version
    return memory, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype, writes


# by address of the table: its dtype, its bytes, and the range
_ranges: dict[int, tuple[torch.dtype, bytes, tuple[int, int]]] = {}


def table_bytes(indices: Tensor) -> bytes | None:
    """Entries of a contiguous table on a CPU, as they are now; None of a large one, and within `torch.compile` and `torch.func`."""
    if type(indices) is not Tensor or torch.compiler.is_compiling() or is_functorch_wrapped_tensor(indices):
        return None
    size = indices.nbytes
    if size > MOST_TABLE_BYTES or not (indices.is_cpu and indices.is_contiguous()):
        return None
    return ctypes.string_at(indices.data_ptr(), size)


def entry_range(indices: Tensor) -> tuple[int, int]:
    """Least and greatest entry of a table that is not empty; of one that has the bytes of the last time, what they were then."""
    entries = table_bytes(indices)
    if entries is None:
        return _range(indices)
    address, dtype = indices.data_ptr(), indices.dtype
    known = _ranges.get(address)
    if known is not None and known[0] is dtype and known[1] == entries:
        return known[2]
    if len(_ranges) >= MOST_TABLES:
        _ranges.clear()
    limits = _range(indices)
    _ranges[address] = dtype, entries, limits
    return limits


def _range(indices: Tensor) -> tuple[int, int]:
    low, high = indices.aminmax()
    return int(low), int(high)
