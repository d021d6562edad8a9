"""Layout and arguments of soft rasterizers: images in tiles, faces on the screen, validation.

A tile has as many pixels as a register of the processor has lanes, and is one pixel on CUDA.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import Lane, members, names, native_width, specialize
from gradsim.engine.launch import array
from gradsim.runtime.warp_init import init_warp

if TYPE_CHECKING:
    from gradsim.render.softras import face_kernels
else:
    face_kernels = "gradsim.render.softras.face_kernels"

Template = TypeVar("Template", bound=ModuleType)

SHAPES = {1: (1, 1), 4: (2, 2), 8: (2, 4), 16: (4, 4)}  # rows and columns: near square, as the reach of a face is
FLAGS = "-ffp-contract=fast -mprefer-vector-width=512"  # a third faster: fused products, full-width registers
SHARED_NAMES = (
    *(
        "ROWS",
        "COLUMNS",
        "MAX_COORDINATE",
        "SLACK",
        "MIN_AREA_RATIO",
        "MIN_DEPTH",
        "MIN_SIDE_SQUARED",
        "Pixel",
        "Place",
        "Wide",
        "Side",
        "Face",
        "Distance",
    ),
    *("box_of", "with_sides", "face_of", "tiles_in_row", "distance", "signed_square", "add_to", "lower_to"),
)


class Tiles:
    """Tiled layout of images of one size on one device.

    Args:
        height: Rows of the image.
        width: Columns of the image.
        like: Tensor with the dtype and device.
    """

    def __init__(self, height: int, width: int, like: Tensor):
        self.height, self.width, self.device = height, width, like.device
        self.lane = _lane(like.dtype, like.device.type)
        self.rows, self.columns = SHAPES[self.lane.width]
        self.down, self.across = -(-height // self.rows), -(-width // self.columns)
        self.dtype = like.dtype
        self.shape = (self.down, self.across, *self.tail)
        """Shape of one image in tiles."""

    @property
    def tail(self) -> tuple[int, ...]:
        return (self.lane.width,) if self.lane.width > 1 else ()

    def empty(self, count: int, value: float = 0.0) -> Tensor:
        """`count` constant images in tiles."""
        return torch.full((count, *self.shape), value, dtype=self.dtype, device=self.device)

    def cut(self, images: Tensor) -> Tensor:
        """Cut images (..., height, width) into tiles (count, down, across, lanes), padded with 0."""
        flat = images.flatten(0, -3)
        if self.lane.width == 1:
            return flat.contiguous()
        missing = (0, self.across * self.columns - self.width, 0, self.down * self.rows - self.height)
        flat = torch.nn.functional.pad(flat, missing) if any(missing) else flat
        tiles = flat.reshape(len(flat), self.down, self.rows, self.across, self.columns).permute(0, 1, 3, 2, 4)
        return tiles.reshape(len(flat), *self.shape)

    def join(self, tiles: Tensor) -> Tensor:
        """Join tiles to images (count, height, width)."""
        if self.lane.width == 1:
            return tiles
        count = len(tiles)
        parts = tiles.reshape(count, self.down, self.across, self.rows, self.columns).permute(0, 1, 3, 2, 4)
        return parts.reshape(count, self.down * self.rows, self.across * self.columns)[:, : self.height, : self.width]

    def array(self, tiles: Tensor) -> wp.array:
        """Array of tiles for kernels; shares memory."""
        return wp.from_torch(tiles, dtype=names(self.lane)["Real"], requires_grad=False)

    def pixels(self, tiles: Tensor) -> wp.array:
        """Array of single pixels for kernels: (count, down, across, lanes); shares memory."""
        return wp.from_torch(tiles.view(len(tiles), self.down, self.across, self.lane.width), requires_grad=False)

    def centers(self) -> wp.array:
        """Offsets x and y of the pixels of a tile from its first one [px]."""
        return _centers(self.lane, str(self.device))


@cache
def _lane(dtype: torch.dtype, device: str) -> Lane:
    name = str(dtype).removeprefix("torch.")
    return Lane(name, native_width(name) if device == "cpu" else 1)


@cache
def _centers(lane: Lane, device: str) -> wp.array:
    init_warp()
    rows, columns = SHAPES[lane.width]
    k = torch.arange(rows * columns)
    places = torch.stack([k % columns, k // columns]).to(getattr(torch, lane.dtype))
    return wp.array(places.numpy().reshape(2, -1) if lane.width > 1 else [0.0, 0.0], dtype=names(lane)["Real"], device=device)  # fmt: skip


def with_faces(template: Template, lane: Lane, **bound) -> Template:
    """A template over `face_kernels` for a lane type, with further names that it leaves open."""
    rows, columns = SHAPES[lane.width]
    faces = specialize(face_kernels, lane, ROWS=rows, COLUMNS=columns)
    code = specialize(template, lane, **members(faces, *SHARED_NAMES), **bound)
    flags = f"{wp.config.cpu_compiler_flags or '-march=native'} {FLAGS}"
    wp.set_module_options({"cpu_compiler_flags": flags}, module=code)
    return code


MIN_FACE_COVERAGE = 1e-4
"""Coverage below which a face is ignored at a pixel, as in the code of Liu et al. (`dist_eps`)."""

CULL_SIGNS = {"none": 0, "back": 1, "front": -1}


def check(screen: Tensor, height: int, width: int) -> None:
    """Raise ValueError unless `screen` holds finite corners (images, n, 3) and the size is valid."""
    if screen.ndim != 3 or screen.shape[-1] != 3 or screen.dtype not in (torch.float32, torch.float64):
        got = f"shape {tuple(screen.shape)} and {screen.dtype}"
        raise ValueError(f"`screen` has {got}; it needs (images, n, 3) of u, v [px] and depth [m], float32 or float64.")
    if height < 0 or width < 0:
        raise ValueError(f"an image of {height} × {width} pixels; both sides are at least 0.")
    finite("screen", screen)


def finite(name: str, values: Tensor) -> None:
    """Raise ValueError for the first number that is not finite."""
    good = torch.isfinite(values)
    if not torch.compiler.is_compiling() and not bool(good.all()):
        place = tuple((~good).nonzero()[0].tolist())
        raise ValueError(f"`{name}`{list(place)} is {values[place].item()}; every number has to be finite.")


def table(name: str, indices: Tensor, images: int, rows: int, faces: int | None = None) -> Tensor:
    """Indices (images or 1, faces, 3) of corners for kernels, from (faces, 3) or (images, faces, 3).

    Raises:
        ValueError: If the shape does not fit, or an index is not below `rows`. Negative ones mark
            rows without a face.
    """
    shared = indices[None] if indices.ndim == 2 else indices
    m = shared.shape[1] if faces is None and shared.ndim == 3 else faces
    if (
        shared.ndim != 3
        or shared.shape[1:] != (m, 3)
        or shared.shape[0] not in (1, images)
        or shared.is_floating_point()
    ):
        got = f"shape {tuple(indices.shape)} and {indices.dtype}"
        count = "m" if faces is None else faces
        raise ValueError(f"`{name}` has {got}; it needs whole numbers ({count}, 3) or ({images}, {count}, 3).")
    if not torch.compiler.is_compiling() and shared.numel() and int(shared.max()) >= rows:
        raise ValueError(f"`{name}` names row {int(shared.max())}; there are {rows}, counted from 0.")
    return shared.to(torch.int32)


def reach(code: ModuleType, tiles: Tiles, sigma: float, cut: float, turn: float):
    """Struct of the kernels: blur, culling and size of the image."""
    r = code.Reach()
    r.sharpness, r.cut, r.radius, r.cull = 1 / sigma, cut, math.sqrt(sigma * cut), int(turn)
    r.height, r.width = tiles.height, tiles.width
    return r


def face_arguments(code_of: Callable[[Lane], ModuleType], inputs: Sequence[Tensor]) -> tuple[ModuleType, Tiles, list]:
    """Kernels, layout, and the arguments that all kernels over faces begin with.

    Args:
        code_of: Template by lane type.
        inputs: Screen, faces, an empty canvas (0, height, width) and settings, see `blur`; further ones are ignored.
    """
    screen, faces, canvas, settings, *_ = inputs
    tiles = Tiles(*canvas.shape[1:], like=screen)
    code = code_of(tiles.lane)
    place = [array(code.Point, screen), array(wp.vec3i, faces), tiles.centers()]
    return code, tiles, [*place, reach(code, tiles, *settings.tolist()[:3])]


def blur(sigma: float, cut: float, cull: str) -> tuple[float, float, float]:
    """σ, cut and turn for `reach`.

    Raises:
        ValueError: If one is out of range.
    """
    if not 0 < sigma < math.inf:
        raise ValueError(f"`sigma` is {sigma} px²; it is above 0 and finite.")
    if not 0 < cut < 0.5:
        raise ValueError(f"`cut` is {cut}; it is a coverage above 0 and below that of a border, 0.5.")
    if cull not in CULL_SIGNS:
        raise ValueError(f"`cull` is {cull!r}; it is one of {', '.join(map(repr, CULL_SIGNS))}.")
    return sigma, math.log(1 / cut - 1), float(CULL_SIGNS[cull])
