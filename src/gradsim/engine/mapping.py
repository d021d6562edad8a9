"""Conversion between PyTorch tensors, worlds first, and arrays of kernels, for each mapping of `engine.access`.

Both mappings have the same methods. `vertices` lays out what each vertex of a mesh has, `elements` what each element
has (or all of them share, if there is one item), in each of some intervals of time where there is a dimension more,
`uniform` what belongs to a whole world; `constants` and `index` are the same in all worlds. Each `fill_...` writes over an array what its namesake
would make of tensors of the same shapes. Each `un...` is the way back, of an adjoint: what several lanes share is summed.
"""

import math
from collections.abc import Sequence

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import Lane, names, native_width
from gradsim.engine.layout import SHAPES, Layout
from gradsim.runtime.warp_init import init_warp

CONSTANTS = {"Real": "Scalar", "Vec3": "Point", "Mat3": "Matrix"}  # that all worlds share
FULL_REGISTER_COST = 0.3  # of the time of a world alone that one world of a full register takes (measured: 0.29)


def mapping_for(worlds: int, dtype: torch.dtype, device: torch.device, dual: bool) -> "Worlds | InElements":
    """The faster mapping on this device for this number of worlds."""
    name = str(dtype).removeprefix("torch.")
    if device.type != "cpu":
        return Threads(Lane(name, 1, dual))
    width = native_width(name)
    packed = math.ceil(worlds / width) * width * FULL_REGISTER_COST
    return (Worlds if packed < worlds else InElements)(Lane(name, width, dual))


class Worlds:
    """A register holds several worlds; or one, at width 1.

    Args:
        lane: The lane type.
    """

    name = "worlds"

    def __init__(self, lane: Lane):
        self.lane, self.layout = lane, Layout(lane)

    def threads(self, worlds: int) -> int:
        """Threads of a launch."""
        return self.layout.packs(worlds)

    def rows(self, vertices: int, nodes: Sequence[int], counts: Sequence[int]) -> int:
        """Entries of an array of vertices."""
        return vertices

    def vertices(self, x: Tensor, tangent: Tensor | None, rows: int, copies: Tensor) -> wp.array:
        """Array (threads, ..., rows) of (worlds, ..., n, 3)."""
        return self.layout.pack("Vec3", x, tangent)

    def scalars(self, x: Tensor, tangent: Tensor | None, rows: int) -> wp.array:
        """Array (threads, blocks) of one number of each vertex (worlds, n)."""
        return self.layout.pack("Real", x, tangent)

    def scalars_constant(self, x: Tensor, rows: int) -> wp.array:
        """Array (blocks,) of one number of each vertex (n,)."""
        init_warp()
        return self.layout.scalars(x)

    def elements(self, kind: str, x: Tensor, tangent: Tensor | None = None) -> wp.array:
        """Array (threads, blocks or 1) of (worlds, elements or 1, ...); (threads, intervals · blocks) of (worlds,
        intervals, elements or 1, ...)."""
        flat = lambda y: y.flatten(1, 2) if _intervals(kind, y) else y
        return self.layout.pack(kind, flat(x), None if tangent is None else flat(tangent))

    uniform = elements

    def subsample(self, array: wp.array, spacing: int) -> wp.array:
        """Every such instant of an array (threads, instants, rows) of vertices, which shares its memory."""
        return self.layout.subsample("Vec3", array, spacing)

    def fill_vertices(self, array: wp.array, x: Tensor, tangent: Tensor | None, copies: Tensor) -> None:
        self.layout.fill(array, "Vec3", x, tangent)

    def fill_scalars(self, array: wp.array, x: Tensor, tangent: Tensor | None) -> None:
        self.layout.fill(array, "Real", x, tangent)

    def fill_elements(self, array: wp.array, kind: str, x: Tensor, tangent: Tensor | None) -> None:
        self.layout.fill(array, kind, x, tangent)

    fill_uniform = fill_elements

    def constants(self, kind: str, x: Tensor) -> wp.array:
        """Array (blocks,) of (elements, ...)."""
        tensor = x.to(self.layout.dtype).contiguous()
        return _array(names(self.lane)[CONSTANTS[kind]], tensor, len(SHAPES[kind]))

    def index(self, vertices: Tensor, beyond: int) -> wp.array:
        """Array (blocks,) of one vertex of each element (elements,)."""
        return self.layout.counts(vertices)

    def empty(self, rows: int, *lead: int, device: torch.device) -> wp.array:
        """Zeros (threads, ..., rows) for vertices; `lead` begins with the threads."""
        return self.layout.zeros("Vec3", lead[0] * self.lane.width, (*lead[1:], rows), device)

    def like(self, kind: str, array: wp.array) -> wp.array:
        """Zeros of the same size."""
        shape = array.shape[1:]
        return self.layout.zeros(kind, array.shape[0] * self.lane.width, shape, self.layout.memory(array).device)

    def unvertices(self, array: wp.array, worlds: int, n: int) -> tuple[Tensor, Tensor | None]:
        return self.layout.unpack("Vec3", array, worlds)

    def unscalars(self, array: wp.array, worlds: int, n: int) -> Tensor:
        return self.layout.unpack("Real", array, worlds)[0]

    def unelements(self, kind: str, array: wp.array, like: Tensor) -> Tensor:
        """In the shape of `like`, of which `elements` made such an array."""
        return self.layout.unpack(kind, array, len(like))[0].reshape(like.shape)

    def ununiform(self, kind: str, array: wp.array, worlds: int, count: int) -> Tensor:
        return self.layout.unpack(kind, array, worlds)[0]


class Threads(Worlds):
    """One number in a register, and one vertex or element a thread: for devices with many threads."""

    name = "threads"


class InElements:
    """A register holds several elements of one world.

    The last register of a group of elements is filled up with copies of the last element, which act on copies of its
    vertices that nothing else touches and nothing moves.

    Args:
        lane: The lane type.
    """

    name = "elements"

    def __init__(self, lane: Lane):
        self.lane, self.layout = lane, Layout(lane)
        self.types, self.dtype = names(lane), getattr(torch, lane.dtype)
        self.parts = 2 if lane.dual else 1

    def threads(self, worlds: int) -> int:
        return worlds

    def rows(self, vertices: int, nodes: Sequence[int], counts: Sequence[int]) -> int:
        filled = sum(n for n, count in zip(nodes, counts, strict=True) if count % self.lane.width)
        return math.ceil((vertices + filled) / self.lane.width) * self.lane.width

    def vertices(self, x: Tensor, tangent: Tensor | None, rows: int, copies: Tensor) -> wp.array:
        """`copies`: vertices repeated after those of the mesh; none for zeros."""
        memory = torch.zeros(*x.shape[:-2], rows, 4 * self.parts, dtype=self.dtype, device=x.device)
        n = x.shape[-2]
        for k, part in enumerate((x, tangent) if self.lane.dual else (x,)):
            if part is not None:
                memory[..., :n, 4 * k : 4 * k + 3] = part
        if len(copies):
            memory[..., n : n + len(copies), :3] = x[..., copies, :].to(self.dtype)
        return self._rows(memory)

    def scalars(self, x: Tensor, tangent: Tensor | None, rows: int) -> wp.array:
        pad = lambda y: torch.nn.functional.pad(y, (0, rows - y.shape[1]))
        return self._packs("Real", pad(x), None if tangent is None else pad(tangent))

    def scalars_constant(self, x: Tensor, rows: int) -> wp.array:
        return self._flat(self.scalars(x[None], None, rows), "Real")

    def elements(self, kind: str, x: Tensor, tangent: Tensor | None = None) -> wp.array:
        if _intervals(kind, x):  # as if each were a world
            slope = None if tangent is None else tangent.flatten(0, 1)
            memory = self.layout.memory(self.elements(kind, x.flatten(0, 1), slope))
            return self._wrap(kind, memory.reshape(len(x), -1, *memory.shape[2:]))
        return self.uniform(kind, x, tangent) if x.shape[1] == 1 else self._packs(kind, x, tangent)

    def uniform(self, kind: str, x: Tensor, tangent: Tensor | None = None) -> wp.array:
        wide = lambda y: y.repeat_interleave(self.lane.width, 1)
        return self._packs(kind, wide(x), None if tangent is None else wide(tangent))

    def subsample(self, array: wp.array, spacing: int) -> wp.array:
        return self._rows(self.layout.memory(array)[:, ::spacing])

    def fill_vertices(self, array: wp.array, x: Tensor, tangent: Tensor | None, copies: Tensor) -> None:
        memory, n = self.layout.memory(array), x.shape[-2]
        for k, part in enumerate((x, tangent) if self.lane.dual else (x,)):
            place = memory[..., :n, 4 * k : 4 * k + 3]
            if part is None:
                place.zero_()
            else:
                place.copy_(part)
        if len(copies):
            memory[..., n : n + len(copies), :3] = x.index_select(-2, copies)

    def fill_scalars(self, array: wp.array, x: Tensor, tangent: Tensor | None) -> None:
        self._fill("Real", array, x, tangent, 1, filled=False)

    def fill_elements(self, array: wp.array, kind: str, x: Tensor, tangent: Tensor | None) -> None:
        intervals = _intervals(kind, x)
        shared = x.shape[2 if intervals else 1] == 1
        if shared:
            self.fill_uniform(array, kind, x, tangent)
        else:
            self._fill(kind, array, x, tangent, max(intervals, 1))

    def fill_uniform(self, array: wp.array, kind: str, x: Tensor, tangent: Tensor | None) -> None:
        size = math.prod(SHAPES[kind])
        for place, part in zip(self._places(kind, array), (x, tangent), strict=False):
            if part is None:
                place.zero_()
            else:
                place.copy_(part.reshape(*place.shape[:2], size, 1))

    def _fill(
        self, kind: str, array: wp.array, x: Tensor, tangent: Tensor | None, intervals: int, filled: bool = True
    ) -> None:
        """Write the result of `_packs` in each interval; `filled`: with copies of the last item in the rest of the last register, else as it is."""
        size, width = math.prod(SHAPES[kind]), self.lane.width
        for place, part in zip(self._places(kind, array), (x, tangent), strict=False):
            if part is None:
                place.zero_()
                continue
            if not part.numel():
                continue
            flat = part.contiguous().view(len(x) * intervals, -1, size)
            place = place.reshape(len(flat), -1, size, width)
            rows, items, _ = flat.shape
            whole, left = divmod(items, width)
            if whole:
                source = flat.as_strided(
                    (rows, whole, size, width), (items * size, width * size, 1, size), flat.storage_offset()
                )
                place[:, :whole].copy_(source)
            if left:
                place[:, whole, :, :left].copy_(flat[:, whole * width :].transpose(1, 2))
            if left and filled:
                place[:, whole, :, left:].copy_(flat[:, -1][..., None])

    def _places(self, kind: str, array: wp.array) -> tuple[Tensor, ...]:
        """Views (worlds, blocks, size, width) of the memory of values, and of tangents of a dual lane type."""
        known = vars(array)
        if "places" not in known:
            shape = (*array.shape[:2], self.parts, math.prod(SHAPES[kind]), self.lane.width)
            places = self.layout.memory(array).view(shape)
            known["places"] = tuple(places[:, :, k] for k in range(self.parts))
        return known["places"]

    def constants(self, kind: str, x: Tensor) -> wp.array:
        return self._flat(self._packs(kind, x[None], None), kind)

    def index(self, vertices: Tensor, beyond: int) -> wp.array:
        """`beyond`: the copy of the last element's vertex."""
        init_warp()
        missing = -len(vertices) % self.lane.width
        full = torch.cat([vertices, vertices.new_full((missing,), beyond)]).to(torch.int32)
        return _array(wp.types.vector(self.lane.width, wp.int32), full.reshape(-1, self.lane.width).contiguous(), 1)

    def empty(self, rows: int, *lead: int, device: torch.device) -> wp.array:
        return self._rows(torch.zeros(*lead, rows, 4 * self.parts, dtype=self.dtype, device=device))

    def like(self, kind: str, array: wp.array) -> wp.array:
        return self._wrap(kind, torch.zeros_like(self.layout.memory(array)))

    def unvertices(self, array: wp.array, worlds: int, n: int) -> tuple[Tensor, Tensor | None]:
        memory = self.layout.memory(array)[..., :n, :]
        parts = [memory[..., 4 * k : 4 * k + 3].clone() for k in range(self.parts)]
        return parts[0], parts[1] if self.lane.dual else None

    def unscalars(self, array: wp.array, worlds: int, n: int) -> Tensor:
        return self.layout.memory(array).view(worlds, -1)[:, :n]

    def unelements(self, kind: str, array: wp.array, like: Tensor) -> Tensor:
        if kind == "Real" and like.ndim == 2 and like.shape[1] > 1:  # as they lie
            return self.layout.memory(array).view(like.shape[0], -1)[:, : like.shape[1]]
        lanes, intervals = self._lanes(kind, array), _intervals(kind, like) or 1
        lanes = lanes.unflatten(1, (intervals, -1))
        count = like.shape[-1 - len(SHAPES[kind])]
        values = lanes.sum(3) if count == 1 else lanes.flatten(2, 3)[:, :, :count]
        return values.reshape(like.shape)

    def ununiform(self, kind: str, array: wp.array, worlds: int, count: int) -> Tensor:
        return self._lanes(kind, array).sum(2)

    def _lanes(self, kind: str, array: wp.array) -> Tensor:
        """(worlds, blocks, lanes, *components)."""
        size, memory = math.prod(SHAPES[kind]), self.layout.memory(array)
        flat = memory.reshape(*array.shape[:2], size, self.lane.width).movedim(2, 3)
        return flat.reshape(*flat.shape[:3], *SHAPES[kind])

    def _packs(self, kind: str, x: Tensor, tangent: Tensor | None) -> wp.array:
        """Array (worlds, blocks) of (worlds, items, *components); the last item fills the last register."""
        size = math.prod(SHAPES[kind])
        flat = x.reshape(*x.shape[:2], size)
        if self.lane.dual:
            other = torch.zeros_like(flat) if tangent is None else tangent.reshape(flat.shape)
            flat = torch.cat([flat, other], 2)
        missing = -flat.shape[1] % self.lane.width
        flat = torch.cat([flat, flat[:, -1:].expand(-1, missing, -1)], 1) if missing else flat
        packed = flat.unflatten(1, (-1, self.lane.width)).transpose(2, 3).to(self.dtype).contiguous()
        single = kind == "Real" and not self.lane.dual
        return self._wrap(kind, packed[:, :, 0].contiguous() if single else packed)

    def _rows(self, memory: Tensor) -> wp.array:
        return _array(wp.types.vector(4 * self.parts, self.types["Scalar"]), memory, 1)

    def _wrap(self, kind: str, memory: Tensor) -> wp.array:
        return _array(self.types[kind], memory, 1 if kind == "Real" and not self.lane.dual else 2)

    def _flat(self, array: wp.array, kind: str) -> wp.array:
        """The array (blocks,) of one world."""
        return self._wrap(kind, self.layout.memory(array)[0].contiguous())


def _intervals(kind: str, x: Tensor) -> int:
    """Number of time intervals of x; 0 without such a dimension."""
    return x.shape[1] if x.ndim == 3 + len(SHAPES[kind]) else 0


def _array(dtype, tensor: Tensor, tail: int) -> wp.array:
    """A tensor as an array whose entries have its last `tail` dimensions; shares its memory, and keeps it."""
    init_warp()
    if tensor.numel():
        array = wp.from_torch(tensor, dtype=dtype, requires_grad=False)
    else:  # Warp refuses the strides of none
        array = wp.empty(tensor.shape[: tensor.ndim - tail], dtype=dtype, device=str(tensor.device))
    vars(array)["tensor"] = tensor
    return array
