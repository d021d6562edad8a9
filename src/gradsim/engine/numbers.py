"""Tests of numbers of tensors on a CPU, and zeros in their memory, in less time than an operation of PyTorch takes."""

import ctypes
import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

MOST_BYTES = 4096  # of a tensor whose numbers are compared in Python
MOST_NUMBERS = 8192  # whose squares NumPy adds, in one thread


def bytes_of(x: Tensor) -> bytes | None:
    """Numbers of a tensor on a CPU as bytes, which tell in a microsecond whether they are as before, however they were written.

    Those of its first row where all rows are that one; None of many, scattered or elsewhere.
    """
    if not x.is_cpu:
        return None
    size = x.nbytes
    if not x.is_contiguous():
        if x.stride(0) or (x.ndim > 1 and not x[:1].is_contiguous()):
            return None
        size //= x.shape[0]
    return ctypes.string_at(x.data_ptr(), size) if size <= MOST_BYTES else None


class FiniteCheck:
    """Tells whether the numbers of a tensor are finite, at each call.

    Args:
        x: The tensor, on a CPU; its memory is read at each call.
    """

    def __init__(self, x: Tensor):
        self.x = x
        self.array = x.view(-1).numpy() if x.is_contiguous() and x.numel() <= MOST_NUMBERS else None

    @np.errstate(all="ignore")
    def is_finite(self) -> bool:
        """True if all numbers are finite, and so is the sum of them or of their squares."""
        return math.isfinite(self.x.sum().item() if self.array is None else self.array.dot(self.array))


class Zeros:
    """Memory that is filled with zeros at each call.

    Args:
        tensors: Contiguous tensors on a CPU.
    """

    def __init__(self, tensors: Sequence[Tensor]):
        self.tensors = tensors  # which keep the memory
        self.places = [(x.data_ptr(), x.nbytes) for x in tensors]

    def fill(self) -> None:
        """Fill it."""
        for address, size in self.places:
            ctypes.memset(address, 0, size)
