"""Between PyTorch tensors, worlds first, and the arrays of a lane type, registers of worlds last.

A tensor (worlds, *items, *components) becomes an array (packs, *items) of Real, Vec3, Mat3 or Quat; the last pack is
filled up with copies of the last world. A dual array holds the tangents behind the values.
"""

import itertools
import math
from collections.abc import Hashable, Sequence

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import Lane, names
from gradsim.engine.numbers import bytes_of
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
        width, packs = self.lane.width, array.shape[0]
        parts = (value, tangent) if self.lane.dual else (value,)
        for place, part in zip(self._places(array, kind), parts, strict=False):
            if part is None:
                place.zero_()
                continue
            part = part.detach()
            worlds = part.shape[0]
            if worlds == 1:
                place.copy_(part.reshape(1, *place.shape[1:3], 1))
                continue
            flat = part.reshape(worlds, *place.shape[1:3])
            whole = worlds // width  # packs of worlds alone
            if whole:
                place[:whole].copy_(flat[: whole * width].unflatten(0, (whole, width)).permute(0, 2, 3, 1))
            if whole < packs:
                left = flat[whole * width :]
                if left.shape[0] > 1:
                    place[whole, :, :, : left.shape[0]].copy_(left.permute(1, 2, 0))
                place[whole:, :, :, max(left.shape[0] - 1, 0) :].copy_(flat[-1][..., None])

    def fill_where_new(self, array: wp.array, kind: str, value: Tensor, tangent: Tensor | None = None) -> None:
        """`fill` of an array that nothing else writes to, but where it has these numbers already."""
        if is_new(array, value, tangent, value.dtype):  # the number of worlds alone, of one row, changes nothing
            try:
                self.fill(array, kind, value, tangent)
            except BaseException:
                vars(array)["numbers"] = None  # of numbers in part
                raise

    def _places(self, array: wp.array, kind: str) -> tuple[Tensor, ...]:
        """Views (packs, items, size, width) of the memory of values, and of tangents of a dual lane type; none of an empty array."""
        known = vars(array)
        if "places" not in known:
            memory, count = self.memory(array), 2 if self.lane.dual else 1
            shape = (array.shape[0], math.prod(array.shape[1:]), count, math.prod(SHAPES[kind]), self.lane.width)
            places = memory.detach().view(shape) if memory.numel() else None
            known["places"] = () if places is None else tuple(places[:, :, k] for k in range(count))
        return known["places"]

    def _single(self, array: wp.array, kind: str) -> tuple[Tensor, ...]:
        """Views (1, *items, *components) of the first world, of values and tangents."""
        known = vars(array)
        if "single" not in known:
            shape = (1, *array.shape[1:], *SHAPES[kind])
            known["single"] = tuple(place[:1, :, :, 0].view(shape) for place in self._places(array, kind))
        return known["single"]

    def zeros(self, kind: str, worlds: int, items: tuple[int, ...], device: torch.device) -> wp.array:
        """Array of `kind`, all zero, for this number of worlds."""
        shape = (self.packs(worlds), *items, *self._tail(kind))
        with torch.inference_mode(False):  # it may be kept for calls outside of one
            return self._wrap(kind, torch.zeros(shape, dtype=self.dtype, device=device))

    def joined_zeros(
        self, kinds: Sequence[str], worlds: int, items: tuple[int, ...], device: torch.device
    ) -> tuple[list[wp.array], Tensor]:
        """`zeros` of several kinds in one memory, and that memory."""
        shapes = [(self.packs(worlds), *items, *self._tail(kind)) for kind in kinds]
        ends = list(itertools.accumulate(map(math.prod, shapes)))
        with torch.inference_mode(False):  # as `zeros`
            memory = torch.zeros(ends[-1], dtype=self.dtype, device=device)
            parts = [memory[begin:end] for begin, end in itertools.pairwise([0, *ends])]
            return [self._wrap(k, y.view(shape)) for k, y, shape in zip(kinds, parts, shapes, strict=True)], memory

    def subsample(self, kind: str, array: wp.array, spacing: int) -> wp.array:
        """Every such item of the first dimension after the packs; it shares the memory of the array."""
        return self._wrap(kind, self.memory(array)[:, ::spacing])

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
        shape, count, width = SHAPES[kind], 2 if self.lane.dual else 1, self.lane.width
        items, tensor = array.shape[1:], self.memory(array)
        if worlds == 1 and tensor.is_contiguous() and self._places(array, kind):
            value, *tangent = (part.clone(memory_format=torch.contiguous_format) for part in self._single(array, kind))
            return value, tangent[0] if tangent else None
        places = tensor.view(tensor.shape[0], *items, count, *shape, width)
        parts = places.unbind(1 + len(items))
        if worlds <= width:
            copied = [x[0, ..., :worlds].movedim(-1, 0).clone(memory_format=torch.contiguous_format) for x in parts]
        elif width == 1:
            copied = [x[:worlds, ..., 0].clone(memory_format=torch.contiguous_format) for x in parts]
        else:
            flat = [x.movedim(-1, 1).flatten(0, 1)[:worlds] for x in parts]  # which copies, but of one number each
            copied = [y.clone() if y.data_ptr() == x.data_ptr() else y for x, y in zip(parts, flat, strict=True)]
        return copied[0], copied[1] if count == 2 else None

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


def is_new(array: wp.array, value: Tensor, tangent: Tensor | None = None, also: Hashable = None) -> bool:
    """True where an array has to be written to: false of the numbers with which this was called last.

    Args:
        array: The array.
        value: What it holds then.
        tangent: Its tangent.
        also: What else tells this from another call; None: the number of worlds.
    """
    kind = value.shape[0] if also is None else also
    numbers = kind, bytes_of(value), tangent if tangent is None else bytes_of(tangent)
    known = vars(array)
    if numbers[1] is None or (tangent is not None and numbers[2] is None):
        known["numbers"] = None
    elif known.get("numbers") == numbers:
        return False
    else:
        known["numbers"] = numbers
    return True
