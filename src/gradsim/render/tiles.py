"""Pictures cut into tiles, as many pixels as a register of the processor has lanes; a tile is one pixel on CUDA."""

from functools import cache
from types import ModuleType

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import Lane, borrowed, names, native_width, specialise

SHAPES = {1: (1, 1), 4: (2, 2), 8: (2, 4), 16: (4, 4)}  # rows and columns: near square, as the reach of a face is
FLAGS = (
    "-ffp-contract=fast -mprefer-vector-width=512"  # a third faster: fused products, and registers not cut in halves
)
SHARED = (
    *("ROWS", "COLUMNS", "FAR", "Pixel", "Side", "Face", "Distance"),
    *("face_of", "tiles_in_row", "distance", "signed_square", "add_to", "lower_to"),
)


class Tiles:
    """The layout of pictures of one size on one device.

    Args:
        height: Rows of the picture.
        width: Columns.
        like: A tensor of its dtype and device.
    """

    def __init__(self, height: int, width: int, like: Tensor):
        self.height, self.width, self.device = height, width, like.device
        self.lane = _lane(like.dtype, like.device.type)
        self.rows, self.columns = SHAPES[self.lane.width]
        self.down, self.across = -(-height // self.rows), -(-width // self.columns)
        self.dtype = like.dtype
        self.shape = (self.down, self.across, *self.tail)
        """Of one picture in tiles."""

    @property
    def tail(self) -> tuple[int, ...]:
        return (self.lane.width,) if self.lane.width > 1 else ()

    def empty(self, count: int, value: float = 0.0) -> Tensor:
        """So many pictures of one value, in tiles."""
        return torch.full((count, *self.shape), value, dtype=self.dtype, device=self.device)

    def cut(self, pictures: Tensor) -> Tensor:
        """Tiles (count, down, across, lanes) of pictures (..., height, width), 0 beyond their borders."""
        flat = pictures.flatten(0, -3)
        if self.lane.width == 1:
            return flat.contiguous()
        missing = (0, self.across * self.columns - self.width, 0, self.down * self.rows - self.height)
        flat = torch.nn.functional.pad(flat, missing) if any(missing) else flat
        tiles = flat.reshape(len(flat), self.down, self.rows, self.across, self.columns).permute(0, 1, 3, 2, 4)
        return tiles.reshape(len(flat), *self.shape)

    def join(self, tiles: Tensor) -> Tensor:
        """Pictures (count, height, width) of tiles."""
        if self.lane.width == 1:
            return tiles
        count = len(tiles)
        parts = tiles.reshape(count, self.down, self.across, self.rows, self.columns).permute(0, 1, 3, 2, 4)
        return parts.reshape(count, self.down * self.rows, self.across * self.columns)[:, : self.height, : self.width]

    def array(self, tiles: Tensor) -> wp.array:
        """For kernels; it shares the memory."""
        return wp.from_torch(tiles, dtype=names(self.lane)["Real"], requires_grad=False)

    def pixels(self, tiles: Tensor) -> wp.array:
        """For kernels that take single pixels: (count, down, across, lanes)."""
        return wp.from_torch(tiles.view(len(tiles), self.down, self.across, self.lane.width), requires_grad=False)

    def centres(self) -> wp.array:
        """x and y of a tile's pixels from its first one [px]."""
        return _centres(self.lane, str(self.device))


@cache
def _lane(dtype: torch.dtype, device: str) -> Lane:
    name = str(dtype).removeprefix("torch.")
    return Lane(name, native_width(name) if device == "cpu" else 1)


@cache
def _centres(lane: Lane, device: str) -> wp.array:
    wp.init()
    rows, columns = SHAPES[lane.width]
    k = torch.arange(rows * columns)
    places = torch.stack([k % columns, k // columns]).to(getattr(torch, lane.dtype))
    return wp.array(places.numpy().reshape(2, -1) if lane.width > 1 else [0.0, 0.0], dtype=names(lane)["Real"], device=device)  # fmt: skip


def with_faces(template: str, lane: Lane, **bound) -> ModuleType:
    """A template over `soft_faces_kernels` for a lane type, with further names that it leaves open."""
    rows, columns = SHAPES[lane.width]
    faces = specialise("gradsim.render.soft_faces_kernels", lane, ROWS=rows, COLUMNS=columns)
    code = specialise(template, lane, **borrowed(faces, *SHARED), **bound)
    flags = f"{wp.config.cpu_compiler_flags or '-march=native'} {FLAGS}"
    wp.set_module_options({"cpu_compiler_flags": flags}, module=code)
    return code
