"""Between PyTorch tensors, worlds first, and the arrays of a lane type, registers of worlds last.

A tensor (worlds, *items, *components) becomes an array (packs, *items) of Real, Vec3, Mat3 or Quat; the last pack is
filled up with copies of the last world. A dual array holds the tangents behind the values.
"""

import math

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import Lane, names
from gradsim.runtime.warp_init import init_warp

SHAPES = {"Real": (), "Vec3": (3,), "Mat3": (3, 3), "Quat": (4,)}


class Layout:
    """Packs and unpacks for one lane type.

    Args:
        lane: The lane type.
    """

    def __init__(self, lane: Lane):
        self.lane, self.types = lane, names(lane)
        self.dtype = getattr(torch, lane.dtype)

    def packs(self, worlds: int) -> int:
        """Number of registers that hold this number of worlds."""
        return math.ceil(worlds / self.lane.width)

    def pack(self, kind: str, value: Tensor, tangent: Tensor | None = None) -> wp.array:
        """Array of `kind` ("Real", "Vec3", "Mat3", "Quat") from (worlds, *items, *components) and its tangent."""
        size = math.prod(SHAPES[kind])
        items = value.shape[1 : value.ndim - len(SHAPES[kind])]
        flat = value.reshape(value.shape[0], math.prod(items), size)
        if self.lane.dual:
            flat = torch.cat([flat, torch.zeros_like(flat) if tangent is None else tangent.reshape(flat.shape)], 2)
        packs, width = self.packs(len(flat)), self.lane.width
        missing = packs * width - len(flat)
        if missing:
            flat = torch.cat([flat, flat[-1:].expand(missing, -1, -1)])
        lanes_last = flat.reshape(packs, width, *flat.shape[1:]).permute(0, 2, 3, 1).to(self.dtype)
        return self._wrap(kind, lanes_last.reshape(packs, *items, *self._tail(kind)).contiguous())

    def fill(self, array: wp.array, kind: str, value: Tensor, tangent: Tensor | None = None) -> None:
        """Write what `pack` would make over an array of its size: without a new array, in a tenth of the time."""
        size, width, packs = math.prod(SHAPES[kind]), self.lane.width, array.shape[0]
        memory = self.memory(array)
        if not memory.numel():
            return
        memory = memory.view(packs, -1, memory.numel() // (packs * math.prod(array.shape[1:]) * width), width)
        for k, part in enumerate((value, tangent) if self.lane.dual else (value,)):
            place = memory[:, :, k * size : (k + 1) * size]
            if part is None:
                place.zero_()
                continue
            flat = part.reshape(len(part), -1, size)
            missing = packs * width - len(flat)
            if missing:
                flat = (
                    torch.cat([flat, flat[-1:].expand(missing, -1, -1)])
                    if len(flat) > 1
                    else flat.expand(packs * width, -1, -1)
                )
            place.copy_(flat.unflatten(0, (packs, width)).permute(0, 2, 3, 1))

    def zeros(self, kind: str, worlds: int, items: tuple[int, ...], device: torch.device) -> wp.array:
        """Array of `kind`, all zero, for this number of worlds."""
        shape = (self.packs(worlds), *items, *self._tail(kind))
        return self._wrap(kind, torch.zeros(shape, dtype=self.dtype, device=device))

    def scalars(self, value: Tensor) -> wp.array:
        """Array of plain numbers that all worlds share."""
        tensor = value.to(self.dtype).contiguous()
        array = wp.from_torch(tensor, dtype=self.types["Scalar"], requires_grad=False)
        vars(array)["tensor"] = tensor
        return array

    def counts(self, value: Tensor) -> wp.array:
        """Array of whole numbers that all worlds share."""
        init_warp()
        return wp.from_torch(value.to(torch.int32).contiguous(), dtype=wp.int32, requires_grad=False)

    def memory(self, array: wp.array) -> Tensor:
        """The tensor behind an array made here."""
        return vars(array)["tensor"]

    def unpack(self, kind: str, array: wp.array, worlds: int) -> tuple[Tensor, Tensor | None]:
        """(worlds, *items, *components) of an array, and its tangent where the lane type is dual."""
        components = math.prod(SHAPES[kind]) * (2 if self.lane.dual else 1)
        items, width = array.shape[1:], self.lane.width
        tensor = self.memory(array)
        flat = tensor.reshape(len(tensor), math.prod(items), components, width).permute(0, 3, 1, 2)
        flat = flat.reshape(len(tensor) * width, math.prod(items), components)[:worlds]
        parts = flat.chunk(2, dim=2) if self.lane.dual else (flat,)
        value, *tangent = (part.reshape(worlds, *items, *SHAPES[kind]).contiguous() for part in parts)
        if value.data_ptr() == tensor.data_ptr():  # the array may be written again
            value = value.clone()
        return value, tangent[0] if tangent else None

    def _tail(self, kind: str) -> tuple[int, ...]:
        """Trailing dimensions of a tensor that Warp reads as `kind`."""
        shape, width = SHAPES[kind], self.lane.width
        size = math.prod(shape)
        if width == 1:
            return (2 * size,) if self.lane.dual else shape
        return (2 * size, width) if self.lane.dual else ((size, width) if shape else (width,))

    def _wrap(self, kind: str, tensor: Tensor) -> wp.array:
        init_warp()  # from_torch needs it on a CPU
        if tensor.numel():
            array = wp.from_torch(tensor, dtype=self.types[kind], requires_grad=False)
        else:  # Warp refuses the strides of an empty tensor
            items = tensor.shape[: tensor.ndim - len(self._tail(kind))]
            array = wp.empty(items, dtype=self.types[kind], device=str(tensor.device))
        vars(array)["tensor"] = tensor  # keeps the memory alive, and spares the way back
        return array
