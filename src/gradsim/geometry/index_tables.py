"""Tables of indices, such as the faces of a mesh: keys of their memory, and the range of their entries."""

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef


def memory_key(tensor: Tensor) -> tuple:
    """Hashable key of a tensor's memory and of what PyTorch has written into it; does not keep the memory alive.

    A tensor of inference mode has no count of writes.
    """
    memory, writes = StorageWeakRef(tensor.untyped_storage()), None if tensor.is_inference() else tensor._version
    return memory, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype, writes


def entry_range(indices: Tensor) -> tuple[int, int]:
    """Least and greatest entry of a table that is not empty."""
    low, high = indices.aminmax()
    return int(low), int(high)
