"""Parameters of a model, looked at as bytes at each call, so that numbers are noticed however they were written."""

import ctypes
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

MOST_BYTES = 2**20  # of the parameters of a model, and of a tensor that a call is given


class OwnNumbers:
    """Parameters of a model, and when their numbers became others.

    Args:
        owners: Module and attribute of each by name.
        dtype: That of the model. Parameters of another one cannot be compared.
    """

    def __init__(self, owners: Mapping[str, tuple[nn.Module, str]], dtype: torch.dtype):
        self.names, self.dtype = list(owners), dtype
        self._slots = [(vars(module)["_parameters"], key) for module, key in owners.values()]
        self.places = {name: k for k, name in enumerate(self.names)}
        self.parameters: list[Tensor] = []
        self.rows: dict[str, Tensor] = {}
        self.live: tuple[bool, ...] = ()  # whether each requires a gradient
        self.version = 0
        self.changed = [0] * len(self.names)  # version since which each has its numbers
        self._pointers: list[int] = []
        self._shapes: list[torch.Size] = []
        self._buffers: list[Any] = []
        self._bytes: list[bytes] = []
        self._last: list[tuple] = []  # of each parameter, all that is compared

    def look(self) -> bool:
        """Compare them with those of the last time; False where they cannot be compared."""
        # one walk, of few lines of code and memory: none of them is in the caches of the CPU when other work came before
        for slots, key, parameter, pointer, shape, live, buffer, numbers in self._last:
            if (
                slots.get(key) is not parameter
                or parameter.data_ptr() != pointer
                or parameter.shape != shape
                or parameter.requires_grad is not live
                or buffer.raw != numbers
            ):
                return self._look_anew()
        return bool(self._last) or self._look_anew()

    def _look_anew(self) -> bool:
        """The same where something differs."""
        self._last = []
        try:
            parameters = [slots[key] for slots, key in self._slots]
            pointers = [p.data_ptr() for p in parameters]
            shapes = [p.shape for p in parameters]
        except (KeyError, AttributeError, RuntimeError):  # none, or of another kind
            return False
        same = len(parameters) == len(self.parameters) and all(map(operator.is_, parameters, self.parameters))
        if not (same and pointers == self._pointers and shapes == self._shapes) and not self._take(parameters):
            return False
        self.live = tuple([p.requires_grad for p in parameters])
        numbers = [buffer.raw for buffer in self._buffers]
        if numbers != self._bytes:
            self.version += 1
            for k, (new, old) in enumerate(zip(numbers, self._bytes, strict=True)):
                if new != old:
                    self.changed[k] = self.version
            self._bytes = numbers
        columns = parameters, pointers, shapes, self.live, self._buffers, numbers
        self._last = [(*slot, *entries) for slot, *entries in zip(self._slots, *columns, strict=True)]
        return True

    def newer(self, version: int) -> list[str]:
        """Names of those with other numbers than at a version."""
        return [name for name, since in zip(self.names, self.changed, strict=True) if since > version]

    def _take(self, parameters: list[Tensor]) -> bool:
        """Look at these from now on; False where their memory cannot be read."""
        self.parameters = []
        plain = all(
            type(p) is nn.Parameter and p.dtype is self.dtype and p.is_cpu and p.is_contiguous() and p.numel()
            for p in parameters
        )
        if not plain or sum(p.nbytes for p in parameters) > MOST_BYTES:
            return False
        rows = [p.detach()[None] for p in parameters]  # which keep the memory
        self.rows = dict(zip(self.names, rows, strict=True))
        self._pointers, self._shapes = [p.data_ptr() for p in parameters], [p.shape for p in parameters]
        self._buffers = [(ctypes.c_char * p.nbytes).from_address(p.data_ptr()) for p in parameters]
        self._bytes = [b""] * len(parameters)
        self.parameters = parameters
        return True


def buffer_of(x: Tensor) -> Any:
    """Numbers of a contiguous tensor on a CPU, while their memory is its own; None of many."""
    size = x.nbytes
    return (ctypes.c_char * size).from_address(x.data_ptr()) if 0 < size <= MOST_BYTES else None


def numbers_of(x: Tensor) -> bytes | None:
    """The same as bytes."""
    buffer = buffer_of(x)
    return None if buffer is None else buffer.raw
